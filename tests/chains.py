"""Runs of several turns over loopback, whose texts are counted."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import axe_nb
from axe_nb import Agent, Request, RunResult, call, script, script_server
from axe_nb.events import RunFinished
from axe_nb.scripting.wire import Protocol
from tests.protocols import provider_of

TEXT = "Three of the tests fail, since the server that they ask does not run today. "

TURNS = 10


def run_chain(protocol: Protocol, *, streams: bool) -> RunResult:
    @axe_nb.tool
    def look(what: str) -> str:
        return f"{what}: {TEXT * 5}"

    @script("chain")
    def chain(request: Request) -> Any:
        text = "".join(f"{request.turn}.{n} {TEXT}" for n in range(10))
        yield from re.findall(r"\S+ ", text)
        if request.turn < TURNS:
            yield call("look", what=f"turn {request.turn}")

    agent = Agent(
        name="chain", model=f"{provider_of(protocol)}/chain", system_prompt=TEXT, tools=("look",)
    )
    with script_server(protocol):
        if not streams:
            return axe_nb.run(agent, "Go", stream=False)

        async def collect() -> RunResult:
            async for event in axe_nb.stream(agent, "Go"):
                last = event
            assert isinstance(last, RunFinished)
            return last.result

        return asyncio.run(collect())


def count_text(result: RunResult) -> int:
    """The bytes of all that was said and answered."""
    texts = [result.exchanges[0].system, *(message.content for message in result.messages)]
    texts += [one.content for message in result.messages for one in message.tool_results]
    return sum(len(text.encode()) for text in texts)
