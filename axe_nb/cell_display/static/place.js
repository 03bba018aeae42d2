
// Where a live tree or table stands, and whether its kernel lives. feed.py joins this to live.js,
// table_feed.py to table.js: either has a Store, a View and a TICK.

const AT_FIRST = 30; // milliseconds between two looks for the place, until it is there
const LOST = new Set(["restarting", "autorestarting", "terminating", "dead", "unknown"]);

// The places of one widget in JupyterLab's page: outputs with the mark, which it covers as long as
// they have it. The end of the run puts the static twin there, without a mark.
class Places {
  constructor(store, mark) {
    this.store = store;
    this.mark = mark;
    this.taken = new Map(); // output → what gives it back
    if (mark) this.look();
  }

  look() {
    // a kernel that is gone has nothing to say in a notebook that is opened again
    const all = this.store.trouble === "lost" ? [] : document.getElementsByClassName(this.mark);
    for (const marked of all) {
      const output = marked.closest(".jp-OutputArea-output");
      if (output && !this.taken.has(output)) this.take(output);
    }
    this.timer = setTimeout(() => this.look(), this.taken.size ? TICK : AT_FIRST);
  }

  take(output) {
    const element = document.createElement("div");
    element.className = "axe-nb-place jp-OutputArea-output";
    const view = new View(this.store, element);
    this.store.views.add(view);
    // at once, so that neither both nor nothing is ever seen
    const observer = new MutationObserver(() => {
      if (!output.firstElementChild || output.querySelector(`.${this.mark}`)) return;
      stop();
      element.remove();
      output.style.display = "";
      this.taken.delete(output);
    });
    const stop = () => {
      observer.disconnect();
      view.close();
    };
    observer.observe(output, { childList: true, subtree: true });
    this.taken.set(output, stop);
    output.style.display = "none";
    output.after(element);
  }

  // It stays as it is where nothing took its place: in a page that was loaded in mid-run.
  close() {
    clearTimeout(this.timer);
    for (const stop of this.taken.values()) stop();
  }
}

// Calls `lose` when the kernel is gone, as far as this front end says so; returns what ends that.
// Cleanups of widgets are not called then.
function watch(model, lose) {
  const status = model.widget_manager?.kernel?.statusChanged;
  const heard = (_, state) => LOST.has(state) && lose();
  status?.connect?.(heard);
  model.on("comm_live_update", lose);
  return () => status?.disconnect?.(heard);
}

export default () => {
  const store = new Store();
  return {
    initialize({ model }) {
      store.canStop = model.get("can_stop");
      store.tell = (words) => model.send(words);
      const all = () => store.take(JSON.parse(model.get("snapshot")));
      all();
      model.on("change:snapshot", all);
      model.on("msg:custom", (news) => store.take(news));
      const unwatch = watch(model, () => store.lose());
      const places = new Places(store, model.get("mark"));
      return () => {
        unwatch();
        places.close();
      };
    },
    render({ el }) {
      const view = new View(store, el);
      store.views.add(view);
      return () => view.close();
    },
  };
};
