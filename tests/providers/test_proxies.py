"""Proxies and certificates: those that the environment names now, over real sockets and TLS."""

from __future__ import annotations

import select
import socket
import ssl
from base64 import b64encode
from contextlib import suppress

import httpx
import pytest

from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, send_all
from tests.providers.raw_server import Peer, always, raw_server, reply

LOGIN = "me:pa55w0rd-5ecre7"


@pytest.fixture(autouse=True)
def trusts_own_ca(own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own_ca.file))


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


def proxy_of(url: str, login: str = LOGIN) -> str:
    return url.replace("//", f"//{login}@") if login else url


def sent_login(head: str) -> str:
    return next((h for h in head.split("\r\n") if h.lower().startswith("proxy-auth")), "")


BASIC = "proxy-authorization: Basic " + b64encode(LOGIN.encode()).decode()


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_plain_http_goes_through_the_proxy_with_its_login(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with raw_server(always(reply())) as server, raw_server(tunnel) as proxy:
        monkeypatch.setenv(variable, proxy_of(proxy.url))
        assert send_all(server.url, server.url) == ["hello", "hello"]
        assert proxy.heads[0].startswith(f"POST {server.url}/v1/chat/completions HTTP/1.1\r\n")
        assert sent_login(proxy.heads[0]).lower() == BASIC.lower()
        assert len(proxy.heads) == 1, "the connection to the proxy is kept"
        assert len(server.requests) == 2


def test_https_goes_through_a_tunnel_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, own_ca: OwnCA
) -> None:
    with raw_server(always(reply()), own_ca.server()) as server, raw_server(tunnel) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy_of(proxy.url))
        assert send_all(server.url, server.url) == ["hello", "hello"]
        (head,) = proxy.heads
        assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
        assert sent_login(head).lower() == BASIC.lower()
        assert KEY not in head, "the proxy sees no key"
        assert {asked.header("proxy-authorization") for asked in server.requests} == {None}


def test_a_proxy_may_itself_be_reached_by_https(
    monkeypatch: pytest.MonkeyPatch, own_ca: OwnCA
) -> None:
    context = own_ca.server()
    with raw_server(always(reply()), context) as server, raw_server(tunnel, context) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy_of(proxy.url))
        assert send_all(server.url) == ["hello"]
        assert proxy.heads[0].startswith("CONNECT ")


@pytest.mark.parametrize("no", ["127.0.0.1", "example.org, 127.0.0.1", "*", "127.0.0.1:{port}"])
def test_no_proxy_names_hosts_that_are_reached_directly(
    monkeypatch: pytest.MonkeyPatch, no: str
) -> None:
    with raw_server(always(reply())) as server, raw_server(tunnel) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", no.format(port=server.port))
        assert send_all(server.url) == ["hello"]
        assert proxy.heads == []


def leave(peer: Peer) -> None:
    peer.read_head()


@pytest.mark.req("B-3", "B-5")
def test_an_error_of_the_proxy_names_it_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with raw_server(leave) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy_of(proxy.url))
        (failed,) = send_all("https://api.example.org")
        assert failed.startswith(
            f"the connection to https://api.example.org through the proxy {proxy.url} failed: "
            "the server closed the connection without a reply"
        )


@pytest.mark.req("B-5")
@pytest.mark.parametrize("url", ["http://api.example.org", "https://api.example.org"])
def test_a_proxy_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://{LOGIN}@127.0.0.1:1")
    (failed,) = send_all(url)
    assert failed.startswith(f"no connection to {url} through the proxy http://127.0.0.1:1: ")
    assert "pa55" not in failed
