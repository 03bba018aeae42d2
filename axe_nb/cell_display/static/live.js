// The live tree of a run: rows arrive by key, whole, and are drawn with textContent only.
// Nothing is sent back but the word of stop.js. What a row says comes from views/row.py, its sign and
// its colours from views/appearance.py (LOOKS); feed.py sends it, and says why some of it twice.

const TICK = 250; // milliseconds between two looks at the clock
const SHORTEST = 4; // seconds that the bars span at first
const SAY = 4000; // milliseconds between two announcements to a screen reader
const MANY = 20; // rows above which there are chips and a search box
const QUIET = 10; // seconds without news after which the clock stops; feed.py sends some every 2 s
const TICKS = 4; // parts of the axis of seconds, of which fewer are named where names are long
const WIDEST = 22; // that are as wide as the axis
const KINDS = ["model", "tool", "retry", "person"]; // of segments, as views/segments.py numbers them

// What a row has unless it says otherwise; feed.py sends no such values.
const EMPTY = {
  who: "", asked: "", cost: "", facts: [], segments: [], progress: [], question: null, before: [],
  after: [],
};

const TROUBLES = {
  lost: "The kernel is gone. This is the run as of TIME; %axe history has what was answered by then",
  quiet: "No updates since TIME: the kernel is busy or unreachable",
};

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

function percent(part, whole) {
  return `${((100 * part) / whole).toFixed(2)}%`;
}

// What is known of one tree; every view of the widget draws from it.
class Store {
  constructor() {
    this.rows = new Map();
    this.wholes = new Map(); // key of a row → [their version, what copy.js takes, or null, of each text]
    this.answer = new Answer();
    this.newest = "";
    this.offset = 0; // seconds on this machine's clock at which the run began
    this.told = 0; // seconds since the run began, as the last news said
    this.heardAt = 0; // this machine's clock at the last news
    this.isLost = false; // the kernel is gone, unless there is news after all
    this.tell = null; // sends a message to the kernel
    this.canStop = false;
    this.stoppedAt = 0; // this machine's clock when the reader stopped the run; 0 = not yet
    this.views = new Set();
  }

  // Where nothing more is heard, the clock stands still.
  get now() {
    return this.trouble ? this.told : performance.now() / 1000 - this.offset;
  }

  get trouble() {
    if (this.newest === "") return ""; // the run is over
    if (this.isLost) return "lost";
    return performance.now() / 1000 - this.heardAt > QUIET ? "quiet" : "";
  }

  take(news) {
    this.told = news.now;
    this.heardAt = performance.now() / 1000;
    this.lastAt = new Date().toLocaleTimeString();
    this.isLost = false;
    this.offset = performance.now() / 1000 - news.now;
    this.newest = news.newest;
    for (const [key, wholes] of Object.entries(news.wholes ?? {})) {
      if (wholes[0] >= (this.wholes.get(key)?.[0] ?? 0)) this.wholes.set(key, wholes);
    }
    const fresh = [];
    for (const row of news.rows) {
      const known = this.rows.get(row.key);
      if (known && known.version >= row.version) continue;
      if (row.above !== null && !this.rows.has(row.above)) continue; // lost: the snapshot has it
      const whole = { ...EMPTY, ...LOOKS[row.state], ...row };
      this.rows.set(row.key, whole);
      fresh.push(whole);
    }
    this.answer.take(news.answer);
    for (const view of this.views) view.draw(fresh);
  }

  lose() {
    this.isLost = true;
    for (const view of this.views) view.tick();
  }

  stop() {
    if (this.stoppedAt) return;
    this.stoppedAt = performance.now() / 1000;
    this.tell({ stop: true });
    for (const view of this.views) view.tick();
  }
}

class Row {
  constructor(row, wholes) {
    this.wholes = wholes;
    this.sign = make("span", "sign");
    this.sign.setAttribute("role", "img");
    this.who = make("b", "who");
    this.asked = make("span", "asked");
    this.cost = make("small", "cost");
    this.bar = make("i");
    const line = make("summary", "", this.sign, this.who, this.asked, this.cost);
    if (row.above !== null) line.append(make("span", "bar", this.bar));
    else this.asked.append((this.facts = make("span")), (this.clock = make("b")));
    this.before = make("div", "texts");
    this.below = make("div", "rows");
    this.after = make("div", "texts");
    this.inside = make("div", "inside", this.before, this.below, this.after);
    this.element = make("details", "row", line, this.inside);
    this.question = new Question(this.element);
    this.before.after(this.question.element);
    this.element.open = row.kind === "turn" || row.above === null;
    this.element.addEventListener("toggle", () => this.fill());
  }

  // Texts are made when a reader can see them: most rows are never opened.
  fill() {
    if (!this.element.open) return;
    const { before, after } = this.data;
    texts(this.before, before, (place, index) => this.copy(place, index));
    texts(this.after, after, (place, index) => this.copy(place, before.length + index));
  }

  // A whole that belongs to an earlier text of the row is none of this one.
  copy(place, index) {
    const { key, wholes, before, after } = this.data;
    const block = [...before, ...after][index];
    const [version, all] = this.wholes.get(key) ?? [];
    if (block) copy(place, block, version === wholes ? all[index] : null);
  }

  draw(row, now) {
    this.data = row;
    this.element.className = `axe-nb-row axe-nb-${row.kind} axe-nb-${row.tone}`;
    put(this.sign, row.sign);
    put(this.who, row.who);
    if (row.above !== null) put(this.asked, row.asked);
    this.fill();
    this.question.draw(row.question);
    this.inside.classList.toggle("axe-nb-leaf", !this.below.children.length);
    this.end(false, now);
  }

  // Where the kernel is gone, what ran until then runs no more.
  end(isLost, now) {
    const { state, facts: said, above } = this.data;
    this.past = isLost && state === "running" ? "was running" : "";
    this.sign.setAttribute("aria-label", this.past || state);
    const inPast = ([text, marks]) => [text.replace(/^(.*\d) running$/, "$1 were running"), marks];
    if (above === null) facts(this.facts, isLost ? said.map(inPast) : said);
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

  took(now) {
    const [started, ended] = this.data.times;
    return started === null ? 0 : Math.max(0, (ended ?? now) - started);
  }

  get said() {
    const { who, asked, cost, before, after } = this.data;
    const texts = [...before, ...after].map(([, text]) => text);
    return [who, asked, cost, ...texts].join("\n").toLowerCase();
  }

  tick(now) {
    const [started] = this.data.times;
    const took = this.took(now);
    if (this.clock) {
      put(this.clock, took >= 0.1 ? ` · ${seconds(took)}` : "");
      return;
    }
    this.bar.hidden = started === null;
    this.bar.style.setProperty("--from", (started ?? 0).toFixed(2));
    this.bar.style.setProperty("--took", took.toFixed(2));
    this.paint(started, took, now);
    const facts = [this.past, this.data.cost, took >= 0.1 ? seconds(took) : ""];
    put(this.cost, facts.filter(Boolean).join(" · "));
  }

  // The segments of a bar: what the time went to.
  paint(started, took, now) {
    const segments = this.data.segments;
    if (!segments.length || !took) return;
    const stops = [];
    let at = started;
    for (const [kind, from, to] of segments) {
      const [begin, end] = [Math.max(at, from), Math.min(to ?? now, started + took)];
      if (end <= begin) continue;
      const [first, last] = [percent(begin - started, took), percent(end - started, took)];
      stops.push(`transparent ${percent(at - started, took)} ${first}`);
      stops.push(`var(--${KINDS[kind]}) ${first} ${last}`);
      at = end;
    }
    stops.push(`transparent ${percent(at - started, took)} 100%`);
    this.bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  }
}

// Facts in one line; what needs a look has the colour of its tone.
function facts(box, all) {
  const text = JSON.stringify(all);
  if (box.dataset.facts === text) return;
  box.dataset.facts = text;
  const parts = all.map(([text, marks], index) => {
    const part = make("span", "", index ? " · " : "", text, text && marks.length ? " (" : "");
    marks.forEach(([words, tone], number) => {
      part.append(number ? ", " : "", make("b", `mark axe-nb-${tone}`, words));
    });
    if (text && marks.length) part.append(")");
    return part;
  });
  box.replaceChildren(...parts);
}

// The part of the head below its line: progress, the axis of seconds; above MANY rows, what to
// show of them. It filters and sorts in the browser alone.
class Head {
  constructor(view) {
    this.view = view;
    this.only = "all";
    this.progress = make("div", "progress");
    this.axis = make("div", "axis");
    this.axis.setAttribute("aria-hidden", "true");
    this.chips = make("span", "chips");
    this.chips.setAttribute("role", "group");
    this.chips.setAttribute("aria-label", "Rows to show");
    this.buttons = new Map();
    for (const name of ["all", "running", "failed", "slowest first"]) {
      const button = make("button", "chip", name);
      button.type = "button";
      button.addEventListener("click", () => this.choose(name));
      this.buttons.set(name, button);
      this.chips.append(button);
    }
    this.search = make("input", "search");
    this.search.type = "search";
    this.search.placeholder = "search";
    this.search.setAttribute("aria-label", "Search the rows");
    this.search.addEventListener("input", () => this.filter());
    // JupyterLab would take the letters for its own shortcuts
    this.search.addEventListener("keydown", (event) => event.stopPropagation());
    this.tools = make("div", "tools", this.chips, this.search);
    this.ruled = make("div", "ruled", this.axis);
    this.stop = new Stop(view.store, this.ruled);
    this.element = make("div", "head", this.progress, this.ruled);
    this.choose("all");
  }

  choose(name) {
    this.only = name;
    for (const [each, button] of this.buttons) {
      button.setAttribute("aria-pressed", String(each === name));
    }
    this.filter();
  }

  draw(row, count) {
    const parts = row.progress;
    while (this.progress.children.length > parts.length) this.progress.lastChild.remove();
    parts.forEach(([tone, count], index) => {
      const part = this.progress.children[index] ?? make("i");
      part.className = `axe-nb-${tone}`;
      part.style.flexGrow = count;
      if (!part.parentElement) this.progress.append(part);
    });
    if (count > MANY && !this.tools.parentElement) this.axis.before(this.tools);
    if (this.only !== "all" || this.search.value) this.filter();
  }

  scale(span) {
    const [unit, size] = span < 60 ? ["s", 1] : ["min", 60];
    const name = (n, parts) => `${+((span * n) / parts / size).toFixed(1)}`;
    // the last name ends at its tick, the others stand around theirs
    const isTight = (parts) =>
      `${name(1, 1)} ${unit} `.length + name(parts - 1, parts).length / 2 > WIDEST / parts;
    let parts = TICKS;
    while (parts > 1 && isTight(parts)) parts /= 2;
    const ticks = Array.from({ length: parts + 1 }, (_, n) => {
      const tick = make("small", "", name(n, parts), n === parts ? ` ${unit}` : "");
      tick.style.left = percent(n, parts);
      return tick;
    });
    this.axis.replaceChildren(...ticks);
  }

  isWanted(row, words) {
    if (words && !row.said.includes(words)) return false;
    if (this.only === "running") return row.data.kind === "run" && row.runs;
    if (this.only === "failed") return !row.runs && ["bad", "limit"].includes(row.data.tone);
    return true;
  }

  filter() {
    const { rows, store } = this.view;
    const words = this.search.value.trim().toLowerCase();
    const isOn = words || ["running", "failed"].includes(this.only);
    const shown = new Set();
    for (const [key, row] of rows) {
      if (!isOn || !this.isWanted(row, words)) continue;
      shown.add(key);
      for (let at = row.data.above; at !== null && !shown.has(at); ) {
        shown.add(at);
        rows.get(at).element.open = true;
        at = rows.get(at).data.above;
      }
    }
    const isSorted = this.only === "slowest first";
    for (const [key, row] of rows) {
      row.element.hidden = Boolean(isOn) && row.data.above !== null && !shown.has(key);
      const isRun = isSorted && row.data.kind === "run";
      row.element.style.order = isRun ? -Math.round(1000 * row.took(store.now)) : "";
    }
  }
}

function texts(box, blocks, copyOne) {
  while (box.children.length > blocks.length) box.lastChild.remove();
  blocks.forEach(([label, text, rest, ...pictures], index) => {
    let block = box.children[index];
    if (!block) {
      const button = makeCopyButton();
      block = make("div", "text", make("small"), make("pre"), make("small", "rest"), make("div"), button);
      button.addEventListener("click", () => block.copy());
      box.append(block);
    }
    const [name, body, more, images, button] = block.children;
    block.copy = () => copyOne(block, index);
    button.setAttribute("aria-label", `Copy text (${label})`);
    button.hidden = !text;
    draw(images, pictures);
    put(name, label);
    put(body, text);
    put(more, rest ? `… ${rest}` : "");
    fold(block, label === "thinks" || label === "thought");
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
    this.written = new Written();
    this.said = make("span", "said");
    this.said.setAttribute("role", "status");
    this.scroll = make("div", "scroll");
    this.note = make("div", "note");
    this.note.setAttribute("role", "status");
    this.root = make("div", "tree", this.note, this.written.element, this.scroll, this.said);
    element.append(this.root);
    this.rows = new Map();
    this.head = new Head(this);
    this.keys = new Keys(this.scroll);
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
    const top = this.rows.values().next().value;
    if (top) this.head.draw(top.data, this.rows.size);
    this.mark();
    this.written.draw(this.store.answer);
    if (this.follows && !this.keys.isInUse) requestAnimationFrame(() => this.scroll.scrollTo(0, 1e9));
  }

  place(row) {
    const known = this.rows.get(row.key);
    if (known) return known;
    const made = new Row(row, this.store.wholes);
    this.rows.set(row.key, made);
    if (row.above === null) {
      this.scroll.append(made.element);
      made.element.insertBefore(this.head.element, made.inside);
    } else {
      const over = this.rows.get(row.above);
      over.below.append(made.element);
      over.inside.classList.remove("axe-nb-leaf");
      over.widen(row.who.length);
    }
    this.keys.add(made);
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

  // Says why the clock stands still.
  explain() {
    // a question that waits for its answer holds the news back
    const cell = this.root.closest(".jp-Cell");
    if (cell?.querySelector(".jp-Stdin-input")) this.store.heardAt = performance.now() / 1000;
    const { trouble, lastAt } = this.store;
    const isLost = trouble === "lost";
    if (this.root.classList.contains("axe-nb-lost") !== isLost) {
      this.root.classList.toggle("axe-nb-lost", isLost);
      for (const row of this.rows.values()) row.end(isLost, this.store.now);
    }
    put(this.note, trouble ? TROUBLES[trouble].replace("TIME", lastAt) : "");
  }

  tick() {
    this.explain();
    const now = this.store.now;
    // by leaps, so that bars stand still in between and few of them are laid out anew
    for (; this.span < now; this.span *= 1.5) this.isScaled = false;
    if (!this.isScaled) {
      this.root.style.setProperty("--span", this.span.toFixed(2));
      this.head.scale(this.span);
    }
    this.isScaled = true;
    for (const row of this.rows.values()) if (row.runs) row.tick(now);
    const top = this.rows.values().next().value;
    const line = top?.element.firstElementChild;
    const height = line?.offsetHeight; // in small windows it wraps; before it is laid out, it is 0
    if (height) this.head.element.style.top = `${height - 8}px`;
    if (top) this.head.stop.draw(top.data.who);
    const isLost = this.store.trouble === "lost"; // the note says it
    if (!top || (!isLost && performance.now() - this.spoke < SAY)) return;
    this.spoke = performance.now();
    put(this.said, isLost ? "" : `${top.data.who}: ${top.data.asked}`);
  }

  close() {
    clearInterval(this.timer);
    this.keys.close();
    this.head.stop.close();
    for (const row of this.rows.values()) row.question.close();
    this.store.views.delete(this);
  }
}

// The keys of ARIA's tree: one tab stop, arrows between the rows that are not folded away. The focus
// is on the row itself: browsers let no summary be anything but a button that folds its details.
class Keys {
  constructor(tree) {
    this.tree = tree;
    this.known = new WeakMap(); // element → Row
    tree.setAttribute("role", "tree");
    tree.setAttribute("aria-label", "Run");
    tree.addEventListener("toggle", (event) => this.fold(event.target), true);
    tree.addEventListener("focusin", ({ target }) => {
      if (target.matches("summary")) this.go(target.parentElement, { preventScroll: true });
      window.addEventListener("keydown", this.press, true);
    });
    tree.addEventListener("focusout", () => this.close());
  }

  // Whether a reader goes through the rows, whom the newest text must not scroll away.
  get isInUse() {
    const at = document.activeElement;
    return this.tree.contains(at) && at.matches("details:focus-visible");
  }

  add(row) {
    const { element, sign, who, asked, cost, below } = row;
    this.known.set(element, row);
    const above = element.parentElement.closest("details");
    // a clock in its name would be read out again and again
    const name = above ? [sign, who, asked] : [sign, who];
    this.refer(element, "aria-labelledby", name);
    this.refer(element, "aria-describedby", above ? [cost] : [asked]);
    element.setAttribute("aria-level", above ? Number(above.ariaLevel) + 1 : 1);
    element.setAttribute("aria-expanded", element.open);
    element.setAttribute("role", "treeitem");
    element.firstElementChild.tabIndex = -1;
    below.setAttribute("role", "group");
    if (!this.at) this.stop(element);
  }

  refer(element, attribute, parts) {
    for (const part of parts) part.id = `axe-nb-${Math.random().toString(36).slice(2)}`;
    element.setAttribute(attribute, parts.map((part) => part.id).join(" "));
  }

  // Rows other than the stop have no tabindex: Tab passes over all that is in a row with -1.
  stop(row) {
    const before = this.at;
    row.tabIndex = 0;
    this.at = row;
    if (before !== row) before?.removeAttribute("tabindex");
  }

  go(row, options) {
    this.stop(row);
    row.focus(options);
  }

  // A row that is folded away cannot be reached by Tab; the one that it is folded into can.
  fold(row) {
    row.setAttribute("aria-expanded", row.open);
    if (!row.open && row.contains(this.at)) this.stop(row);
  }

  get rows() {
    const all = [...this.tree.querySelectorAll("details")];
    return all.filter((row) => !row.closest("[hidden]") && !row.parentElement.closest("details:not([open])"));
  }

  // On the window: JupyterLab takes arrows at the document already, to go to another cell.
  press = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const row = event.target;
    const isRow = this.tree.contains(row) && row.matches("details");
    const move = isRow && this.moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const to = move(row);
    if (to) this.go(to);
  };

  toggle = (row) => {
    row.open = !row.open;
  };

  moves = {
    ArrowDown: (row) => this.rows[this.rows.indexOf(row) + 1],
    ArrowUp: (row) => this.rows[this.rows.indexOf(row) - 1],
    ArrowRight: (row) => (row.open ? row.querySelector("details") : this.toggle(row)),
    ArrowLeft: (row) => (row.open ? this.toggle(row) : row.parentElement.closest("details")),
    Home: () => this.rows[0],
    End: () => this.rows.at(-1),
    Enter: this.toggle,
    " ": this.toggle,
    c: (row) => void this.known.get(row).copy(row.firstElementChild, 0),
  };

  close() {
    window.removeEventListener("keydown", this.press, true);
  }
}
