"""Converts a web server's response into text for a model: bounded, decoded, HTML as Markdown.

Source: issue 4.7; X-31, X-38.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from axe_nb.providers.decompression import CODINGS, DecompressionError, decompress, find_coding
from axe_nb.text import one_line
from axe_nb.threads import in_thread
from axe_nb.tools.tool import ToolError

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 2 * 1024 * 1024
"""Size limit of a decompressed page."""

HTML = ("text/html", "application/xhtml+xml")

CHARSETS = frozenset(
    {
        "utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "iso8859-1", "iso8859-2",
        "iso8859-5", "iso8859-9", "iso8859-15", "cp1250", "cp1251", "cp1252", "cp1254",
        "koi8-r", "koi8-u", "shift_jis", "euc_jp", "euc_kr", "gbk", "gb2312", "gb18030", "big5",
    }
)  # fmt: skip
"""Accepted charsets; others are read as UTF-8, since some codecs do more than decode."""

ADVICE = {
    401: "It requires a login: try another page",
    403: "Access is forbidden: try another page",
    404: "Check the address, or try another page",
    429: "Too many requests: wait, or try another page",
}
"""HTTP status → next step."""


async def as_text(response: httpx.Response, url: str) -> str:
    """Returns the text of a response, preceded by its URL and title.

    Raises:
        ToolError: the response is an error, too large or not text.
    """
    status = response.status_code
    if status >= 400 or status < 200:
        advice = ADVICE.get(status, "Try again later, or try another page")
        raise ToolError(f"HTTP {status} {response.reason_phrase} for {url}. {advice}")
    kind, _, options = response.headers.get("content-type", "text/plain").lower().partition(";")
    kind = kind.strip()
    if not _is_text(kind):
        raise ToolError(
            f"{url} is {one_line(kind, 100)}, and only text can be fetched. Try another page"
        )
    data = await _read_body(response, url)
    text = _decode(data, options, kind)
    if text.count("\0", 0, 1000):
        raise ToolError(f"{url} is not text, and only text can be fetched. Try another page")
    if kind in HTML:
        text = await in_thread(_to_markdown, text)
    return f"{url}\n\n{text.strip() or '(empty page)'}"


def _is_text(kind: str) -> bool:
    known = ("application/json", "application/xml", "application/javascript", *HTML)
    return kind.startswith("text/") or kind in known or kind.endswith(("+json", "+xml"))


async def _read_body(response: httpx.Response, url: str) -> bytes:
    """Returns the body of a response, decompressed here so that its size can be bounded."""
    declared = response.headers.get("content-length", "0")
    coding = find_coding(response.headers.get("content-encoding", ""))
    body = b""
    if len(declared) > 15 or (declared.isdecimal() and int(declared) > MAX_BYTES):
        raise _too_large(url)
    if coding and coding not in CODINGS:
        raise ToolError(
            f"{url} is compressed as {one_line(coding, 40)}, which is not supported. "
            "Try another page"
        )
    pieces = response.aiter_raw()
    try:
        async for piece in decompress(pieces) if coding else pieces:
            body += piece
            if len(body) > MAX_BYTES:
                raise _too_large(url)
    except DecompressionError:
        raise ToolError(
            f"{url} has damaged compressed data. Try again, or try another page"
        ) from None
    return body


def _too_large(url: str) -> ToolError:
    return ToolError(f"{url} is too large: more than {MAX_BYTES} bytes. Try a smaller page")


def _decode(data: bytes, options: str, kind: str) -> str:
    """Decodes with the charset named by the server, else by the page, else with UTF-8."""
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


def _to_markdown(html: str) -> str:
    """Converts a page to Markdown, title first, without scripts and styles."""
    from justhtml import JustHTML

    page = JustHTML(html)
    title = page.query_one("title")
    text: str = page.to_markdown().strip()
    heading = " ".join(title.to_text().split()) if title is not None else ""
    return f"{heading}\n\n{text}" if heading and heading not in text[:500] else text
