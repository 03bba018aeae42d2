"""Questions to the person: may a call run, or how does a run go on.

Both take one way: `engine/ask_person.py` puts them, cassettes keep the answers.
Source: D-48, D-50, D-56.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from axe_nb.engine.step import Decision, Step


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question for the user: approval of a call, or a model's own question."""

    run: str
    """Id of the run that asks."""
    agent: str
    tool: str
    arguments: Mapping[str, Any]
    detail: str = ""
    """A diff of the changes that the call would make, or the model's question."""
    whole: str = ""
    """The argument to show completely, with its line breaks; empty = none."""
    always: str = "this tool"
    """The later calls that `always` covers; empty = it covers none."""
    reason: str = ""
    """The reason to ask, if it is not the mode, and notes about the call; one a line."""
    workdir: str = ""
    """The real workdir of the call."""
    host: str = ""
    """The host that approval allows for the session; empty = the call reaches none (D-50)."""
    raises: str = ""
    """The budget that a yes sets, such as `$0.80`; empty = the question is about something else."""
    call_id: str = ""
    """Id of the call that it is about."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the tool's arguments, for edited ones; empty = they are not checked."""


Question: TypeAlias = ApprovalRequest | Step
"""Both kinds of question to the person: may the call run, and how does the run go on."""

AskPerson: TypeAlias = Callable[[Question], Awaitable[Decision]]
"""Asks the user at the notebook or terminal. Cassettes record and replay the answers (D-48)."""
