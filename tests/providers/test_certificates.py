"""`ca_file` and `client_cert` of a server."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.user_config import config_path
from tests.providers.conftest import OwnCA
from tests.providers.dialects import BY_NAME
from tests.providers.raw_server import Peer, raw_server, reply

pytestmark = pytest.mark.req("B-3")


@pytest.fixture
def context(own_ca: OwnCA) -> ssl.SSLContext:
    return own_ca.server()


def greet(peer: Peer) -> None:
    """Greets each client by the name in its certificate."""
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
    config_path().parent.mkdir(parents=True, exist_ok=True)
    address = f'base_url = "https://127.0.0.1:{port}"'
    config_path().write_text(f'[providers.lab]\nprotocol = "openai"\n{address}\n{keys}\n')
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
    own_ca.ca.issue_cert(
        "me@example.org", common_name="me"
    ).private_key_and_cert_chain_pem.write_to_path(str(pem))
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
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "me.pem").write_bytes(key)
    error = run(port, f'client_cert = "{tmp_path / "me.pem"}"').cause
    assert "cannot read client_cert" in error.message
