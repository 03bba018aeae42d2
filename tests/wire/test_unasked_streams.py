"""Servers that stream although a whole reply was asked for."""

from __future__ import annotations

import pytest

from axe_nb.errors import ProviderError
from tests.providers.dialects import BY_NAME
from tests.wire.replay import FIXTURES, Replay, _bytes

STREAMS = {
    name: fixture
    for name, fixture in FIXTURES.items()
    if fixture["mode"] == "stream" and "network" not in fixture
}


def joined(name: str) -> bytes:
    parts = STREAMS[name]["stream"]
    return b"".join(bytes.fromhex(p["hex"]) if isinstance(p, dict) else _bytes(p) for p in parts)


@pytest.mark.req("D-24", "D-31")
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "application/x-ndjson"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_read_also_where_json_was_asked_for(name: str, kind: str) -> None:
    expected = STREAMS[name]["expect"]
    dialect = BY_NAME[STREAMS[name]["protocol"]]
    reply = {"status": 200, "headers": {"content-type": kind}, "body": joined(name)}
    with Replay({"x": reply}) as server:
        if expected["outcome"] == "error":
            with pytest.raises(ProviderError) as raised:
                dialect.send(server.url("x"))
            assert raised.value.retryable == expected["error"]["retryable"]
            return
        response = dialect.send(server.url("x"))
    assert response.content == expected["text"]
    assert [call.name for call in response.tool_calls] == [
        c["name"] for c in expected["tool_calls"]
    ]
