"""The pages that an answer cites, or that a search has found, as a numbered list. Pure.

Titles and addresses come from the web: each title is one bounded line, and beside it stands the
host that its link leads to.
Source: D-76; goals.md "Safety".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import urlsplit

from axe_nb.server_calls import Page
from axe_nb.text import one_line
from axe_nb.views import bidi
from axe_nb.views.appearance import MUTED

MAX_LISTED = 10
"""Pages of one list; others are counted."""

TITLE = 100
"""Characters of a title."""

ADDRESS = 200
"""Characters of an address that is written out; of a longer one, the host is."""


def format_lines(pages: Sequence[Page]) -> str:
    """The list as text."""
    return "\n".join(_list_lines(pages))


def _list_lines(pages: Sequence[Page]) -> Iterator[str]:
    for number, page in enumerate(pages[:MAX_LISTED], 1):
        address = page.url if len(page.url) <= ADDRESS else f"{_find_host(page)}/…"
        yield f"{number}. {' — '.join(filter(None, (one_line(page.title, TITLE), address)))}"
    if more := count_more(pages):
        yield more


def count_more(pages: Sequence[Page]) -> str:
    """The number of pages that are not listed, in words; empty if all are."""
    left = len(pages) - MAX_LISTED
    return f"… {left:,} more" if left > 0 else ""


def format_links(pages: Sequence[Page]) -> str:
    """The list as HTML, with links."""
    items = "".join(f"<li>{_format_link(page)}</li>" for page in pages[:MAX_LISTED])
    more = f"<small>{count_more(pages)}</small>" if count_more(pages) else ""
    return f"<ol style='margin:0;white-space:normal'>{items}</ol>{more}"


def _format_link(page: Page) -> str:
    host = _find_host(page)
    title = escape(one_line(page.title, TITLE) or host, quote=False)
    link = (
        f'<a href="{escape(page.url)}" rel="noopener noreferrer"{bidi.direction(title)}>{title}</a>'
    )
    return f"{link} <small style=opacity:{MUTED}>{escape(host, quote=False)}</small>"


def format_sources(pages: Sequence[Page]) -> str:
    """The list below an answer, as HTML; empty if there are none."""
    heading = f"<small style=opacity:{MUTED}>Sources</small>"
    return f"<div>{heading}{format_links(pages)}</div>" if pages else ""


def _find_host(page: Page) -> str:
    return urlsplit(page.url).hostname or ""
