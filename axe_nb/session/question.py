"""The text of an approval prompt: the call, the reason to ask, and the possible answers.

A person decides by it, so that nothing in it may be invisible, look like a part of the prompt, or
be left out without being counted.
Source: D-48, D-50, D-56; issue 9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axe_nb.engine.permissions import ApprovalRequest
from axe_nb.text import cut_middle, fold, one_line, printable, reveal

MAX_SHOWN = 4000
"""Characters shown of the arguments and of a preview; of longer ones, their start and end."""

MAX_WHOLE = 100_000
"""The same for an argument that is shown completely, such as a command."""

MAX_NAME = 100
"""Characters shown of an agent's name."""

GAP = re.compile(r"[ \t]{40,}")
"""Blanks that could push the rest of a line out of sight."""

BAR = "  | "
"""Begins each line of an argument that is shown with its line breaks."""

GOES_ON = "  : "
"""Begins the rest of a line that is too long: none of it may stand where the prompt's words do."""

WIDTH = 78
"""Columns of a line, which most windows show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An approval prompt."""

    text: str
    """The call and the reason to ask."""
    hidden: int
    """Number of characters left out."""
    always: str
    """The later calls that `always` covers; empty = it cannot be chosen."""
    host: str = ""
    """The host that a yes allows for the session."""

    @property
    def choices(self) -> str:
        """The possible answers."""
        yes = f"[y]es, {self.host} until the session ends" if self.host else "[y]es"
        always = f"[a]lways for {self.always}" if self.always else ""
        if self.hidden:
            yes = f"yes (the whole word: {self.hidden:,} characters are hidden)"
            always = always.replace("[a]lways", "always")
        others = ("[n]o", always, "[e]dit the arguments", "[s]top")
        return "  ".join(filter(None, (yes, *others)))


def format_question(request: ApprovalRequest) -> Question:
    """Formats the prompt for a call."""
    arguments = dict(request.arguments)
    whole = arguments.pop(request.whole, None) if request.whole else None
    call, hidden = _format_call(request.tool, arguments, whole)
    parts = [f"{_format_caller(request)} wants to call {call}"]
    parts += [show(line) for line in request.reason.split("\n") if line]
    if request.detail:
        detail, more = _show_most(request.detail, MAX_SHOWN)
        parts.append(detail)
        hidden += more
    return Question(
        text=fold("\n".join(parts), WIDTH, GOES_ON),
        hidden=hidden,
        always=show(request.always),
        host=show(request.host),
    )


def format_model_question(request: ApprovalRequest) -> str:
    """Formats a question that a model asks the person."""
    detail, _ = _show_most(request.detail, MAX_SHOWN)
    return fold(f"{_format_caller(request)} asks: {detail}", WIDTH, GOES_ON)


def show(text: str) -> str:
    """The text with every character visible, and long gaps replaced by their size."""
    return GAP.sub(lambda gap: f" ⟨{len(gap[0])} blanks⟩ ", reveal(text))


def _show_most(text: str, limit: int) -> tuple[str, int]:
    """The text, or its start and end; returns the number of characters left out too."""
    kept, hidden = cut_middle(text, limit)
    return show(kept), hidden


def _format_caller(request: ApprovalRequest) -> str:
    """The agent and, for a child, its place in the tree."""
    where = f" ({request.run})" if request.run != "0" else ""
    return show(printable(one_line(request.agent, MAX_NAME))) + where


def _format_call(tool: str, arguments: Mapping[str, Any], whole: object) -> tuple[str, int]:
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
