"""The interface of replays: cassettes and forks, which may answer with recorded outcomes.

They answer instead of a model, a tool or the person.
"""

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
    """A request that a turn is about to send, with its place."""

    request: Request
    model: str


@dataclass(slots=True, eq=False)
class PendingCall:
    """A call of a run on its way through the links, which complete it."""

    call: ToolCall
    run: str = ""
    number: int = 0
    """Number among all calls of the run, from 1 (D-59); 0 for a tool of the model's server."""
    turn: int = 0
    index: int = 0
    count: int = 0
    ahead: float = 0.0
    arguments: Mapping[str, Any] = field(init=False)
    """The arguments that the tool runs with, which the person may have changed."""
    tool: Tool = field(init=False)
    slot: AsyncExitStack = field(init=False)
    """Its slot among the calls in progress; released when it starts a child, which may need it."""
    keys: set[str] = field(default_factory=set)
    """Keys of its children."""
    guard: Guard = field(default_factory=Guard)
    edited: Mapping[str, Any] | None = None
    """The arguments that the person has changed; None = they are the model's."""
    note: str = ""
    """Note on the person's approval, for display."""
    is_skipped: bool = False
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.arguments = self.call.arguments


Asked: TypeAlias = AskedTurn | PendingCall | Question | str
"""A turn, a call, a question, or the place of a turn that a cap refuses; turn 0: of a child."""


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """The attempts of a turn, in order; the last one brought the answer or the final error."""

    attempts: Sequence[Exchange]
    refusal: RunStopped | None = None
    """The cap that refused a further attempt."""
    wait_until_quiet: Callable[[str], Awaitable[None]] | None = None
    """Waits until a run and those below it have sent all their recorded requests; awaited before
    the last attempt is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall:
    """A call with a kept result, which is not made again."""

    result: ToolResult
    children: tuple[RunResult, ...] = ()
    files_read: Sequence[str] = ()
    files_modified: Sequence[str] = ()
    """The files that the tools of its run used, in all."""


Outcome: TypeAlias = KeptTurn | KeptCall | ToolOutput | Decision | RunStopped
"""The outcome of a turn, of a call in a fork or a cassette, of a question, or of a place."""


class Replay(Protocol):
    """A recording of one tree of runs; used on its event loop only."""

    def holds(self, place: str, has_cap: Callable[[str], bool]) -> bool:
        """True if a turn is recorded, or with turn 0 a child to start, so that no cap refuses it.

        Raises RunStopped if a cap refused it whose words `has_cap` finds among those of now.
        """

    async def find(self, asked: Asked) -> Outcome | None:
        """Returns the recorded outcome; None = there is none, and a live one may be requested.

        Raises CassetteMiss if it may not.
        """

    def keep(self, asked: Asked, outcome: Outcome) -> None:
        """Records an outcome, if it is new."""

    def answers(self, kind: Literal["step", "question"]) -> bool:
        """True if decisions of a person are recorded, about steps or at all."""

    def finish(self, status: Status) -> Sequence[str]:
        """Ends the recording of the tree; returns its warnings."""


class ForkedTree(Replay, Protocol):
    """The replay of the run that a tree forks."""

    @property
    def place(self) -> str:
        """The place of the fork."""

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """Returns the agent and the job of a child that is about to start, with its changes."""
