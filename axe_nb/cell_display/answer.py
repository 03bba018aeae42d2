"""The answer of a run while it is being written, rendered as at the end."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from axe_nb.events import DataForm
from axe_nb.text import clean, plural
from axe_nb.views.html import format_data, format_sources
from axe_nb.views.markdown import render_blocks
from axe_nb.views.rows import ANSWER, cut_end, indent_json
from axe_nb.views.tree import Node, TurnNode

PACE = 50_000
"""Characters that may be rendered each second: a long answer grows in larger steps."""

END = 500
"""Characters shown from the end of an answer that is too long to show in full."""

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)

CLOSERS = {"{": "}", "[": "]"}


class LiveAnswer:
    """The answer above a live tree."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self.blocks: list[str] = []
        """HTML of the answer's blocks, and of what stands for the rest of a long one."""
        self._seen: tuple[object, ...] = ()
        """The turn, its attempt and the size of its text when last read."""
        self._text, self._rendered = "", list[str]()
        """The text that was rendered last, and its blocks."""
        self._next_at = 0.0

    @property
    def is_earlier(self) -> bool:
        """True if it was said before the calls that go on now."""
        turn = _find_turn(self._root)
        return self._root.result is None and turn is not None and not turn.is_last

    def owes(self, now: float) -> bool:
        """True if there is something new to show and an update is due."""
        return now >= self._next_at and self._look() != self._seen

    def update(self, now: float, *, is_over: bool = False) -> None:
        """Brings the blocks up to date.

        Args:
            now: seconds since the run began.
            is_over: True for the last update, which is never put off.
        """
        turn, seen = _find_turn(self._root), self._look()
        is_written = turn is not None and turn.draft is not None
        if seen != self._seen and (is_over or now >= self._next_at or not is_written):
            self._seen = seen
            self._next_at = now + self._read(turn) / PACE

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
        """Renders the answer; returns the number of characters that this took."""
        result = self._root.result
        draft = turn.draft if turn and not result else None
        whole = "" if draft else self._root.text
        size = draft.text.size if draft else len(whole)
        text = draft.text.show_beginning(ANSWER) if draft else whole[:ANSWER]
        rest = list[str]()
        if size > ANSWER:
            end = draft.text.show_end(END + 1) if draft else whole[-END - 1 :]
            end = escape(cut_end(end, END), quote=False)
            rest = [_format_more(size - ANSWER), f"<pre class=axe-nb-end>{end}</pre>"]
        form: DataForm = turn.data if turn and not turn.calls else ""
        if result:
            form = "" if result.data is None else "object"
        if form:
            text = text.lstrip().removeprefix("```json").lstrip()  # a fence around JSON
        read = 0 if text == self._text else len(text)
        if form and (result or not text or text[0] in "{["):
            shown = _list_data(text, form, is_whole=not rest, is_over=result is not None)
        elif read:
            shown = render_blocks(clean(text).strip("\n"))
        else:
            shown = self._rendered if text else []
        self._text, self._rendered = text, shown
        sources = self._root.turns[-1].sources if result and self._root.turns else ()
        self.blocks = [*shown, *rest, *filter(None, [format_sources(sources)])]
        return read


def _list_data(text: str, form: DataForm, *, is_whole: bool, is_over: bool) -> list[str]:
    """The complete values so far, as they will look at the end; a long text is cut."""
    if not is_whole:
        return [format_data(clean(text), is_whole=False)]
    data = read_beginning(text)
    if form == "value" and isinstance(data, dict) and data.keys() <= {"value"}:
        data = data.get("value")
    if data is None and not is_over:
        return []
    shown = indent_json(text if data is None else json.dumps(data, ensure_ascii=False))
    more = [_format_more(len(shown) - ANSWER)] if len(shown) > ANSWER else []
    return [format_data(clean(shown[:ANSWER]), is_whole=not more), *more]


def _format_more(count: int) -> str:
    return f"<p>… {plural(count, 'more character')}</p>"


def _find_turn(root: Node) -> TurnNode | None:
    """The turn whose text would be the answer if the run ended now; None if there is none."""
    for turn in reversed(root.turns):
        if turn.text or (turn.draft and turn.draft.text.size):
            return turn
    return None


def read_beginning(text: str) -> Any:
    """The data of a beginning of JSON: what is open is closed, what is half a value is left out.

    Returns:
        None if nothing is complete yet, or the text is not JSON.
    """
    open_now, end, depth = list[str](), 0, 0
    is_key = False
    for match in TOKEN.finditer(text):
        token = match[0]
        if token == '"':  # of a text without its end
            break
        if token in CLOSERS:
            open_now.append(token)
            is_key = token == "{"
            continue
        if token in "]}":
            if open_now:
                open_now.pop()
        elif token in ",:":
            is_key = token == "," and open_now[-1:] == ["{"]
            continue
        elif is_key or (match.end() == len(text) and token[0] != '"'):  # a number may go on
            continue
        end, depth = match.end(), len(open_now)
        if token in "]}" and not depth:  # what may follow are the end of a fence, and words
            break
    # what was opened before `end` is still open: whatever closes moves `end`
    closers = "".join(CLOSERS[each] for each in reversed(open_now[:depth]))
    try:
        return json.loads(text[:end] + closers)
    except (ValueError, RecursionError):
        return None
