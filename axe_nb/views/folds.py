"""Long texts that are kept whole in the saved tree, each folded below its beginning. Pure.

Source: design README "Second generation" (nothing is thrown away); goals.md "saved notebook".
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from html import escape

from axe_nb.text import plural
from axe_nb.views.outline import Block, Entry

ROOM = 16_000
"""Characters of HTML of all these texts together."""

FIRST = ("answered", "error", "result")
"""Labels of the texts that come before others."""

NAMES = {"answered": "answer", "was told": "task", "said": "text", "text so far": "text"}
"""Label of a text → its name, where that is another word."""


def choose_folds(root: Entry) -> Set[int]:
    """The ids of the blocks whose whole text there is room for."""
    cut = [block for block in _list_blocks(root) if block.whole]
    cut.sort(key=lambda b: FIRST.index(b.label) if b.label in FIRST else len(FIRST))
    chosen, room = set(), ROOM
    for block in cut:
        size = len(escape(block.whole, quote=False))
        if size <= room:
            chosen.add(id(block))
            room -= size
    return chosen


def title_of(block: Block) -> str:
    """The line that a text is folded into."""
    name = NAMES.get(block.label, block.label)
    return f"the whole {name}, {plural(len(block.whole), 'character')}"


def _list_blocks(entry: Entry) -> Iterator[Block]:
    yield from entry.before
    for inner in entry.rows:
        yield from _list_blocks(inner)
    yield from entry.after
