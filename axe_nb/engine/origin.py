"""The interface of a fork: what a tree of runs takes from the run that it forks.

What it takes is neither asked nor run again.
Source: D-53, D-59, D-66; product.md "Runs are recordings" (Fork).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from axe_nb.agents.agent import Agent
from axe_nb.exchanges import Exchange
from axe_nb.messages import Message, Request, ToolCall, ToolResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.results import RunResult, Status
from axe_nb.tools.tool import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The conversation before a turn, as it was in the run that is forked."""

    messages: Sequence[Message]
    said: str = ""
    """The text of the last message, if a fork has added it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall:
    """A call that is not made again."""

    result: ToolResult
    children: tuple[RunResult, ...] = ()
    """The runs that it had started."""
    files_read: Sequence[str] = ()
    files_modified: Sequence[str] = ()
    """The files that the tools of its run used, in all."""


class Origin(Protocol):
    """The run that a tree forks; used on its event loop only."""

    place: str
    """The place of the fork: `0.2/3`."""

    @property
    def changed(self) -> Mapping[str, Agent]:
        """Id of a run → its agent, as this fork changed it."""

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """Returns the agent and the job of a child that is about to start, with its changes.

        Args:
            run: id of the child.
            agent: its agent.
            job: its job.
        """

    def find_prompt(self, run: str) -> Illustrated | None:
        """Returns the complete prompt of a run on the way to the place; None = as usual."""

    def open_turn(self, run: str, turn: int) -> Opening | None:
        """Returns the conversation before a turn up to the place; None = as the run has it."""

    def holds(self, place: str, attempt: int) -> bool:
        """True if a request will probably not be sent: no cap refuses it.

        Args:
            place: that of the request; with turn 0 that of a child that is to start.
            attempt: from 1.
        """

    def find(self, request: Request, model: str) -> Exchange | None:
        """Returns what a request was answered, or its failure; None = send it.

        Args:
            request: the request, with its place and attempt.
            model: provider/model.
        """

    def find_calls(
        self, run: str, turn: int, calls: Sequence[ToolCall]
    ) -> Sequence[KeptCall | None]:
        """Returns the calls of a turn that are not made again; None = make it."""

    def finish(self, status: Status) -> Iterable[str]:
        """Ends the fork; returns what of it was not as a person would expect.

        Args:
            status: that of the root.
        """
