"""A script says the same in process and, through the real providers, over each protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ProviderError, Request, Response, RunResult, call
from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import provider_for
from axe_nb.events import Event, RunFinished, TextDelta
from axe_nb.messages import Delta, Message, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.scripting.rules import Fault, functions
from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of

RULES = """
[[rule]]
when = "^ask"
text = "Both {turn}."
calls = [
  { tool = "look", arguments = { at = "a {last} \\u00e9\\u2028", n = 2, deep = { x = [1.5, true] } } },
  { tool = "look" },
]

[[rule]]
when = { turn = 2 }
text = "{results}|{last}"

[[rule]]
when = "usage"
text = "counted"
usage = { input_tokens = 1234, output_tokens = 5 }

[[rule]]
when = ".."
text = "You said: {last}"
"""  # noqa: E501

TOOLS = (
    ToolSpec(
        "look",
        "Looks “around”.",
        {
            "at": ToolParameter("string", "Where.", required=True),
            "n": ToolParameter("integer", "How often.", schema={"minimum": 1, "enum": [1, 2]}),
            "deep": ToolParameter("object"),
        },
    ),
)

HISTORY = (
    Message("user", "ask them"),
    Message("assistant", "Both 1.", (ToolCall("c1", "look", {"at": "ö"}), ToolCall("c2", "look"))),
    Message("tool", tool_results=(ToolResult("c1", "one", name="look"),
                                  ToolResult("c2", "Error: two", is_error=True, name="look"))),
)  # fmt: skip

REQUESTS = {
    "text": Request("lead", (Message("user", "hello – «ä»\u2028{last}"),)),
    "calls": Request("lead", (Message("user", "ask"),), "Be brief.", TOOLS),
    "results": Request("lead", HISTORY, "Be brief.", TOOLS),
    "text after results": Request("lead", (*HISTORY, Message("user", "now sum up")), tools=TOOLS),
    "two messages": Request("lead", (Message("user", "one"), Message("user", "two"))),
    "later": Request("lead", (*HISTORY, Message("assistant", "So."), Message("user", "ask more"))),
    "usage": Request("lead", (Message("user", "usage"),)),
    "cut": Request("cut", (Message("user", "length"),)),
    "cut in other words": Request("cut", (Message("user", "max_tokens"),)),
}

MEANING = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}

TEXT = "Twenty-seven “keys”,\u2028\U0001f600 no less."

EVERYWHERE = ("script", *PROTOCOLS)


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "lead.toml").write_text(RULES, "utf-8")
    axe_nb.script("cut")(lambda request: Response("cut of", (), request.last))
    yield
    functions.clear()


def served(protocol: Any) -> AbstractContextManager[Any]:
    return nullcontext() if protocol == "script" else script_server(protocol)


def send(provider: str, request: Request) -> Response:
    async def sent() -> Response:
        found = provider_for(Config.load())(provider_of(provider), request.model)
        return await found.send(replace(request, agent="lead"))

    return asyncio.run(sent())


def failure(provider: str, request: Request) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        send(provider, request)
    return raised.value


def said(response: Response) -> Any:
    return (
        response.content,
        [(call.name, dict(call.arguments), call.raw) for call in response.tool_calls],
        response.usage,
        MEANING.get(response.stop_reason, response.stop_reason),
        response.is_cut,
    )


@pytest.mark.req(
    "A-1.3", "A-1.6", "A-1.9", "A-2.4", "A-2.5", "A-3.3", "A-3.5", "A-4.3", "A-4.6", "A-8.8",
    "A-E1.3", "A-E1.4", "A-E1.6", "D-30", "D-31",
)  # fmt: skip
@pytest.mark.parametrize(
    ("case", "protocol"),
    [case for case in product(REQUESTS, PROTOCOLS) if case != ("two messages", "openai")],
)
def test_an_answer_is_the_same_in_process_and_over_the_wire(protocol: Protocol, case: str) -> None:
    request = REQUESTS[case]
    in_process = send("script", request)
    with script_server(protocol) as server:
        over_the_wire = send(protocol, request)
    assert said(over_the_wire) == said(in_process)
    assert len(server.requests) == 1


@pytest.mark.req("A-E1.5")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_functions_answer_is_the_same_too(protocol: Protocol) -> None:
    seen: list[Any] = []

    @axe_nb.script("lead")
    def answer(request: Request) -> Any:
        texts = [[r.content for r in m.tool_results] or m.content for m in request.messages]
        names = [(c.name, dict(c.arguments)) for m in request.messages for c in m.tool_calls]
        schemas = [tool.input_schema() for tool in request.tools]
        seen.append((texts, names, schemas, request.system, request.turn, request.agent))
        return [axe_nb.call("look", at=request.last), axe_nb.call("look", n=None)]

    request = REQUESTS["results"]
    in_process = send("script", request)
    with script_server(protocol):
        over_the_wire = send(protocol, request)
    assert said(over_the_wire) == said(in_process)
    assert seen[0] == seen[1]


FAULTS = {
    'status = 400\nerror = "bad"': "bad_request: bad",
    'status = 401\nerror = "who are you"': "auth: who are you",
    "status = 403": "",
    'status = 404\nerror = "no such"': "bad_request: no such",
    "status = 408": "",
    'status = 429\nerror = "slow down"': "rate_limit: slow down",
    'status = 500\nerror = "two\\nlines"': "server: two lines",
    "status = 503": "server: ",
    'status = 529\nerror = "busy"': "overloaded: busy",
}


@pytest.mark.req("B-5", "A-E7.4", "A-E7.5")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_is_the_same_in_process_and_over_the_wire(
    project: Path, protocol: Protocol, fault: str
) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text(f"[[rule]]\n{fault}", "utf-8")
    request = Request("bad", (Message("user", "go"),))
    in_process = failure("script", request)
    with script_server(protocol) as server:
        over_the_wire = failure(protocol, request)
    assert len(server.requests) == 1, "it is not retried here"
    assert str(in_process).startswith(FAULTS[fault])
    assert str(over_the_wire) == str(in_process)
    assert (over_the_wire.status, over_the_wire.retryable) == (
        in_process.status, in_process.retryable,
    )  # fmt: skip


@pytest.mark.req("B-5")
def test_no_reply_at_all_has_its_category(project: Path) -> None:
    for fault, told in (
        ("timeout", "timeout: no answer from script/bad in time"),
        ("refused", "server: connection refused: script/bad behaves as if no server were running"),
    ):
        script = project / "axe" / "scripts" / "bad.toml"
        script.write_text(f'[[rule]]\nerror = "{fault}"', "utf-8")
        request = Request("bad", (Message("user", "go"),))
        assert str(failure("script", request)) == told
    for protocol in PROTOCOLS:
        with script_server(protocol):
            assert failure(protocol, request).category == "server"


# ------------------------------------------------------------------------------- runs that stream


@axe_nb.tool
def look(at: str) -> str:
    """Looks."""
    return f"saw {at}"


def agent(protocol: str, **fields: Any) -> axe_nb.Agent:
    return axe_nb.Agent(
        name="lead", model=f"{provider_of(protocol)}/talks", tools=(look,), **fields
    )


def watch(one: axe_nb.Agent, **options: Any) -> tuple[RunResult, list[Event]]:
    async def collect() -> list[Event]:
        return [event async for event in axe_nb.stream(one, "go", **options)]

    seen = asyncio.run(collect())
    end = seen[-1]
    assert isinstance(end, RunFinished)
    return end.result, seen


def joined(seen: list[Event], kind: str, **of: Any) -> str:
    return "".join(
        event.text
        for event in seen
        if isinstance(event, TextDelta)
        and event.kind == kind
        and all(getattr(event, key) == value for key, value in of.items())
    )


def record(result: RunResult) -> Any:
    full = result.to_dict()
    del full["duration_ms"]
    return full, [(m.role, m.content, m.tool_calls, m.tool_results) for m in result.messages]


@pytest.mark.req("D-24")
@pytest.mark.parametrize("protocol", EVERYWHERE)
def test_all_parts_of_a_reply_arrive_and_the_record_is_that_of_whole_replies(protocol: str) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        if request.results:
            yield TEXT
            return
        yield Delta("Let me ", "reasoning")
        yield Delta("see. ", "reasoning")
        yield "I "
        yield "look."
        yield call("look", at="here")
        yield call("look", at="there")

    with served(protocol) as server:
        result, seen = watch(agent(protocol))
        whole, unseen = watch(agent(protocol), stream=False)
    if server:
        asked = [body.get("stream", False) for body in server.requests]
        assert asked == [True, True, False, False]
    assert joined(unseen, "text") == ""
    assert (result.status, result.text) == ("completed", TEXT)
    assert joined(seen, "reasoning") == "Let me see. "
    assert joined(seen, "text", turn=1) == "I look."
    assert joined(seen, "text", turn=2) == TEXT
    assert joined(seen, "arguments", call=0).replace(" ", "") == '{"at":"here"}'
    assert joined(seen, "arguments", call=1).replace(" ", "") == '{"at":"there"}'
    named = [e.name for e in seen if isinstance(e, TextDelta) and e.kind == "arguments" and e.name]
    assert set(named) == {"look"}
    assert record(result) == record(whole)


@pytest.mark.req("D-24", "D-31")
@pytest.mark.parametrize("protocol", EVERYWHERE)
@pytest.mark.parametrize("fault", [Fault("busy", 529), Fault("cut"), Fault("refused")])
def test_text_that_arrived_before_an_error_is_kept(protocol: str, fault: Fault) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield "Half of "
        yield "it"
        yield fault

    with served(protocol):
        result, seen = watch(agent(protocol))
    assert (result.status, result.text) == ("error", "Half of it")
    assert joined(seen, "text") == "Half of it"
    assert isinstance(result.cause, ProviderError)
    names_kind = protocol in ("script", "anthropic") and fault.status
    assert result.cause.category == ("overloaded" if names_kind else "server")
    if fault.message == "cut":
        in_process, _ = watch(agent("script"))
        assert result.error == in_process.error
        assert isinstance(in_process.cause, ProviderError)
        assert result.cause.hint == in_process.cause.hint
