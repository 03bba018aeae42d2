"""What a model thought: live as the last words of its row, afterwards in a quiet fold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.messages import Delta, Request, call
from axe_nb.views.html import twin

SAID = "First the <b>towns</b>, then the rivers.\nThere are three."


@pytest.fixture
def result() -> RunResult:
    @axe_nb.tool
    def look() -> str:
        return "a map"

    @axe_nb.script("thinker")
    def thinker(request: Request) -> Iterator[object]:
        yield Delta(SAID, "reasoning")
        yield "Three." if request.results else call("look")

    return axe_nb.run(Agent("a", "script/thinker", tools=[look]), "How many?", display=False)


def test_it_is_a_fold_in_the_saved_tree_and_not_in_the_text(result: RunResult) -> None:
    bundle = twin(result)
    html = bundle["text/html"]
    assert html.count(">thought</small> </summary><pre") == 2
    assert "First the &lt;b&gt;towns&lt;/b&gt;" in html
    assert "thought" not in bundle["text/plain"]
    assert "towns" not in bundle["text/plain"]
    assert bundle == twin(RunResult.from_dict(result.to_dict(full=True)))


def test_a_long_one_is_cut_with_a_pointer_to_the_whole(result: RunResult) -> None:
    long = "word " * 10_000

    @axe_nb.script("thinker")
    def thinker(request: Request) -> Iterator[object]:
        yield Delta(long, "reasoning")
        yield "Three."

    ran = axe_nb.run(Agent("a", "script/thinker"), "How many?", display=False)
    html = twin(ran, name="r")["text/html"]
    assert len(html) < 5000
    assert "r.exchanges[0].response.reasoning" in html
    assert ran.exchanges[0].response
    assert ran.exchanges[0].response.reasoning == long
