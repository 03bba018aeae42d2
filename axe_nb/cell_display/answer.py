"""The answer of a run while it is being written, rendered as at the end."""

from __future__ import annotations

from html import escape

from axe_nb.text import clean, plural
from axe_nb.views.html import format_data, format_sources
from axe_nb.views.markdown import render_blocks
from axe_nb.views.outline import ANSWER
from axe_nb.views.rows import cut_end, indent_json
from axe_nb.views.transcript import Node, TurnNode

PACE = 50_000
"""Characters that may be rendered each second: a long answer grows in larger steps."""

END = 500
"""Characters shown from the end of an answer that is too long to show in full."""


class LiveAnswer:
    """The answer above a live tree."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self.blocks: list[str] = []
        """HTML of the answer's blocks, and of the placeholder for the omitted part of a long
        one."""
        self._seen: tuple[object, ...] = ()
        """Turn, attempt and size of the text at the last update."""
        self._next_at = 0.0

    @property
    def is_earlier(self) -> bool:
        """True if the text precedes calls that are still running."""
        turn = _find_turn(self._root)
        return self._root.result is None and turn is not None and not turn.is_last

    def owes(self, now: float) -> bool:
        return now >= self._next_at and self._look() != self._seen

    def update(self, now: float, *, is_over: bool = False) -> None:
        """Brings the blocks up to date; the last update is never put off."""
        turn, seen = _find_turn(self._root), self._look()
        is_written = turn is not None and turn.draft is not None
        if seen != self._seen and (is_over or now >= self._next_at or not is_written):
            self._seen = seen
            self._next_at = now + self._draw(turn) / PACE

    def _look(self) -> tuple[object, ...]:
        if self._root.result:
            return ("the end",)
        turn = _find_turn(self._root)
        if turn is None:
            return ()
        draft = turn.draft
        return (turn.key, draft.attempt, draft.text.size) if draft else (turn.key, len(turn.text))

    def _draw(self, turn: TurnNode | None) -> int:
        """Renders the answer; returns the number of characters that this took."""
        result = self._root.result
        draft = turn.draft if turn and not result else None
        text = self._root.text if draft is None else draft.text.show_beginning(ANSWER)
        size = draft.text.size if draft else len(text)
        is_json = text.lstrip()[:1] in ("{", "[")  # words before calls are none
        is_data = result.data is not None if result else bool(turn and turn.data and is_json)
        rest = []
        if size > ANSWER:
            end = draft.text.show_end(END + 1) if draft else text[-END - 1 :]
            end = escape(cut_end(end, END), quote=False)
            more = plural(size - ANSWER, "more character")
            rest = [f"<p>… {more}</p>", f"<pre class=axe-nb-end>{end}</pre>"]
        elif result and is_data:
            text = indent_json(text)
        shown = clean(text[:ANSWER]).strip("\n")
        blocks = render_blocks(shown)
        if is_data and shown:
            blocks = [format_data(shown)]
        sources = self._root.turns[-1].sources if result and self._root.turns else ()
        self.blocks = [*blocks, *rest, *filter(None, [format_sources(sources)])]
        return len(shown)


def _find_turn(root: Node) -> TurnNode | None:
    """The turn whose text would be the answer if the run ended now; None if there is none."""
    for turn in reversed(root.turns):
        if turn.text or (turn.draft and turn.draft.text.size):
            return turn
    return None
