"""A map in a notebook: one line, live where a person watches, the same in saved notebooks."""

from __future__ import annotations

import pytest

from tests.nb.kernels import Kernel, Output, shown, text

pytestmark = pytest.mark.req("E-8")

SETUP = """
import asyncio, axe_nb, os
os.environ.pop("PYTEST_VERSION", None)  # a person watches
@axe_nb.script("echo")
async def echo(request):
    await asyncio.sleep(PAUSE)
    assert "bad" not in request.last, "a <b>bad</b> prompt"
    return request.last.upper()
PAUSE = 0.1
agent = axe_nb.Agent("echo", "script/echo")
"""


def lines(outputs: list[Output]) -> list[str]:
    return [data["text/plain"] for data in shown(outputs)]


ASK = "[r.text for r in axe_nb.map(agent, [f'p{n}' for n in range(20)], concurrency=4)][-1]"


def test_a_headless_notebook_has_one_line_without_times_and_a_person_sees_it_grow(
    cells: Kernel,
) -> None:
    outputs = cells.run(ASK)
    assert lines(outputs) == ["echo: 20 of 20 runs, 0 failed"]
    assert "P19" in text(outputs)
    shown = lines(cells.run(ASK, live=True))
    assert len(shown) > 2
    assert "/s" in shown[-2]
    assert shown[-1] == "echo: 20 of 20 runs, 0 failed"


def test_a_bar_fills_and_equal_errors_are_counted_below_the_line(cells: Kernel) -> None:
    ask = "list(axe_nb.map(agent, ['good', 'bad', 'bad'] * 4, concurrency=4)); 0"
    drawn = [data["text/html"] for data in shown(cells.run(ask, live=True)) if "text/html" in data]
    assert "linear-gradient" in drawn[0]
    assert "linear-gradient" not in drawn[-1]
    assert "</span> 8 × " in drawn[-1]
    assert "a &lt;b&gt;bad&lt;/b&gt; prompt" in drawn[-1]
    assert lines(cells.run(ask))[0].splitlines()[0].startswith("echo: 12 of 12 runs, 8 errors")


@pytest.mark.parametrize(
    "ask",
    [
        "list(runs); 0",
        "await runs; 0",
        "async for run in runs: pass",
        "async def g():\n    async for run in runs: pass\nawait g()",
    ],
)
def test_an_interrupt_is_back_at_once_and_keeps_what_was_done(ask: str, cells: Kernel) -> None:
    cells.run("PAUSE = 0.5\nruns = axe_nb.map(agent, ['p'] * 500, concurrency=4)")
    outputs = cells.run(ask, live=True, interrupt_after=1.3)
    assert cells.idle_at - cells.interrupted_at < 4.0, "at the first interrupt, not the second"
    assert outputs[-1]["type"] == "error"
    assert outputs[-1]["traceback"] == [
        "KeyboardInterrupt: stopped; `.results` of the map has the runs so far; "
        "with resume=PATH, the same call would continue"
    ]
    kept = "0 < len(runs.results) < 100, 'cancelled' in {run.status for run in runs.results}"
    assert text(cells.run(f"print(runs.stopped, {kept})")) == "interrupted True True\n"
