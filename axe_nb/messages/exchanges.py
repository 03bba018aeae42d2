"""Exchanges with a model as data: each request with its outcome; turns and their times.

A run keeps one for each request that it sent; replays, cassettes and forks are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_nb.errors import ProviderError
from axe_nb.messages import (
    Delta,
    Message,
    Page,
    Request,
    Response,
    ServerCall,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from axe_nb.messages.answer_tool import leave_out

Cut = Literal["", "timeout", "cancelled", "abandoned"]
"""The reason why an exchange did not end by itself; empty = it did.

`abandoned`: a tool stopped waiting for its child, while the tree went on."""

Source = Literal["", "recorded", "given", "edited", "skipped"]
"""The source of an answer: its model, the run that this one forks, or the person, who gave it,
edited that of the model, or had the request skipped."""

FinalRequest = Literal["", "output", "repair"]
"""Request of a turn at the end of a run: the answer as data, or its repair."""

ASKED_NOW: tuple[Source, ...] = ("", "edited")
"""Sources of answers that the model of the run gave, now or when a cassette recorded them."""

UNASKED: tuple[Source, ...] = ("given", "skipped")
"""Sources of answers for which no model was ever asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a run and its outcome.

    The messages are not copied: the request had the first `sent` messages of the run.
    """

    turn: int
    """Number of the turn, from 1."""
    attempt: int = 1
    """Number of the attempt, from 1; a later one repeats the request after a failure."""
    model: str = ""
    """Name of the model, without the provider."""
    protocol: str = ""
    """Protocol of its server; `script` for a model without one."""
    sent: int = 0
    """Number of messages in the request."""
    system: str = field(default="", repr=False, metadata={"is_part": True})
    system_ends: tuple[int, ...] = field(default=(), repr=False)
    """As in `Request`."""
    tools: Sequence[ToolSpec] = field(default=(), repr=False, metadata={"is_part": True})
    past_tools: Sequence[ToolSpec] = field(default=(), repr=False, metadata={"is_part": True})
    output: Mapping[str, Any] | None = field(default=None, repr=False)
    """As in `Request`."""
    refused: tuple[str, ...] = field(default=(), repr=False)
    """As in `Request`, in alphabetical order."""
    server: str = field(default="", repr=False)
    """The server, as in `Message.echo`; empty if no message has parts for a server."""
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    streaming: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The fields of its body that asked for a stream."""
    response: Response | None = field(default=None, repr=False)
    """The answer as the run received it; None if there was none."""
    deltas: tuple[Delta, ...] = field(default=(), repr=False)
    """The pieces of a streamed reply; only with a cassette."""
    error: ProviderError | None = None
    """The failure of the request."""
    was_last: bool = False
    """True if the failure was temporary, but no further attempt was allowed."""
    cut: Cut = ""
    cost: float | None = None
    """The price of the reply in US dollars at the time; None if unknown."""
    source: Source = ""

    @classmethod
    def of(cls, request: Request, **more: Any) -> Exchange:
        """Makes the exchange of a request; the rest are its other fields."""
        return cls(
            turn=int(request.place.rpartition("/")[2]), attempt=request.attempt,
            model=request.model, sent=len(request.messages), system=request.system,
            system_ends=request.system_ends, tools=request.tools, past_tools=request.past_tools,
            output=request.output, params=request.params, **more,
        )  # fmt: skip

    def request(self, messages: Sequence[Message], agent: str, run: str) -> Request:
        """Returns the request as sent, given the messages, agent and id of its run."""
        request = Request(
            self.model, tuple(messages[: self.sent]), self.system, self.tools,
            self.params, agent, f"{run}/{self.turn}", self.attempt, past_tools=self.past_tools,
            system_ends=self.system_ends, output=self.output, server=self.server,
        )  # fmt: skip
        return leave_out(request, self.refused)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a run, its response, and the results of its calls."""

    number: int
    """Number of the turn, from 1."""
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
    asked: FinalRequest = ""
    question: str = ""
    """The prompt added at this turn: a request for a summary or a repair, or a fork's prompt."""
    source: Source = ""
    server_calls: tuple[ServerCall, ...] = ()
    """Calls of server tools that the model's server made itself."""
    sources: tuple[Page, ...] = ()
    """The pages that the text cites, each once."""


LapKind = Literal["run", "model", "replay", "tool", "retry", "person"]
"""`run` is the whole run, `replay` a request whose answer was recorded or given by a person."""


@dataclass(frozen=True, slots=True)
class Lap:
    """A part of the time of a run: of the whole, a request, a call or a wait."""

    kind: LapKind
    began: float
    """Seconds since the root began."""
    ended: float
    turn: int = 0
    """Number of the turn; 0 for the whole run, and for a wait that belongs to a request."""
    call: int = 0
    """Number of the call in its turn, from 1; 0 if it belongs to no call."""
