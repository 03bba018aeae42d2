"""An answer as Markdown: rendered by a library, with nothing in it that acts or loads.

Source: product.md "Notebook"; jupyter-facts §5 (raw HTML and images off).
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

SCHEMES = ("http://", "https://", "mailto:")
"""Allowed beginnings of a link; other links stay plain text."""

DEEPEST = 20
"""Nested lists, quotes and brackets; deeper ones are left out."""


def render(text: str) -> str:
    """HTML of a Markdown text."""
    html: str = _make_parser().render(text)
    return html


@cache
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    parser.enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = _is_plain_link  # type: ignore[method-assign]
    return parser


def _is_plain_link(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)
