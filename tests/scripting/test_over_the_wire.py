"""A script says the same in process and, through the real providers, over each protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ProviderError, Request, Response
from axe_nb.agents.config import Config
from axe_nb.engine.make_provider import make
from axe_nb.messages import CallIds, Message, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.scripting.lookup import functions
from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.waiting import eventually

RULES = """
[[rule]]
when = "^cut"
text = "cut of"
stop_reason = "length"

[[rule]]
when = "^stopped"
text = "cut of"
stop_reason = "max_tokens"

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
    "cut": Request("lead", (Message("user", "cut"),)),
    "cut in other words": Request("lead", (Message("user", "stopped"),)),
}

MEANING = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
}


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "lead.toml").write_text(RULES, "utf-8")
    yield
    functions.clear()


def send(provider: str, request: Request) -> Response:
    """The answer as a run keeps it; a protocol means its provider."""

    async def sent() -> Response:
        return await make(provider_of(provider), Config.load()).send(replace(request, agent="lead"))

    return asyncio.run(sent())


def failure(provider: str, request: Request) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        send(provider, request)
    return raised.value


def said(response: Response) -> Any:
    """What means something in an answer: ids and words differ between the protocols."""
    return (
        response.content,
        [(call.name, dict(call.arguments), call.raw) for call in response.tool_calls],
        response.usage,
        MEANING.get(response.stop_reason, response.stop_reason),
        response.is_cut,
    )


@pytest.mark.req("A-1.9")
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


def test_two_messages_of_the_user_are_one_over_openais_protocol() -> None:
    """Its servers may refuse two of them in a row, so that a script is sent their texts as one."""
    with script_server("openai"):
        assert send("openai", REQUESTS["two messages"]).content == "You said: one\n\ntwo"


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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_call_of_a_conversation_has_an_id_of_its_own(protocol: Protocol) -> None:
    axe_nb.script("lead")(lambda request: [axe_nb.call("look"), axe_nb.call("look")])
    ids, messages = CallIds(), [Message("user", "go")]
    with script_server(protocol):
        for _ in range(3):
            response = send(protocol, Request("lead", tuple(messages), tools=TOOLS))
            calls = ids.settle(protocol, response.tool_calls)
            if protocol != "ollama":
                assert calls == response.tool_calls, "the server's own ids are unique"
            results = tuple(ToolResult(call.id, "x", name="look") for call in calls)
            messages += [Message("assistant", "", calls), Message("tool", tool_results=results)]
    assert len({call.id for message in messages for call in message.tool_calls}) == 6


FAULTS = [
    'status = 400\nerror = "bad"', 'status = 401\nerror = "who are you"', "status = 403",
    'status = 404\nerror = "no such"', "status = 408", 'status = 429\nerror = "slow down"',
    'status = 500\nerror = "two\\nlines"', "status = 503", 'status = 529\nerror = "busy"',
]  # fmt: skip


@pytest.mark.req("B-5")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_is_the_same_in_process_and_over_the_wire(
    project: Path, protocol: Protocol, fault: str
) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text(f"[[rule]]\n{fault}", "utf-8")
    request = Request("bad", (Message("user", "go"),))
    in_process = failure("script", request)
    with script_server(protocol):
        over_the_wire = failure(protocol, request)
    assert str(over_the_wire) == str(in_process)
    assert (over_the_wire.status, over_the_wire.retryable) == (
        in_process.status, in_process.retryable,
    )  # fmt: skip


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('status = 401\nerror = "who are you"', "auth: who are you"),
        ('status = 429\nerror = "slow down"', "rate_limit: slow down"),
        ('status = 529\nerror = "busy"', "overloaded: busy"),
        ('status = 404\nerror = "no such"', "bad_request: no such"),
        ('status = 500\nerror = "oh"', "server: oh"),
        ('error = "timeout"', "timeout: no answer from script/bad in time"),
        (
            'error = "refused"',
            "server: connection refused: script/bad behaves as if no server were running",
        ),
    ],
)
def test_a_failure_in_process_has_its_category(project: Path, fault: str, told: str) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text(f"[[rule]]\n{fault}", "utf-8")
    assert str(failure("script", Request("bad", (Message("user", "go"),)))) == told


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_connection_is_a_server_error_over_the_wire(
    project: Path, protocol: Protocol
) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text('[[rule]]\nerror = "refused"', "utf-8")
    with script_server(protocol):
        assert failure(protocol, Request("bad", (Message("user", "go"),))).category == "server"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["nobody", "empty", "lead"])
def test_what_no_script_answers_is_the_same_bad_request(
    project: Path, protocol: Protocol, name: str
) -> None:
    (project / "axe" / "scripts" / "empty.toml").write_text("", "utf-8")
    request = Request(name, (Message("user", "?"),))
    in_process = failure("script", request)
    with script_server(protocol):
        over_the_wire = failure(protocol, request)
    assert str(over_the_wire) == str(in_process)
    assert over_the_wire.category == "bad_request"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_functions_own_error_is_the_same(protocol: Protocol) -> None:
    @axe_nb.script("lead")
    def answer(request: Request) -> str:
        raise ProviderError("rate_limit", "not so fast", retry_after=2.5)

    request = Request("lead", (Message("user", "go"),))
    with script_server(protocol):
        for provider in ("script", protocol):
            error = failure(provider, request)
            assert (str(error), error.retry_after) == ("rate_limit: not so fast", 2.5)


@pytest.mark.req("D-8")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cancelled_request_is_aborted_on_the_wire(project: Path, protocol: Protocol) -> None:
    (project / "axe" / "scripts" / "slow.toml").write_text('[[rule]]\nerror = "timeout"', "utf-8")

    async def cancelled() -> None:
        provider = make(provider_of(protocol), Config.load())
        task = asyncio.create_task(provider.send(Request("slow", (Message("user", "go"),))))
        assert await asyncio.to_thread(eventually, lambda: server.open_requests == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(eventually, lambda: server.aborted == 1)

    with script_server(protocol) as server:
        asyncio.run(cancelled())
        assert server.open_requests == 0
