// The live tree of a run, or a growing table: puts fragments of HTML, which arrive by row, in place.
// live_tree.py and exploring/grid.py draw them and escape every text; feed.py sends them and explains
// why some come twice. The only message sent back is the one that stops a run.

const TICK = 250; // milliseconds between two updates of the clocks
const AT_FIRST = 30; // milliseconds between two searches for the tree's place, until it is found
const LOOK = 100; // milliseconds between two searches for the input of a question
const SAY = 4000; // milliseconds between two announcements to a screen reader
const TOLD = 2000; // milliseconds for which a button says that a text was copied
const QUIET = 10; // seconds without updates after which clocks stop; updates come every 2 s
const PATIENCE = 3; // seconds after a click on Stop until the button says what it waits for
const MANY = 20; // number of rows above which chips and a search box are shown
const LOST = new Set(["restarting", "autorestarting", "terminating", "dead", "unknown"]);
// The prompts of session/prompts.py after a letter, and the form that answers them.
const FORMS = { "arguments, as JSON: ": "edit", "result of the call: ": "reply", "reply, as text or JSON: ": "reply" };
const TROUBLES = {
  lost: "The kernel is gone. This is the run as of TIME; %axe history has what was answered by then",
  quiet: "No updates since TIME: the kernel is busy or unreachable",
};
const LEGEND = { model: "model", tool: "tool", sub: "its sub-agents", retry: "retry wait", person: "you" };
const DEEDS = ["wheel", "pointerdown", "keydown"]; // after which the page is the reader's to scroll
const CHUNK = 100; // rows that are laid out together
const TONES = ["good", "bad", "limit", "off", "running"];
const CHIPS = ["all", "running", "failed", "slowest first"];
const TREE = `<div class=axe-nb-tree><div class=axe-nb-note role=status></div>
  <div class="axe-nb-writing jp-RenderedHTMLCommon mathjax_ignore tex2jax_ignore"><div></div></div>
  <div class="axe-nb-scroll jp-RenderedHTMLCommon" role=tree aria-label=Run></div>
  <span class=axe-nb-said role=status></span></div>`;
const HEAD = `<div class=axe-nb-head><div class=axe-nb-progress></div><div class=axe-nb-ruled>
  <button type=button class=axe-nb-stop hidden></button>
  <button type=button class="axe-nb-chip axe-nb-jump axe-nb-limit" hidden></button>
  <button type=button class="axe-nb-chip axe-nb-jump axe-nb-bad" hidden></button><div class=axe-nb-tools hidden>
  <span class=axe-nb-chips role=group aria-label="Rows to show">${CHIPS.map((name) =>
    `<button type=button class=axe-nb-chip aria-pressed=${name === "all"}>${name}</button>`).join("")}
  </span><input type=search class=axe-nb-search placeholder=search aria-label="Search the rows"></div>
  <span class=axe-nb-legend aria-hidden=true>${Object.entries(LEGEND).map(([kind, name]) =>
    `<i class=axe-nb-${kind}></i>${name}`).join(" ")}</span>
  <div class=axe-nb-axis aria-hidden=true></div></div></div>`;
const ROW = `<details role=treeitem><summary tabindex=-1></summary><div class=axe-nb-inside>
  <div></div><div></div><div class=axe-nb-rows role=group></div><div></div></div></details>`;

const COPY = "<button type=button class=axe-nb-copy tabindex=-1 aria-label='Copy text'></button>";

const clock = () => performance.now() / 1000;

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html || "<span></span>";
  return template.content.firstElementChild;
}

// Puts fragments, one element each, into a box. Unchanged ones are not touched, so that
// text stays selected and unfolded texts stay unfolded.
function put(box, parts) {
  const shown = (box.shown ??= []);
  for (; shown.length > parts.length; shown.pop()) box.lastElementChild.remove();
  for (let at = 0; at < parts.length; at += 1) {
    if (shown[at] === parts[at] && at < shown.length) continue;
    const [old, fresh] = [box.children[at], parse(parts[at])];
    if (old?.querySelector("details[open]")) fresh.querySelector("details")?.setAttribute("open", "");
    if (old) old.replaceWith(fresh);
    else box.append(fresh);
    shown[at] = parts[at];
  }
}

// What is copied of a text: all of it, as it was written.
function copied(text) {
  return text.dataset.whole ?? text.querySelector("pre, code, ol, bdi")?.textContent;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Keeps the end of a box in view until the reader scrolls up.
function follow(box, isFree = () => true) {
  let follows = true;
  box.addEventListener("scroll", () => {
    follows = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  });
  const scroll = () => follows && box.scrollTo(0, 1e9); // the reader may have scrolled meanwhile
  return () => follows && isFree() && requestAnimationFrame(scroll);
}

// The state of one tree or table, from which every view of the widget is drawn.
class Store {
  constructor(model) {
    this.tell = (words) => model.send(words);
    this.canStop = model.get("can_stop");
    this.typesetter = model.widget_manager?.rendermime?.latexTypesetter; // JupyterLab's
    this.rows = new Map(); // fields of rows by key
    this.parts = []; // HTML of the answer or the table
    this.head = { number: -1 };
    this.stoppedAt = this.heardAt = 0; // by the browser's clock; 0 = never
    this.isLost = false; // the kernel seems to be gone
    this.views = new Set();
    this.uncover = new Set(); // what shows the twin again where a tree covers it
  }

  // Seconds since the run began; the clock stands still while there are no updates.
  get now() {
    return this.head.now + (this.trouble ? 0 : clock() - this.heardAt);
  }

  get trouble() {
    if (this.isLost) return this.head.newest === "" ? "" : "lost";
    return this.head.newest && clock() - this.heardAt > QUIET ? "quiet" : "";
  }

  take({ rows = [], parts = {}, ...head }) {
    if (head.number < this.head.number) return; // a later update came first; the next snapshot has everything
    this.head = { ...this.head, ...head };
    this.heardAt = clock();
    this.lastAt = new Date().toLocaleTimeString();
    const fresh = new Set(this.isLost ? this.rows.keys() : []);
    this.isLost = false;
    for (const [at, html] of Object.entries(parts)) this.parts[at] = html;
    this.parts.length = this.head.size;
    for (const { key, ...fields } of rows) {
      const known = this.rows.get(key);
      // if its first update or the row above was lost, the next snapshot has it
      if (!known && (fields.above === undefined || (fields.above && !this.rows.has(fields.above)))) continue;
      this.rows.set(key, { ...known, ...fields, words: null });
      fresh.add(key);
    }
    for (const view of this.views) view.draw(fresh);
    if (this.head.newest === "" && !this.isOver) for (const view of this.views) view.finish?.();
    this.isOver = this.head.newest === "";
  }

  lose() {
    this.isLost = true;
    for (const view of this.views) view.tick();
    if (this.head.newest === "") for (const uncover of [...this.uncover]) uncover();
  }

  stop() {
    if (!this.stoppedAt) this.tell({ stop: true });
    this.stoppedAt ||= clock();
    for (const view of this.views) view.tick();
  }
}

class Table {
  constructor(store, element) {
    this.store = store;
    // like JupyterLab's own HTML output, so that nothing moves when the saved table replaces it
    element.append((this.root = parse('<div class="axe-nb-table jp-RenderedHTMLCommon"></div>')));
    this.draw();
  }

  draw() {
    put(this.root, this.store.parts);
  }

  tick() {}

  close() {
    this.store.views.delete(this);
  }
}

class Tree {
  constructor(store, element) {
    this.store = store;
    [this.root, this.head] = [parse(TREE), parse(HEAD)];
    element.append(this.root);
    [this.note, this.written, this.scroll, this.said] = this.root.children;
    [this.progress, this.ruled] = this.head.children;
    [this.stop, this.needy, this.broken, this.tools, this.legend, this.axis] = this.ruled.children;
    this.asking = new Set(); // keys of rows with a question
    this.failed = new Set(); // keys of sub-agents that failed
    this.rows = new Map(); // elements of rows by key
    this.running = new Set(); // rows whose clocks run
    this.only = "all";
    this.spoke = 0;
    this.leave = () => (this.isLeft = true);
    for (const event of DEEDS) window.addEventListener(event, this.leave, { capture: true, once: true, passive: true });
    this.keys = new Keys(this);
    this.follow = follow(this.scroll, () => !this.keys.isInUse && !this.asking.size);
    this.followAnswer = follow(this.written);
    this.listen();
    this.draw(new Set(store.rows.keys()));
    this.tick();
    this.timer = setInterval(() => this.tick(), TICK);
  }

  listen() {
    this.root.addEventListener("mousedown", (event) => {
      if (event.target.closest(".axe-nb-copy")) event.preventDefault(); // keeps the focus
    });
    this.root.addEventListener("click", ({ target, isTrusted }) => {
      if (target.matches(".axe-nb-copy")) this.copy(target.parentElement, target.parentElement);
      if (target === this.needy) this.jump(this.asking);
      else if (target === this.broken) this.jump(this.failed);
      else if (target.matches(".axe-nb-chip")) this.choose(target);
      if (target === this.stop && isTrusted) this.store.stop();
    });
    this.search = this.tools.querySelector("input");
    this.search.addEventListener("input", () => this.filter());
    // JupyterLab would treat the letters as its own shortcuts
    this.search.addEventListener("keydown", (event) => event.stopPropagation());
  }

  // Puts texts into a box, with buttons to copy them; where the front end has no typesetter, formulas
  // stay TeX.
  put(box, parts) {
    put(box, parts);
    for (const part of box.querySelectorAll(":scope > :not(.mathjax_ignore)")) {
      if (part.matches(".axe-nb-text") && copied(part)) part.append(parse(COPY));
      part.classList.add("mathjax_ignore"); // except its formulas, all at once: one by one takes quadratic time
      if (part.querySelector(".mathjax_process")) this.store.typesetter?.typeset(part);
    }
  }

  draw(fresh) {
    const { head, parts, rows } = this.store;
    const box = this.written.firstElementChild;
    // the new text replaces the old one, so that nothing below moves
    if (box.shown?.length && box.shown[0] !== parts[0] && !parts[1]) {
      this.written.style.minHeight = `${this.written.offsetHeight}px`;
    }
    this.put(box, parts);
    this.written.classList.toggle("axe-nb-earlier", head.is_earlier);
    for (const key of fresh) this.drawRow(key, rows.get(key));
    this.drawAxis();
    this.drawProgress();
    this.drawJumps();
    this.tools.hidden = this.rows.size <= MANY;
    this.legend.hidden = this.axis.hidden = this.rows.size < 2; // without rows there are no bars
    if (this.only !== "all" || this.search.value) this.filter();
    this.mark();
    this.follow();
    this.followAnswer();
    this.lead();
  }

  // A tree that grows beyond the window comes into view, until the reader does something.
  lead() {
    const size = this.rows.size + this.store.parts.length;
    if (this.isLeft || size === this.size || this.store.head.newest === "") return;
    const { top } = this.root.getBoundingClientRect();
    if (top <= 0 || top >= innerHeight) return; // perhaps not in the page yet
    this.size = size;
    this.root.scrollIntoView({ block: "nearest" });
  }

  drawRow(key, data) {
    const row = this.rows.get(key) ?? this.addRow(key, data);
    row.data = data;
    row.element.className = `axe-nb-row ${data.look}`;
    row.element.setAttribute("aria-description", data.about);
    if (row.html !== data.line) {
      row.line.innerHTML = row.html = data.line;
      const [[sign, who], asked] = [row.line.querySelectorAll("b"), row.line.querySelector("bdi")?.textContent];
      sign.ariaHidden = "true"; // the label says the state, unless a question does
      row.who = who.firstChild.textContent;
      const room = Math.min(0.65 * row.who.length, 15); // as in a saved tree
      if (data.above && room > (this.room ?? 11)) this.root.style.setProperty("--name", `${(this.room = room)}em`);
      const isSaid = sign.textContent === "?" && /^(asks|waits for) you/.test(asked);
      row.element.ariaLabel = [isSaid ? "" : sign.title, row.who, asked].filter(Boolean).join(" ");
    }
    this.fill(row);
    row.question.draw(data.question);
    this.time(row);
    this.asking[data.question ? "add" : "delete"](key);
    const hasFailed = data.above && /^axe-nb-run .*-(bad|limit)$/.test(data.look) && !this.running.has(row);
    this.failed[hasFailed ? "add" : "delete"](key);
  }

  // At the end the answer is in view, unless the reader goes through the rows.
  finish() {
    if (this.keys.isInUse || !this.store.parts.length) return;
    const parts = this.isLeft ? [this.written] : [this.root, this.written];
    requestAnimationFrame(() => parts.forEach((part) => part.scrollIntoView({ block: "nearest" })));
  }

  // The bar below the root's line: the sub-agents by the tones of their states.
  drawProgress() {
    const counts = new Map(TONES.map((tone) => [tone, 0]));
    for (const [key, { data }] of this.rows) {
      if (!data.above || !data.look.startsWith("axe-nb-run ")) continue;
      const tone = this.failed.has(key) ? "bad" : data.look.slice("axe-nb-run axe-nb-".length);
      counts.set(tone, counts.get(tone) + 1);
    }
    const shares = [...counts].filter(([, count]) => count);
    if (String(shares) === this.shares) return;
    this.shares = String(shares);
    this.progress.replaceChildren(...shares.map(([tone, count]) => {
      const share = Object.assign(document.createElement("i"), { className: `axe-nb-${tone}` });
      share.style.flexGrow = count;
      return share;
    }));
  }

  // The axis of all bars: it ends where the run ends, and grows in steps until then, so that bars
  // rarely move.
  drawAxis() {
    const { now, newest } = this.store.head;
    let span = newest === "" ? Math.max(now, 0.1) : 4;
    while (span < now) span *= 1.5;
    if (span === this.span) return;
    this.span = span;
    this.root.style.setProperty("--span", span.toFixed(2));
    const [unit, size] = span < 60 ? ["s", 1] : span < 3600 ? ["min", 60] : ["h", 3600];
    const name = (time) => String(Number((time / size).toFixed(span < 1 ? 2 : 1)));
    const names = ["0", name(span / 2), `${name(span)} ${unit}`];
    this.axis.replaceChildren(...names.map((text, at) => {
      const tick = Object.assign(document.createElement("small"), { textContent: text });
      tick.style.cssText = `left: ${50 * at}%; transform: translateX(${-50 * at}%)`; // its end is the axis's
      return tick;
    }));
  }

  // The chips that lead to what needs the reader.
  drawJumps() {
    let at = [...this.asking][0];
    const isAsked = at !== undefined;
    const { element, question } = (at !== this.asked && this.rows.get(at)) || {}; // of a new question
    // a question comes into view by itself, unless the reader goes through the rows
    if (!this.keys.isInUse) element?.scrollIntoView({ block: "nearest" });
    this.asked = at;
    while (at && !this.rows.get(at).data.look.startsWith("axe-nb-run ")) at = this.rows.get(at).data.above;
    const who = this.rows.get(at)?.who;
    if (question) say(this.said, `${who} ${question.box.firstElementChild.ariaLabel}`);
    const words = [isAsked && `${who} needs you ↓`, this.failed.size && `${this.failed.size} failed ↓`];
    for (const [at, chip] of [this.needy, this.broken].entries()) {
      chip.hidden = !words[at];
      say(chip, words[at] || "");
    }
  }

  // Rows are in chunks: the browser lays out those that are in sight.
  lastChunk(box) {
    const last = box.lastElementChild;
    if (last && last.childElementCount < CHUNK) return last;
    last?.classList.add("axe-nb-full");
    return box.appendChild(parse("<div class=axe-nb-chunk role=none></div>"));
  }

  // Goes to the next of these rows, and from the last one to the first.
  jump(keys) {
    const all = [...keys];
    const to = all[(all.indexOf(this.jumped) + 1) % all.length];
    if (to === undefined) return;
    this.jumped = to;
    const { element } = this.rows.get(to);
    this.search.value = "";
    this.choose(this.tools.querySelector(".axe-nb-chip"));
    for (let up = element.parentElement.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
    element.scrollIntoView({ block: "center" });
    this.keys.go(element, { preventScroll: true });
  }

  addRow(key, data) {
    const element = parse(ROW);
    const [line, inside] = element.children;
    const [before, box, below, after] = inside.children;
    const row = { element, line, before, below, after };
    row.question = new Question(element, box);
    element.row = row;
    element.open = data.open;
    const above = this.rows.get(data.above);
    (above ? this.lastChunk(above.below) : this.scroll).append(element);
    if (!above) line.after(this.head);
    this.rows.set(key, row);
    this.keys.add(row, above);
    return row;
  }

  // Texts are created when they become visible, as most rows are never opened.
  fill({ element, data, before, after }, isWanted = element.open) {
    if (!isWanted || !data) return;
    this.put(before, data.before);
    this.put(after, data.after);
  }

  // Writes the seconds of a row, which go on while it runs.
  time(row) {
    const { line, data } = row;
    const [time, now] = [line.querySelector("time"), this.store.now];
    const { from, to } = time.dataset;
    if (from && !to) this.running.add(row);
    else this.running.delete(row);
    if (!from) return;
    const took = Math.max(0, (to ?? now) - from);
    const words = took < 60 ? `${took.toFixed(1)} s` : `${Math.floor(took / 60)} min ${Math.floor(took % 60)} s`;
    const past = !to && this.store.trouble === "lost" && data.above ? "was running" : "";
    const parts = [past, took >= 0.1 ? words : ""].filter(Boolean).join(" · ");
    say(time, parts && time.previousSibling ? ` · ${parts}` : parts);
    if (!to) line.style.setProperty("--now", now.toFixed(2));
  }

  // Marks the newest row, or the row that it is folded into.
  mark() {
    let shown = this.rows.get(this.store.head.newest)?.element;
    for (let at = shown; at; at = at.parentElement.closest("details")) if (!at.open) shown = at;
    this.newest?.classList.remove("axe-nb-newest");
    shown?.classList.add("axe-nb-newest");
    this.newest = shown;
  }

  choose(chip) {
    this.only = chip.textContent;
    for (const each of chip.parentElement.children) each.ariaPressed = String(each === chip);
    this.filter();
  }

  isWanted(row, words) {
    const { data } = row;
    data.words ??= [data.line, ...data.before, ...data.after].join(" ").replace(/<[^>]*>/g, " ").toLowerCase();
    const runs = this.running.has(row);
    if (!data.words.includes(words)) return false;
    if (this.only === "running") return runs && data.look.startsWith("axe-nb-run ");
    return this.only !== "failed" || (!runs && /-(bad|limit)$/.test(data.look));
  }

  // Filters and sorts rows, in the browser only.
  filter() {
    const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
    const words = this.search.value.trim().toLowerCase().replace(/[&<>]/g, (char) => escapes[char]);
    const isOn = words || ["running", "failed"].includes(this.only);
    const shown = new Set();
    for (const [key, row] of isOn ? this.rows : []) {
      if (!this.isWanted(row, words)) continue;
      shown.add(key);
      for (let at = row.data.above; at && !shown.has(at); at = this.rows.get(at).data.above) {
        shown.add(at);
        this.rows.get(at).element.open = true;
      }
    }
    const isSorted = this.only === "slowest first";
    const changed = new Set(); // chunks of rows
    this.root.classList.toggle("axe-nb-sorted", isSorted);
    for (const [key, { element, line, data }] of this.rows) {
      const isHidden = Boolean(isOn && data.above && !shown.has(key));
      if (element.hidden !== isHidden) {
        element.hidden = isHidden;
        changed.add(element.parentElement);
      }
      if (!isSorted && !this.wasSorted) continue;
      const { from, to } = line.querySelector("time").dataset;
      const isRun = isSorted && from && data.look.startsWith("axe-nb-run ");
      element.style.order = isRun ? -Math.round(1000 * ((to ?? this.store.now) - from)) : "";
    }
    this.wasSorted = isSorted;
    for (const chunk of changed) {
      if (chunk !== this.scroll) chunk.hidden = ![...chunk.children].some((row) => !row.hidden);
    }
  }

  tick() {
    // an unanswered question holds back updates
    const cell = this.root.closest(".jp-Cell");
    if (cell?.querySelector(".jp-Stdin-input")) this.store.heardAt = clock();
    const { trouble, lastAt, head } = this.store;
    const isLost = trouble === "lost";
    say(this.note, trouble ? TROUBLES[trouble].replace("TIME", lastAt) : "");
    for (const row of this.running) this.time(row);
    const wasLost = this.root.classList.contains("axe-nb-lost");
    for (const row of isLost && !wasLost ? this.rows.values() : []) this.end(row);
    this.root.classList.toggle("axe-nb-lost", isLost);
    const top = this.rows.values().next().value;
    if (!top) return;
    const height = top.line.offsetHeight; // it wraps in small windows; 0 before layout
    if (height) this.head.style.top = `${height - 8}px`;
    this.drawStop(top.who, !head.newest || isLost);
    if (!isLost && (this.asking.size || performance.now() - this.spoke < SAY)) return; // a question is told once
    this.spoke = performance.now();
    say(this.said, isLost ? "" : `${top.who}: ${top.data.about}`); // the note says it already
  }

  // Ends a running row, as its kernel is gone.
  end(row) {
    const { element, line, data } = row;
    row.html = null; // to be drawn again if there is another update
    const sign = line.querySelector("b");
    element.ariaLabel = element.ariaLabel.replace(/^running/, "was running");
    sign.title = sign.title.replace(/^running/, "was running");
    if (data.above) return;
    const facts = line.querySelector("span").firstChild;
    facts.textContent = facts.textContent.replace(/(\d) running/, "$1 were running");
  }

  drawStop(who, isOver) {
    const { canStop, stoppedAt } = this.store;
    this.stop.hidden = !canStop || isOver;
    const isLate = clock() - stoppedAt > PATIENCE;
    const words = isLate ? "Stopping as soon as the kernel is free…" : "Stopping…";
    say(this.stop, stoppedAt ? words : "Stop the run");
    this.stop.ariaDisabled = String(Boolean(stoppedAt)); // a disabled button would lose the focus
    this.stop.ariaLabel = `${this.stop.textContent} (run of ${who})`;
  }

  // Copies a text, as much of it as was received, and says so if it is incomplete.
  async copy(text, place) {
    const shown = text && copied(text);
    if (!shown) return;
    const words = shown.startsWith("… ") ? "copied the part shown" : "copied";
    const isDone = await write(shown);
    const told = parse("<small class=axe-nb-told></small>");
    told.textContent = isDone ? words : "not copied: the browser did not allow it";
    place.querySelector(":scope > .axe-nb-told")?.remove();
    place.append(told);
    setTimeout(() => told.remove(), TOLD);
    say(this.said, told.textContent);
  }

  close() {
    clearInterval(this.timer);
    for (const event of DEEDS) window.removeEventListener(event, this.leave, true);
    this.keys.close();
    for (const { question } of this.rows.values()) question.close();
    this.store.views.delete(this);
  }
}

// Insecure pages have no clipboard, and access may be denied to others.
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const [area, before] = [document.createElement("textarea"), document.activeElement];
    area.value = text;
    area.style.cssText = "position: fixed; opacity: 0";
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    before?.focus({ preventScroll: true });
    return isDone;
  }
}

// The keys of an ARIA tree: one tab stop, and arrows between visible rows. The focus
// is on the row itself, as browsers treat every summary as a button that folds its details.
class Keys {
  constructor(view) {
    this.view = view;
    this.tree = view.scroll;
    this.tree.addEventListener("toggle", ({ target }) => target.row && this.fold(target), true);
    this.tree.addEventListener("focusin", ({ target }) => {
      const row = target.parentElement;
      if (row.row?.line === target) this.go(row, { preventScroll: true });
      window.addEventListener("keydown", this.press, true);
    });
    this.tree.addEventListener("focusout", () => this.close());
  }

  // Whether a reader is going through the rows, which new text must not scroll away.
  get isInUse() {
    const at = this.tree.getRootNode().activeElement; // marimo draws in a shadow root
    return this.tree.contains(at) && at.matches("details:focus-visible");
  }

  add(row, above) {
    row.element.ariaLevel = above ? Number(above.element.ariaLevel) + 1 : 1;
    row.element.ariaExpanded = row.element.open;
    if (!this.at) this.stop(row.element);
  }

  // Rows other than the tab stop have no tabindex, as Tab skips everything in a row with -1.
  stop(row) {
    if (this.at !== row) this.at?.removeAttribute("tabindex");
    row.tabIndex = 0;
    this.at = row;
  }

  go(row, options) {
    this.stop(row);
    row.focus(options);
  }

  // Tab cannot reach a row that is folded away, but the row that it is folded into.
  fold(row) {
    this.view.fill(row.row);
    row.ariaExpanded = row.open;
    if (!row.open && row.contains(this.at)) this.stop(row);
  }

  get rows() {
    const all = [...this.tree.querySelectorAll(".axe-nb-row")];
    return all.filter((row) => !row.closest("[hidden]") && !row.parentElement.closest("details:not([open])"));
  }

  // On the window, as JupyterLab handles keys on the document, to move to or edit a cell.
  press = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const row = event.composedPath()[0];
    const isPress = row.matches(".axe-nb-head button, .axe-nb-answer") && ["Enter", " "].includes(event.key);
    if (isPress) event.stopImmediatePropagation();
    const move = row.row && this.moves[event.key];
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
    ArrowRight: (row) => (row.open ? row.querySelector(".axe-nb-row") : this.toggle(row)),
    ArrowLeft: (row) => (row.open ? this.toggle(row) : row.parentElement.closest(".axe-nb-row")),
    Home: () => this.rows[0],
    End: () => this.rows.at(-1),
    Enter: this.toggle,
    " ": this.toggle,
    c: (element) => {
      const { row } = element;
      this.view.fill(row, true);
      this.view.copy(row.before.firstElementChild ?? row.after.firstElementChild, element);
    },
  };

  close() {
    window.removeEventListener("keydown", this.press, true);
  }
}

const isMarimo = (input) => Boolean(input.dataset.stdinBlocking);

// Counts the open questions of all trees in a cell of marimo, which draws each in a shadow root.
function countQuestions(cell) {
  const trees = [...cell.querySelectorAll("marimo-anywidget")].map(({ shadowRoot }) => shadowRoot);
  return trees.flatMap((tree) => [...(tree?.querySelectorAll(".axe-nb-question") ?? [])]).length;
}

// Puts words into an input. React, which draws marimo's, must hear of them.
function enter(input, words) {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, words);
  if (isMarimo(input)) input.dispatchEvent(new Event("input", { bubbles: true }));
}

// The open question of a row, with buttons that answer it. They type their letter into the
// cell's own open input, as a person would, as nothing else can answer a running cell. The text of
// the prompt identifies that input.
class Question {
  constructor(row, box) {
    this.row = row;
    this.box = box;
    box.addEventListener("click", ({ target, isTrusted }) => {
      const button = target.closest(".axe-nb-answer[value]");
      if (button && isTrusted) this.type(button.value);
    });
    box.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.isTrusted) this.send(event.target);
    });
    // JupyterLab would take the letters of an answer for its own shortcuts
    box.addEventListener("keydown", (event) => event.target.matches("input, textarea") && event.stopPropagation());
    // in a window of another size, the buttons may be out of sight
    this.sizes = new ResizeObserver(() => this.width !== (this.width = row.offsetWidth) && this.wasOurs && this.show());
  }

  // Sends what a form holds; a mistake in JSON is told here, and loses nothing.
  send(form) {
    const told = form.querySelector("[role=alert]");
    let words = form.elements[0].value;
    try {
      if (told && (this.form || /^\s*{/.test(words))) JSON.parse(words);
      else if (words.includes("\n")) words = JSON.stringify({ text: words }); // an input has one line
    } catch (error) {
      return say(told, error.message);
    }
    if (told) say(told, "");
    this.type(words);
  }

  type(words) {
    const input = this.form ? this.open[0] : this.find();
    if (!input) return;
    enter(input, words);
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: isMarimo(input) }));
    this.look();
  }

  // An empty question has been answered.
  draw(html) {
    if (html === (this.html ?? "")) return;
    this.html = html;
    this.wasOurs = false;
    this.form = undefined;
    this.sizes.disconnect();
    put(this.box, html ? [html] : []);
    clearInterval(this.timer);
    for (const opened of html ? [] : this.opened) opened.open = false; // as they were before the question
    this.opened = [];
    if (!html) return;
    for (let at = this.row; at; at = at.parentElement?.closest("details")) if (!at.open) this.opened.push(at);
    for (const each of this.opened) each.open = true;
    this.sizes.observe(this.row);
    this.timer = setInterval(() => this.look(), LOOK);
    this.look();
  }

  // The open input of this cell, with its prompt; it stays for half a second after the answer.
  get open() {
    const cell = this.row.closest(".jp-Cell") ?? this.row.getRootNode().host?.closest(".marimo-cell");
    const inputs = cell?.querySelectorAll("input.jp-Stdin-input, input[data-stdin-blocking]") ?? [];
    const input = [...inputs].findLast((each) => !each.closest(".jp-OutputArea-stdin-hiding"));
    if (!input || input.type === "password") return [null, ""];
    const prompt = isMarimo(input) ? cell.querySelector(".stdout") : input.closest(".jp-Stdin")?.querySelector(".jp-Stdin-prompt");
    return [input, prompt?.textContent ?? ""];
  }

  // The input for this question's letters; null if there is none.
  find() {
    const [input, text] = this.open;
    const prompt = this.box.firstElementChild?.dataset.prompt;
    if (!input || !prompt) return null;
    const choices = prompt.slice(prompt.lastIndexOf("\n"));
    // after a wrong answer the prompt has other words; the first prompt of a question begins a line
    const isAgain = this.wasOurs && !text.startsWith("\n") && text.endsWith(choices);
    // the prompt in marimo is longer; it belongs to the question if there is no other
    const isOnly = isMarimo(input) && countQuestions(input.closest(".marimo-cell")) === 1;
    if (text !== prompt && !isAgain && !isOnly) return null;
    this.wasOurs = true;
    return input;
  }

  look() {
    const wasOurs = this.wasOurs;
    const isOpen = Boolean(this.find());
    const asks = Object.keys(FORMS).find((prompt) => this.wasOurs && this.open[1].endsWith(prompt));
    // the browser has scrolled to the input, away from what is asked; the buttons matter most
    if (isOpen && !wasOurs) this.show();
    for (const each of this.box.querySelectorAll("button, input")) each.disabled = !isOpen && !asks;
    if (FORMS[asks] === this.form) return;
    this.form = FORMS[asks];
    const [answers, ...forms] = this.box.querySelectorAll(":scope > div > .axe-nb-answers, form");
    answers.hidden = Boolean(asks);
    for (const each of forms) each.hidden = !asks || !each.matches(`.axe-nb-${this.form}`);
    this.box.querySelector("form:not([hidden])")?.elements[0].focus();
  }

  show() {
    const parts = [this.row, this.box.querySelector("form:not([hidden]), .axe-nb-answers:not([hidden])")];
    for (const part of parts) part?.scrollIntoView({ block: "nearest" });
  }

  close() {
    clearInterval(this.timer);
    this.sizes.disconnect();
  }
}

function show(store, element) {
  const view = store.head.newest === undefined ? new Table(store, element) : new Tree(store, element);
  store.views.add(view);
  return view;
}

// Covers the places of one widget in JupyterLab's page: outputs with the mark. The end of a run puts
// the static twin there, without a mark, which is saved; in this page the tree stays over it, with its
// times and its opened rows, until the kernel is gone. A table makes room for its twin at once.
function cover(store, mark) {
  const taken = new Map(); // functions that uncover outputs, by output
  let timer;
  function take(output) {
    const element = parse('<div class="axe-nb-place jp-OutputArea-output"></div>');
    const view = show(store, element);
    // at once, so that neither both nor nothing is ever seen
    const uncover = () => {
      taken.get(output)();
      element.remove();
      output.style.display = "";
      taken.delete(output);
    };
    const observer = new MutationObserver(() => {
      if (!output.firstElementChild || output.querySelector(`.${mark}`)) return;
      if (store.head.newest === "" && !store.isLost) return;
      uncover();
    });
    observer.observe(output, { childList: true, subtree: true });
    store.uncover.add(uncover);
    taken.set(output, () => {
      store.uncover.delete(uncover);
      observer.disconnect();
      view.close();
    });
    output.style.display = "none";
    output.after(element);
  }
  function look() {
    // in a notebook that is opened again, a lost kernel must not cover the saved output
    const isGone = store.isLost && store.head.newest !== "";
    for (const marked of isGone ? [] : document.getElementsByClassName(mark)) {
      const output = marked.closest(".jp-OutputArea-output");
      if (output && !taken.has(output)) take(output);
    }
    timer = setTimeout(look, taken.size ? TICK : AT_FIRST);
  }
  if (mark) look();
  return () => {
    clearTimeout(timer);
    for (const end of taken.values()) end();
  };
}

// Calls `lose` when the front end reports that the kernel is gone; returns a function that ends this.
// Widgets are not cleaned up in that case.
function watch(model, lose) {
  const status = model.widget_manager?.kernel?.statusChanged;
  const heard = (_, state) => LOST.has(state) && lose();
  status?.connect?.(heard);
  model.on("comm_live_update", lose);
  return () => status?.disconnect?.(heard);
}

export default () => {
  let store;
  return {
    initialize({ model }) {
      store = new Store(model);
      const all = () => store.take(JSON.parse(model.get("snapshot")));
      all();
      model.on("change:snapshot", all);
      model.on("msg:custom", (news) => store.take(news));
      const ends = [watch(model, () => store.lose()), cover(store, model.get("mark"))];
      return () => ends.forEach((end) => end());
    },
    render({ el }) {
      const view = show(store, el);
      return () => view.close();
    },
  };
};
