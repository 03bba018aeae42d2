"""Streamed replies of script servers, as plain httpx and the vendors' own clients see them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

import axe_nb
from axe_nb import ProviderError, Request, call
from axe_nb.messages import Delta
from axe_nb.scripting.lookup import functions
from axe_nb.scripting.rules import Fault
from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, as_body
from tests.scripting import served
from tests.scripting.served import PATHS
from tests.waiting import eventually

ENDS = ("message_stop", "[DONE]", '"done":true', "response.completed")

SAID = "I ask “both” of\u2028them \U0001f600."

RULES = f"""
stream = true

[[rule]]
when = "^whole"
stream = false
delay = 0.05
text = "All of it at once."

[[rule]]
when = "^ask"
reasoning = "Who knows? Both do."
text = "{SAID}"
calls = [
  {{ tool = "look", arguments = {{ at = "a rather long place", n = 2 }} }},
  {{ tool = "look", arguments = {{}} }},
]
usage = {{ input_tokens = 11, output_tokens = 22 }}

[[rule]]
when = "^empty"
text = ""

[[rule]]
when = "^slow"
text = "one two three"
delay = 30

[[rule]]
when = "^paced"
text = "one two three"
delay = 0.6

[[rule]]
when = "^status alone"
status = 529
error = "too much"

[[rule]]
when = "^status"
text = "Half of"
status = 529
error = "too much"

[[rule]]
when = "^(?P<fault>cut|timeout|refused)"
text = "Half of"
error = "FAULT"
"""


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    """A project with the script `lead`, and no functions but the test's own."""
    (project / "axe" / "scripts").mkdir()
    head, mark, last = RULES.rpartition("[[rule]]")
    for fault in ("cut", "timeout", "refused"):
        head += mark + last.replace("(?P<fault>cut|timeout|refused)", fault).replace("FAULT", fault)
    (project / "axe" / "scripts" / "lead.toml").write_text(head, "utf-8")
    yield
    functions.clear()


body, post = partial(served.body, stream=True), partial(served.post, stream=True)


def is_piece(protocol: Protocol, event: bytes) -> bool:
    """False for the events of the Responses API that repeat what was said."""
    return protocol != "responses" or b".delta" in event


def events(reply: httpx.Response) -> list[Any]:
    """The JSON of the events or lines, and the text of those that are not JSON."""
    found = []
    for block in reply.text.split("\n"):
        data = block.removeprefix("data: ").removeprefix("data:")
        if data and not data.startswith("event: "):
            try:
                found.append(json.loads(data))
            except ValueError:
                found.append(data)
    return found


# ------------------------------------------------------------------------ the vendors' own clients


def test_the_anthropic_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("anthropic") as server:
        client = anthropic.Anthropic(base_url=server.base_url, api_key="x", max_retries=0)
        asked: Any = {
            "model": "lead", "max_tokens": 9, "messages": [{"role": "user", "content": "ask"}],
        }  # fmt: skip
        with client.messages.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_message()
        whole = client.messages.create(**asked)
        assert final.model_dump(exclude={"content"}) == whole.model_dump(exclude={"content"})
        assert [block.to_dict() for block in final.content] == [
            block.to_dict() for block in whole.content
        ]
        assert [block.type for block in final.content] == [
            "thinking", "text", "tool_use", "tool_use",
        ]  # fmt: skip
        assert final.usage.input_tokens == 11
        assert final.usage.output_tokens == 22
        assert final.stop_reason == "tool_use"
        for kind in ("thinking", "text", "input_json"):
            assert kinds.count(kind) > 2
        client.close()


def test_the_openai_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("openai") as server:
        client = openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="x", max_retries=0)
        asked: Any = {"model": "lead", "messages": [{"role": "user", "content": "ask"}]}
        with client.chat.completions.stream(
            **asked, stream_options={"include_usage": True}
        ) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        whole = client.chat.completions.create(**asked)
        [one], [other] = final.choices, whole.choices
        assert one.finish_reason == other.finish_reason == "tool_calls"
        assert one.message.content == other.message.content == SAID
        assert [c.to_dict() for c in other.message.tool_calls or ()] == [
            {k: v for k, v in c.to_dict().items() if k != "index"} | {
                "function": {
                    k: v for k, v in c.to_dict()["function"].items()  # type: ignore[attr-defined]
                    if k in ("name", "arguments")
                }
            }
            for c in one.message.tool_calls or ()
        ]  # fmt: skip
        assert final.usage == whole.usage
        assert kinds.count("content.delta") > 2
        assert kinds.count("tool_calls.function.arguments.delta") > 2
        client.close()


def test_the_openai_sdk_takes_the_stream_of_the_responses_api_for_the_whole_reply() -> None:
    with script_server("responses") as server:
        client = openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="x", max_retries=0)
        asked: Any = {"model": "lead", "input": "ask", "store": False}
        with client.responses.stream(**asked) as stream:
            told = list(stream)
            final = stream.get_final_response()
        whole = client.responses.create(**asked)
        assert [item.type for item in whole.output] == [
            "reasoning", "message", "function_call", "function_call",
        ]  # fmt: skip
        for reply in (final, whole):
            assert reply.output_text == SAID
            assert reply.usage
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 22)
        assert [item.type for item in final.output] == [item.type for item in whole.output]
        done = [event.item for event in told if event.type == "response.output_item.done"]
        assert [item.to_dict() for item in done] == [item.to_dict() for item in whole.output]
        kinds = [event.type for event in told]
        for kind in ("reasoning_summary_text", "output_text", "function_call_arguments"):
            assert kinds.count(f"response.{kind}.delta") > 2  # type: ignore[comparison-overlap]
        assert kinds[-1] == "response.completed"
        client.close()


def test_the_ollama_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("ollama") as server:
        client = ollama.Client(server.base_url)
        asked: Any = {"model": "lead", "messages": [{"role": "user", "content": "ask"}]}
        pieces = list(client.chat(**asked, stream=True))
        whole = client.chat(**asked, stream=False)
        text = "".join(piece.message.content or "" for piece in pieces)
        thinking = "".join(piece.message.thinking or "" for piece in pieces)
        calls = [c for piece in pieces for c in piece.message.tool_calls or ()]
        assert (text, thinking) == (whole.message.content, whole.message.thinking)
        assert (text, thinking) == (SAID, "Who knows? Both do.")
        assert calls == whole.message.tool_calls
        assert len(pieces) > 6
        assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        keys = {"message", "done"}
        assert pieces[-1].model_dump(exclude=keys) == whole.model_dump(exclude=keys)
        client._client.close()


# --------------------------------------------------------------------------------- plain httpx


def test_openai_sends_the_usage_only_where_it_is_asked_for() -> None:
    with script_server("openai") as server:
        told = events(post(server, "ask"))
        assert told[-1] == "[DONE]"
        assert all("usage" not in chunk for chunk in told[:-1])
        assert told[-2]["choices"][0]["finish_reason"] == "tool_calls"
        told = events(post(server, "ask", stream_options={"include_usage": True}))
        assert told[-2]["choices"] == []
        assert told[-2]["usage"]["total_tokens"] == 33
        assert all(chunk["usage"] is None for chunk in told[:-2])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_event_is_a_chunk_of_its_own_with_the_content_type_of_the_real_server(
    protocol: Protocol,
) -> None:
    with script_server(protocol) as server:
        url = server.base_url + PATHS[protocol]
        with httpx.stream("POST", url, json=as_body(protocol, body("paced")), timeout=30) as reply:
            kind = "application/x-ndjson" if protocol == "ollama" else "text/event-stream"
            assert reply.headers["content-type"].startswith(kind)
            assert reply.headers["transfer-encoding"] == "chunked"
            arrived = [(time.monotonic(), chunk) for chunk in reply.iter_raw()]
        ends = b"}\n" if protocol == "ollama" else b"\n\n"
        assert all(chunk.endswith(ends) for _, chunk in arrived)
        words = [
            at
            for at, chunk in arrived
            if any(w in chunk for w in (b"one ", b"two ", b"three")) and is_piece(protocol, chunk)
        ]
        assert len(words) == 3
        assert words[-1] - words[0] > 0.2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rule_that_does_not_stream_comes_in_one_piece(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        told = [json.dumps(event) for event in events(post(server, "whole"))]
        pieces = [event for event in told if is_piece(protocol, event.encode())]
        assert sum("All of it at once." in event for event in pieces) == 1
        assert len(events(post(server, "empty"))) >= 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_connection_serves_streams_one_after_another(protocol: Protocol) -> None:
    with script_server(protocol) as server, httpx.Client() as client:
        url = server.base_url + PATHS[protocol]
        for text in ("ask", "whole", "empty", "ask"):
            assert client.post(url, json=as_body(protocol, body(text))).status_code == 200
        assert client.post(url, json=as_body(protocol, body("whole", stream=False))).json()


# -------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_after_the_first_words_is_an_event(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        told = events(post(server, "status"))
        assert "Half" in json.dumps(told[:-1])
        assert told[-1] == {
            "anthropic": {
                "type": "error", "error": {"type": "overloaded_error", "message": "too much"},
            },
            "openai": {
                "error": {
                    "message": "too much", "type": "server_error", "param": None, "code": None,
                },
            },
            "responses": {
                "type": "error", "code": "server_error", "message": "too much", "param": None,
                "sequence_number": len(told) - 1,
            },
            "ollama": {"error": "too much"},
        }[protocol]  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_before_the_first_word_is_a_status(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        assert post(server, "status alone").status_code == 529

        @axe_nb.script("fails")
        def fails(request: Request) -> Iterator[str]:
            raise ProviderError("rate_limit", "slowly", retry_after=2)
            yield ""

        reply = post(server, "x", model="fails")
        assert reply.status_code == 429
        assert reply.headers["retry-after"] == "2"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_stream_ends_without_its_last_event(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        reply = post(server, "cut")
        assert reply.status_code == 200
        assert "Half" in reply.text
        assert all(mark not in reply.text for mark in ENDS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broken_chunk_is_an_error_of_the_connection(protocol: Protocol) -> None:
    with (
        script_server(protocol) as server,
        pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
    ):
        post(server, "refused")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_silent_stream_waits_for_its_client_to_leave(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        url = server.base_url + PATHS[protocol]
        with httpx.stream(
            "POST", url, json=as_body(protocol, body("timeout")), timeout=0.5
        ) as reply:
            arrived: list[bytes] = []
            with pytest.raises(httpx.ReadTimeout):
                arrived.extend(reply.iter_raw())
            assert b"Half" in b"".join(arrived)
        assert eventually(lambda: (server.open_requests, server.aborted) == (0, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_leaves_ends_the_stream_at_once(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        url = server.base_url + PATHS[protocol]
        with httpx.stream(
            "POST", url, json=as_body(protocol, body("slow", model="slow")), timeout=9
        ) as reply:
            assert reply.status_code == 404
        ended: list[bool] = []

        @axe_nb.script("endless")
        async def endless(request: Request) -> Any:
            import asyncio

            try:
                while True:
                    yield "word "
                    await asyncio.sleep(0.01)
            finally:
                ended.append(True)

        clients = 8  # a write or a read is the first to notice: both are seen
        for _ in range(clients):
            asked = as_body(protocol, body("x", model="endless"))
            with httpx.stream("POST", url, json=asked, timeout=9) as reply:
                assert next(reply.iter_raw())
        assert eventually(lambda: (server.open_requests, server.aborted) == (0, clients))
        assert eventually(lambda: ended == [True] * clients)


def test_a_whole_reply_of_a_rule_that_breaks_off_is_its_failure_alone() -> None:
    with script_server("openai") as server:
        reply = post(server, "status", stream=False)
        assert (reply.status_code, "Half" in reply.text) == (529, False)
        with pytest.raises(httpx.RemoteProtocolError):
            post(server, "cut", stream=False)


# ------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_function_that_yields_streams_its_reply(protocol: Protocol, stream: bool) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield Delta("Let me see. ", "reasoning")
        yield "One, "
        yield "two."
        yield call("look", at="there")

    with script_server(protocol) as server:
        told = post(server, "x", model="talks", stream=stream).text
        for word in ("Let me see. ", "One, ", "two.", "look", "there"):
            assert word in told
        pieces = [
            one for one in told.split("\n\n") if not stream or is_piece(protocol, one.encode())
        ]
        assert ("One, two." in "".join(pieces)) is not stream


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_function_fails_in_mid_stream_by_an_exception_or_a_fault(protocol: Protocol) -> None:
    ends: dict[str, Callable[[], Any]] = {}

    def raises() -> None:
        raise ProviderError("overloaded", "too much")

    def stumbles() -> None:
        raise KeyError("oops")

    ends |= {
        "raises": raises, "stumbles": stumbles, "cut": lambda: Fault("cut"),
        "refused": lambda: Fault("refused"), "status": lambda: Fault("no", 503),
        "unknown": lambda: Fault("whatever"), "number": lambda: 42,
    }  # fmt: skip

    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield "Half of "
        yield ends[request.last]()

    with script_server(protocol) as server:

        def last(how: str) -> str:
            return json.dumps(events(post(server, how, model="talks"))[-1])

        assert "too much" in last("raises")
        assert 'script \\"talks\\" raised KeyError: ' in last("stumbles")
        assert "Half of" in last("cut")
        assert '"no"' in last("status")
        assert "the message of a Fault without a status is one of timeout, refused, cut" in last(
            "unknown"
        )
        assert 'script \\"talks\\" yielded int, not text' in last("number")
        with pytest.raises(httpx.RemoteProtocolError):
            post(server, "refused", model="talks")


# ----------------------------------------------------------------------------------- in process


def in_process(prompt: str, model: str = "lead") -> tuple[axe_nb.RunResult, list[Any]]:
    """The result of a run that is watched, and its deltas."""
    import asyncio

    from axe_nb.events import TextDelta

    async def collect() -> list[Any]:
        agent = axe_nb.Agent(name="one", model=f"script/{model}", tools=("grep",))
        return [event async for event in axe_nb.stream(agent, prompt)]

    seen = asyncio.run(collect())
    return seen[-1].result, [event for event in seen if isinstance(event, TextDelta)]


@pytest.mark.req("D-24", "D-31")
@pytest.mark.parametrize(
    ("prompt", "category"),
    [
        ("status", "overloaded"), ("cut", "server"), ("refused", "server"),
        ("timeout", "timeout"),
    ],
)  # fmt: skip
def test_in_process_the_text_before_a_failure_is_kept(prompt: str, category: str) -> None:
    result, deltas = in_process(prompt)
    assert (result.status, result.text) == ("error", "Half of")
    assert isinstance(result.cause, ProviderError)
    assert result.cause.category == category
    assert "".join(delta.text for delta in deltas) == "Half of"


def test_in_process_all_parts_of_a_reply_are_streamed() -> None:
    @axe_nb.script("talks")
    async def talks(request: Request) -> Any:
        if request.results:
            yield "Done."
            return
        yield Delta("Let me see.", "reasoning")
        yield "I look. "
        yield call("grep", pattern="there")

    result, deltas = in_process("x", "talks")
    assert (result.status, result.text) == ("completed", "Done.")
    assert [(d.turn, d.kind, d.text, d.name) for d in deltas] == [
        (1, "reasoning", "Let me see.", ""), (1, "text", "I look. ", ""),
        (1, "arguments", '{"pattern":"there"}', "grep"), (2, "text", "Done.", ""),
    ]  # fmt: skip


def test_a_complete_answer_cannot_fail() -> None:
    path = Path("axe/scripts/bad.toml")
    path.write_text('[[rule]]\ntext = "x"\nusage = { input_tokens = 1 }\nerror = "cut"\n')
    with pytest.raises(axe_nb.ConfigError, match="usage and error cannot be combined"):
        in_process("x", "bad")
    path.write_text('[[rule]]\nreasoning = "hm"\n')
    with pytest.raises(axe_nb.ConfigError, match="has no reply"):
        in_process("x", "bad")
