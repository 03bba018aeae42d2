"""The events of a run; the last one carries its result.

Fields have the same meaning as in `RunResult`, `Turn` and `Response`; turns are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from axe_nb.messages import DeltaKind, Page, ServerCall, ToolCall, ToolResult, Usage
from axe_nb.messages.exchanges import Exchange, Source
from axe_nb.pictures.picture import Picture
from axe_nb.results import FinalRequest, RunResult, Turn

DataForm: TypeAlias = Literal["", "object", "value"]
"""Form of the answer: a JSON object, data in its key `value`, or plain text if empty."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run has started: the root, or a child between the start and the end of its call."""

    run: str
    parent: str
    """Id of the parent run; empty for a root."""
    call_id: str
    """Id of the parent's call; empty for a root."""
    agent: str
    model: str
    depth: int
    task: str
    prompt: str
    pictures: tuple[Picture, ...] = ()
    origin: str = ""
    undo_id: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request is being sent."""

    run: str
    turn: int
    messages: int
    pending: int
    """Number of tool results in the request."""
    closing: bool = False
    """True if the request asks a subagent for a final summary (D-17)."""
    asked: FinalRequest = ""
    data: DataForm = ""
    """The required form of a reply without calls."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a streamed reply has arrived, of the text, reasoning or a call's arguments."""

    run: str
    turn: int
    attempt: int
    """Number of the attempt, starting at 1; each attempt restarts the reply (D-23)."""
    text: str
    kind: DeltaKind = "text"
    call: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A request has failed and will be sent again after a wait, as `[retry]` allows (D-23)."""

    run: str
    turn: int
    attempt: int
    """Number of the next attempt, at least 2."""
    seconds: float
    """Duration of the wait."""
    reason: str
    """HTTP status of the failure, or its category if there is no status."""
    error: str
    """The error in one line."""
    most: int = 0
    """Maximum retries that `[retry]` allows; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A response has arrived; any calls in it run next."""

    run: str
    turn: int
    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    usage: Usage
    parallel: bool
    closing: bool = False
    asked: FinalRequest = ""
    question: str = ""
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False, compare=False)
    """The attempts of the turn with their outcomes; the last one has the response."""
    source: Source = ""
    server_calls: tuple[ServerCall, ...] = ()
    sources: tuple[Page, ...] = ()

    @property
    def reasoning(self) -> str:
        """The model's reasoning; empty if the turn has no exchanges."""
        response = self.exchanges[-1].response if self.exchanges else None
        return response.reasoning if response else ""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call has started."""

    run: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has returned its result."""

    run: str
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """A run waits for the person's answer; its clock is paused."""

    run: str
    call_id: str = ""
    """Id of the call that the question is about; empty for the latest turn."""
    words: str = ""
    """The question in a few words; empty for a pause. No field contains secrets."""
    text: str = ""
    """The question as shown in the prompt, without the diff and the possible answers."""
    diff: str = ""
    """Unified diff of the change that the call would make; empty if there is none."""
    choices: tuple[tuple[str, str], ...] = ()
    """Letter and name of each one-letter answer; empty if the answer is free text."""
    prompt: str = ""
    """The text of the prompt, by which a view finds the input; empty without `choices`."""
    arguments: str = ""
    """The call's arguments as JSON, for editing; empty if they are too long or have secrets."""


@dataclass(frozen=True, slots=True)
class PersonAnswered:
    """A question was answered by the person, a recording or the function of `step=`."""

    run: str
    call_id: str
    choice: str
    """The choice as in `Decision`, such as `yes`, `go` or `skip`."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run has ended, with any turn or call that was still in progress."""

    run: str
    result: RunResult


Event: TypeAlias = (
    RunStarted | TurnStarted | TextDelta | RetryScheduled | TurnFinished | ToolStarted
    | ToolFinished | PersonAsked | PersonAnswered | RunFinished
)  # fmt: skip

Emit: TypeAlias = Callable[[Event], None]
"""Function that receives events; it must neither block nor raise."""


def discard(event: Event) -> None:
    """Ignores an event; an `Emit` for runs without receivers."""


def finish_turn(run: str, turn: Turn, exchanges: Sequence[Exchange]) -> TurnFinished:
    return TurnFinished(
        run, turn.number, turn.text, turn.calls, turn.stop_reason, turn.usage, turn.parallel,
        turn.closing, turn.asked, turn.question, tuple(exchanges), turn.source,
        turn.server_calls, turn.sources,
    )  # fmt: skip


def events_of(result: RunResult, parent: str = "", depth: int = 0) -> Iterator[Event]:
    """Yields the events of a finished run, in order, without pieces of text and times."""
    run = result.id
    yield RunStarted(
        run, parent, result.call_id, result.agent, result.model, depth, result.task, result.prompt,
        result.pictures, result.origin,
    )  # fmt: skip
    sent: dict[int, tuple[Exchange, ...]] = {}
    for exchange in result.exchanges:
        sent[exchange.turn] = (*sent.get(exchange.turn, ()), exchange)
    for turn in result.log:
        yield TurnStarted(run, turn.number, 0, 0, turn.closing, turn.asked)
        yield finish_turn(run, turn, sent.get(turn.number, ()))
        results = {r.call_id: r for r in turn.results}
        begun = {lap.call for lap in result.times if lap.kind == "tool" and lap.turn == turn.number}
        for number, call in enumerate(turn.calls, 1):
            children = [c for c in result.children if c.call_id == call.id]
            if children or call.id in results or number in begun:
                yield ToolStarted(run, call)
            for child in children:
                yield from events_of(child, run, depth + 1)
            if call.id in results:
                yield ToolFinished(run, results[call.id], 0.0)
    yield RunFinished(run, result)
