"""Runs for the browser tests: models that wait until the test opens a gate, a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

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


def research(*, gated: bool = True, timeout: float = 0) -> Agent:
    """A lead that asks three agents at once; each waits at its gate before it answers."""

    def lead(request: Request) -> Response:
        if request.turn == 1:
            calls = tuple(call("call_agent", agent=a, task=t) for a, t in TASKS.items())
            return Response("I'll ask three agents.", calls, "tool_use", Usage(400, 112))
        return Response(ANSWER, (), "end_turn", Usage(900, 88))

    async def researcher(request: Request) -> Response:
        if request.turn == 1:
            words = {"pattern": "def _key", "path": "axe_nb/agents/agent.py"}
            return Response("", (call("grep", **words),), "tool_use", Usage(300, 302))
        if gated:
            await gate("researcher")
        keys = "\n".join(f"- key_{n} = {n}" for n in range(27))
        return Response(f"27 keys, 3 without a default:\n{keys}", (), "end", Usage(500, 102))

    async def counter(_: Request) -> Response:
        if gated:
            await gate("counter")
        return Response("184", (), "end_turn", Usage(300, 10))

    async def critic(_: Request) -> Response:
        await gate("critic" if gated else "never")
        return Response("none", (), "end_turn", Usage(100, 10))

    for name, model in {"researcher": researcher, "counter": counter, "critic": critic}.items():
        axe_nb.script(name)(model)
        tools = ("grep",) if name == "researcher" else ()
        axe_nb.define(Agent(name, f"script/{name}", tools=tools))
    axe_nb.script("lead")(lead)
    config = SubAgentsConfig(timeout=timeout)
    return Agent("lead", "script/lead", sub_agents=tuple(TASKS), sub_agents_config=config)


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

    def lead(request: Request) -> Response:
        if request.turn == 1:
            calls = tuple(call("call_agent", agent=a, task=f"Do the part of {a}") for a in names)
            return Response("", calls, "tool_use", Usage(400, 112))
        return Response("All is **done**.", (), "end_turn", Usage(900, 88))

    async def worker(request: Request) -> Response:
        number = names.index(request.agent)
        if number == 0:
            raise axe_nb.ProviderError("bad_request", "no such <b>model</b>")
        if number >= count - 2:
            await gate("crowd")
        return Response(f"part {number}\nand more", (), "end_turn", Usage(10, 10))

    axe_nb.script("lead")(lead)
    axe_nb.script("worker")(worker)
    for name in names:
        axe_nb.define(Agent(name, "script/worker"))
    return Agent("lead", "script/lead", sub_agents=tuple(names))


def editor(*texts: str) -> Agent:
    """A lead whose writer edits a file, with these words, one call a turn; another one waits."""

    def lead(request: Request) -> Response:
        if request.turn == 1:
            names = ("doc_writer", "counter")
            calls = tuple(call("call_agent", agent=a, task=f"Do your part, {a}") for a in names)
            return Response("", calls, "tool_use", Usage(400, 112))
        return Response("All is **done**.", (), "end_turn", Usage(900, 88))

    def doc_writer(request: Request) -> Response:
        if request.turn > len(texts):
            return Response("written", (), "end_turn", Usage(300, 20))
        old = "Tuesday: calm"
        words = {"path": "CHANGELOG.md", "old_text": old, "new_text": texts[request.turn - 1]}
        return Response("", (call("edit_file", **words),), "tool_use", Usage(300, 30))

    async def counter(_: Request) -> Response:
        await gate("counter")
        return Response("184", (), "end_turn", Usage(300, 10))

    Path("CHANGELOG.md").write_text("Monday: rain\nTuesday: calm\nWednesday: snow\n")
    for name, model in {"doc_writer": doc_writer, "counter": counter}.items():
        axe_nb.script(name)(model)
        tools = ("edit_file",) if name == "doc_writer" else ()
        axe_nb.define(Agent(name, f"script/{name}", tools=tools, mode="ask"))
    axe_nb.script("lead")(lead)
    config = SubAgentsConfig(ask="person")
    names = ("doc_writer", "counter")
    return Agent("lead", "script/lead", sub_agents=names, sub_agents_config=config)


def spender() -> Agent:
    """A lead whose agent pays four cents for each of its two turns."""

    def spends(request: Request) -> Response:
        paid = Usage(300, 30).at_cost(0.04)
        if request.turn > 1:
            return Response("bought", (), "end_turn", paid)
        return Response("", (call("list_directory", path="."),), "tool_use", paid)

    def lead(request: Request) -> Response:
        calls = (call("call_agent", agent="spender", task="Buy it"),) if request.turn == 1 else ()
        return Response("Bought.", calls, "tool_use" if calls else "end_turn", Usage(400, 112))

    axe_nb.script("spender")(spends)
    axe_nb.script("lead")(lead)
    axe_nb.define(Agent("spender", "script/spender", tools=("list_directory",)))
    return Agent("lead", "script/lead", sub_agents=("spender",))


def cut_off() -> Agent:
    """An agent whose first attempt breaks off at gate `cut`.

    The second one begins at gate `again`, and ends at `end`.
    """
    attempts = []

    async def writes(_: Request) -> AsyncIterator[str | Delta]:
        attempts.append(1)
        if len(attempts) == 1:
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
