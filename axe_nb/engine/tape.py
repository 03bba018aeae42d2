"""The interface of a recording: what a tree of runs is recorded on, or played from.

Source: D-48, D-59; product.md "Cassettes".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Protocol

from axe_nb.engine.questions import AskPerson, Question
from axe_nb.engine.step import Decision
from axe_nb.exchanges import Exchange
from axe_nb.limits import RunStopped
from axe_nb.messages import Request, Response
from axe_nb.providers.protocol import OnDelta
from axe_nb.results import Status
from axe_nb.tools.tool import ToolOutput


class Tape(Protocol):
    """The recording of one tree of runs; used on its event loop only."""

    cancel: Callable[[], None]
    """Cancels the tree; set by its handle."""

    has_asked: bool
    """True once a model was asked for something that is not recorded."""

    def find(self, request: Request, model: str) -> Exchange | None:
        """Returns the recorded exchange for a request; None = ask the model.

        Args:
            request: the request, with its place and attempt.
            model: provider/model.

        Raises:
            CassetteMiss: nothing is recorded for it, and the model may not be asked.
        """

    def holds(self, place: str, attempt: int) -> bool:
        """True if an attempt is recorded that will be played."""

    def admits(self, place: str, attempt: int, has_cap: Callable[[str], bool]) -> bool:
        """True if a request is recorded, so that no cap refuses it.

        Args:
            place: that of the request; with turn 0 that of a child that is to start.
            attempt: from 1.
            has_cap: True for the words of a cap that applies now.

        Raises:
            RunStopped: a cap that still applies refused it.
        """

    def keep_refusal(self, place: str, attempt: int, stop: RunStopped) -> None:
        """Notes that a cap refused what `admits` was asked for."""

    def note(self, request: Request, model: str, exchange: Exchange) -> None:
        """Notes an exchange that the tree takes from the run that it forks.

        Args:
            request: as for `find`.
            model: provider/model.
            exchange: the exchange.
        """

    def keep(self, request: Request, exchange: Exchange) -> None:
        """Notes the outcome of a request that `find` was asked for."""

    may_ask: bool
    """True if models and the person may be asked for what is not recorded."""

    hosts: set[str]
    """Hosts that recorded answers allow; only for this tree."""

    def find_person(self, ask_person: AskPerson | None) -> AskPerson | None:
        """Returns who answers questions now; None = no one can be prompted."""

    @property
    def has_steps(self) -> bool:
        """True if decisions about steps are recorded that will be played."""

    def find_decision(self, request: Question) -> Decision | None:
        """Returns the person's recorded answer to a question; None = ask.

        Raises:
            CassetteMiss: none is recorded, and no one may be asked.
        """

    def keep_decision(self, request: Question, decision: Decision) -> None:
        """Notes the answer to a question that `find_decision` was asked for."""

    def find_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any]
    ) -> ToolOutput | None:
        """Returns the recorded output of a call of a tool that is recorded; None = run it.

        Args:
            run: id of the run.
            number: number of the call in the run.
            tool: name of the tool.
            arguments: those of the call.

        Raises:
            CassetteMiss: none is recorded, and the tool may not run again.
        """

    def keep_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any], output: ToolOutput
    ) -> None:
        """Notes the output of such a call."""

    def finish(self, status: Status) -> str:
        """Ends the recording of the tree; returns the problem if it cannot be kept, else "".

        Args:
            status: that of the root.
        """

    async def wait_until_quiet(self, run: str) -> None:
        """Waits until a run and those below it have asked for all that is recorded of them."""


async def play(recorded: Exchange, request: Request, on_delta: OnDelta | None = None) -> Response:
    """Plays the recorded answer of a model that has no server.

    Raises:
        ProviderError: the request had failed.
    """
    for delta in recorded.deltas:
        if on_delta:
            on_delta(delta)
    if request.log and request.log.hang:
        await request.log.hang()
    if recorded.response is None:
        raise copy(recorded.error) if recorded.error else asyncio.CancelledError
    return recorded.response
