"""Trees whose anonymous children share their caller's model: one script plays all of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import axe_nb
from axe_nb import Agent, Request, RunResult, ToolCall
from axe_nb.tools.tool import Effect, Tool, ToolContext
from tests.engine.in_process import heard, said, stage

Part = Callable[[Request], Any]

SECONDS = re.compile(r"\d+\.\ds$", re.MULTILINE)
"""Matches the duration in a report."""

_names = itertools.count()


def results(request: Request) -> str:
    """A reply: what the calls of the turn before came to."""
    return request.last


def boss(parts: Mapping[str, Part], *calls: ToolCall, **fields: Any) -> Agent:
    """An agent `lead` that makes the calls, then says their results.

    The parts play its children: name → part; "" = whoever has none.
    """
    parts = {"lead": said(calls, results) if calls else said("done"), "": said("done"), **parts}

    def model(request: Request) -> Any:
        return parts.get(request.agent, parts[""])(request)

    name = f"troupe{next(_names)}"
    axe_nb.script(name)(model)
    return Agent("lead", f"script/{name}", **fields)


def play(
    parts: Mapping[str, Part], *calls: ToolCall, mine: Sequence[Tool] = (), **fields: Any
) -> RunResult:
    """What the boss comes to; `mine` are tools that it has beside those of its `tools`."""
    lead = boss(parts, *calls, **fields)
    return stage(lead).play(tools=(*mine, *lead.tools))


def told(result: RunResult) -> str:
    """What the first call of the first turn came to."""
    return heard(result)[0].content


def recorded(log: list[Request], part: Part) -> Part:
    def recording(request: Request) -> Any:
        log.append(request)
        return part(request)

    return recording


def tool(
    name: str, effect: Effect = "user", fn: Callable[[ToolContext], Any] | None = None
) -> Tool:
    """A tool; without a function it says that it was used."""

    async def run(ctx: ToolContext, _: Mapping[str, Any]) -> Any:
        return await fn(ctx) if fn else f"{name} was used"

    return Tool(name, f"The tool {name}.", {}, run, effect)


def offered(request: Request) -> list[str]:
    return [spec.name for spec in request.tools]
