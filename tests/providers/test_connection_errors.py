"""Errors of connections: the next step, and if another try may help."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.user_config import config_path
from axe_nb.errors import ProviderError
from axe_nb.providers.openai import OpenAI
from axe_nb.providers.transport import make_connection_error
from tests.protocols import settings
from tests.providers.conftest import OwnCA
from tests.providers.dialects import BY_NAME, KEY, ask
from tests.providers.raw_server import Peer, always, raw_server, reply

LOGIN = "me:pa55w0rd-5ecre7"


def failure(url: str) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        asyncio.run(OpenAI(url, KEY).send(ask()))
    return raised.value


@pytest.mark.req("B-5")
def test_an_unknown_certificate_is_final_and_points_to_the_variable(own_ca: OwnCA) -> None:
    with raw_server(always(reply()), own_ca.server()) as server:
        error = failure(server.url)
    assert "its certificate is not trusted (" in error.detail
    assert "SSL_CERT_FILE" in error.hint
    assert not error.retryable


@pytest.mark.req("B-5")
def test_a_server_without_tls_is_final_and_points_to_http() -> None:
    with raw_server(lambda peer: peer.send(reply(status="400 Bad Request"))) as server:
        error = failure(server.url.replace("http:", "https:"))
    assert error.detail.startswith("no secure connection to https://127.0.0.1:")
    assert error.detail.endswith(": the server responded, but not over TLS")
    assert error.hint.endswith("it may need http://")
    assert not error.retryable


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("demand", "fault"),
    [
        ({"verify_mode": ssl.CERT_REQUIRED}, "it requires a client certificate"),
        ({"verify_mode": ssl.CERT_REQUIRED, "maximum_version": ssl.TLSVersion.TLSv1_2},
         "it refused the TLS handshake: it may require a client certificate"),
    ],
)  # fmt: skip
def test_what_a_server_demands_of_a_secure_connection_is_named_and_final(
    own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch, demand: dict[str, Any], fault: str
) -> None:
    context = own_ca.server()
    for name, value in demand.items():
        setattr(context, name, value)

    def answer(peer: Peer) -> None:
        with contextlib.suppress(OSError):
            try:
                with context.wrap_socket(peer.sock.dup(), server_side=True) as secure:
                    secure.recv(1)
            except ssl.SSLError:  # unread data would make the system drop the alert
                peer.sock.shutdown(socket.SHUT_WR)
                while peer.sock.recv(65536):
                    pass

    monkeypatch.setenv("SSL_CERT_FILE", str(own_ca.file))
    with raw_server(answer) as server:
        error = failure(server.url.replace("http:", "https:"))
    assert error.detail.startswith("no secure connection to https://127.0.0.1:")
    assert fault in error.detail
    step = "set client_cert under [providers.openai] in config.toml, or check base_url"
    assert error.hint.startswith(step if "client certificate" in fault else "check base_url")
    assert not error.retryable


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_named_with_the_limit_to_raise(number: int) -> None:
    cause = httpx.ConnectError("failed")
    cause.__cause__ = OSError(number, "Too many open files")
    error = make_connection_error(OpenAI("http://models.example", KEY), cause)
    assert error.detail == "too many open files: no connection to http://models.example"
    assert "`ulimit -n`" in error.hint
    assert error.retryable


@pytest.mark.req("B-5")
@pytest.mark.parametrize("proxy", ["gopher://{}@h", "http://{}@h:x", "http://"])
def test_a_proxy_that_cannot_be_used_is_final_and_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.format(LOGIN))
    error = failure("http://models.example")
    assert error.detail.startswith("cannot set up a connection to http://models.example: ")
    assert "HTTPS_PROXY" in error.hint
    assert "pa55" not in error.detail
    assert not error.retryable


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("status", "is_final"),
    [("403 Forbidden", True), ("429 Too Many Requests", False), ("502 Bad Gateway", False)],
)
def test_a_proxy_that_opens_no_tunnel_may_do_so_later(
    monkeypatch: pytest.MonkeyPatch, status: str, is_final: bool
) -> None:
    with raw_server(always(reply(b"<html>", "content-type: text/html", status=status))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = failure("https://models.example")
    assert error.detail.endswith(f"it returned {status}")
    assert error.retryable == (not is_final)


pytestmark = pytest.mark.req("B-3")


@pytest.fixture
def context(own_ca: OwnCA) -> ssl.SSLContext:
    return own_ca.server()


def greet(peer: Peer) -> None:
    while True:
        peer.read()
        client: Any = peer.sock
        subject = (client.getpeercert() or {}).get("subject", ())
        names = [value for part in subject for key, value in part if key == "commonName"]
        said = BY_NAME["openai"].reply(f"hello {names}", (), "stop")
        peer.send(reply(json.dumps(said).encode()))


@pytest.fixture
def port(context: ssl.SSLContext) -> Iterator[int]:
    """The port of a server whose certificate is one of `own_ca`."""
    with raw_server(greet, context) as server:
        yield server.port


def run(port: int, keys: str) -> Any:
    address = f'base_url = "https://127.0.0.1:{port}"'
    settings(f'[providers.lab]\nprotocol = "openai"\n{address}\n{keys}\n')
    return axe_nb.run(Agent(name="a", model="lab/m"), "hi")


def test_a_server_is_trusted_by_its_ca_file_only(
    port: int, own_ca: OwnCA, other_ca: OwnCA, tmp_path: Path
) -> None:
    assert run(port, f'ca_file = "{own_ca.file}"').text == "hello []"
    for keys in ("", f'ca_file = "{other_ca.file}"'):
        error = run(port, keys).cause
        assert "its certificate is not trusted" in error.message
        assert "or ca_file under [providers.lab] in config.toml" in error.hint
    config_path().with_name("ca.pem").write_bytes(own_ca.file.read_bytes())
    assert run(port, 'ca_file = "ca.pem"').text == "hello []"


def test_a_client_presents_its_certificate(
    port: int, context: ssl.SSLContext, own_ca: OwnCA, tmp_path: Path
) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    own_ca.ca.configure_trust(context)
    pem = tmp_path / "me.pem"
    own = own_ca.ca.issue_cert("me@example.org", common_name="me")
    own.private_key_and_cert_chain_pem.write_to_path(str(pem))
    keys = f'ca_file = "{own_ca.file}"\nclient_cert = "{pem}"'
    assert run(port, keys).text == "hello ['me']"
    assert run(port, f'ca_file = "{own_ca.file}"').status == "error"
    assert run(port, keys).text == "hello ['me']"


@pytest.mark.parametrize("key", ["ca_file", "client_cert"])
def test_a_file_without_certificates_is_an_error_that_names_the_key(port: int, key: str) -> None:
    error = run(port, f'{key} = "none.pem"').cause
    assert f"{key} {config_path().with_name('none.pem')}: " in error.message
    assert not error.retryable


def test_an_encrypted_key_is_an_error_and_asks_for_no_password(port: int, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )  # fmt: skip
    (tmp_path / "me.pem").write_bytes(key)
    error = run(port, f'client_cert = "{tmp_path / "me.pem"}"').cause
    assert "cannot read client_cert" in error.message
