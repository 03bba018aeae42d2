"""What a run tells the outside: seven events, and the result that the last one carries.

Every view (notebook, command line, JSON, verbose) consumes these and nothing else.
Source: product.md "Python"; D-2, D-24, D-34, D-38; B-9.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
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
"""Status → exit code of the command line (D-38); an error with a cause has the cause's."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a run, its response, and what its calls came to."""

    number: int
    """From 1."""
    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    """One per call, in call order; fewer only where the run was stopped in this turn."""
    stop_reason: str
    usage: Usage
    parallel: bool = True
    """Whether the calls ran side by side."""
    closing: bool = False
    """Whether this is the summary that a subagent is asked for at its end (D-17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one agent's run came to, however it ended (D-2)."""

    status: Status
    text: str
    """The final text; of a run that did not complete, the text so far."""
    agent: str
    model: str
    """provider/model."""
    error: str | None = None
    """One line; None where the run completed."""
    turns: int = 0
    """Requests that this agent sent and had answered, not its children's."""
    tool_calls: int = 0
    """Calls that this agent had executed, not its children's."""
    children: tuple[RunResult, ...] = ()
    """The runs of its delegations, in call order."""
    usage: Usage = Usage()
    """Summed over its own turns (A-8.8)."""
    stop_reason: str = ""
    """Of its last response, in the provider's words."""
    duration_ms: int = 0
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation, as the model had it."""
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Of a child: what its delegation tool notes about it (D-34); `task_id` is its place."""
    warnings: tuple[str, ...] = ()
    """What is worth knowing but stopped nothing: load warnings, a cut reply."""
    log: tuple[Turn, ...] = field(default=(), repr=False)
    """What happened turn by turn; the views draw from it."""
    id: str = "0"
    """Place in the tree: `0` is the root, `0.2.1` its second call's child's first."""
    call_id: str = ""
    """The parent's call that started this run; empty for a root."""
    prompt: str = field(default="", repr=False)
    """What the agent was told, whole."""
    task: str = field(default="", repr=False)
    """What it was asked, without the context that its caller added."""
    cause: AxeError | None = field(default=None, repr=False, compare=False)
    """The exception behind `error`, where there is one."""

    def __repr__(self) -> str:
        told = [self.agent, self.status, plural(self.turns, "turn")]
        told += [plural(len(self.children), "child run")] if self.children else []
        said = self.text if self.ok else self.error or self.text
        return f"RunResult({', '.join(told)}: {quote(one_line(said, 80))})"

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
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
        """What the command line exits with for this result."""
        return self.cause.exit_code if self.cause else EXIT_CODES[self.status]

    def walk(self) -> Iterator[RunResult]:
        """This result, then every result below it, depth first in call order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def with_metadata(self, notes: Mapping[str, str]) -> RunResult:
        """This result with what its delegation tool notes about it, and its place (D-34)."""
        common = {"task_id": self.id, "token_estimate": str(self.usage.total)}
        return replace(self, metadata={**common, **notes})

    def raise_for_status(self) -> RunResult:
        """This result where it is ok.

        Raises:
            ProviderError: the model's server failed.
            RunError: the run ended otherwise without completing.
        """
        if self.ok:
            return self
        if self.cause:
            failure: AxeError = copy(self.cause)  # the same one, raised twice, would grow
        else:
            hint = "give it more time with --timeout" if self.status == "timeout" else ""
            failure = RunError(self.error or self.status, exit_code=self.exit_code, hint=hint)
        failure.place = self.place
        raise failure

    @property
    def place(self) -> str:
        """Where in the tree the run ended, for people."""
        return f"in agent {self.agent}, turn {max(self.turns, 1)}"

    def to_dict(self) -> dict[str, Any]:
        """The whole result as JSON types, children included, messages left out."""
        return {
            "agent": self.agent,
            "model": self.model,
            "status": self.status,
            "text": self.text,
            "error": self.error,
            "stop_reason": self.stop_reason,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "usage": _tokens(self.usage),
            "total_usage": _tokens(self.total_usage),
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


def _tokens(usage: Usage) -> dict[str, int]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


@dataclass(frozen=True, slots=True)
class RunStarted:
    """An agent begins: the root, or a child within the two events of its call."""

    run: str
    """Place in the tree, as `RunResult.id`."""
    parent: str
    """Place of the run that delegated; empty for a root."""
    call_id: str
    """The parent's call; empty for a root."""
    agent: str
    model: str
    depth: int
    """0 = root."""
    task: str
    prompt: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request goes out."""

    run: str
    turn: int
    """From 1."""
    messages: int
    """Messages in the request."""
    pending: int
    """Tool calls that the request brings results for."""
    closing: bool = False
    """Whether it is the summary that a subagent is asked for at its end (D-17)."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply arrived, where the provider streams."""

    run: str
    turn: int
    attempt: int
    """From 1; a piece of a later one begins the turn's text anew (D-23)."""
    text: str
    kind: DeltaKind = "text"
    call: int = 0
    """Of `arguments`: the call that they belong to, by its position in the reply from 0."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A response is here; its calls, if any, run next."""

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
    """A call begins."""

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
    """An agent has ended; a turn or call of it that was still open has ended with it."""

    run: str
    result: RunResult


Event: TypeAlias = (
    RunStarted | TurnStarted | TextDelta | TurnFinished | ToolStarted | ToolFinished | RunFinished
)

Emit: TypeAlias = Callable[[Event], None]
"""Takes an event; neither blocks nor raises."""
