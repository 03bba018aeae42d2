"""A run as Markdown: headings, the tree as a nested list, all texts in fences.

What models and tools wrote stands in fences only: no viewer renders or loads any of it. The titles
of cited pages are escaped instead, beside their links.
Source: product.md "Traces"; goals.md "Safety".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from axe_nb.exports.html_page import MAX_CHARS, MAX_ROWS, Shown
from axe_nb.results import RunResult
from axe_nb.server_calls import Page
from axe_nb.text import clean, one_line
from axe_nb.views.outline import Block, Entry, Outline
from axe_nb.views.sources import MAX_LISTED, TITLE, count_more
from axe_nb.views.transcript import Transcript

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
_TICKS = re.compile(r"`{3,}")


def write_markdown(result: RunResult) -> str:
    """Returns the Markdown of a run."""
    root = Transcript.of(result).root
    assert root is not None
    outline = Outline(root, "", max_chars=MAX_CHARS, max_rows=MAX_ROWS)
    top = outline.entry(root)
    lines = [f"# {_escape(one_line(result.agent or result.model, 80))}", ""]
    lines += [_escape(f"{top.row.look.sign} {top.row.asked}"), ""]
    lines += ["## Prompt", "", *_fence(result.prompt[:MAX_CHARS], ""), ""]
    answer = outline.answer().text
    lines += ["## Answer", "", *(_fence(answer, "") if answer else ["(none)"]), ""]
    if pages := outline.sources().links:
        lines += ["## Sources", "", *_list_links(pages), ""]
    for warning in outline.warnings(root):
        lines += [f"> warning: {_escape(one_line(warning.text, 1000))}", ""]
    lines += ["## Tree", "", *_list_inside(top, "")]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def write_shown_markdown(shown: Shown) -> str:
    """Returns the text of what shows itself in a notebook, in a fence."""
    bundle, _ = shown._repr_mimebundle_()
    return "\n".join(_fence(bundle["text/plain"], "")) + "\n"


def _list_inside(entry: Entry, indent: str) -> Iterator[str]:
    for block in entry.before:
        yield from _format_block(block, indent)
    for inner in entry.rows:
        row = inner.row
        facts = " · ".join(_escape(fact) for fact in (row.asked, row.cost) if fact)
        yield f"{indent}- {row.look.sign} **{_escape(row.who)}** {facts}"
        yield from _list_inside(inner, indent + "  ")
    if entry.left_out:
        yield f"{indent}- … {entry.left_out} more"
    for block in entry.after:
        yield from _format_block(block, indent)


def _format_block(block: Block, indent: str) -> Iterator[str]:
    yield f"{indent}- {block.label}:"
    yield from _fence(block.text, indent + "  ")
    if block.rest:
        yield f"{indent}  … {_escape(block.rest)}"


def _list_links(pages: Sequence[Page]) -> Iterator[str]:
    """Yields the pages that an answer cites as links, whose titles have no meaning in Markdown."""
    for number, page in enumerate(pages[:MAX_LISTED], 1):
        yield f"{number}. {_escape(one_line(page.title, TITLE))} <{page.url}>"
    if more := count_more(pages):
        yield f"\n{more}"


def _fence(text: str, indent: str) -> Iterator[str]:
    """Yields a text between fences that are longer than any in it."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=2)
    ticks = "`" * (longest + 1)
    yield f"{indent}{ticks}text"
    for line in clean(text).split("\n"):
        yield indent + line
    yield indent + ticks


def _escape(text: str) -> str:
    """Returns a text of one line without a meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", text)
