"""The result of a run, whatever its status: what was said, by whom, and what it took.

Source: product.md "Python"; D-2, D-34, D-38; B-9.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from axe_nb.data_files import write_data
from axe_nb.errors import AxeError, RunError
from axe_nb.exchanges import Exchange, drop_spelled
from axe_nb.messages import Message, ToolCall, ToolResult, Usage
from axe_nb.records.convert import from_json, to_json
from axe_nb.redaction import Filter, find_filter
from axe_nb.text import one_line, plural, quote

if TYPE_CHECKING:
    from axe_nb.inspection.sent import SentRequest

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
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False, compare=False)
    """The requests to its model with their outcomes, in order."""
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

    def request(self, place: str | int | None = None, protocol: str | None = None) -> SentRequest:
        """Returns a request that was sent: its body, what fills the context, what changed.

        Args:
            place: `0.2/3`, the third turn of run `0.2`; `0.2`, its last turn; a turn of this run;
                None = its last.
            protocol: `anthropic`, `openai` or `ollama`: the request as it would be over that
                protocol; None = as it was sent.

        Raises:
            ConfigError: there is no request at that place.
        """
        from axe_nb.inspection.sent import find_request

        return find_request(self, place, protocol)

    def raise_for_status(self) -> RunResult:
        """Returns this result if the run completed.

        Raises:
            ProviderError: a request to the model failed.
            RunError: the run did not complete for another reason.
        """
        if self.ok:
            return self
        if self.cause:
            # raised twice, the same one would collect tracebacks
            failure: AxeError = copy(self.cause)
        else:
            hint = _NEXT_STEPS.get(self.status, "")
            failure = RunError(self.error or self.status, exit_code=self.exit_code, hint=hint)
        failure.place = self.place
        raise failure

    @property
    def place(self) -> str:
        """Agent and turn in which the run ended, for display."""
        return f"in agent {self.agent}, turn {max(self.turns, 1)}"

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """The result as JSON types, with children.

        Args:
            full: if True, all of it in the form that `from_dict` reads, secrets included; if
                False, without messages.
        """
        if full:
            return to_json(self)
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
            "usage": asdict(self.usage),
            "total_usage": asdict(self.total_usage),
            "duration_ms": self.duration_ms,
            "files_read": list(self.files_read),
            "files_modified": list(self.files_modified),
            "warnings": list(self.warnings),
            "metadata": dict(self.metadata),
            "children": [child.to_dict() for child in self.children],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunResult:
        """Returns the result that `to_dict(full=True)` was called on.

        Raises:
            ConfigError: a value is missing or wrong; names its place.
        """
        return from_json(cls, data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result, without secrets, to a text file for `axe_nb.load` (D-60, D-61).

        Raises:
            ConfigError: the file cannot be written.
        """
        clean = find_filter()
        write_data(Path(path), "run", to_json(self._drop_spelled(clean), clean))

    def _drop_spelled(self, clean: Filter) -> RunResult:
        exchanges = tuple(drop_spelled(exchange, clean) for exchange in self.exchanges)
        children = tuple(child._drop_spelled(clean) for child in self.children)
        return replace(self, exchanges=exchanges, children=children)

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
