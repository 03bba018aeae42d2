"""Interface of replays: cassettes and forks, which may answer instead of a model, tool or user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.engine.person import Decision, Question
from axe_nb.messages import Request, ToolCall, ToolResult
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import RunResult, RunStopped, Status
from axe_nb.tools.tool import Guard, Job, Tool, ToolOutput


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """A request that a turn is about to send."""

    request: Request
    model: str


@dataclass(slots=True, eq=False)
class PendingCall:
    """A tool call on its way through the chain of handlers, which set its fields."""

    call: ToolCall
    run: str = ""
    number: int = 0
    """Number of the call in its run, from 1 (D-59); 0 if the model's server runs the tool."""
    turn: int = 0
    index: int = 0
    count: int = 0
    ahead: float = 0.0
    arguments: Mapping[str, Any] = field(init=False)
    """Arguments that the tool receives, possibly changed by the user."""
    tool: Tool = field(init=False)
    slot: AsyncExitStack = field(init=False)
    """The call's slot, released when the call starts a child, as the child may need a slot."""
    keys: set[str] = field(default_factory=set)
    guard: Guard = field(default_factory=Guard)
    edited: Mapping[str, Any] | None = None
    """Arguments as changed by the user; None if unchanged."""
    note: str = ""
    is_skipped: bool = False
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.arguments = self.call.arguments


Asked: TypeAlias = AskedTurn | PendingCall | Question | str
"""Event to replay or record; a string is the place of a turn or child that a cap refused."""


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """Recorded attempts of a turn, ending with the response or the final error."""

    attempts: Sequence[Exchange]
    refusal: RunStopped | None = None
    """Error raised because a cap refused a further attempt; None if no attempt was refused."""
    wait_until_quiet: Callable[[str], Awaitable[None]] | None = None
    """Waits until the run with a given id and its descendants have sent their recorded requests.
    Awaited before a recorded timeout or cancellation takes effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall:
    """The recorded result of a call that will not be made again."""

    result: ToolResult
    children: tuple[RunResult, ...] = ()
    files_read: Sequence[str] = ()
    files_modified: Sequence[str] = ()
    """Files that the recorded run modified; `files_read` lists the files that it read."""


Outcome: TypeAlias = KeptTurn | KeptCall | ToolOutput | Decision | RunStopped
"""Recorded outcome of a turn, call (`KeptCall` in a fork), question, or turn that a cap refused."""


class Replay(Protocol):
    """A recording of a tree of runs, used only on the tree's event loop."""

    def holds(self, place: str, has_cap: Callable[[str], bool]) -> bool:
        """True if a turn, or a child's start (turn 0), is recorded, so that no cap applies to it.

        Raises RunStopped if a cap refused the turn and still applies, according to `has_cap`.
        """

    async def find(self, asked: Asked) -> Outcome | None:
        """Returns an event's recorded outcome, if any. Raises CassetteMiss if one is required."""

    def keep(self, asked: Asked, outcome: Outcome) -> None:
        """Records the outcome of an event, unless it is already recorded."""

    def answers(self, kind: Literal["step", "question"]) -> bool:
        """True if decisions of the user are recorded; `step` counts only decisions at pauses."""

    def finish(self, status: Status) -> Sequence[str]:
        """Ends the recording of the tree; returns its warnings."""


class ForkedTree(Replay, Protocol):
    """Replay of the run that a tree was forked from."""

    @property
    def place(self) -> str:
        """Place of the fork in the original tree, such as `0.2/3`."""

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """Returns the agent and job of a child that is about to start, as changed by the fork."""
