"""The text twin of a tree: its answer, the cited pages, then the rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from axe_nb.results import RunResult
from axe_nb.text import plural
from axe_nb.views.rows import MINOR, THOUGHT, Block, Entry, Outline
from axe_nb.views.transcript import Transcript


def as_text(result: RunResult, *, name: str = "axe_nb.last()") -> str:
    """The text twin: the answer, then the tree, indented by two spaces per level; deterministic."""
    return "\n".join(as_lines(Outline(Transcript.of(result).whole, name)))


def as_lines(outline: Outline) -> Iterator[str]:
    """The text twin: the answer, then the tree, two spaces a level."""
    answer = outline.answer()
    if answer.text:
        yield answer.text
        if answer.rest:
            yield f"… {answer.rest}"
        yield ""
    if (sources := outline.sources()).text:
        yield from _format_block(sources, "")
        yield ""
    root = outline.tree
    yield f"{root.row.look.sign} {root.row.who} · {root.row.asked}"
    for warning in outline.warnings(outline.root):
        yield from _format_block(warning, "")
    left_out = MINOR if outline.is_long else frozenset({THOUGHT})
    yield from _format_inside(root, "  ", left_out)


def _format_inside(entry: Entry, indent: str, left_out: frozenset[str]) -> Iterator[str]:
    for block in entry.before:
        if block.label not in left_out:
            yield from _format_block(block, indent)
    for inner in entry.rows:
        row = inner.row
        facts = " · ".join(filter(None, (row.who, row.asked, row.cost)))
        yield f"{indent}{row.look.sign} {facts}"
        yield from _format_inside(inner, indent + "  ", left_out)
    if entry.left_out:
        yield f"{indent}… {plural(entry.left_out, 'more row')}"
    for block in entry.after:
        if block.label not in left_out:
            yield from _format_block(block, indent)


def _format_block(block: Block, indent: str) -> Iterator[str]:
    label = f"! {block.label}" if block.label == "warning" else block.label
    if block.is_line and not block.rest:
        yield f"{indent}{label}: {block.text}"
        return
    yield f"{indent}{label}:"
    for line in block.text.split("\n"):
        yield f"{indent}  {line}".rstrip()
    if block.rest:
        yield f"{indent}  … {block.rest}"
