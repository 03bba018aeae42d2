"""What a model thought is kept in the history and in cassettes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, script_server
from axe_nb.messages import Delta
from axe_nb.scripting.wire import Protocol

SAID = "I count the towns."


@pytest.fixture(autouse=True)
def thinker() -> None:
    @axe_nb.script("thinker")
    def answer(request: Request) -> Iterator[object]:
        yield Delta(SAID, "reasoning")
        yield "Three."


def reasoning_of(result: RunResult) -> list[str]:
    return [one.response.reasoning for one in result.exchanges if one.response]


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "ollama"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_cassette_plays_it(protocol: Protocol, stream: bool, tmp_path: Path) -> None:
    agent = Agent("a", f"{protocol}/thinker")
    with script_server(protocol), axe_nb.cassette(tmp_path / "c.axe", mode="record"):
        ran = axe_nb.run(agent, "How many?", stream=stream, display=False)
    assert reasoning_of(ran) == [SAID]
    with axe_nb.cassette(tmp_path / "c.axe", mode="replay"):
        again = axe_nb.run(agent, "How many?", display=False)
    assert reasoning_of(again) == [SAID]
    ran.save(tmp_path / "r.axe")
    loaded = axe_nb.load(tmp_path / "r.axe")
    assert isinstance(loaded, RunResult)
    assert reasoning_of(loaded) == [SAID]


@pytest.mark.parametrize("protocol", ["", "anthropic"])
def test_the_history_has_it(protocol: Protocol, kept: Path) -> None:
    with script_server(protocol or "anthropic"):
        ran = axe_nb.run(Agent("a", f"{protocol or 'script'}/thinker"), "How many?", display=False)
    (row,) = axe_nb.history()
    loaded = axe_nb.load(row.id)
    assert isinstance(loaded, RunResult)
    assert reasoning_of(loaded) == reasoning_of(ran) == [SAID]
