
// Copies of texts: a button beside each, key c in its row. cell_display/feed.py joins this to live.js,
// and sends what rows cut: what follows the text, up to a bound.

const TOLD = 2000; // milliseconds for which the copy is told of

// The words say how much was copied; of a text that is being written, a row has the end.
async function copy(place, [, text, rest], whole) {
  const [more, left, goesOn] = whole ?? ["", rest ? 1 : 0, true];
  const all = goesOn ? text + more : more;
  const length = [...all].length.toLocaleString("en");
  const isEnd = !whole && text.startsWith("… ");
  const known = isEnd ? "copied the part shown" : "copied";
  const words = left ? `copied the first ${length} characters` : known;
  const isDone = await write(all);
  tell(place, isDone ? words : "not copied: the browser did not allow it");
}

// Pages that are not secure have no clipboard, and others may be refused it.
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    const before = document.activeElement;
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

function tell(place, words) {
  const told = make("small", "told", words);
  for (const old of place.querySelectorAll(":scope > .axe-nb-told")) old.remove();
  place.append(told);
  setTimeout(() => told.remove(), TOLD);
  const status = place.closest(".axe-nb-tree")?.querySelector(":scope > .axe-nb-said");
  if (status) put(status, words);
}

// No tab stop: the tree has one, and its keys. Its word is in the style sheet, so that it is no part
// of the text.
function makeCopyButton() {
  const button = make("button", "copy");
  button.type = "button";
  button.tabIndex = -1;
  button.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays
  return button;
}
