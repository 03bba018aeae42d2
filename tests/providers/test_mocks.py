"""Mocks of httpx, and clients of the user's own, in place of ours."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

import axe_nb
from axe_nb import Agent
from axe_nb.errors import ProviderError
from axe_nb.providers.openai import OpenAI
from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, ask, send_all
from tests.providers.raw_server import HELLO, Peer, always, raw_server, reply
from tests.providers.test_proxies import pump

STREAM = (
    b'data: {"choices": [{"delta": {"content": "hel"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
pytestmark = pytest.mark.req("D-74")

HOST = "https://models.example"
CHAT = f"{HOST}/v1/chat/completions"


@pytest.fixture(autouse=True)
def environment(own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own_ca.file))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(params=["http", "https"])
def context(request: pytest.FixtureRequest, own_ca: OwnCA) -> object:
    return own_ca.server() if request.param == "https" else None


def test_respx_answers_a_run_in_place_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", HOST)
    with respx.mock:
        route = respx.post(CHAT).mock(httpx.Response(200, content=HELLO))
        assert axe_nb.run(Agent("a", "openai/m"), "hi").text == "hello"
        asked = route.calls.last.request
    assert json.loads(asked.content)["messages"][-1]["content"] == "hi"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["accept-encoding"] == "identity"


def test_respx_answers_with_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", HOST)

    async def stream() -> tuple[str, str]:
        pieces: list[str] = []
        provider = OpenAI(HOST, KEY)
        response = await provider.send(ask(), lambda delta: pieces.append(delta.text))
        return response.content, "".join(pieces)

    with respx.mock:
        respx.post(CHAT).mock(
            httpx.Response(200, content=STREAM, headers={"content-type": "text/event-stream"})
        )
        assert asyncio.run(stream()) == ("hello", "hello")


def test_a_mock_that_knows_no_answer_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", HOST)
    with respx.mock:
        result = axe_nb.run(Agent("a", "openai/m"), "hi")
    assert isinstance(result.cause, ProviderError)
    assert not result.cause.retryable


def test_a_mock_replaces_the_transport_of_httpx_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest-httpx does, whose replies have been read already."""

    async def answer(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=HELLO, request=request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    assert send_all(HOST) == ["hello"]


@pytest.fixture
def own_client() -> Iterator[None]:
    """Whatever a test sets as its own client ends with it."""
    yield
    axe_nb.use_http_client(None)


def fail() -> httpx.AsyncClient:
    raise RuntimeError("my own mistake")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (fail, "failed: RuntimeError('my own mistake')"),
        (lambda: 3, "failed: TypeError('made no AsyncClient, but int')"),
    ],
)
def test_a_function_that_makes_no_client_is_told_as_such_and_not_as_the_server(
    own_client: None, make: Any, told: str
) -> None:
    axe_nb.use_http_client(make)
    result = axe_nb.run(Agent("a", "openai/m"), "hi")
    assert (result.status, result.retries) == ("error", 0)
    assert result.error == f"the function given to use_http_client {told}"
    with pytest.raises(TypeError, match="a function that makes clients, not a client"):
        axe_nb.use_http_client(httpx.AsyncClient())  # type: ignore[arg-type]


def test_requests_go_over_a_client_of_the_users_own(
    own_client: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", HOST)
    asked: list[httpx.Request] = []
    made: list[httpx.AsyncClient] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=HELLO)

    def make() -> httpx.AsyncClient:
        transport = httpx.MockTransport(answer)
        made.append(httpx.AsyncClient(transport=transport, headers={"x-team": "seven"}))
        return made[-1]

    axe_nb.use_http_client(make)
    assert send_all(HOST, f"{HOST}/other") == ["hello", "hello"]
    assert [client.is_closed for client in made] == [True], "one for each loop, closed with it"
    assert axe_nb.run(Agent("a", "openai/m"), "hi").text == "hello"
    assert asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert asked[0].headers["x-team"] == "seven"
    assert asked[0].extensions["timeout"]["read"] == 120
    axe_nb.use_http_client(None)
    with respx.mock:
        respx.post(CHAT).mock(httpx.Response(418))
        assert "418" in send_all(HOST)[0]


def test_a_client_of_the_users_own_presents_its_certificate(
    own_client: None, own_ca: OwnCA, tmp_path: Path
) -> None:
    pem = tmp_path / "me.pem"
    own_ca.ca.issue_cert("me@example.org").private_key_and_cert_chain_pem.write_to_path(str(pem))
    context = own_ca.server()
    context.verify_mode = ssl.CERT_REQUIRED
    own_ca.ca.configure_trust(context)
    own = ssl.create_default_context(cafile=str(own_ca.file))
    own.load_cert_chain(pem)
    with raw_server(always(reply()), context) as server:
        assert "connection to" in send_all(server.url)[0]
        axe_nb.use_http_client(lambda: httpx.AsyncClient(verify=own))
        assert send_all(server.url) == ["hello"]


def socks(peer: Peer) -> None:
    """A SOCKS5 proxy without a login, for addresses of IPv4 and names."""
    peer.sock.recv(2 + peer.sock.recv(2, socket.MSG_PEEK)[1])
    peer.send(b"\5\0")
    kind = peer.sock.recv(4)[3]
    size = 4 if kind == 1 else peer.sock.recv(1)[0]
    host = peer.sock.recv(size)
    port = int.from_bytes(peer.sock.recv(2), "big")
    peer.server.heads.append(socket.inet_ntoa(host) if kind == 1 else host.decode())
    with socket.create_connection((peer.server.heads[-1], port)) as there:
        peer.send(b"\5\0\0\1" + bytes(6))
        pump(peer.sock, there)


@pytest.mark.parametrize("way", ["environment", "own client"])
def test_requests_go_through_a_socks_proxy(
    own_client: None, context: Any, way: str, own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("socksio")
    with raw_server(always(reply()), context) as server, raw_server(socks) as proxy:
        address = proxy.url.replace("http", "socks5")
        if way == "environment":
            monkeypatch.setenv("ALL_PROXY", address)
        else:
            trusted = ssl.create_default_context(cafile=str(own_ca.file))
            axe_nb.use_http_client(lambda: httpx.AsyncClient(proxy=address, verify=trusted))
        assert send_all(server.url, server.url) == ["hello", "hello"]
        assert proxy.heads == ["127.0.0.1"], "one connection for both"
