"""fetch: a page of the public internet as text.

A name is resolved once, every address that it has is judged, and the connection is made to one that
was judged: a name cannot mean another machine a moment later. Redirects go the same way.
Source: issue 4.7; D-20; X-30, X-31, X-38.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from axe_nb.builtin.public_ip import Address, literal, refusal_reason, resolve, spelling_problem
from axe_nb.builtin.web_page import as_text
from axe_nb.text import format_seconds, quote
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import Tool, ToolError

if TYPE_CHECKING:
    import httpx

MAX_URL = 2000
"""Characters of an address."""

MAX_REDIRECTS = 5

WAIT = 10.0
"""Seconds to wait for a connection, or for the next bytes."""

MAX_TRIED = 3
"""Addresses of a host that are tried."""

DEFAULT_PORTS = {"http": 80, "https": 443}

HEADERS = {
    "User-Agent": "axe-nb (fetch tool)",
    "Accept": "text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


@dataclass
class Fetcher:
    """Fetches pages, within bounds."""

    allowed: frozenset[str] = frozenset()
    """`address:port` that may be connected to although it is not public: for tests and demos."""
    seconds: float = 30.0
    """Time of one fetch, with all its redirects."""
    per_minute: int = 30
    """Fetches in any sixty seconds."""
    resolve: Callable[[str, int], Sequence[Address]] = resolve
    """(host, port) -> its addresses. Blocks; raises OSError."""
    _times: deque[float] = field(default_factory=deque, init=False)

    async def fetch(self, url: str) -> str:
        """Fetch a page of the public internet as text; HTML becomes Markdown.

        Args:
            url: the address of the page, with https:// or http://
        """
        self._count()
        try:
            async with asyncio.timeout(self.seconds):
                return await self._followed(check_url(url))
        except TimeoutError:
            raise ToolError(
                f"{url}: no page after {format_seconds(self.seconds)}s. "
                "Try again later, or another page"
            ) from None

    def _count(self) -> None:
        now = time.monotonic()
        while self._times and self._times[0] <= now - 60:
            self._times.popleft()
        if len(self._times) >= self.per_minute:
            wait = max(1, round(self._times[0] + 60 - now))
            raise ToolError(
                f"rate limit: {self.per_minute} fetches a minute are used up. Wait {wait}s, "
                "or go on with what is there"
            )
        self._times.append(now)

    async def _followed(self, url: httpx.URL) -> str:
        """The page at an address, or where it redirects to."""
        for _ in range(MAX_REDIRECTS + 1):
            async with self._answer(url) as response:
                if not response.has_redirect_location:
                    return await as_text(response, str(url))
                target = response.headers["location"]
            url = check_url(target, url)
        raise ToolError(f"{url}: more than {MAX_REDIRECTS} redirects. Try another page")

    @asynccontextmanager
    async def _answer(self, url: httpx.URL) -> AsyncIterator[httpx.Response]:
        """What the server at an address answers; its body has not been read yet."""
        import httpx

        addresses = await self._judged(url)
        verify = await in_thread(httpx.create_ssl_context) if url.scheme == "https" else False
        try:
            async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False) as transport:
                response = await _first(transport, url, addresses)
                try:
                    yield response
                finally:
                    await response.aclose()
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise ToolError(
                f"{url}: could not be reached: {reason}. Check the address, or try another page"
            ) from None

    async def _judged(self, url: httpx.URL) -> Sequence[Address]:
        """The addresses of a URL's host, if all of them may be connected to."""
        host, port = url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme]
        own = literal(host)
        try:
            addresses = [own] if own else await in_thread(self.resolve, host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ToolError(f"{url}: {host} is not known: {reason}. Check the address") from None
        for address in addresses:
            why = refusal_reason(address)
            if why and f"{address}:{port}" not in self.allowed:
                raise ToolError(
                    f"blocked: {url} leads to {address}, which is not public ({why}). "
                    "Only pages of the public internet can be fetched"
                )
        return addresses


def check_url(given: str, base: httpx.URL | None = None) -> httpx.URL:
    """A URL that fetch takes; where its host is, is another question.

    Args:
        base: what it is relative to, as the target of a redirect may be.

    Raises:
        ToolError: it is none.
    """
    import httpx

    text = given.strip()
    shown = quote(text[:200]) + (f" (redirected from {base})" if base else "")
    if not text or len(text) > MAX_URL:
        raise ToolError(f"invalid URL: empty or over {MAX_URL} characters. Give https://…")
    try:
        url = base.join(text) if base else httpx.URL(text)
        host = url.raw_host.decode("ascii")
        port_fits = url.port is None or 0 < url.port < 65536
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"invalid URL: {shown}: {error}. Give https://…") from None
    if url.scheme not in DEFAULT_PORTS:
        raise ToolError(f"invalid URL: {shown}: only http and https can be fetched")
    if url.userinfo:
        raise ToolError(f"invalid URL: {shown} has a user name in it. Leave it out")
    if not port_fits:
        raise ToolError(f"invalid URL: {shown} has no such port. Leave it out")
    if problem := spelling_problem(host):
        raise ToolError(f"blocked: the host of {shown} {problem}. Write it plainly")
    return url


async def _first(
    transport: httpx.AsyncHTTPTransport, url: httpx.URL, addresses: Sequence[Address]
) -> httpx.Response:
    """The answer of the first address that takes a connection.

    Raises:
        httpx.TransportError: none does, or the connection broke.
    """
    import httpx

    host = url.raw_host.decode("ascii")
    extensions: dict[str, Any] = {
        "timeout": dict.fromkeys(("connect", "read", "write", "pool"), WAIT)
    }
    if not literal(host):
        extensions["sni_hostname"] = host  # what the certificate must be for
    headers = {**HEADERS, "Host": url.netloc.decode("ascii")}
    failure: httpx.TransportError = httpx.ConnectError("it has no address")
    for address in addresses[:MAX_TRIED]:
        there = url.copy_with(host=str(address), fragment=None)
        request = httpx.Request("GET", there, headers=headers, extensions=extensions)
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = error
    raise failure


def tool(fetcher: Fetcher) -> Tool:
    """fetch, within the bounds of a fetcher."""
    return make_tool(fetcher.fetch, "read")


TOOLS = {"fetch": tool(Fetcher())}
