"""A Markdown text that grows, as HTML of its blocks. Pure.

What stands before the last blank line can hardly change any more, so most of a text is rendered
once. The HTML is at each moment the one that `markdown.render` gives.
Source: goals.md "streaming"; product.md "Notebook".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from axe_nb.text import count_common
from axe_nb.views.bidi import is_mixed
from axe_nb.views.markdown import Part, References, is_too_large, parse, quote


@dataclass(slots=True)
class GrowingMarkdown:
    """The HTML of a Markdown text, block by block, while the text grows."""

    blocks: list[str] = field(default_factory=list)
    """HTML of the text's blocks, in their order."""
    parsed: int = 0
    """Characters that the last update parsed again."""
    _done: str = ""
    """The beginning of the text that is not read again."""
    _done_blocks: list[str] = field(default_factory=list)
    _defined: References = field(default_factory=dict)
    """References that the done part defines."""
    _known: References = field(default_factory=dict)
    """References that its blocks were rendered with: a definition applies to all of a text."""
    _is_mixed: bool = False
    """True if it was rendered as one with letters from right to left, which affects each block."""

    def update(self, text: str) -> None:
        """Brings the blocks up to date.

        Args:
            text: the whole text as far as it has come. One that does not go on from the last one
                is rendered anew.
        """
        if not text.startswith(self._done):
            self._forget()
        mixed = self._is_mixed or is_mixed(text[len(self._done) :])
        parts, references = self._parse(text, mixed)
        if self._done and (mixed != self._is_mixed or not _are_equal(references, self._known)):
            self._forget()
            parts, references = self._parse(text, mixed)
        self._is_mixed, self._known = mixed, references
        self.blocks = [*self._done_blocks, *(part.html for part in parts)]
        if is_too_large(sum(map(len, self.blocks)), text):
            self.blocks = [quote(text)]
        self._settle(text, parts)

    def _parse(self, text: str, mixed: bool) -> tuple[list[Part], References]:
        rest = text[len(self._done) :]
        self.parsed = len(rest)
        return parse(rest, is_mixed=mixed, references=self._defined)

    def _forget(self) -> None:
        self._done, self._done_blocks, self._defined, self._is_mixed = "", [], {}, False

    def _settle(self, text: str, parts: Sequence[Part]) -> None:
        """Moves the blocks that cannot change any more to the done ones.

        These are the blocks before one that begins with a complete line below a blank line. An
        incomplete line may still turn out to continue what is above it (`**` is the beginning of
        bold text or of a rule), and so may a line without a blank line above.
        """
        lines = text[len(self._done) :].split("\n")
        for index in range(len(parts) - 1, 0, -1):
            line = parts[index].line
            if line < len(lines) - 1 and not lines[line - 1].strip(" \t"):
                break
        else:
            return
        added = {
            label: reference
            for label, reference in self._known.items()
            if label not in self._defined and reference["map"][0] < line
        }
        self._done += "\n".join(lines[:line]) + "\n"
        self._done_blocks += (part.html for part in parts[:index])
        self._defined = {**self._defined, **added}


def _are_equal(some: References, others: References) -> bool:
    """True if both lead to the same addresses; the lines that define them may differ."""
    return some.keys() == others.keys() and all(
        (one["href"], one["title"]) == (others[label]["href"], others[label]["title"])
        for label, one in some.items()
    )


def difference(before: Sequence[str], after: Sequence[str]) -> tuple[int, int, list[str]]:
    """The way from one list of texts to another one that begins like it.

    Returns:
        The number of texts to keep, the number of characters to keep of the next one, and what
        follows: the rest of that text, then whole texts.
    """
    kept = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        kept += 1
    news = list(after[kept:])
    if not (news and before[kept:]):
        return kept, 0, news
    size = count_common(before[kept], news[0])
    return kept, size, [news[0][size:], *news[1:]]
