"""The events of a run, and its result, which the last event carries.

Every view (notebook, command line, JSON, verbose) is built from these alone.
Source: product.md "Python"; D-2, D-24, D-34, D-38; B-9.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from axe_nb.errors import AxeError, RunError
from axe_nb.messages import DeltaKind, Message, ToolCall, ToolResult, Usage
from axe_nb.text import one_line, plural, quote

Status = Literal[
    "completed", "max_turns", "max_tool_calls", "max_tokens", "timeout", "cancelled", "error"
]

EXIT_CODES: Mapping[Status, int] = {
    "completed": 0,
    "max_turns": 1,
    "max_tool_calls": 1,
    "max_tokens": 1,
    "timeout": 3,
    "cancelled": 130,
    "error": 1,
}
"""Status → exit code of the command line (D-38); an error with a cause uses the cause's."""

_NEXT_STEPS: Mapping[Status, str] = {
    "timeout": "give it more time with --timeout",
    "max_turns": "give it a smaller task, or continue it: -c in a notebook, "
    "continue_from= in Python",
}
"""Status → the next step after a run that ended with it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a run, its response, and the results of its calls."""

    number: int
    """From 1."""
    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    """One per call, in call order; fewer only if the run was stopped in this turn."""
    stop_reason: str
    usage: Usage
    parallel: bool = True
    """True if the calls ran in parallel."""
    closing: bool = False
    """True for the final summary that a subagent is asked for (D-17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of an agent's run, whatever its status (D-2)."""

    status: Status
    text: str
    """The final text; if the run did not complete, the text so far."""
    agent: str
    model: str
    """provider/model."""
    error: str | None = None
    """One line; None if the run completed."""
    turns: int = 0
    """Answered requests of this agent, without those of its children."""
    tool_calls: int = 0
    """Executed calls of this agent, without those of its children."""
    retries: int = 0
    """Requests of this agent that were sent again after a failure (D-23)."""
    children: tuple[RunResult, ...] = ()
    """The runs of its delegations, in call order."""
    usage: Usage = Usage()
    """Sum over its own turns (A-8.8)."""
    stop_reason: str = ""
    """Stop reason of the last response, as the provider reports it."""
    duration_ms: int = 0
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation, as sent to and received from the model."""
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """For a child: notes of its delegation tool (D-34); `task_id` is its id."""
    warnings: tuple[str, ...] = ()
    """Problems that did not stop the run: load warnings, a truncated reply."""
    log: tuple[Turn, ...] = field(default=(), repr=False)
    """The turns, from which views are drawn."""
    id: str = "0"
    """Dotted path in the tree: `0` is the root, `0.2` the child of its second call."""
    call_id: str = ""
    """Id of the parent's call that started this run; empty for a root."""
    prompt: str = field(default="", repr=False)
    """The complete prompt."""
    task: str = field(default="", repr=False)
    """The task, without the context added by its caller."""
    cause: AxeError | None = field(default=None, repr=False, compare=False)
    """The exception behind `error`, if there is one."""

    def __repr__(self) -> str:
        facts = [self.agent, self.status, plural(self.turns, "turn")]
        facts += [plural(len(self.children), "child run")] if self.children else []
        text = self.text if self.ok else self.error or self.text
        return f"RunResult({', '.join(facts)}: {quote(one_line(text, 80))})"

    @property
    def ok(self) -> bool:
        """True if the run completed."""
        return self.status == "completed"

    @property
    def total_usage(self) -> Usage:
        """Tokens of this run and of all runs below it."""
        total = Usage()
        for result in self.walk():
            total += result.usage
        return total

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for this result."""
        return self.cause.exit_code if self.cause else EXIT_CODES[self.status]

    def walk(self) -> Iterator[RunResult]:
        """This result, then every result below it, depth first in call order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def with_metadata(self, notes: Mapping[str, str]) -> RunResult:
        """This result with the notes of its delegation tool and its id as metadata (D-34)."""
        common = {"task_id": self.id, "token_estimate": str(self.usage.total)}
        return replace(self, metadata={**common, **notes})

    def raise_for_status(self) -> RunResult:
        """Returns this result if the run completed.

        Raises:
            ProviderError: a request to the model failed.
            RunError: the run did not complete for another reason.
        """
        if self.ok:
            return self
        if self.cause:
            failure: AxeError = copy(
                self.cause
            )  # raised twice, the same one would collect tracebacks
        else:
            hint = _NEXT_STEPS.get(self.status, "")
            failure = RunError(self.error or self.status, exit_code=self.exit_code, hint=hint)
        failure.place = self.place
        raise failure

    @property
    def place(self) -> str:
        """Agent and turn in which the run ended, for display."""
        return f"in agent {self.agent}, turn {max(self.turns, 1)}"

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON types, with children but without messages."""
        return {
            "agent": self.agent,
            "model": self.model,
            "status": self.status,
            "text": self.text,
            "error": self.error,
            "stop_reason": self.stop_reason,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "retries": self.retries,
            "usage": _format_tokens(self.usage),
            "total_usage": _format_tokens(self.total_usage),
            "duration_ms": self.duration_ms,
            "files_read": list(self.files_read),
            "files_modified": list(self.files_modified),
            "warnings": list(self.warnings),
            "metadata": dict(self.metadata),
            "children": [child.to_dict() for child in self.children],
        }

    def to_json(self) -> str:
        """The line that `--json` prints: seven keys, sorted (B-9, A-8.6)."""
        line = {
            "content": self.text,
            "duration_ms": self.duration_ms,
            "input_tokens": self.usage.input_tokens,
            "model": self.model,
            "output_tokens": self.usage.output_tokens,
            "stop_reason": self.stop_reason,
            "tool_calls": self.tool_calls,
        }
        return json.dumps(line, ensure_ascii=False)


def _format_tokens(usage: Usage) -> dict[str, int]:
    return asdict(usage)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts: the root, or a child between the two events of its call."""

    run: str
    """Id of the run, as in `RunResult.id`."""
    parent: str
    """Id of the parent run; empty for a root."""
    call_id: str
    """Id of the parent's call; empty for a root."""
    agent: str
    model: str
    depth: int
    """0 = root."""
    task: str
    prompt: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request is sent."""

    run: str
    turn: int
    """From 1."""
    messages: int
    """Messages in the request."""
    pending: int
    """Number of tool results in the request."""
    closing: bool = False
    """True for the final summary that a subagent is asked for (D-17)."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a streamed reply has arrived: of its text, its reasoning or a call's arguments."""

    run: str
    turn: int
    attempt: int
    """From 1; a later attempt restarts the whole reply (D-23)."""
    text: str
    kind: DeltaKind = "text"
    call: int = 0
    """For `arguments`: position of their call in the reply, from 0."""
    name: str = ""
    """For `arguments`: name of the tool, at least with the first piece; empty = as before."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A turn's request has failed and is sent again after a wait, as `[retry]` says (D-23)."""

    run: str
    turn: int
    """From 1."""
    attempt: int
    """The attempt to come, from 2; the turn's text starts anew."""
    seconds: float
    """The wait."""
    reason: str
    """HTTP status of the failure, else its category."""
    error: str
    """The failure, in one line."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A response has arrived; its calls, if any, run next."""

    run: str
    turn: int
    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    usage: Usage
    parallel: bool
    closing: bool = False
    """As in `TurnStarted`; calls in such a reply are dropped."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call starts."""

    run: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result."""

    run: str
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run has ended, including any turn or call still in progress."""

    run: str
    result: RunResult


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | TextDelta
    | RetryScheduled
    | TurnFinished
    | ToolStarted
    | ToolFinished
    | RunFinished
)

Emit: TypeAlias = Callable[[Event], None]
"""Receives an event; neither blocks nor raises."""


def discard(event: Event) -> None:
    """An `Emit` for events that no one receives."""
