// A table that fills: its parts, which arrive by number and are drawn by the renderer of grids
// (grids/page.py), that escapes every text. table_feed.py sends them, and joins this to place.js.
// Nothing is ever sent back.

const TICK = 250; // milliseconds between two looks for its place

// What is known of one table; every view of the widget draws from it.
class Store {
  constructor() {
    this.parts = [];
    this.trouble = "";
    this.views = new Set();
  }

  // News are all parts as a list, or those that have changed by their number.
  take(news) {
    this.trouble = "";
    for (const [index, html] of Object.entries(news)) this.parts[index] = html;
    for (const view of this.views) view.draw();
  }

  // The table stays as it is; it has no clock that would have to stop.
  lose() {
    this.trouble = "lost";
  }
}

class View {
  constructor(store, element) {
    this.store = store;
    this.drawn = [];
    this.root = document.createElement("div");
    // as JupyterLab's own HTML output, so that nothing moves when the saved table takes the place
    this.root.className = "axe-nb-table jp-RenderedHTMLCommon";
    element.append(this.root);
    this.draw();
  }

  draw() {
    this.store.parts.forEach((html, index) => {
      if (this.drawn[index] === html) return;
      this.drawn[index] = html;
      const part = this.root.children[index] ?? document.createElement("div");
      const made = document.createElement("template"); // which takes rows of tables, too
      made.innerHTML = html;
      part.replaceChildren(made.content);
      if (!part.parentElement) this.root.append(part);
    });
  }

  close() {
    this.store.views.delete(this);
  }
}

