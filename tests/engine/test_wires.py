"""The same tree in process and over each protocol, through real sockets: only the words of a
protocol differ."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from axe_nb import Agent, ProviderError, Request, Response, RunResult, Usage, call, script_server
from axe_nb.messages import close_open_calls
from axe_nb.scripting.server import ScriptServer
from axe_nb.scripting.wire import Protocol
from axe_nb.tools.tool import ToolContext
from axe_nb.views.outline import as_text
from tests.engine.in_process import (
    Stage,
    agent,
    ask,
    check_events,
    check_history,
    exit_code,
    heard,
    lead,
    over,
    play,
    said,
    stage,
    texts,
    tool,
)
from tests.protocols import PROTOCOLS, provider_of
from tests.providers import sdk
from tests.waiting import eventually

connections: list[Any] = []
"""Addresses that this process has connected to."""

sys.addaudithook(
    lambda name, args: connections.append(args[1]) if name == "socket.connect" else None
)

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def report(request: Request) -> Response:
    return Response("\n".join(r.content for r in request.results), (), "stop", Usage(300, 30))


def fails(_: Request) -> Any:
    raise ProviderError("rate_limit", "slow down, please")


async def look(_: ToolContext) -> str:
    return 'looked\nat "it"'


def tree() -> tuple[Agent, ...]:
    calls = tuple(ask(name, f"look at {name}", context="cöntext 🌍") for name in "abc")
    boss = said(Response("Let me ask.", calls, "tool_calls", Usage(100, 20)), report)
    steps = [ask("leaf", "deep"), call("look"), call("nope")]
    middle = said(steps, lambda request: f"b heard {request.last}")
    return (
        agent("boss", boss, sub_agents=("a", "b", "c"), system_prompt="You lead."),
        agent("a", lambda r: f"a says: {r.last}", params={"max_tokens": 50}),
        agent("b", middle, sub_agents=("leaf",), tools=("look",), system_prompt="In between"),
        agent("c", fails),
        agent("leaf", "I am a leaf — ein Blatt", params={"temperature": 0}),
    )


LOOK = tool("look", look)


def shape(result: RunResult) -> Any:
    """The result without times and a protocol's own words."""
    text = re.sub(r"(anthropic|openai|ollama)/", "script/", json.dumps(result.to_dict()))
    text = re.sub(r'"duration_ms": \d+', '"duration_ms": 0', text)
    return json.loads(re.sub(r'"stop_reason": "\w*"', '"stop_reason": ""', text))


@every_protocol
@pytest.mark.req("A-D2", "A-1.9", "A-C9", "D-1", "A-8.8", "A-C2", "A-T1", "P-1", "P-7",
                 "A-D1", "A-7.3-14", "A-8.1", "D-34")  # fmt: skip
def test_a_tree_is_the_same_over_every_protocol(protocol: Protocol) -> None:
    here = play(*tree(), tools=(LOOK,))
    assert here.text == (
        "a says: Task: look at a\n\nContext:\ncöntext 🌍\n"
        'b heard I am a leaf — ein Blatt\n\nlooked\nat "it"\n\nUnknown tool: "nope"\n'
        'Error: sub-agent "c" failed - rate_limit: slow down, please. '
        "You may retry or proceed without this result."
    )
    assert here.children[0].metadata == {"task_id": "0.1", "token_estimate": "18", "depth": "1"}
    with script_server(protocol) as server:
        played = stage(*(over(protocol, one) for one in tree()))
        there = played.play(tools=(LOOK,))
    assert len(server.requests) == 7
    assert all(body["stream"] for body in server.requests)
    assert shape(there) == shape(here)
    told = as_text(there).replace("429 rate limit", "rate limit")
    assert told.replace(f"{provider_of(protocol)}/", "script/") == as_text(here)
    reasons = {"anthropic": ("tool_use", "end_turn"), "ollama": ("tool_calls", "stop")}
    assert [t.stop_reason for t in there.log] == [*reasons.get(protocol, ("tool_calls", "stop"))]
    for run in there.walk():
        check_history(run.messages)
    check_events(played.events, there)


@every_protocol
@pytest.mark.req("D-8", "A-11.2", "A-E5.6", "A-C7", "D-32", "D-2", "A-13.2")
def test_cancelling_eight_children_aborts_their_requests_and_keeps_what_was_done(
    protocol: Protocol,
) -> None:
    async def hang(_: Request) -> str:
        await asyncio.sleep(30)
        return "never"

    async def interrupting(played: Stage, server: ScriptServer) -> float:
        running = asyncio.create_task(played.ask(tools=(LOOK,)))
        async with asyncio.timeout(60):
            while len(server.requests) < 1 + 8 + 8:  # noqa: ASYNC110  # all in their second turn
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            assert server.open_requests == 8
        began = time.perf_counter()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.perf_counter() - began

    boss = replace(lead(*[ask("w", f"t{n}") for n in range(8)], then="went on"), name="lead")
    with script_server(protocol) as server:
        worker_ = agent("w", said(call("look"), hang), tools=("look",))
        played = stage(over(protocol, boss), over(protocol, worker_))
        took = asyncio.run(interrupting(played, server))
        assert eventually(lambda: server.open_requests == 0)
        assert server.aborted == 8
        result = played.session.last
        assert result is not None
        assert took < 20, "the requests would take 30 s"
        assert {run.status for run in result.walk()} == {"cancelled"}
        assert [c.turns for c in result.children] == [1] * 8
        assert [texts(c) for c in result.children] == [['looked\nat "it"']] * 8
        assert (result.turns, exit_code(result), result.ok) == (1, 130, False)
        check_events(played.events, result)
        again = asyncio.run(played.ask("go on", continue_from=result, tools=(LOOK,)))
    assert (again.status, again.text) == ("completed", "went on")
    check_history(again.messages)
    assert [r.content for r in again.messages[2].tool_results] == [
        "Error: interrupted before this call had a result."
    ] * 8


FAULTS = {
    "401": ProviderError("auth", "who?"),
    "429": ProviderError("rate_limit", "slow down", retry_after=7),
    "529": ProviderError("overloaded", "busy"),
    "500": ProviderError("server", "boom"),
    "crash": RuntimeError("crash"),
}
"""Task → what the child's model raises."""

WAYS = {
    "401": "auth: who?", "429": "rate_limit: slow down", "529": "overloaded: busy",
    "500": "server: boom", "crash": "crash", "refused": "connection refused",
    "late": "timeout after 60s", "unknown": "agent config not found: ghost",
    "stranger": "is not in this agent's sub_agents list", "empty": '"task" argument is required',
    "turns": "agent exceeded maximum conversation turns (50)",
}  # fmt: skip
"""A way for a child to fail → what its parent is told."""

CALLS = {
    "unknown": ask("ghost"), "empty": ask("child", " "), "refused": ask("refused"),
    "late": ask("late"), "stranger": call("call_agent", agent="stranger", task="x"),
}  # fmt: skip


@every_protocol
@pytest.mark.req("A-13.1", "A-13.2", "A-11.3", "A-11.4", "A-E5.4", "A-E5.5", "A-E7.7", "A-XN",
                 "D-7", "P-8")  # fmt: skip
def test_of_200_children_a_third_fail_each_in_its_own_way(protocol: Protocol, project: Any) -> None:
    """Over sockets; every call has its one result, in call order, and the parent ends."""
    (project / "axe/scripts").mkdir()
    (project / "axe/scripts/late.toml").write_text(
        'clock = "virtual"\n[[rule]]\ntext = "late"\ndelay = 3600'
    )

    def model(request: Request) -> Any:
        task = request.messages[0].content.removeprefix("Task: ")
        if task in FAULTS:
            raise FAULTS[task]
        return call("call_agent", agent="child", task="") if task == "turns" else f"did {task}"

    ways = [*WAYS] * 7
    tasks = [f"t{number}" if number % 3 else ways[number // 3] for number in range(200)]
    calls = (CALLS.get(task) or ask("child", task) for task in tasks)
    child = agent("child", model, sub_agents=("child",))
    boss = lead(*calls, then="survived", timeout=60)
    boss = replace(boss, sub_agents=("child", "ghost", "refused", "late"))
    other = "ollama" if provider_of(protocol) == "openai" else "openai"
    with script_server(protocol) as server:
        played = stage(
            over(protocol, boss), over(protocol, child),
            Agent("refused", f"{other}/x"),
            Agent("late", "script/late"),
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(f"AXE_{other.upper()}_BASE_URL", "http://127.0.0.1:1")
            patch.setenv(f"{other.upper()}_API_KEY", "k")
            result = played.play()
        assert eventually(lambda: server.open_requests == 0)
    assert (result.status, result.text, exit_code(result)) == ("completed", "survived", 0)
    told = heard(result)
    assert [r.call_id for r in told] == [c.id for c in result.log[0].calls]
    assert len(told) == 200
    for task, answer in zip(tasks, told, strict=True):
        assert answer.is_error == (task in WAYS), answer
        assert WAYS.get(task, f"did {task}") in answer.content
    for run in result.walk():
        check_history(close_open_calls(run.messages))
    check_events(played.events, result)


@pytest.mark.req("A-7.3-9", "A-7.3-10", "A-D4", "A-7.3-12")
def test_each_agent_speaks_to_the_provider_of_its_own_model(project: Any, tmp_path: Any) -> None:
    with script_server("anthropic") as one, script_server("ollama") as other:
        boss = over("anthropic", lead(ask("child", context="x")))
        child = over("ollama", agent("child", "hi", params={"temperature": 0.5}))
        boss = replace(boss, params={"max_tokens": 99})
        assert texts(play(boss, child)) == ["hi"]
    assert [body["model"] for body in one.requests] == ["lead", "lead"]
    assert [body["max_tokens"] for body in one.requests] == [99, 99]
    [body] = other.requests
    assert (body["model"], body["options"]) == ("child", {"temperature": 0.5})
    assert [m["content"] for m in body["messages"]] == ["Task: work\n\nContext:\nx"]


@pytest.mark.req("D-25")
def test_the_whole_tree_shares_its_connections() -> None:
    connections.clear()  # an earlier server may have had the same port
    with script_server("openai") as server:
        boss, one = lead(*[ask("one")] * 5, parallel=False), agent("one", "x")
        assert play(over("openai", boss), over("openai", one)).ok
        assert len(server.requests) == 7
    port = int(server.base_url.rpartition(":")[2])
    assert connections.count(("127.0.0.1", port)) == 1


NO_CALL = {"anthropic": {"type": "none"}, "openai": "none", "responses": "none"}


@every_protocol
@pytest.mark.req("D-17", "A-2.3")
def test_the_summary_of_a_subagent_offers_no_tool(protocol: Protocol) -> None:
    """Servers want the tools of the calls in history, and are told to use none; not Ollama's."""

    def model(request: Request) -> Any:
        if "Summarize" in request.last:
            return Response("" if request.tools else "summary", (call("look"),))
        if request.turn == 1 and request.last == "go":
            return call("subagent", label="scout", task_prompt="look around")
        return call("look") if request.turn == 1 else f"heard {request.last}"

    with script_server(protocol) as server:
        one = over(protocol, agent("caller", model, tools=("subagent",)))
        result = play(one, tools=(LOOK, "subagent"))
    assert result.text == "heard summary"
    first, *_, closing, _ = server.requests
    key = "input" if protocol == "responses" else "messages"
    assert "Summarize" in json.dumps(closing[key][-1])
    if protocol == "ollama":
        assert not {"tools", "tool_choice"} & closing.keys()
    else:
        assert closing["tools"] == first["tools"]
        assert closing["tool_choice"] == NO_CALL[protocol]
    for body in server.requests:
        sdk.takes(protocol, json.loads(json.dumps(body)))


@every_protocol
@pytest.mark.req("D-17")
def test_a_conversation_goes_on_after_its_tools_were_removed(protocol: Protocol) -> None:
    def model(request: Request) -> Any:
        return call("look") if request.tools and request.turn == 1 else "done"

    with script_server(protocol) as server:
        with_tools = stage(over(protocol, agent("one", model, tools=("look",))))
        first = with_tools.play(tools=(LOOK,))
        without = stage(over(protocol, agent("one", model)))
        assert without.play("and then?", continue_from=first).text == "done"
    last = server.requests[-1]
    sdk.takes(protocol, json.loads(json.dumps(last)))
    assert last.get("tool_choice") == NO_CALL.get(protocol)
