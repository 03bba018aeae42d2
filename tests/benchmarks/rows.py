"""`python -m tests.benchmarks.rows`: a live tree of 10,000 sub-agents in a real JupyterLab.

Prints the row of goals.md: the time from an action of the reader to the first frame that shows what
came of it, for the opening of a row, a word in the search box and a chip.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.goals import row
from tests.browser.lab import Lab, server, started
from tests.conftest import CHROMIUM
from tests.views.runs import code

TURNS, CHILDREN, ROUNDS = 100, 100, 7

CELL = """
import time
from pathlib import Path
from axe_nb.cell_display.display import RunView
from axe_nb.events import RunFinished, RunStarted, ToolFinished, ToolStarted, TurnFinished
from axe_nb.events import TurnStarted
from axe_nb.messages import CallTraits, ToolCall, ToolResult, Usage
from axe_nb.results import RunResult

traits = CallTraits(delegates=True, is_one_child=True)
view = RunView(live=True)
view.event(RunStarted("0", "", "", "lead", "script/lead", 0, "Do it", "Do it"))
for turn in range(1, TURNS + 1):
    calls = tuple(ToolCall(f"{turn}-{n}", "call_agent", {}, traits=traits) for n in range(CHILDREN))
    view.event(TurnStarted("0", turn, 1, 0))
    view.event(TurnFinished("0", turn, "", calls, "tool_use", Usage(10, 10), True))
    for n, call in enumerate(calls):
        run, state = "0." + call.id, "error" if n == 50 else "completed"
        view.event(ToolStarted("0", call))
        view.event(RunStarted(run, "0", call.id, "child", "script/c", 1, f"Part {run}", "A part"))
        view.event(TurnStarted(run, 1, 1, 0))
        view.event(TurnFinished(run, 1, "Well.", (), "end", Usage(10, 10), True))
        ended = RunResult(status=state, model="script/c", text="Well.", agent="child", id=run)
        view.event(RunFinished(run, ended))
        view.event(ToolFinished("0", ToolResult(call.id, "Well."), 0.1))
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
    "a turn of 100 is opened": (".axe-nb-row .axe-nb-row > summary", None),
    "a word is searched": (".axe-nb-search", "0.37-42"),
    "all words are shown again": (".axe-nb-search", ""),
    "the failed ones": (".axe-nb-chip", "failed"),
    "all again": (".axe-nb-chip", "all"),
}
"""Action → the element, and the word typed or the text of the element."""


def main() -> None:
    assert CHROMIUM, "there is no chromium"
    took: dict[str, list[float]] = {what: [] for what in ACTIONS}
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder) / "lab") as jupyter,
        started(CHROMIUM) as browser,
    ):
        lab = Lab(jupyter, browser.new_context(viewport={"width": 1280, "height": 900}))
        lab.open(code(f"TURNS, CHILDREN = {TURNS}, {CHILDREN}\n{CELL}"))
        lab.run_all(wait=False)
        rows = f"document.querySelectorAll('.axe-nb-row').length > {TURNS * CHILDREN}"
        lab.page.wait_for_function(rows, timeout=120_000, polling=500)
        for _ in range(ROUNDS):
            for what, action in ACTIONS.items():
                took[what].append(lab.page.evaluate(ACT, action))
        (jupyter.folder / "over").touch()
        lab.finished()
    for what, times in took.items():
        typical = statistics.median(times)
        row(f"10,000 rows: {what}", f"{typical:.0f} ms", typical, 150, 50, " ms")


if __name__ == "__main__":
    sys.exit(main())
