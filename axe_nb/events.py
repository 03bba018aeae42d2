"""The events of a run; the last event carries the result.

Fields have the same meaning as in `RunResult`, `Turn` and `Response`. Turns are numbered from 1.
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
"""Required format of the answer: `object` for a JSON object, `value` for a JSON object with the
data under that key, or empty for plain text."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run has started. A child run starts during a call of its parent."""

    run: str
    parent: str
    """Id of the parent run; empty for a root run."""
    call_id: str
    """Id of the parent's call that started the run; empty for a root run."""
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
    """True if the request asks a child run for its final summary (D-17)."""
    asked: FinalRequest = ""
    data: DataForm = ""
    """Required format of the final answer, which is a reply without calls."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a streamed reply has arrived: text, reasoning or a call's arguments."""

    run: str
    turn: int
    attempt: int
    """Number of the attempt, starting at 1. The reply starts over with each attempt (D-23)."""
    text: str
    kind: DeltaKind = "text"
    call: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A request has failed and will be retried after a wait, as `[retry]` allows (D-23)."""

    run: str
    turn: int
    attempt: int
    """Number of the next attempt, at least 2."""
    seconds: float
    """Duration of the wait before the retry."""
    reason: str
    """HTTP status of the failure, or the error category if there is no status."""
    error: str
    """The error message, in one line."""
    most: int = 0
    """Maximum number of retries that `[retry]` allows; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A response has arrived. Its calls, if any, are executed next."""

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
    """The turn's attempts with their outcomes; the last attempt has the response."""
    source: Source = ""
    server_calls: tuple[ServerCall, ...] = ()
    sources: tuple[Page, ...] = ()

    @property
    def reasoning(self) -> str:
        """The model's reasoning; empty if there is none or no exchange was kept."""
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
    """A run is waiting for the user's answer, with its clock paused. No field contains secrets."""

    run: str
    call_id: str = ""
    """Id of the call that the question is about; empty if it is about the latest turn."""
    words: str = ""
    """The question in a few words; empty if a step paused the run."""
    text: str = ""
    """The question as shown in the prompt, without the diff and the possible answers."""
    diff: str = ""
    """Unified diff of the change that the call would make; empty if there is none."""
    choices: tuple[tuple[str, str], ...] = ()
    """Letter and name of each answer that a view can offer; empty if the answer must be typed."""
    prompt: str = ""
    """Text of the input prompt, from which a view recognizes the input field; empty if it is too
    long or contains secrets."""
    arguments: str = ""
    """JSON of the call's arguments or the model's reply, for editing, or of a request's body, to
    read; empty if it contains secrets, or if arguments or a reply are too long."""


@dataclass(frozen=True, slots=True)
class PersonAnswered:
    """A question was answered by the user, from a recording or by the `step=` function."""

    run: str
    call_id: str
    choice: str
    """The chosen answer as in `Decision`, such as `yes`, `go` or `skip`."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run has ended, and with it any turn or call that was in progress."""

    run: str
    result: RunResult


Event: TypeAlias = (
    RunStarted | TurnStarted | TextDelta | RetryScheduled | TurnFinished | ToolStarted
    | ToolFinished | PersonAsked | PersonAnswered | RunFinished
)  # fmt: skip

Emit: TypeAlias = Callable[[Event], None]
"""A function that receives a run's events. The function must neither block nor raise."""


def discard(event: Event) -> None:
    """Ignores an event. Used as `Emit` when nothing receives a run's events."""


def finish_turn(run: str, turn: Turn, exchanges: Sequence[Exchange]) -> TurnFinished:
    return TurnFinished(
        run, turn.number, turn.text, turn.calls, turn.stop_reason, turn.usage, turn.parallel,
        turn.closing, turn.asked, turn.question, tuple(exchanges), turn.source,
        turn.server_calls, turn.sources,
    )  # fmt: skip


def events_of(result: RunResult, parent: str = "", depth: int = 0) -> Iterator[Event]:
    """Yields the events of a finished run tree, in order, without text deltas, retries or times."""
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
