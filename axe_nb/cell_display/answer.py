"""The answer of a run while it is written: as it will look at the end, sent as what has changed.

Source: product.md "Notebook"; goals.md "streaming".
"""

from __future__ import annotations

from typing import Any

from axe_nb.text import clean, plural
from axe_nb.views.excerpts import cut_end
from axe_nb.views.growing import GrowingMarkdown, difference
from axe_nb.views.outline import ANSWER
from axe_nb.views.tree import Node, TurnNode

PACE = 50_000
"""Characters that may be read again in a second: a long list or table grows by larger steps."""

END = 500
"""Characters of the end that are shown of an answer which is too long to be shown whole."""


class LiveAnswer:
    """The answer above a live tree.

    The browser joins pieces of HTML, so each update names the state that it applies to. A piece at
    another place could mean something else there.
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self._markdown = GrowingMarkdown()
        self._seen: tuple[object, ...] = ()
        """The turn, its attempt and the size of its text, as they were read last."""
        self._state = 0
        """Number of the latest state."""
        self._rest = ["", ""]
        """The number of characters that are left out, and the end of the text."""
        self._next_at = 0.0

    def owes(self, now: float) -> bool:
        """True if there is more to show than the last update had, and it is time to."""
        return now >= self._next_at and self._look() != self._seen

    def update(self, now: float, *, is_over: bool = False) -> dict[str, Any]:
        """The update that leads from the last state to that of now.

        Args:
            now: seconds since the run began.
            is_over: True for the last update, which is never put off.
        """
        before, old = self._state, self._markdown.blocks
        turn = _find_turn(self._root)
        seen = self._look()
        if seen != self._seen and (is_over or now >= self._next_at or not _is_written(turn)):
            self._seen = seen
            self._state += 1
            self._read(turn)
            self._next_at = now + self._markdown.parsed / PACE
        return self._format(before, *difference(old, self._markdown.blocks))

    def whole(self) -> dict[str, Any]:
        """The update that leads from nothing to the last state."""
        return self._format(0, 0, 0, self._markdown.blocks)

    def _format(self, before: int, kept: int, size: int, html: list[str]) -> dict[str, Any]:
        turn = _find_turn(self._root)
        return {
            "before": before,
            "state": self._state,
            "kept": kept,
            "size": size,
            "html": html,
            "rest": self._rest,
            "is_earlier": self._root.result is None and turn is not None and not turn.is_last,
        }

    def _look(self) -> tuple[object, ...]:
        if self._root.result:
            return ("the end",)
        turn = _find_turn(self._root)
        if turn is None:
            return ()
        draft = turn.draft
        return (
            (turn.key, draft.attempt, draft.text.size) if draft else (turn.key, 0, len(turn.text))
        )

    def _read(self, turn: TurnNode | None) -> None:
        draft = turn.draft if turn and not self._root.result else None
        whole = "" if draft else self._root.text
        size = draft.text.size if draft else len(whole)
        text = draft.text.show_beginning(ANSWER) if draft else whole[:ANSWER]
        self._rest = ["", ""]
        if size > ANSWER:
            end = draft.text.show_end(END + 1) if draft else whole[-END - 1 :]
            self._rest = [f"… {plural(size - ANSWER, 'more character')}", cut_end(end, END)]
        self._markdown.update(clean(text).strip("\n"))


def _is_written(turn: TurnNode | None) -> bool:
    return turn is not None and turn.draft is not None


def _find_turn(root: Node) -> TurnNode | None:
    """The turn whose text would be the answer if the run ended now; None = there is none."""
    for turn in reversed(root.turns):
        if turn.text or (turn.draft and turn.draft.text.size):
            return turn
    return None
