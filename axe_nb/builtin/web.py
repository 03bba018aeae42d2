"""fetch: returns a page of the public internet as text.

A host name is resolved once, and the connection goes to a checked address, so that the name cannot
resolve to another machine in between. The target of each redirect is checked in the same way.
Source: D-20, D-50, X-30, X-31, X-38.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from axe_nb.agents.names import LABEL, fold_host, parse_address
from axe_nb.text import format_seconds, one_line, quote
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import CallSite, Guard, Tool, ToolContext, ToolError, text_argument

if TYPE_CHECKING:
    import httpx

Address = IPv4Address | IPv6Address

SPECIAL = (
    "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20",
)  # fmt: skip
"""Special networks that `ipaddress` may consider public, and the address of Azure's platform
services."""

CARRIES_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Networks of IPv4-mapped and NAT64 addresses, whose last 32 bits are an IPv4 address."""

MAX_URL, MAX_REDIRECTS, MAX_TRIED, MAX_BYTES = 2000, 5, 3, 2 * 1024 * 1024
"""Limits of a fetch: characters of a URL, redirects, addresses tried, decompressed bytes."""

HTML = ("text/html", "application/xhtml+xml")

CHARSET = re.compile(
    r"charset=[\"']?(utf-16(?:[lb]e)?|iso-8859-(?:[1-9]|1[013-6])|windows-125[0-8]|koi8-[ru]"
    r"|shift_jis|euc-(?:jp|kr)|gbk|gb2312|gb18030|big5)\b"
)
"""Pattern for the charsets accepted besides UTF-8; some Python codecs do more than decode text."""

DEFAULT_PORTS = {"http": 80, "https": 443}

HEADERS = {
    "User-Agent": "axe-nb (fetch tool)",
    "Accept": "text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}


def refusal_reason(address: Address) -> str:
    """Returns the reason why an address is refused; empty if the address is public."""
    if any(address in network for network in CARRIES_IPV4):
        return refusal_reason(IPv4Address(int(address) & 0xFFFFFFFF))
    for kind in ("loopback", "link-local", "multicast", "private"):
        if getattr(address, f"is_{kind.replace('-', '_')}"):
            return kind
    is_special = any(address in ip_network(network) for network in SPECIAL)
    if address.version == 6:
        is_special |= address not in IPv6Network("2000::/3") or bool(address.scope_id)
    if is_special or not address.is_global:
        return "reserved"
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as own:
        own.bind((str(address), 0))
        return "an address of this machine"  # only these can be bound
    return ""


def resolve(host: str, port: int) -> Sequence[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


@dataclass
class Fetcher:
    allowed: frozenset[str] = frozenset()
    """Non-public `address:port` pairs that may be fetched, for tests and demos."""
    seconds: float = 30.0
    per_minute: int = 30
    resolve: Callable[[str, int], Sequence[Address]] = resolve
    """Function that resolves a host and port to IP addresses; it may block, and raise OSError."""
    _times: list[float] = field(default_factory=list, init=False)

    async def fetch(self, ctx: ToolContext, url: str) -> str:
        """Fetch a page from the public internet as text; HTML is converted to Markdown.

        Args:
            url: the URL of the page, starting with https:// or http://
        """
        now = time.monotonic()
        self._times = [at for at in self._times if at > now - 60]
        if len(self._times) >= self.per_minute:
            wait = max(1, round(self._times[0] + 60 - now))
            raise ToolError(
                f"rate limit: {self.per_minute} fetches per minute reached. Wait {wait}s, "
                "or continue with what you have"
            )
        self._times.append(now)
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow(check_url(url), ctx)
        except TimeoutError:
            raise ToolError(
                f"{url}: no response after {format_seconds(self.seconds)}s. Try again later, or "
                "try another page"
            ) from None

    async def _follow(self, url: httpx.URL, ctx: ToolContext) -> str:
        import httpx

        first = host_of(url)
        for _ in range(MAX_REDIRECTS + 1):
            addresses = await self._resolve_public(url)
            verify = await in_thread(httpx.create_ssl_context) if url.scheme == "https" else False
            transport = httpx.AsyncHTTPTransport(verify=verify, trust_env=False)
            try:
                async with (
                    transport,
                    aclosing(await _send_to_first(transport, url, addresses)) as response,
                ):
                    if not response.has_redirect_location:
                        return await _read_text(response, str(url))
                    location = response.headers["location"]
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
                raise ToolError(
                    f"{url}: connection failed: {reason}. Check the URL, or try another page"
                ) from None
            target = check_url(location, url)
            if host_of(target) != first and not ctx.allows_host(host_of(target)):
                raise ToolError(
                    f"{url} redirects to {target}, on another host, which was not followed. "
                    "Fetch that URL if you need it"
                )
            url = target
        raise ToolError(f"{url}: more than {MAX_REDIRECTS} redirects. Try another page")

    async def _resolve_public(self, url: httpx.URL) -> Sequence[Address]:
        host, port = url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme]
        own = parse_address(host)
        try:
            addresses = [own] if own else await in_thread(self.resolve, host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ToolError(f"{url}: cannot resolve {host}: {reason}. Check the URL") from None
        for address in addresses:
            why = refusal_reason(address)
            if why and f"{address}:{port}" not in self.allowed:
                raise ToolError(
                    f"blocked: {url} resolves to {address}, which is not public ({why}). "
                    "Only public addresses can be fetched"
                )
        return addresses


def check_url(given: str, base: httpx.URL | None = None) -> httpx.URL:
    """Parses a URL. Raises ToolError if the URL is invalid or is not allowed.

    `base` is the URL that redirected to `given`, if any; `given` may then be relative to `base`.
    """
    import httpx

    text = given.strip()
    shown = quote(text[:200]) + (f" (redirected from {base})" if base else "")
    if not text or len(text) > MAX_URL:
        raise ToolError(f"invalid URL: empty or over {MAX_URL} characters. Use https://…")
    try:
        url = base.join(text) if base else httpx.URL(text)
        host = url.raw_host.decode("ascii")
        port_fits = url.port is None or 0 < url.port < 65536
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"invalid URL: {shown}: {error}. Use https://…") from None
    if url.scheme not in DEFAULT_PORTS:
        raise ToolError(f"invalid URL: {shown}: only http and https can be fetched")
    if url.userinfo or not port_fits:
        raise ToolError(f"invalid URL: {shown} contains a user name or an invalid port. Remove it")
    labels = fold_host(host).split(".")
    is_name = parse_address(host) is None
    is_odd = is_name and re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1])
    if is_odd or "%" in host or (is_name and not all(map(LABEL.fullmatch, labels))):
        raise ToolError(
            f"blocked: the host of {shown} is neither a host name nor an address in its usual "
            "notation. Use standard notation"
        )
    return url


def host_of(url: httpx.URL) -> str:
    return fold_host(url.raw_host.decode("ascii"))


def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    return Guard(host=host_of(check_url(text_argument(arguments, "url"))))


async def _send_to_first(
    transport: httpx.AsyncHTTPTransport, url: httpx.URL, addresses: Sequence[Address]
) -> httpx.Response:
    import httpx

    host = url.raw_host.decode("ascii")
    extensions: dict[str, Any] = {"timeout": httpx.Timeout(10.0).as_dict()}
    if not parse_address(host):
        extensions["sni_hostname"] = host  # the name that the certificate must match
    headers = {**HEADERS, "Host": url.netloc.decode("ascii")}
    failure: httpx.TransportError = httpx.ConnectError("the host has no address")
    for address in addresses[:MAX_TRIED]:
        target = url.copy_with(host=str(address), fragment=None)
        request = httpx.Request("GET", target, headers=headers, extensions=extensions)
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = error
    raise failure


async def _read_text(response: httpx.Response, url: str) -> str:
    import httpx

    status = response.status_code
    if status >= 400 or status < 200:
        raise ToolError(
            f"HTTP {status} {response.reason_phrase} for {url}. Check the URL, try again later, or "
            "try another page"
        )
    kind, _, options = response.headers.get("content-type", "text/plain").lower().partition(";")
    kind = kind.strip()
    known = ("application/json", "application/xml", "application/javascript", *HTML)
    if not (kind.startswith("text/") or kind in known or kind.endswith(("+json", "+xml"))):
        raise ToolError(
            f"{url} is {one_line(kind, 100)}, and only text can be fetched. Try another page"
        )
    body, coding = b"", response.headers.get("content-encoding", "").lower()
    try:
        # one coding at most: of nested ones, a few bytes could become gigabytes
        if coding not in ("", "identity", "gzip", "deflate"):
            raise httpx.DecodingError(f"unsupported compression {one_line(coding, 40)}")
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise ToolError(
                    f"{url} is too large: more than {MAX_BYTES} bytes. Try a smaller page"
                )
    except httpx.DecodingError as error:
        raise ToolError(f"{url} cannot be read: {error}. Try again, or try another page") from None
    charset = CHARSET.search(options)
    text = body.decode(charset[1] if charset else "utf-8", "replace").removeprefix("\ufeff")
    if text.count("\0", 0, 1000):
        raise ToolError(f"{url} is not text, and only text can be fetched. Try another page")
    if kind in HTML:
        text = await in_thread(_to_markdown, text)
    return f"{url}\n\n{text.strip() or '(empty page)'}"


def _to_markdown(html: str) -> str:
    from justhtml import JustHTML

    page = JustHTML(html)
    title = page.query_one("title")
    text: str = page.to_markdown().strip()
    heading = " ".join(title.to_text().split()) if title is not None else ""
    return f"{heading}\n\n{text}" if heading and heading not in text[:500] else text


def tool(fetcher: Fetcher) -> Tool:
    return replace(make_tool(fetcher.fetch, "network"), guard=guard)


TOOLS = {"fetch": tool(Fetcher())}
