"""Runs for the browser tests: models that wait until the test opens a gate, a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, Usage, call
from axe_nb.agents.agent_tables import Retry, SubAgentsConfig
from axe_nb.messages import Delta

ANSWER = "The loader accepts **27 keys**; 3 are required. It costs $5 or $6."
TASKS = {
    "researcher": "List every TOML key that the loader accepts, with its default",
    "counter": "How many tests name a requirement id?",
    "critic": "Find contradictions between README and docs",
}


async def gate(name: str) -> None:
    """Waits until the test opens it."""
    while not Path(name).exists():  # noqa: ASYNC110, ASYNC240  # the test is another process
        await asyncio.sleep(0.02)


def team(
    tasks: Mapping[str, str], models: Mapping[str, Callable[..., Any]], last: str, **config: Any
) -> Agent:
    """A lead that gives the tasks to agents with these models at once, and then says the last."""

    def lead(request: Request) -> Response:
        if request.turn == 1:
            calls = tuple(call("call_agent", agent=a, task=t) for a, t in tasks.items())
            return Response("I'll ask three agents.", calls, "tool_use", Usage(400, 112))
        return Response(last, (), "end_turn", Usage(900, 88))

    axe_nb.script("lead")(lead)
    tools = {"researcher": ("grep",), "doc_writer": ("edit_file",), "spender": ("list_dir",)}
    for name in tasks:
        axe_nb.script(name)(models[name])
        axe_nb.define(Agent(name, f"script/{name}", tools=tools.get(name, ()), mode="ask"))
    deep = SubAgentsConfig(**config)
    return Agent("lead", "script/lead", sub_agents=tuple(tasks), sub_agents_config=deep)


async def counter(_: Request) -> Response:
    await gate("counter")
    return Response("184", (), "end_turn", Usage(300, 10))


def research(*, gated: bool = True, timeout: float = 0) -> Agent:
    """A lead that asks three agents at once; each waits at its gate before it answers."""

    async def researcher(request: Request) -> Response:
        if request.turn == 1:
            words = {"pattern": "def _key", "path": "axe_nb/agents/agent.py"}
            return Response("", (call("grep", **words),), "tool_use", Usage(300, 302))
        if gated:
            await gate("researcher")
        keys = "\n".join(f"- key_{n} = {n}" for n in range(27))
        return Response(f"27 keys, 3 without a default:\n{keys}", (), "end", Usage(500, 102))

    async def critic(_: Request) -> Response:
        await gate("critic" if gated else "never")
        return Response("none", (), "end_turn", Usage(100, 10))

    models = {
        "researcher": researcher, "critic": critic,
        "counter": counter if gated else lambda request: "184",
    }  # fmt: skip
    return team(TASKS, models, ANSWER, timeout=timeout)


def chain(turns: int, pause: float = 0) -> Agent:
    """A lead that asks 20 children in each turn.

    It waits at gate `n` before the n-th turn; with a pause, that long, and at gate `end` only.
    """

    async def lead(request: Request) -> Response:
        if pause:
            await asyncio.sleep(pause)
        else:
            await gate(str(request.turn))
        if request.turn > turns:
            await gate("end" if pause else str(request.turn))
            return Response("done")
        calls = tuple(call("call_agent", agent="child", task=f"part {n}") for n in range(20))
        return Response("", calls)

    axe_nb.script("lead")(lead)
    axe_nb.script("child")(lambda request: f"did {request.last}")
    axe_nb.define(Agent("child", "script/child"))
    return Agent("lead", "script/lead", sub_agents=("child",))


def writer() -> Agent:
    """An agent that thinks up to gate `text`, writes a part of its answer, and ends at `end`."""

    async def writes(_: Request) -> AsyncIterator[str | Delta]:
        yield Delta("Keys and defaults, then. ", "reasoning")
        yield Delta("<b>Who</b> reads them?", "reasoning")
        await gate("text")
        yield "## Keys\n\n|a|\n|-|\n|1|\n\n- b\n\n```\nc\n```\n\nThe loader accepts "
        yield "<i>27</i> keys, "
        await gate("end")
        yield "**3 of them** required.\n"

    axe_nb.script("writer")(writes)
    return Agent("writer", "script/writer")


def crowd(count: int = 24) -> Agent:
    """A lead with many agents: the first fails, the last two wait at the gate `crowd`."""
    names = [f"worker_{n}" for n in range(count)]

    async def worker(request: Request) -> Response:
        number = names.index(request.agent)
        if number == 0:
            raise axe_nb.ProviderError("bad_request", "no such <b>model</b>")
        if number >= count - 2:
            await gate("crowd")
        return Response(f"part {number}\nand more", (), "end_turn", Usage(10, 10))

    tasks = {name: f"Do the part of {name}" for name in names}
    return team(tasks, dict.fromkeys(names, worker), "All is **done**.")


def editor(*texts: str) -> Agent:
    """A lead whose writer edits a file, with these words, one call a turn; another one waits."""

    def doc_writer(request: Request) -> Response:
        if request.turn > len(texts):
            return Response("written", (), "end_turn", Usage(300, 20))
        old = "Tuesday: calm"
        words = {"path": "CHANGELOG.md", "old_text": old, "new_text": texts[request.turn - 1]}
        return Response("", (call("edit_file", **words),), "tool_use", Usage(300, 30))

    Path("CHANGELOG.md").write_text("Monday: rain\nTuesday: calm\nWednesday: snow\n")
    models = {"doc_writer": doc_writer, "counter": counter}
    tasks = {name: f"Do your part, {name}" for name in models}
    return team(tasks, models, "All is **done**.", ask="person")


def spender() -> Agent:
    """A lead whose agent pays four cents for each of its two turns."""

    def spends(request: Request) -> Response:
        paid = Usage(300, 30).at_cost(0.04)
        if request.turn > 1:
            return Response("bought", (), "end_turn", paid)
        return Response("", (call("list_dir", path="."),), "tool_use", paid)

    return team({"spender": "Buy it"}, {"spender": spends}, "Bought.")


def cut_off() -> Agent:
    """An agent whose first attempt breaks off at gate `cut`.

    The second one begins at gate `again`, and ends at `end`.
    """

    async def writes(request: Request) -> AsyncIterator[str | Delta]:
        if request.attempt == 1:
            yield Delta("A first thought.", "reasoning")
            yield "# First\n\n|a|\n|-|\n|1|\n\n```\nnot closed <img src=x onerror=alert(1)>"
            await gate("cut")
            raise axe_nb.ProviderError("overloaded", "busy")
        await gate("again")
        yield "The *second* one"
        await gate("end")
        yield " is whole."

    axe_nb.script("writer")(writes)
    return Agent("writer", "script/writer", retry=Retry(max_retries=1))
