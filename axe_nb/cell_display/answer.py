"""The answer of a run while it is being written, rendered as at the end and sent as changes.

Source: product.md "Notebook"; goals.md "streaming".
"""

from __future__ import annotations

import json
from typing import Any

from axe_nb.events import DataForm
from axe_nb.text import clean, plural
from axe_nb.views import excerpts
from axe_nb.views.data_table import format_data
from axe_nb.views.growing import GrowingMarkdown, difference
from axe_nb.views.growing_data import read_beginning
from axe_nb.views.outline import ANSWER
from axe_nb.views.sources import format_sources
from axe_nb.views.tree import Node, TurnNode

PACE = 50_000
"""Characters that may be parsed again each second: a long list or table grows in larger steps."""

END = 500
"""Characters shown from the end of an answer that is too long to show in full."""


class LiveAnswer:
    """The answer above a live tree.

    The browser joins pieces of HTML, so each update names the state that it applies to. A piece at
    another place could mean something else there.
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self._markdown = GrowingMarkdown()
        self._blocks: list[str] = []
        """HTML of the answer's blocks."""
        self._seen: tuple[object, ...] = ()
        """The turn, its attempt and the size of its text when last read."""
        self._state = 0
        """Number of the latest state."""
        self._rest = ["", ""]
        """The number of characters that are left out, and the end of the text."""
        self._next_at = 0.0

    def owes(self, now: float) -> bool:
        """True if there is something new to show and an update is due."""
        return now >= self._next_at and self._look() != self._seen

    def update(self, now: float, *, is_over: bool = False) -> dict[str, Any]:
        """The update from the last state to the current one.

        Args:
            now: seconds since the run began.
            is_over: True for the last update, which is never put off.
        """
        before, old = self._state, self._blocks
        turn = _find_turn(self._root)
        seen = self._look()
        if seen != self._seen and (is_over or now >= self._next_at or not _is_written(turn)):
            self._seen = seen
            self._state += 1
            self._next_at = now + self._read(turn) / PACE
        return self._format(before, *difference(old, self._blocks))

    def whole(self) -> dict[str, Any]:
        """The update from nothing to the last state."""
        return self._format(0, 0, 0, self._blocks)

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

    def _read(self, turn: TurnNode | None) -> int:
        """Parses the answer again; returns the number of characters parsed."""
        draft = turn.draft if turn and not self._root.result else None
        whole = "" if draft else self._root.text
        size = draft.text.size if draft else len(whole)
        text = draft.text.show_beginning(ANSWER) if draft else whole[:ANSWER]
        self._rest = ["", ""]
        if size > ANSWER:
            end = draft.text.show_end(END + 1) if draft else whole[-END - 1 :]
            self._rest = [
                f"… {plural(size - ANSWER, 'more character')}",
                excerpts.cut_end(end, END),
            ]
        form = _find_form(self._root, turn)
        text = _open_fence(text) if form else text
        if form and (self._root.result or not text or text[0] in "{["):
            self._blocks = self._list_data(text, form)
            return len(text)
        self._markdown.update(clean(text).strip("\n"))
        self._blocks = self._markdown.blocks
        if self._root.result and self._root.turns and self._root.turns[-1].sources:
            self._blocks = [*self._blocks, format_sources(self._root.turns[-1].sources)]
        return self._markdown.parsed

    def _list_data(self, text: str, form: DataForm) -> list[str]:
        """The complete values so far, as they will look at the end; a long text is cut."""
        if self._rest[0]:
            return [format_data(clean(text), is_whole=False)]
        data = read_beginning(text)
        if form == "value" and isinstance(data, dict) and data.keys() <= {"value"}:
            data = data.get("value")
        if data is None and self._root.result is None:
            return []
        shown = excerpts.indent_json(text if data is None else json.dumps(data, ensure_ascii=False))
        if len(shown) > ANSWER:
            self._rest = [f"… {plural(len(shown) - ANSWER, 'more character')}", ""]
        return [format_data(clean(shown[:ANSWER]), is_whole=len(shown) <= ANSWER)]


def _open_fence(text: str) -> str:
    """The text without the fence that some models put around JSON."""
    return text.lstrip().removeprefix("```json").lstrip()


def _find_form(root: Node, turn: TurnNode | None) -> DataForm:
    """The form of the answer; for a finished run, that of its data."""
    if root.result:
        return "" if root.result.data is None else "object"
    return turn.data if turn and not turn.calls else ""


def _is_written(turn: TurnNode | None) -> bool:
    return turn is not None and turn.draft is not None


def _find_turn(root: Node) -> TurnNode | None:
    """The turn whose text would be the answer if the run ended now; None if there is none."""
    for turn in reversed(root.turns):
        if turn.text or (turn.draft and turn.draft.text.size):
            return turn
    return None
