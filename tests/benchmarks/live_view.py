"""`python -m tests.benchmarks.live_view`: the live tree in a real JupyterLab, and saved sizes.

Prints rows of goals.md: 50 turns of 20 children over 30 s, four changes a child; the same with 40
children, and with 20 whose answers arrive in pieces of 8 characters, 50 a second each. The lag of
an update is the time from the kernel's own stamp on its message to the first frame that shows it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession

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

CELL = """
import time
from axe_nb.events import RunFinished, RunStarted, TextDelta, ToolFinished, ToolStarted
from axe_nb.events import TurnFinished, TurnStarted
from axe_nb.results import RunResult
from axe_nb.messages import CallTraits, ToolCall, ToolResult, Usage
from axe_nb.cell_display.display import RunView

ANSWER = "An answer of a child, about as long as a paragraph is. " * 7
ONE_CHILD = CallTraits(delegates=True, is_one_child=True)
END = {"status": "completed", "model": "script/x"}
view, began, events = RunView(live=True), time.monotonic(), 0
cpu = time.process_time()
pause = SECONDS / TURNS / (CHILDREN * 4)
going = {}  # run → characters of its answer so far

def tell(*news):
    for event in news:
        view.event(event)
    view.tick()

def wait():
    global events
    events += 1
    while (left := began + events * pause - time.monotonic()) > 0:
        time.sleep(min(left, 0.02))
        for run in going if STREAMS else ():
            at = going[run] = going[run] + 8
            view.event(TextDelta(run, 1, 1, ANSWER[at - 8 : at]))
        view.tick()

tell(RunStarted("0", "", "", "lead", "script/lead", 0, "Do it", "Do it"))
for turn in range(1, TURNS + 1):
    calls = tuple(ToolCall(f"{turn}-{i}", "call_agent", {}, traits=ONE_CHILD)
                  for i in range(CHILDREN))
    tell(TurnStarted("0", turn, 1, 0),
         TurnFinished("0", turn, "", calls, "tool_use", Usage(10, 10), True))
    for call in calls:
        run = "0." + call.id
        tell(ToolStarted("0", call),
             RunStarted(run, "0", call.id, "child", "script/c", 1, f"Part {run}", "Task: a part"),
             TurnStarted(run, 1, 1, 0))
        going[run] = 0
        wait()
    for words in (ANSWER[:100], ANSWER[100:]):
        for call in calls:
            if not STREAMS:
                tell(TextDelta("0." + call.id, 1, 1, words))
            wait()
    for call in calls:
        run = "0." + call.id
        going.pop(run)
        tell(TurnFinished(run, 1, ANSWER, (), "end", Usage(10, 10), True),
             RunFinished(run, RunResult(**END, text=ANSWER, agent="child", id=run)),
             ToolFinished("0", ToolResult(call.id, ANSWER), 0.1))
        wait()
for _ in range(60):
    time.sleep(0.05)
    view.tick()
view.finish(RunResult(**END, text="Done.", agent="lead"))
with open("cpu", "w") as file:
    file.write(str(time.process_time() - cpu))
"""


def live(folder: Path, children: int, *, streams: bool) -> dict[str, Any]:
    """What the page saw of the run."""
    assert CHROMIUM, "there is no chromium"
    given = f"TURNS, CHILDREN, SECONDS, STREAMS = {TURNS}, {children}, {SECONDS}, {streams}"
    with server(folder) as jupyter, started(CHROMIUM) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(WATCH)
        lab = Lab(jupyter, context)
        tools = context.new_cdp_session(lab.page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        lab.open(code(given + CELL))
        before = _cpu_seconds(tools)
        lab.run_all(wait=False)
        rows = TURNS * (children + 1) + 1
        lab.page.wait_for_selector(".axe-nb-tree")
        lab.page.wait_for_timeout(SECONDS * 1000)
        seen = f"() => document.querySelectorAll('.axe-nb-tree .axe-nb-good').length >= {rows - 1}"
        lab.page.wait_for_function(seen, timeout=20_000, polling=500)
        measured: dict[str, Any] = lab.page.evaluate("() => window.axe")
        measured["nodes"] = lab.page.evaluate(
            "() => document.querySelectorAll('.axe-nb-tree *').length"
        )
        lab.finished()
        lab.page.wait_for_selector(".jp-OutputArea details")
        measured["cpu"] = [
            now - then for now, then in zip(_cpu_seconds(tools), before, strict=True)
        ]
        measured["kernel"] = float((jupyter.folder / "cpu").read_text())
        measured["left"] = lab.page.locator(".axe-nb-tree").count()
        return measured


PARTS = ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")


def _cpu_seconds(tools: CDPSession) -> list[float]:
    """CPU seconds of the page: in all, for scripts, styles and layout."""
    metrics = tools.send("Performance.getMetrics")["metrics"]
    found = {metric["name"]: metric["value"] for metric in metrics}
    return [found[part] for part in PARTS]


def main() -> None:
    size = saved_size(long_run())
    print(f"saved notebook, 30 turns x 1.5 kB with 4 children: {size:,} bytes, 0 widget models")
    for children, streams in ((20, False), (40, False), (20, True)):
        with tempfile.TemporaryDirectory() as folder:
            seen = live(Path(folder) / "lab", children, streams=streams)
        _print(children, streams, seen)


def _print(children: int, streams: bool, seen: dict[str, Any]) -> None:
    lags = sorted(seen["lags"])
    streamed = ", streamed" if streams else ""
    print(f"live view, {TURNS} turns x {children} children over {SECONDS} s{streamed}:")
    print(f"  {seen['frames'] / SECONDS:.1f} updates/s, {seen['bytes'] / 1e6:.2f} MB sent")
    print(
        f"  lag: median {statistics.median(lags):.0f} ms, "
        f"p95 {lags[int(len(lags) * 0.95)]:.0f} ms, max {lags[-1]:.0f} ms"
    )
    page, scripts, styles, layout = seen["cpu"]
    print(
        f"  CPU: kernel {seen['kernel']:.1f} s; page {page:.1f} s, of which scripts {scripts:.1f}, "
        f"styles {styles:.1f}, layout {layout:.1f}"
    )
    print(
        f"  every row was there at the end, in {seen['nodes']:,} nodes; left over: {seen['left']}"
    )


if __name__ == "__main__":
    sys.exit(main())
