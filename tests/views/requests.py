"""Runs whose requests are looked into."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

import axe_nb
from axe_nb import Agent, ProviderError, Request, Retry, RunResult, call, script, tool
from axe_nb.events import RunFinished
from axe_nb.messages import Delta
from tests.protocols import provider_of

LONG = "You lead a group of guides, each of whom knows one town.\n" * 100
"""Long enough for Anthropic's prompt cache."""


@tool(read_only=True)
def look_up(town: str) -> str:
    """Looks a town up."""
    return f'{town}: "Größe"\n\tunknown '


def define_tree(protocol: str, **fields: Any) -> None:
    """A lead that thinks, uses a tool, asks a guide, and has a copy of itself explore."""
    fields = {"system_prompt": LONG, "params": {"temperature": 0.5, "max_tokens": 900}, **fields}
    axe_nb.define(
        Agent(
            name="lead", model=f"{provider_of(protocol)}/lead", sub_agents=("guide",),
            tools=(look_up, "subagent"), retry=Retry(max_retries=2), **fields,
        )
    )  # fmt: skip
    axe_nb.define(
        Agent(name="guide", model=f"{provider_of(protocol)}/guide", system_prompt="You know Rome.")
    )
    failures = iter([ProviderError("rate_limit", "wait", status=429, retry_after=0.01)])

    @script("lead")
    async def lead(request: Request) -> AsyncIterator[Any]:
        if "Explore" in str(request.messages[0].content):
            yield "explored" if request.turn > 1 else call("look_up", town="Riga")
        elif request.turn == 1:
            yield Delta("Whom shall I ask?", "reasoning")
            yield "Let me ask."
            yield call("look_up", town="Bonn")
            yield call("call_agent", agent="guide", task="About Rome")
        elif request.turn == 2:
            for error in failures:
                raise error
            yield call("subagent", label="explore", task_prompt="Explore")
        else:
            yield request.last

    script("guide")(lambda request: f"{request.last}: a fine town")


async def _watch(*arguments: Any, **options: Any) -> RunResult:
    async with aclosing(axe_nb.stream(*arguments, **options)) as events:
        return [e.result async for e in events if isinstance(e, RunFinished)][-1]


def run(*arguments: Any, streams: bool = False, **options: Any) -> RunResult:
    """A run whose replies stream, or arrive whole."""
    if streams:
        return asyncio.run(_watch(*arguments, **options))
    return axe_nb.run(*arguments, **options)


def as_lines(bodies: Iterable[Any]) -> list[str]:
    """Bodies in an order of their own; the order of their keys counts."""
    return sorted(json.dumps(body) for body in bodies)
