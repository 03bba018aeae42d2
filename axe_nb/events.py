"""The events of a run; the last one carries its result.

Fields that a `RunResult`, `Turn` or `Response` has too mean the same; turns count from 1. Every
view is built from these alone.
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
"""Form of the answer: an object, data held by an object as its `value`, or text if empty."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts: the root, or a child between the two events of its call."""

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
    """A request is sent."""

    run: str
    turn: int
    messages: int
    pending: int
    """Number of tool results in the request."""
    closing: bool = False
    """True for the final summary that a subagent is asked for (D-17)."""
    asked: FinalRequest = ""
    data: DataForm = ""
    """The form of a reply without calls, if it has to be JSON."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a streamed reply has arrived: of its text, its reasoning or a call's arguments."""

    run: str
    turn: int
    attempt: int
    """Number of the attempt, from 1; a later attempt restarts the whole reply (D-23)."""
    text: str
    kind: DeltaKind = "text"
    call: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A turn's request has failed and will be sent again after a wait, as `[retry]` says (D-23)."""

    run: str
    turn: int
    attempt: int
    """Number of the next attempt, from 2; the turn's text restarts."""
    seconds: float
    reason: str
    """HTTP status of the failure, else its category."""
    error: str
    """The failure, in one line."""
    most: int = 0
    """The retries that `[retry]` allows; 0 = not known."""


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
    asked: FinalRequest = ""
    question: str = ""
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False, compare=False)
    """The requests of the turn with their outcomes; the last one is the response."""
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
class PersonAsked:
    """A run waits for the person's answer; its clock is paused."""

    run: str
    call_id: str = ""
    """Id of the call that the question is about; empty = the turn that began last."""
    words: str = ""
    """The question in a few words, without secrets, like the fields below; empty = a pause."""
    text: str = ""
    """The question as shown in the prompt, without the diff and the possible answers."""
    diff: str = ""
    """Unified diff of the change that the call would make."""
    choices: tuple[tuple[str, str], ...] = ()
    """Letter → name of each answer that is one letter; empty = only typed text answers."""
    prompt: str = ""
    """The text of the prompt, by which a view finds its input; empty if `choices` is."""
    arguments: str = ""
    """The call's arguments as JSON, to be edited; empty = they are too long or have secrets."""


@dataclass(frozen=True, slots=True)
class PersonAnswered:
    """The question has its answer, which may be a recorded one or that of `step=function`."""

    run: str
    call_id: str
    choice: str
    """As in `Decision`: `yes`, `go`, `skip`."""


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
    | PersonAsked
    | PersonAnswered
    | RunFinished
)

Emit: TypeAlias = Callable[[Event], None]
"""Receives an event; neither blocks nor raises."""


def discard(event: Event) -> None:
    """An `Emit` for events that no one receives."""


def finish_turn(run: str, turn: Turn, exchanges: Sequence[Exchange]) -> TurnFinished:
    return TurnFinished(
        run, turn.number, turn.text, turn.calls, turn.stop_reason, turn.usage, turn.parallel,
        turn.closing, turn.asked, turn.question, tuple(exchanges), turn.source,
        turn.server_calls, turn.sources,
    )  # fmt: skip


def events_of(result: RunResult, parent: str = "", depth: int = 0) -> Iterator[Event]:
    """The events of a finished run, in order, without pieces of text and times."""
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
