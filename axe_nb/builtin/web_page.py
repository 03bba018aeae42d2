"""What a web server sent, as text for a model: bounded, decoded, HTML as Markdown.

Source: issue 4.7; X-31, X-38.
"""

from __future__ import annotations

import codecs
import re
import zlib
from typing import TYPE_CHECKING

from axe_nb.text import one_line
from axe_nb.threads import in_thread
from axe_nb.tools.tool import ToolError

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 2 * 1024 * 1024
"""Of a page, unpacked."""

HTML = ("text/html", "application/xhtml+xml")

CHARSETS = frozenset(
    {
        "utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "iso8859-1", "iso8859-2",
        "iso8859-5", "iso8859-9", "iso8859-15", "cp1250", "cp1251", "cp1252", "cp1254",
        "koi8-r", "koi8-u", "shift_jis", "euc_jp", "euc_kr", "gbk", "gb2312", "gb18030", "big5",
    }
)  # fmt: skip
"""What pages are written in; all else is read as UTF-8: some codecs do more than decode."""

ADVICE = {
    401: "It needs a login: try another page",
    403: "It may not be read: try another page",
    404: "Check the address, or try another page",
    429: "The server wants fewer requests: wait, or try another page",
}
"""HTTP status → what to do next."""


async def as_text(response: httpx.Response, url: str) -> str:
    """The text of an answer, after its address and title.

    Raises:
        ToolError: it is a failure, too large, or no text.
    """
    status = response.status_code
    if status >= 400 or status < 200:
        advice = ADVICE.get(status, "Try again later, or another page")
        raise ToolError(f"HTTP {status} {response.reason_phrase} for {url}. {advice}")
    kind, _, options = response.headers.get("content-type", "text/plain").lower().partition(";")
    kind = kind.strip()
    if not _is_text(kind):
        raise ToolError(
            f"{url} is {one_line(kind, 100)}, and only text can be fetched. Try another page"
        )
    data = await _body(response, url)
    text = _decoded(data, options, kind)
    if text.count("\0", 0, 1000):
        raise ToolError(f"{url} is not text, and only text can be fetched. Try another page")
    if kind in HTML:
        text = await in_thread(_markdown, text)
    return f"{url}\n\n{text.strip() or '(empty page)'}"


def _is_text(kind: str) -> bool:
    known = ("application/json", "application/xml", "application/javascript", *HTML)
    return kind.startswith("text/") or kind in known or kind.endswith(("+json", "+xml"))


async def _body(response: httpx.Response, url: str) -> bytes:
    """The bytes of an answer, unpacked here so that little cannot become much."""
    declared = response.headers.get("content-length", "0")
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = b""
    if len(declared) > 15 or (declared.isdecimal() and int(declared) > MAX_BYTES):
        raise _too_large(url)
    if packing not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"{url} is packed as {one_line(packing, 40)}, which cannot be read. Try another page"
        )
    try:
        async for chunk in response.aiter_raw():
            plain = packing in ("identity", "")
            body += chunk if plain else unpack.decompress(chunk, MAX_BYTES + 1 - len(body))
            if len(body) > MAX_BYTES:
                raise _too_large(url)
    except zlib.error:
        raise ToolError(f"{url} is packed, and damaged. Try again, or another page") from None
    return body


def _too_large(url: str) -> ToolError:
    return ToolError(f"{url} is too large: more than {MAX_BYTES} bytes. Try a smaller page")


def _decoded(data: bytes, options: str, kind: str) -> str:
    """The text, in the charset that the server names, else the page itself, else UTF-8."""
    named = re.search(r"charset=[\"']?([\w.:-]{1,40})", options)
    if named is None and kind in HTML:
        start = data[:2048].decode("ascii", "replace").lower()
        named = re.search(r"<meta[^>]{0,200}charset=[\"']?([\w.:-]{1,40})", start)
    try:
        charset = codecs.lookup(named[1]).name if named else "utf-8"
    except LookupError:
        charset = "utf-8"
    if data.startswith(codecs.BOM_UTF8) or charset not in CHARSETS:
        charset = "utf-8"
    return data.decode(charset, "replace").removeprefix("\ufeff")


def _markdown(html: str) -> str:
    """A page as Markdown, its title first; scripts and styles are left out."""
    from justhtml import JustHTML

    page = JustHTML(html)
    title = page.query_one("title")
    text: str = page.to_markdown().strip()
    heading = " ".join(title.to_text().split()) if title is not None else ""
    return f"{heading}\n\n{text}" if heading and heading not in text[:500] else text
