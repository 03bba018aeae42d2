"""The text of an approval prompt: the call, the reason to ask, and the possible answers.

A person decides by it, so nothing in it may be invisible, look like part of the prompt, or be left
out without being counted.
Source: D-48, D-50, D-56; issue 9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from axe_nb.engine.questions import ApprovalRequest
from axe_nb.engine.step import Choice, Step
from axe_nb.text import count_most_columns, cut_middle, fold, one_line, printable, reveal

MAX_SHOWN = 4000
"""Characters shown of the arguments and of a preview; of longer ones, their start and end."""

MAX_WHOLE = 100_000
"""Characters shown of an argument that is shown in full, such as a command."""

MAX_NAME = 100
"""Characters shown of an agent's name."""

BLANKS = re.compile(r"[ \t\u3000]{5,}")
"""Blanks that may be a gap; five tabs are."""

GAP = 40
"""Columns of blanks that could push the rest of a line out of sight."""

BLANK_LINES = 3
"""Blank lines that are replaced by their number."""

MAX_LINES = 40
"""Lines that most windows show; of a longer call, the start may be out of sight."""

BAR = "  | "
"""Begins each line of an argument that is shown with its line breaks."""

GOES_ON = "  : "
"""Begins the rest of a line that is too long: none of it may stand where the prompt's words do."""

WIDTH = 78
"""Columns of a line, which most windows show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A possible answer: its first letter, or the whole word."""

    choice: Choice
    about: str = ""
    """Follows its word in the prompt."""
    needs_word: bool = False
    """True if its letter is not enough."""
    takes_reason: bool = False
    """True if more text may follow."""

    def __str__(self) -> str:
        word = self.choice if self.needs_word else f"[{self.choice[0]}]{self.choice[1:]}"
        return word + self.about


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An approval prompt."""

    text: str
    """The call and the reason to ask."""
    answers: tuple[Answer, ...]
    hidden: int
    """Number of characters of the call that are left out."""
    caution: str
    """The reason that only a whole word is a yes; empty if its letter is enough."""

    @property
    def choices(self) -> str:
        """The possible answers."""
        return "  ".join(map(str, self.answers))

    def find(self, word: str) -> Answer | None:
        """The answer with that word or letter; None if there is none."""
        return next((a for a in self.answers if word in (a.choice, a.choice[0])), None)


def format_question(request: ApprovalRequest) -> Question:
    """Formats the prompt for a call."""
    if request.raises:
        return _format_budget(request)
    arguments = dict(request.arguments)
    whole = arguments.pop(request.whole, None) if request.whole else None
    call, hidden = format_call(request.tool, arguments, whole)
    parts = [f"{format_caller(request)} wants to call {call}"]
    parts += [show(line) for line in request.reason.split("\n") if line]
    if request.detail:
        detail, more = _show_most(request.detail, MAX_SHOWN)
        parts.append(detail)
        hidden += more
    text = fold("\n".join(parts), WIDTH, GOES_ON)
    caution = _find_caution(hidden, text.count("\n") + 1)
    answers = _list_answers(show(request.always), show(request.host), caution)
    return Question(text=text, answers=tuple(answers), hidden=hidden, caution=caution)


def _format_budget(request: ApprovalRequest) -> Question:
    """The prompt before the budget of the session is passed."""
    text = fold(f"{format_caller(request)}: {show(request.reason)}", WIDTH, GOES_ON)
    answers = (
        Answer(choice="yes", about=f", raise it to {request.raises}"),
        Answer(choice="no", about=", end the run with an error", takes_reason=True),
        Answer(choice="stop", takes_reason=True),
    )
    return Question(text=text, answers=answers, hidden=0, caution="")


def _find_caution(hidden: int, lines: int) -> str:
    if hidden:
        return f"{hidden:,} characters are hidden"
    return f"there are {lines:,} lines above" if lines > MAX_LINES else ""


def _list_answers(always: str, host: str, caution: str) -> Iterator[Answer]:
    """Yields the possible answers, in order.

    Args:
        always: the later calls that `always` covers; empty = it cannot be chosen.
        host: the host that a yes allows for the session; empty = none.
        caution: the reason that only a whole word is a yes; empty if there is none.
    """
    about = f", {host} until the session ends" if host else ""
    if caution:
        about += f" (type the whole word: {caution})"
    yield Answer(choice="yes", about=about, needs_word=bool(caution))
    yield Answer(choice="no", takes_reason=True)
    if always:
        yield Answer(choice="always", about=f" for {always}", needs_word=bool(caution))
    yield Answer(choice="edit", about=" the arguments")
    yield Answer(choice="stop", takes_reason=True)


def format_model_question(request: ApprovalRequest) -> str:
    """Formats a question that a model asks the person.

    One of several lines could look like another prompt: each line is marked, and
    `format_answer_mark` repeats who asks.
    """
    caller = format_caller(request)
    detail, _ = _show_most(request.detail, MAX_SHOWN)
    if "\n" not in detail:
        return fold(f"{caller} asks: {detail}", WIDTH, GOES_ON)
    lines = "\n".join(BAR + line for line in detail.split("\n"))
    return fold(f"{caller} asks:\n{lines}", WIDTH, GOES_ON)


def format_answer_mark(request: ApprovalRequest) -> str:
    """Formats the words before the answer to a model's question."""
    return f"answer to {format_caller(request)}> " if "\n" in request.detail else "> "


def show(text: str) -> str:
    """The text with every character visible, and gaps and blank lines replaced by their number."""
    return "\n".join(_collapse(BLANKS.sub(_show_gap, reveal(text)).split("\n")))


def _show_gap(gap: re.Match[str]) -> str:
    return f" ⟨{len(gap[0])} blanks⟩ " if count_most_columns(gap[0]) >= GAP else gap[0]


def _collapse(lines: Iterable[str]) -> Iterator[str]:
    """Replaces blank lines by their number where many follow one another."""
    for is_text, run in groupby(lines, lambda line: bool(line.strip())):
        found = list(run)
        if is_text or len(found) < BLANK_LINES:
            yield from found
        else:
            yield f"⟨{len(found)} blank lines⟩"


def _show_most(text: str, limit: int) -> tuple[str, int]:
    """The text, or its start and end; returns the number of characters left out too."""
    kept, hidden = cut_middle(text, limit)
    return show(kept), hidden


def format_caller(request: ApprovalRequest | Step) -> str:
    """The agent and, for a child, its place in the tree."""
    where = f" ({request.run})" if request.run != "0" else ""
    return show(printable(one_line(request.agent, MAX_NAME))) + where


def format_call(tool: str, arguments: Mapping[str, Any], whole: object) -> tuple[str, int]:
    """Formats a call; returns the number of characters left out too."""
    name = show(printable(tool))
    text = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    given, hidden = _show_most(text, MAX_SHOWN)
    if whole is None:
        return f"{name}({given or '{}'})", hidden
    command = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)
    shown, more = _show_most(command, MAX_WHOLE)
    lines = "\n".join(BAR + line for line in shown.split("\n"))
    return f"{name}({given}):\n{lines}", hidden + more
