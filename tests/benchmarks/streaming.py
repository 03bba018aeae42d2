"""`python -m tests.benchmarks.streaming`: streamed replies, from the model to the screen.

Prints rows of goals.md: CPU time and memory of one reply of 1,000,000 characters in pieces of 1 to
40 beside a quarter of it, in a live view of a real JupyterLab; and the time from the moment that
the first piece of a reply is there to the frame that shows it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.live_view import WATCH
from tests.browser.lab import Lab, server, started
from tests.conftest import CHROMIUM
from tests.views.runs import code

SIZE = 1_000_000

FIRST = 20
"""Replies whose first piece is timed."""

MODELS = f"""
import asyncio, json, random, resource, time, tracemalloc
import axe_nb

def pieces(size):
    chance, left = random.Random(7), size
    while left > 0:
        piece = ("word " * 8)[: chance.randint(1, 40)][:left]
        left -= len(piece)
        yield piece

@axe_nb.script("flood")
async def flood(request):
    for number, piece in enumerate(pieces(int(request.last))):
        yield piece
        if number % 20 == 0:
            await asyncio.sleep(0)  # as a socket would have it

@axe_nb.script("stamp")
async def stamp(request):
    await asyncio.sleep(0.3 + random.random() / 10)
    yield f"stamp {{time.time() * 1000:.3f}} end "
    await asyncio.sleep(0.5)
    yield "and the rest"

axe_nb.define(axe_nb.Agent("flood", "script/flood"))
axe_nb.define(axe_nb.Agent("stamp", "script/stamp"))
measured = []
for size in ({SIZE} // 4, {SIZE}):
    wall, cpu = time.perf_counter(), time.process_time()
    result = axe_nb.run("flood", str(size))
    measured.append([time.perf_counter() - wall, time.process_time() - cpu])
    assert len(result.text) == size
tracemalloc.start()
for size in ({SIZE} // 4, {SIZE}):
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    axe_nb.run("flood", str(size))
    measured.append((tracemalloc.get_traced_memory()[1] - before) / 1e6)
tracemalloc.stop()
measured.append(sum(1 for _ in pieces({SIZE})))
with open("measured.json", "w") as file:
    json.dump(measured, file)
"""

FIRST_PIECES = f"""
from models import *
for _ in range({FIRST}):
    axe_nb.run("stamp", "go")
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


def measure(folder: Path) -> dict[str, Any]:
    """What the kernel and the page measured."""
    assert CHROMIUM, "there is no chromium"
    with server(folder) as jupyter, started(CHROMIUM) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(WATCH + LAGS)
        lab = Lab(jupyter, context)
        (jupyter.folder / "models.py").write_text(MODELS, "utf-8")
        lab.open(code("import models"))
        lab.run_all(wait=False)
        lab.finished(300)
        numbers = json.loads((jupyter.folder / "measured.json").read_text())
        seen = lab.page.evaluate("() => window.axe")
        lab.tidy()
        lab.open(
            code(FIRST_PIECES.replace("from models import *", "\n".join(_models()))), "b.ipynb"
        )
        lab.run_all(wait=False)
        lab.finished(120)
        lags = lab.page.evaluate("() => [...window.lags.values()]")
        return {"numbers": numbers, "seen": seen, "lags": sorted(filter(None, lags))}


def _models() -> list[str]:
    """The lines of the models without what is measured."""
    return MODELS.partition("measured = []")[0].splitlines()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "lab")
    (_, small_cpu), (wall, cpu), small_mb, large_mb, pieces = found["numbers"]
    lags = found["lags"]
    print(f"{SIZE:,} characters in {pieces:,} pieces, shown live:")
    print(
        f"  {cpu:.2f} s CPU, {cpu / pieces * 1e6:.1f} µs a piece, {cpu / small_cpu:.1f} x a quarter"
    )
    print(f"  {large_mb:.1f} MB, {large_mb / small_mb:.1f} x a quarter")
    print(f"  {wall:.2f} s; messages to the page in all four runs: {found['seen']['frames']}")
    print(f"first piece on screen, {len(lags)} replies:")
    print(
        f"  median {statistics.median(lags):.0f} ms, p95 {lags[int(len(lags) * 0.95)]:.0f} ms, "
        f"max {lags[-1]:.0f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
