"""Certificates of an authority that only these tests trust."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme


@dataclass(frozen=True)
class OwnCA:
    """An authority."""

    ca: trustme.CA
    file: Path
    """Its certificate, as SSL_CERT_FILE wants it."""

    def server(self, *names: str) -> ssl.SSLContext:
        """What a server of these names needs; by default one on loopback."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*(names or ("127.0.0.1", "::1", "localhost"))).configure_cert(context)
        return context


def make_ca(file: Path) -> OwnCA:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(file))
    return OwnCA(ca, file)


@pytest.fixture(scope="session")
def own_ca(tmp_path_factory: pytest.TempPathFactory) -> OwnCA:
    return make_ca(tmp_path_factory.mktemp("ca") / "ca.pem")


@pytest.fixture(scope="session")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> OwnCA:
    return make_ca(tmp_path_factory.mktemp("other") / "ca.pem")


@pytest.fixture(params=["http", "https"])
def context(
    request: pytest.FixtureRequest, own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext | None:
    """The context of a server with TLS, and of one without."""
    monkeypatch.setenv("SSL_CERT_FILE", str(own_ca.file))
    return own_ca.server() if request.param == "https" else None
