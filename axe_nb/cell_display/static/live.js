// The live tree of a run: rows arrive by key, whole, and are drawn with textContent only.
// Nothing is ever sent back. What a row says comes from views/row.py, its sign and its colours from
// views/appearance.py; nb/feed.py sends it, and says why some of it twice.

const TICK = 250; // milliseconds between two looks at the clock
const SHORTEST = 4; // seconds that the bars span at first
const SAY = 4000; // milliseconds between two announcements to a screen reader

function make(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = `axe-nb-${name}`;
  if (tag === "pre" || name === "asked") element.dir = "auto";
  element.append(...inside);
  return element;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function seconds(value) {
  return value < 60
    ? `${value.toFixed(1)} s`
    : `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
}

// What is known of one tree; every view of the widget draws from it.
class Store {
  constructor() {
    this.rows = new Map();
    this.text = "";
    this.newest = "";
    this.offset = 0; // seconds on this machine's clock at which the run began
    this.views = new Set();
  }

  get now() {
    return performance.now() / 1000 - this.offset;
  }

  take(news) {
    this.offset = performance.now() / 1000 - news.now;
    this.newest = news.newest;
    const fresh = [];
    for (const row of news.rows) {
      const known = this.rows.get(row.key);
      if (known && known.version >= row.version) continue;
      if (row.above !== null && !this.rows.has(row.above)) continue; // lost: the snapshot has it
      this.rows.set(row.key, row);
      fresh.push(row);
    }
    const [at, piece] = news.text;
    if (at <= this.text.length) this.text = this.text.slice(0, at) + piece;
    for (const view of this.views) view.draw(fresh);
  }
}

class Row {
  constructor(row) {
    this.sign = make("span", "sign");
    this.sign.setAttribute("role", "img");
    this.who = make("b", "who");
    this.asked = make("span", "asked");
    this.cost = make("small", "cost");
    this.bar = make("i");
    const line = make("summary", "", this.sign, this.who, this.asked, this.cost);
    if (row.above !== null) line.append(make("span", "bar", this.bar));
    this.before = make("div", "texts");
    this.below = make("div", "rows");
    this.after = make("div", "texts");
    this.inside = make("div", "inside", this.before, this.below, this.after);
    this.element = make("details", "row", line, this.inside);
    this.element.open = row.kind === "turn" || row.above === null;
    this.element.addEventListener("toggle", () => this.fill());
  }

  // Texts are made when a reader can see them: most rows are never opened.
  fill() {
    if (!this.element.open) return;
    texts(this.before, this.data.before);
    texts(this.after, this.data.after);
  }

  draw(row, now) {
    this.data = row;
    this.element.className = `axe-nb-row axe-nb-${row.kind} axe-nb-${row.tone}`;
    put(this.sign, row.sign);
    this.sign.setAttribute("aria-label", row.state);
    put(this.who, row.who);
    if (row.above !== null) put(this.asked, row.asked);
    this.fill();
    this.inside.classList.toggle("axe-nb-leaf", !this.below.children.length);
    this.tick(now);
  }

  // The names of its rows stand in one column, as wide as the longest but for the longest ones.
  widen(length) {
    this.longest = Math.max(this.longest ?? 0, length);
    this.below.style.setProperty("--longest", this.longest);
  }

  get runs() {
    return this.data.times[0] !== null && this.data.times[1] === null;
  }

  tick(now) {
    const [started, ended] = this.data.times;
    const took = started === null ? 0 : Math.max(0, (ended ?? now) - started);
    this.bar.hidden = started === null;
    this.bar.style.setProperty("--from", (started ?? 0).toFixed(2));
    this.bar.style.setProperty("--took", took.toFixed(2));
    const facts = [this.data.above === null ? this.data.asked : this.data.cost];
    if (took >= 0.1) facts.push(seconds(took));
    put(this.data.above === null ? this.asked : this.cost, facts.filter(Boolean).join(" · "));
  }
}

function texts(box, blocks) {
  while (box.children.length > blocks.length) box.lastChild.remove();
  blocks.forEach(([label, text, rest, ...pictures], index) => {
    let block = box.children[index];
    if (!block) {
      block = make("div", "text", make("small"), make("pre"), make("small", "rest"), make("div"));
      box.append(block);
    }
    const [name, body, more, images] = block.children;
    draw(images, pictures);
    put(name, label);
    put(body, text);
    put(more, rest ? `… ${rest}` : "");
    block.classList.toggle("axe-nb-warning", label === "warning");
    block.classList.toggle("axe-nb-lines", text.includes("\n"));
  });
}

// Pictures are data of this page's own; nothing is fetched.
function draw(box, urls) {
  while (box.children.length > urls.length) box.lastChild.remove();
  urls.filter((url) => url.startsWith("data:image/")).forEach((url, index) => {
    const image = box.children[index] ?? make("img", "picture");
    if (image.src !== url) image.src = url;
    if (!image.parentElement) box.append(image);
  });
}

class View {
  constructor(store, element) {
    this.store = store;
    this.rows = new Map();
    this.text = make("pre", "writing");
    this.said = make("span", "said");
    this.said.setAttribute("role", "status");
    this.scroll = make("div", "scroll", this.text);
    this.root = make("div", "tree", this.scroll, this.said);
    element.append(this.root);
    this.newest = null;
    this.span = SHORTEST; // seconds
    this.isScaled = false;
    this.spoke = 0;
    this.follows = true; // until the reader scrolls up
    this.scroll.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.scroll;
      this.follows = scrollHeight - scrollTop - clientHeight < 30;
    });
    this.draw([...store.rows.values()]);
    this.tick();
    this.timer = setInterval(() => this.tick(), TICK);
  }

  draw(fresh) {
    const now = this.store.now;
    for (const row of fresh) this.place(row).draw(row, now);
    this.mark();
    put(this.text, this.store.text);
    if (this.follows) requestAnimationFrame(() => this.scroll.scrollTo(0, 1e9));
  }

  place(row) {
    const known = this.rows.get(row.key);
    if (known) return known;
    const made = new Row(row);
    this.rows.set(row.key, made);
    if (row.above === null) this.scroll.insertBefore(made.element, this.text);
    else {
      const over = this.rows.get(row.above);
      over.below.append(made.element);
      over.inside.classList.remove("axe-nb-leaf");
      over.widen(row.who.length);
    }
    return made;
  }

  // Marks the newest row; where it is folded away, the row that it is folded into.
  mark() {
    let shown = this.rows.get(this.store.newest)?.element;
    for (let at = shown; at; at = at.parentElement.closest("details")) if (!at.open) shown = at;
    if (shown === this.newest) return;
    this.newest?.classList.remove("axe-nb-newest");
    shown?.classList.add("axe-nb-newest");
    this.newest = shown;
  }

  tick() {
    const now = this.store.now;
    // by leaps, so that bars stand still in between and few of them are laid out anew
    for (; this.span < now; this.span *= 1.5) this.isScaled = false;
    if (!this.isScaled) this.root.style.setProperty("--span", this.span.toFixed(2));
    this.isScaled = true;
    for (const row of this.rows.values()) if (row.runs) row.tick(now);
    const top = this.rows.values().next().value;
    if (!top || performance.now() - this.spoke < SAY) return;
    this.spoke = performance.now();
    put(this.said, `${top.data.who}: ${top.data.asked}`);
  }

  close() {
    clearInterval(this.timer);
    this.store.views.delete(this);
  }
}

export default () => {
  const store = new Store();
  return {
    initialize({ model }) {
      const all = () => store.take(JSON.parse(model.get("snapshot")));
      all();
      model.on("change:snapshot", all);
      model.on("msg:custom", (news) => store.take(news));
    },
    render({ el }) {
      const view = new View(store, el);
      store.views.add(view);
      return () => view.close();
    },
  };
};
