"""Proxies that the environment names, mocks of httpx, and clients of the user's own.

Over real sockets and TLS, but for the mocks.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.errors import ProviderError
from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, send_all
from tests.providers.raw_server import HELLO, Peer, always, raw_server, reply

LOGIN = "me:pa55w0rd-5ecre7"


def tunnel(peer: Peer) -> None:
    """A proxy: connects to what CONNECT names, or passes on what has a whole URL."""
    head = peer.read_head()
    peer.server.heads.append(head)
    method, target, _ = head.split("\r\n")[0].split(" ")
    address = target if method == "CONNECT" else httpx.URL(target).netloc.decode()
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port))) as there:
        if method == "CONNECT":
            peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there.sendall(f"{head}\r\n\r\n".encode() + peer._read)
        pump(peer.sock, there)


def pump(here: socket.socket, there: socket.socket) -> None:
    with suppress(OSError):
        while True:
            pending = isinstance(here, ssl.SSLSocket) and here.pending()
            ready = [here] if pending else select.select([here, there], [], [])[0]
            for source in ready:
                data = source.recv(65536)
                if not data:
                    return
                (there if source is here else here).sendall(data)


def proxy_of(url: str) -> str:
    return url.replace("//", f"//{LOGIN}@")


SENT_LOGIN = f"\r\nproxy-authorization: basic {b64encode(LOGIN.encode()).decode()}".lower()
"""As it stands in a head, in small letters."""


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_plain_http_goes_through_the_proxy_with_its_login(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with raw_server(always(reply())) as server, raw_server(tunnel) as proxy:
        monkeypatch.setenv(variable, proxy_of(proxy.url))
        assert send_all(server.url, server.url) == ["hello", "hello"]
        assert proxy.heads[0].startswith(f"POST {server.url}/v1/chat/completions HTTP/1.1\r\n")
        assert SENT_LOGIN in proxy.heads[0].lower()
        assert len(proxy.heads) == 1, "the connection to the proxy is kept"
        assert len(server.requests) == 2


@pytest.mark.parametrize("is_secure", [False, True])
def test_https_goes_through_a_tunnel_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, own_ca: OwnCA, is_secure: bool
) -> None:
    own = own_ca.server() if is_secure else None
    with raw_server(always(reply()), own_ca.server()) as server, raw_server(tunnel, own) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy_of(proxy.url))
        assert send_all(server.url, server.url) == ["hello", "hello"]
        (head,) = proxy.heads
        assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
        assert SENT_LOGIN in head.lower()
        assert KEY not in head, "the proxy sees no key"
        assert {asked.header("proxy-authorization") for asked in server.requests} == {None}


@pytest.mark.parametrize("no", ["127.0.0.1", "example.org, 127.0.0.1", "*", "127.0.0.1:{port}"])
def test_no_proxy_names_hosts_that_are_reached_directly(
    monkeypatch: pytest.MonkeyPatch, no: str
) -> None:
    with raw_server(always(reply())) as server, raw_server(tunnel) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", no.format(port=server.port))
        assert send_all(server.url) == ["hello"]
        assert proxy.heads == []


@pytest.mark.req("B-3", "B-5")
@pytest.mark.parametrize("url", ["http://api.example.org", "https://api.example.org"])
def test_an_error_of_the_proxy_names_it_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with raw_server(Peer.read_head) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy_of(proxy.url))
        (failed,) = send_all(url)
        told = f"the connection to {url} through the proxy {proxy.url} failed: "
        assert failed.startswith(f"{told}the server closed the connection without a reply")
    monkeypatch.setenv("ALL_PROXY", proxy_of("http://127.0.0.1:1"))
    (failed,) = send_all(url)
    assert failed.startswith(f"no connection to {url} through the proxy http://127.0.0.1:1: ")
    assert "pa55" not in failed


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
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", HOST)


def run(**options: Any) -> RunResult:
    return axe_nb.run(Agent("a", "openai/m"), "hi", display=False, **options)


@pytest.mark.parametrize(("body", "streams"), [(HELLO, False), (STREAM, True)])
def test_respx_answers_a_run_in_place_of_the_server(body: bytes, streams: bool) -> None:
    with respx.mock:
        route = respx.post(CHAT).mock(httpx.Response(200, content=body))
        assert run(stream=streams).text == "hello"
        asked = route.calls.last.request
    assert json.loads(asked.content)["messages"][-1]["content"] == "hi"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.timeout(20)
def test_a_mock_without_an_answer_or_that_fails_is_a_failed_request() -> None:
    """respx raises the error of its function from one that it is itself the cause of."""
    with respx.mock:
        unknown = run().cause
        assert isinstance(unknown, ProviderError)
        assert not unknown.retryable
        respx.route().mock(side_effect=httpx.ConnectError("no way"))
        assert "no way" in str(run(retries=0).error)


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
        (lambda: 3, "returned int, not an AsyncClient"),
    ],
)
def test_a_function_that_makes_no_client_is_told_as_such_and_not_as_the_server(
    own_client: None, make: Any, told: str
) -> None:
    axe_nb.use_http_client(make)
    result = run()
    assert (result.status, result.retries) == ("error", 0)
    assert result.error == f"the function given to use_http_client {told}"
    with pytest.raises(TypeError, match="a function that makes clients, not a client"):
        axe_nb.use_http_client(httpx.AsyncClient())  # type: ignore[arg-type]


def test_requests_go_over_a_client_of_the_users_own(own_client: None) -> None:
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
    assert run().text == "hello"
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
