// The button that stops a run in the background. cell_display/feed.py joins this to live.js, and hears
// its word, the only one that is ever sent back. A kernel that runs another cell hears it later.

const PATIENCE = 3; // seconds from the word until the button says what it may be waiting for

class Stop {
  // box: where it stands as long as there is something to stop
  constructor(store, box) {
    this.store = store;
    this.box = box;
    this.element = make("button", "stop");
    this.element.type = "button";
    this.element.addEventListener("click", (event) => event.isTrusted && store.stop());
    // JupyterLab takes Enter and the space bar at the document, to edit the cell or to scroll
    this.element.addEventListener("focus", () => window.addEventListener("keydown", this.press, true));
    this.element.addEventListener("blur", () => this.close());
  }

  press = (event) => {
    const isOurs = document.activeElement === this.element;
    if (isOurs && ["Enter", " "].includes(event.key)) event.stopImmediatePropagation();
  };

  draw(who) {
    const { canStop, trouble, newest, stoppedAt } = this.store;
    if (!canStop || newest === "" || trouble === "lost") {
      this.element.remove();
      this.close();
      return;
    }
    if (!this.element.parentElement) this.box.prepend(this.element);
    const isLate = performance.now() / 1000 - stoppedAt > PATIENCE;
    const words = isLate ? "Stopping as soon as the kernel is free…" : "Stopping…";
    put(this.element, stoppedAt ? words : "Stop");
    // a disabled button would lose the focus
    this.element.setAttribute("aria-disabled", String(Boolean(stoppedAt)));
    this.element.setAttribute("aria-label", `${this.element.textContent} (run of ${who})`);
  }

  close() {
    window.removeEventListener("keydown", this.press, true);
  }
}
