"""The way to a server: the proxy and certificates that the environment names at that moment.

Imported on first use, as httpx is.
Source: D-25, D-70; issue 10 "Connections".
"""

from __future__ import annotations

import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
VARIABLES = (*CERTIFICATES, *PROXIES, *map(str.lower, PROXIES), "REQUEST_METHOD")
"""Variables that a route depends on; under CGI, HTTP_PROXY is a header of the request."""

_latest: tuple[Mapping[Any, Any], tuple[str | None, ...]] = {}, ()
"""(environment, values of `VARIABLES`) when last read."""

PORTS = {"http": 80, "https": 443}


class RouteError(httpx.TransportError):
    """The environment names a proxy or certificates that cannot be used."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """A server and the way to it; the same object while the environment does not change."""

    host: str
    port: int
    context: ssl.SSLContext | None
    """SSL context for https."""
    proxy: httpx.Proxy | None = None
    """The proxy with its login; only `proxy_name` may be shown."""
    proxy_context: ssl.SSLContext | None = None
    """SSL context for a proxy that is itself reached by https."""

    @property
    def address(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def proxy_login(self) -> list[tuple[bytes, bytes]]:
        """The header with the login for the proxy, if it has one."""
        if self.proxy is None or self.proxy.raw_auth is None:
            return []
        login = b64encode(b":".join(self.proxy.raw_auth))
        return [(b"proxy-authorization", b"Basic " + login)]

    @property
    def proxy_name(self) -> str:
        """The proxy without its login; empty if there is none."""
        return f"{self.proxy.url.scheme}://{self.proxy.url.netloc.decode()}" if self.proxy else ""


def find_route(url: httpx.URL, certificates: tuple[str, str] = ("", "")) -> Route:
    """Returns the way to the server of a URL, as the environment has it now.

    If it names no proxy, the system's settings at the first call apply (macOS, Windows).

    Args:
        url: the URL.
        certificates: the `ca_file` and `client_cert` of its server.

    Raises:
        RouteError: the environment names a proxy or certificates that cannot be used.
    """
    port = url.port or PORTS[url.scheme]
    return _find_route(url.scheme, url.raw_host.decode(), port, read_variables(), certificates)


def read_variables() -> tuple[str | None, ...]:
    """Returns the values of `VARIABLES` as they are now."""
    global _latest
    # the mapping below `os.environ`, whose own look at all names would be noticed in a turn
    variables = getattr(os.environ, "_data", os.environ)
    before, values = _latest
    if not values or before != variables:
        before = dict(variables)  # first: what another thread sets meanwhile is seen next time
        values = tuple(os.environ.get(name) for name in VARIABLES)
        _latest = before, values
    return values


@lru_cache(maxsize=64)
def _find_route(
    scheme: str,
    host: str,
    port: int,
    state: tuple[str | None, ...],
    certificates: tuple[str, str],
) -> Route:
    trusted = state[: len(CERTIFICATES)]
    proxy = _find_proxy(scheme, host, port)
    is_secret = proxy is not None and proxy.url.scheme == "https"
    return Route(
        host=host,
        port=port,
        context=make_context(trusted, certificates) if scheme == "https" else None,
        proxy=proxy,
        proxy_context=make_context(trusted) if is_secret else None,
    )


def _find_proxy(scheme: str, host: str, port: int) -> httpx.Proxy | None:
    """Returns the proxy for a server, as the environment and the system settings say."""
    proxies = getproxies()
    given = proxies.get(scheme) or proxies.get("all")
    names = (host, f"[{host}]") if ":" in host else (host, f"{host}:{port}")
    if not given or any(proxy_bypass(name) for name in names):
        return None
    address = given if "://" in given else f"http://{given}"
    # what follows a `/` of a password would be taken for the path, and the rest for host and port
    _, *path = re.split(r"[/?#]", address.partition("://")[2])
    if any("@" in part for part in path):
        raise RouteError("the login in the proxy URL of the environment is not percent-encoded")
    try:
        proxy = httpx.Proxy(address)
    except (httpx.InvalidURL, ValueError):
        raise RouteError("the proxy in the environment is not a valid http or https URL") from None
    if not proxy.url.host:
        raise RouteError("the proxy in the environment has no host")
    if proxy.url.scheme not in PORTS:
        raise RouteError(f"{proxy.url.scheme} proxies are not supported")
    return proxy


@lru_cache(maxsize=4)
def make_context(
    trusted: tuple[str | None, ...], certificates: tuple[str, str] = ("", "")
) -> ssl.SSLContext:
    """Returns an SSL context with the certificates that the environment names, else certifi's.

    One costs 20 ms: none for plain http, and one for all servers without certificates of their own.

    Args:
        trusted: what the environment says of the certificates to trust.
        certificates: the `ca_file` to trust instead, and the `client_cert` to present.

    Raises:
        RouteError: the certificates cannot be read.
    """
    ca_file, client_cert = certificates
    try:
        if ca_file:
            context = ssl.create_default_context(cafile=ca_file)
        else:
            context = httpx.create_ssl_context()
    except (ImportError, OSError, ValueError) as error:
        of = f" of ca_file {ca_file}" if ca_file else ""
        raise RouteError(f"cannot read the certificates to trust{of}: {error}") from error
    try:
        if client_cert:
            context.load_cert_chain(client_cert, password="")  # it never asks for one
    except (OSError, ValueError) as error:
        raise RouteError(f"cannot read client_cert {client_cert}: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context
