"""httpx's own transport in place of ours, where AXE_NB_HTTP=httpx asks for it.

Mocks of httpx replace that transport, so requests over ours reach the real server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from axe_nb.errors import ConfigError
from axe_nb.text import quote

if TYPE_CHECKING:
    import httpx

VARIABLE = "AXE_NB_HTTP"


def uses_httpx() -> bool:
    """True if the environment asks for httpx's own transport.

    Raises:
        ConfigError: it asks for something else.
    """
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted not in ("", "httpx"):
        raise ConfigError(
            f"{VARIABLE} is {quote(wanted)}", hint=f"set it to httpx, or unset {VARIABLE}"
        )
    return bool(wanted)


class StockReply:
    """A reply whose headers have arrived; it must be closed."""

    def __init__(self, response: httpx.Response) -> None:
        is_read = response.is_stream_consumed  # as some mocks make it, decompressed
        self.status = response.status_code
        self.headers = response.headers.raw
        if is_read:
            self.headers = [h for h in self.headers if h[0].lower() != b"content-encoding"]
        self._response = response
        self._pieces = response.aiter_bytes() if is_read else response.aiter_raw()

    def __aiter__(self) -> StockReply:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Ends the exchange."""
        await self._response.aclose()


async def send(
    client: httpx.AsyncClient,
    method: str,
    url: httpx.URL,
    headers: Mapping[bytes, bytes],
    body: Sequence[bytes],
    seconds: Mapping[str, float | None],
) -> StockReply:
    """Sends a request and returns the reply once its headers have arrived.

    Raises:
        httpx.TransportError: there is no reply.
        Exception: whatever a mock raises.
    """
    import httpx

    request = client.build_request(
        method,
        url,
        headers=list(headers.items()),
        content=b"".join(body) if body else None,
        timeout=httpx.Timeout(None, **seconds),
    )
    return StockReply(await client.send(request, stream=True))


class StockClients:
    """The clients of one event loop: one for each state of the environment, which they read.

    Servers with certificates of their own have other clients.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str | None, ...], httpx.AsyncClient] = {}

    def find(self, certificates: tuple[str, str]) -> httpx.AsyncClient:
        """Returns the client for servers with this `ca_file` and `client_cert`.

        Raises:
            httpx.TransportError: the certificates or the proxy cannot be used.
        """
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        from axe_nb.providers.routes import RouteError, make_context, read_variables

        state = (*read_variables(), *certificates)
        if state not in self._clients:
            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            verify = make_context(read_variables(), certificates) if any(certificates) else True
            try:
                self._clients[state] = httpx.AsyncClient(
                    cookies=no_cookies, limits=limits, verify=verify
                )
            except (ImportError, OSError) as error:  # SOCKS, or the certificates to trust
                raise RouteError(str(error)) from error
            except (httpx.InvalidURL, ValueError):  # its text has the login
                raise RouteError("the proxy in the environment is not a valid URL") from None
        return self._clients[state]

    async def aclose(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.aclose()
