"""What a model thought is kept in the history and in cassettes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, Request, script_server
from axe_nb.messages import Delta
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of

SAID = "I count the towns."


@pytest.fixture(autouse=True)
def thinker() -> None:
    @axe_nb.script("thinker")
    def answer(request: Request) -> Iterator[object]:
        yield Delta(SAID, "reasoning")
        yield "Three."


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_cassette_a_file_and_the_history_have_it(
    protocol: Protocol, stream: bool, kept: Path, tmp_path: Path
) -> None:
    agent = Agent("a", f"{provider_of(protocol)}/thinker")
    with script_server(protocol), axe_nb.cassette(tmp_path / "c.axe", mode="record"):
        ran = axe_nb.run(agent, "How many?", stream=stream, display=False)
    with axe_nb.cassette(tmp_path / "c.axe", mode="replay"):
        again = axe_nb.run(agent, "How many?", display=False)
    ran.save(tmp_path / "r.axe")
    for result in (ran, again, axe_nb.load(tmp_path / "r.axe"), axe_nb.load(1)):
        assert [one.response and one.response.reasoning for one in result.exchanges] == [SAID]
