"""What real servers send, and what a careful client makes of it; each file names its sources."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import CallIds, Delta, Message, Response, ToolCall, ToolResult
from tests.providers.dialects import BY_NAME, CALL_AGENT, KEY, ask
from tests.wire.replay import FIXTURES, Replay

CATEGORIES = {"not_found": "bad_request", "truncated": "server"}
"""Kind of an error in the fixtures → ours, where they differ."""


@pytest.fixture(scope="module")
def server() -> Iterator[Replay]:
    with Replay(FIXTURES) as replay:
        yield replay


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "plain"])
@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.req("D-24", "D-31")
def test_a_real_reply_is_understood(server: Replay, name: str, is_streamed: bool) -> None:
    """Any reply may come, whether a stream is asked for or not."""
    fixture = FIXTURES[name]
    dialect, expected = BY_NAME[fixture["protocol"]], fixture["expect"]
    provider = dialect.make(server.url(name), KEY)
    request = ask(Message("user", "Run the tests."), tools=(CALL_AGENT,))
    deltas: list[Delta] = []
    on_delta = deltas.append if is_streamed else None
    if expected["outcome"] == "error":
        with pytest.raises(ProviderError) as raised:
            asyncio.run(provider.send(request, on_delta))
        check_error(expected["error"], raised.value)
        assert raised.value.partial_text == expected.get("partial_text", "")
        assert text_of(deltas) == expected.get("partial_text", "") * is_streamed
        return
    response = asyncio.run(provider.send(request, on_delta))
    check_response(expected, response)
    if fixture["mode"] == "stream" and is_streamed:
        assert text_of(deltas) == response.content
    calls = CallIds(request.messages).settle(provider.name, response.tool_calls)
    ids = [call.id for call in calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    messages = [*request.messages, *said(response, calls), Message("user", "Go on.")]
    asyncio.run(provider.send(ask(*messages, tools=(CALL_AGENT,)), on_delta))


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if delta.kind == "text")


def said(response: Response, calls: Sequence[ToolCall]) -> Iterator[Message]:
    """The conversation after the reply as the loop writes it: no empty turn, no open call."""
    if response.content.strip() or calls:
        yield Message("assistant", response.content, tuple(calls), echo=response.echo)
    if calls:
        results = (ToolResult(call.id, "All passed.", name=call.name) for call in calls)
        yield Message("tool", tool_results=tuple(results))


def check_response(expected: Mapping[str, Any], response: Response) -> None:
    assert response.content == expected["text"]
    assert len(response.tool_calls) == len(expected["tool_calls"])
    for call, fields in zip(response.tool_calls, expected["tool_calls"], strict=True):
        assert (call.name, call.arguments) == (fields["name"], fields["arguments"])
        assert bool(call.raw) == fields.get("bad_arguments", False)
        assert call.id == fields.get("id", call.id)
    stop = "length" if response.is_cut else "tool" if response.tool_calls else "end"
    assert stop == expected["stop"]
    assert response.is_cut == (expected.get("executable") is False)


def check_error(expected: Mapping[str, Any], error: ProviderError) -> None:
    assert error.category == CATEGORIES.get(expected["kind"], expected["kind"])
    assert error.retryable == expected["retryable"]
    for part in expected.get("has", ()):
        assert part in str(error)
    for part in expected.get("has_not", ()):
        assert part not in str(error)
    if "retry_after" in expected:
        assert error.retry_after == expected["retry_after"]
    assert KEY not in str(error)
