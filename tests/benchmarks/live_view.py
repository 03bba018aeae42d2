"""`python -m tests.benchmarks.live_view`: the live tree in a real JupyterLab, and saved sizes.

Prints rows of goals.md: the size of a saved notebook; 50 turns of 20 children over 30 s, four
changes a child, and with answers that arrive in pieces of 8 characters, 50 a second each; the time
from the first piece of a reply to the frame that shows it; and a tree of 10,000 sub-agents: the
time from an action of the reader to the first frame that shows what came of it. The lag of an
update is the time from the kernel's own stamp on its message.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.goals import row
from tests.browser.lab import Lab, server, started
from tests.conftest import CHROMIUM
from tests.views.runs import code, long_run, saved_size

TURNS, SECONDS = 50, 30

WATCH = """
window.axe = {frames: 0, bytes: 0, lags: [], sent: []};
const Native = window.WebSocket;
function header(buffer) {
  const view = new DataView(buffer), at = (i) => Number(view.getBigUint64(8 * i, true));
  return JSON.parse(new TextDecoder().decode(buffer.slice(at(2), at(3))));
}
window.WebSocket = class extends Native {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", ({data}) => {
      if (!(data instanceof ArrayBuffer)) return;
      const {msg_type, date} = header(data);
      if (!msg_type.startsWith("comm_")) return;
      window.axe.frames += 1;
      window.axe.bytes += data.byteLength;
      window.axe.sent.push(Date.parse(date));
    });
  }
};
new MutationObserver((changes) => {
  if (!changes.some(({target}) => target.parentElement?.closest?.(".axe-nb-tree"))) return;
  const sent = window.axe.sent.splice(0);
  if (sent.length) requestAnimationFrame(() => {
    for (const at of sent) window.axe.lags.push(performance.timeOrigin + performance.now() - at);
  });
}).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
"""

EVENTS = """
import time
from pathlib import Path
from axe_nb.cell_display.display import RunView
from axe_nb.events import RunFinished, RunStarted, TextDelta, ToolFinished, ToolStarted
from axe_nb.events import TurnFinished, TurnStarted
from axe_nb.messages import CallTraits, ToolCall, ToolResult, Usage
from axe_nb.results import RunResult

ONE_CHILD = CallTraits(delegates=True, is_one_child=True)
view = RunView(live=True)

def call_all(turn):
    calls = tuple(ToolCall(f"{turn}-{n}", "call_agent", {}, traits=ONE_CHILD)
                  for n in range(CHILDREN))
    view.event(TurnStarted("0", turn, 1, 0))
    view.event(TurnFinished("0", turn, "", calls, "tool_use", Usage(10, 10), True))
    return calls

def begin(call):
    run = "0." + call.id
    view.event(ToolStarted("0", call))
    view.event(RunStarted(run, "0", call.id, "child", "script/c", 1, f"Part {run}", "A part"))
    view.event(TurnStarted(run, 1, 1, 0))
    return run

def end(call, text, state="completed"):
    run = "0." + call.id
    ended = RunResult(status=state, model="script/c", text=text, agent="child", id=run)
    view.event(TurnFinished(run, 1, text, (), "end", Usage(10, 10), True))
    view.event(RunFinished(run, ended))
    view.event(ToolFinished("0", ToolResult(call.id, text), 0.1))

view.event(RunStarted("0", "", "", "lead", "script/lead", 0, "Do it", "Do it"))
"""

CELL = """
ANSWER = "An answer of a child, about as long as a paragraph is. " * 7
began, events = time.monotonic(), 0
pause = SECONDS / TURNS / (CHILDREN * 4)
going = {}  # run → characters of its answer so far

def wait():
    global events
    events += 1
    while (left := began + events * pause - time.monotonic()) > 0:
        time.sleep(min(left, 0.02))
        for run in going if STREAMS else ():
            at = going[run] = going[run] + 8
            view.event(TextDelta(run, 1, 1, ANSWER[at - 8 : at]))
        view.tick()

for turn in range(1, TURNS + 1):
    calls = call_all(turn)
    for call in calls:
        going[begin(call)] = 0
        wait()
    for words in (ANSWER[:100], ANSWER[100:]):
        for call in calls:
            if not STREAMS:
                view.event(TextDelta("0." + call.id, 1, 1, words))
            wait()
    for call in calls:
        going.pop("0." + call.id)
        end(call, ANSWER)
        wait()
for _ in range(60):
    time.sleep(0.05)
    view.tick()
view.finish(RunResult(status="completed", model="script/x", text="Done.", agent="lead"))
"""

WIDE_CELL = """
for turn in range(1, TURNS + 1):
    for n, call in enumerate(call_all(turn)):
        begin(call)
        end(call, "Well.", "error" if n == 50 else "completed")
    view.tick()
while not Path("over").exists():
    time.sleep(0.05)
    view.tick()
"""

ACT = """
async ([selector, word]) => {
  const element = [...document.querySelectorAll(selector)].find((e) =>
    word === null || e.matches("input") || e.textContent === word);
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await frame();
  const began = performance.now();
  if (element.matches("input")) {
    element.value = word;
    element.dispatchEvent(new Event("input", { bubbles: true }));
  } else element.click();
  await frame();
  return performance.now() - began;
}
"""

ACTIONS = {
    "a row is opened": (".axe-nb-row .axe-nb-row > summary", None),
    "a word is searched": (".axe-nb-search", "0.37-42"),
    "all words are shown again": (".axe-nb-search", ""),
    "the failed ones": (".axe-nb-chip", "failed"),
    "all again": (".axe-nb-chip", "all"),
}
"""Action → the element, and the word typed or the text of the element."""

FIRST_PIECES = """
import asyncio, random, time
import axe_nb

@axe_nb.script("stamp")
async def stamp(request):
    await asyncio.sleep(0.3 + random.random() / 10)
    yield f"stamp {time.time() * 1000:.3f} end "
    await asyncio.sleep(0.5)
    yield "and the rest"

for _ in range(20):
    axe_nb.run(axe_nb.Agent("stamp", "script/stamp"), "go")
"""

LAGS = """
window.lags = new Map();
new MutationObserver(() => {
  for (const {textContent} of document.querySelectorAll(".axe-nb-writing")) {
    const stamp = textContent.match(/stamp ([0-9.]+) end/)?.[1];
    if (!stamp || window.lags.has(stamp)) continue;
    window.lags.set(stamp, null);
    requestAnimationFrame(() => window.lags.set(
      stamp, performance.timeOrigin + performance.now() - Number(stamp)));
  }
}).observe(document, {subtree: true, childList: true, characterData: true});
"""


@contextmanager
def opened(cell: str, scripts: str = "") -> Iterator[Lab]:
    """A notebook in a lab of its own, whose cell has begun."""
    assert CHROMIUM, "there is no chromium"
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder) / "lab") as jupyter,
        started(CHROMIUM) as browser,
    ):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(scripts)
        lab = Lab(jupyter, context)
        lab.open(code(cell))
        lab.run_all(wait=False)
        yield lab


def tell_lags(what: str, given: Sequence[float], gate: float, goal: float) -> None:
    lags = sorted(given)
    p95 = lags[int(len(lags) * 0.95)]
    shown = f"median {statistics.median(lags):.0f} ms, p95 {p95:.0f} ms, max {lags[-1]:.0f} ms"
    row(what, shown, p95, gate, goal, " ms")


def show_live(children: int, *, streams: bool) -> None:
    given = f"TURNS, CHILDREN, SECONDS, STREAMS = {TURNS}, {children}, {SECONDS}, {streams}"
    with opened(given + EVENTS + CELL, WATCH) as lab:
        rows = TURNS * children
        seen = f"() => document.querySelectorAll('.axe-nb-tree .axe-nb-good').length >= {rows}"
        lab.page.wait_for_function(seen, timeout=20_000 + SECONDS * 1000, polling=500)
        measured = lab.page.evaluate("() => window.axe")
        lab.finished()
    what = f"{TURNS} turns x {children} children{', streamed' if streams else ''}"
    updates, size = measured["frames"] / SECONDS, measured["bytes"] / 1e6
    row(what, f"{updates:.1f} updates/s", updates, 10, 10, "/s")
    tell_lags("  lag", measured["lags"], 100, 25)
    print(f"  {size:.2f} MB sent; every row was there at the end")


def show_first_pieces() -> None:
    with opened(FIRST_PIECES, LAGS) as lab:
        lab.finished(120)
        lags = lab.page.evaluate("() => [...window.lags.values()]")
    tell_lags("first piece on screen", list(filter(None, lags)), 150, 100)


def show_rows(turns: int = 100, children: int = 100) -> None:
    took: dict[str, list[float]] = {what: [] for what in ACTIONS}
    with opened(f"TURNS, CHILDREN = {turns}, {children}{EVENTS}{WIDE_CELL}") as lab:
        rows = f"document.querySelectorAll('.axe-nb-row').length >= {turns * children}"
        lab.page.wait_for_function(rows, timeout=120_000, polling=500)
        for _ in range(7):
            for what, action in ACTIONS.items():
                took[what].append(lab.page.evaluate(ACT, action))
        (lab.server.folder / "over").touch()
        lab.finished()
    for what, times in took.items():
        typical = statistics.median(times)
        row(f"10,000 rows: {what}", f"{typical:.0f} ms", typical, 150, 50, " ms")


if __name__ == "__main__":
    size = saved_size(long_run()) / 1000
    row("saved: 30 turns x 1.5 kB", f"{size:.1f} kB, 0 widget models", size, 50, 30, " kB")
    for streams in (False, True):
        show_live(20, streams=streams)
    show_first_pieces()
    show_rows()
