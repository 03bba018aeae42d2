"""An answer as Markdown: rendered by a library, with nothing in it that acts or loads.

A link says where it leads: if its text looks like another address, the true host stands beside it.
Source: product.md "Notebook"; jupyter-facts §5 (raw HTML and images off).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.linkify import linkify
from markdown_it.token import Token

from axe_nb.invisible import INVISIBLE, REPLACEMENT
from axe_nb.text import clean
from axe_nb.views.bidi import is_mixed
from axe_nb.views.code import format_code

SCHEMES = ("http://", "https://", "mailto:")
"""Allowed beginnings of a link; other links stay plain text."""

DEEPEST = 20
"""Nested lists, quotes and brackets; deeper ones are left out."""

GROWTH = 14
"""Characters of HTML for one of the text; a table of empty cells would have 70."""

SMALL = 4000
"""Characters of HTML that any text may have."""

HOST = re.compile(
    r"[a-z][a-z0-9+.-]*://([^\s/?#]+)|((?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[\w-]+|\d+))", re.IGNORECASE
)
"""An address or the name of a host in the text of a link."""

LONGEST = 1000
"""Characters of a link's text in which hosts are looked for, as the search takes their square."""

MAX_MISSING = 2000
"""Maximum number of empty cells that fill up a table; each takes 15 µs."""

References: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Label → address and title of a link, and the lines that define it, as the library notes them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A block at the top level of a text: a paragraph, a list, a table, ..."""

    line: int
    """First line of the block in the text, from 0."""
    html: str


def render(text: str) -> str:
    """HTML of a Markdown text; one that would grow out of proportion stays as it is."""
    parts, _ = parse(text, is_mixed=is_mixed(text))
    html = "".join(part.html for part in parts)
    return quote(text) if is_too_large(len(html), text) else html


def parse(
    text: str, *, is_mixed: bool, references: References | None = None
) -> tuple[list[Part], References]:
    """The blocks of a Markdown text, whose HTML in a row is that of the text.

    Args:
        text: the text, or the rest of one from the first line of a block on.
        is_mixed: True if there are letters that are read from right to left anywhere in it.
        references: those that are defined before it; they take precedence over its own.

    Returns:
        The blocks, and all references including those given.
    """
    parser = _make_parser()
    known = dict(references or {})
    env = {"mixed": is_mixed, "references": known}
    tokens = parser.parse(text, env)
    parts, begin = [], 0
    for end, token in enumerate(tokens, 1):
        if token.level or token.nesting == 1:
            continue
        line = (tokens[begin].map or [0])[0]
        # cleaned once more after `&shy;` and the like have become characters
        html = clean(parser.renderer.render(tokens[begin:end], parser.options, env))
        parts.append(Part(line, html))
        begin = end
    return parts, known


def is_too_large(size: int, text: str) -> bool:
    """True if so many characters of HTML are out of proportion to their text."""
    return size > SMALL + GROWTH * len(text)


def quote(text: str) -> str:
    """HTML of a text as it is."""
    return f"<pre style=white-space:pre-wrap>{escape(text, quote=False)}</pre>\n"


@cache
def _make_parser() -> MarkdownIt:
    options = {
        "html": False, "breaks": True, "linkify": True, "maxNesting": DEEPEST,
        "highlight": format_code,
    }  # fmt: skip
    parser = MarkdownIt("commonmark", options)
    parser.enable(["table", "strikethrough", "linkify"]).disable("image")
    assert parser.linkify is not None
    # only what is written as an address: `main.py` and `e.g.this` are none
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    parser.block.ruler.at("table", _make_table, {"alt": ["paragraph", "reference"]})
    parser.add_render_rule("table_text", lambda _, *given: _quote_table(*given))
    parser.validateLink = _is_plain_link  # type: ignore[method-assign]
    parser.inline.ruler.at("linkify", _link_address)
    parser.core.ruler.push("code", _name_code)
    parser.core.ruler.push("hosts", _mark_links)
    parser.core.ruler.push("columns", _align_cells)
    parser.core.ruler.push("direction", _set_directions)
    return parser


def _make_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The library's rule, which fills up short rows; a table that misses many cells is its text."""
    if silent or not table(state, start, end, True):
        return table(state, start, end, silent)
    line, missing, columns = start + 2, 0, _count_pipes(state, start + 1)
    while line < end and not state.isEmpty(line):
        missing += max(0, columns - _count_pipes(state, line))
        line += 1
    if missing <= MAX_MISSING:
        return table(state, start, end, silent)
    token = state.push("table_text", "", 0)
    token.content = state.getLines(start, line, state.blkIndent, False)
    token.map = [start, line]
    state.line = line
    return True


def _quote_table(tokens: Sequence[Token], index: int, *_: object) -> str:
    return quote(tokens[index].content)


def _count_pipes(state: StateBlock, line: int) -> int:
    return state.src.count("|", state.bMarks[line], state.eMarks[line])


def _is_plain_link(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)


def _link_address(state: StateInline, silent: bool) -> bool:
    """The library's rule; before each `://` it searches all of the line for the scheme."""
    return state.pending[-5:].lower().endswith(("http", "https")) and linkify(state, silent)


def _mark_links(state: StateCore) -> None:
    """Adds `rel` to all links, and the true host to those whose text names another one."""
    for token in state.tokens:
        if token.children:
            token.children = list(_with_hosts(token.children))


def _name_code(state: StateCore) -> None:
    """Lets code that is merely indented look like code between fences."""
    for token in state.tokens:
        if token.type == "code_block":
            token.type, token.tag, token.info = "fence", "code", ""


def _align_cells(state: StateCore) -> None:
    """Puts cells of columns without an alignment on the left, where Markdown cells have them."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open"):
            token.attrs.setdefault("style", "text-align:left")


def _set_directions(state: StateCore) -> None:
    """Lets each block of a text with letters from right to left take its own direction."""
    if state.env.get("mixed"):
        for token in state.tokens:
            if token.nesting == 1:
                token.attrSet("dir", "auto")


def _with_hosts(tokens: list[Token]) -> Iterator[Token]:
    target, shown = "", ""
    for token in tokens:
        yield token
        if token.type == "link_open":
            token.attrs.pop("title", None)  # it could name another address
            token.attrSet("rel", "noopener noreferrer")
            target, shown = _host_of(str(token.attrs.get("href", ""))), ""
        elif token.type == "link_close":
            if len(shown) > LONGEST or any(
                name not in (target, f"www.{target}") for name in _named_hosts(shown)
            ):
                yield Token("text", "", 0, content=f" ({target})")
        else:
            shown += token.content


def _host_of(url: str) -> str:
    """The host of a link, or that of a mailto link's address."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or parts.path.rpartition("@")[2]).lower()
    except ValueError:
        return url


def _named_hosts(text: str) -> Iterator[str]:
    """Yields the hosts that a text names or seems to name, without ports."""
    seen = INVISIBLE.sub("", text).replace(REPLACEMENT, "")
    plain = unicodedata.normalize("NFKC", seen).replace("\u3002", ".").lower()
    for match in HOST.finditer(plain):
        yield re.sub(r":\d*$", "", match[1] or match[2])
