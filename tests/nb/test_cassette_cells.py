"""`%axe cassette`: recorded cells replay, a miss fails its cell, and a cell may run again."""

from __future__ import annotations

import pytest

from tests.nb.kernels import Kernel, text

AGENTS = """
import axe_nb
%load_ext axe_nb
answers = iter("abcdefgh")

@axe_nb.script("one")
def one(request):
    return f"{next(answers)}: {request.last}"

axe_nb.define(axe_nb.Agent("one", "openai/one", system_prompt="Be brief.\\nBe kind."))
server = axe_nb.script_server("openai")
"""


@pytest.fixture
def cells(kernel: Kernel) -> Kernel:
    kernel.run(AGENTS)
    return kernel


@pytest.mark.req("D-59")
def test_a_notebook_records_and_replays_and_says_what_is_missing(cells: Kernel) -> None:
    assert text(cells.run("%axe cassette")) == (
        "ConfigError: no cassette is in use\nstart one: %axe cassette PATH"
    )
    cells.run("server.__enter__()")
    assert cells.run("%axe cassette one.axe --mode auto") == []
    assert text(cells.run("%%axe one -q\nhello")).startswith("a: hello")
    again = "get_ipython().run_cell('%%axe one -q\\nhi', cell_id='x');"
    assert text(cells.run(again)).startswith("b: hi")
    assert text(cells.run(again)).startswith("b: hi")
    assert text(cells.run("server.__exit__(None, None, None)\n%axe cassette --status")) == (
        "one.axe (auto): 1 replayed, 2 missed, 2 recorded; 0 records not used\n"
    )
    assert cells.run("%axe cassette one.axe") == []
    assert text(cells.run("%%axe one -q\nhello")).startswith("a: hello")
    assert text(cells.run("%%axe one -q\nhi you")).strip().splitlines() == [
        "(no answer: openai/one · error)",
        "CassetteMiss: cassette one.axe has no answer for agent one at 0/1: its prompt changed: "
        '"hi" → "hi you"',
        "in agent one, turn 1",
        "record it with %axe cassette one.axe --mode auto, then run this again",
    ]
    assert text(cells.run("%axe cassette --prune")) == "1 record removed from one.axe\n"
    assert text(cells.run("%axe cassette --off")) == "no cassette is in use\n"
    assert text(cells.run("%axe cassette one.axe --mode often")).startswith(
        "UsageError: argument --mode: invalid choice: 'often' (choose from "
    )
