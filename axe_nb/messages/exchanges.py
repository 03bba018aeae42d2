"""Records of a run: exchanges with the model (requests and their outcomes), turns, and timings."""

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
"""Why an exchange was cut off: empty if it was not, `abandoned` if the caller stopped waiting."""

Source = Literal["", "recorded", "given", "edited", "skipped"]
"""Source of an answer: the run's model (empty), the run that was forked (`recorded`), or the user.

The user can give an answer, edit the model's answer, or skip the request.
"""

FinalRequest = Literal["", "output", "repair"]
"""Purpose of a request at the end of a run: to get the answer as data (`output`) or correct it.

Empty for all other requests."""

ASKED_NOW: tuple[Source, ...] = ("", "edited")
"""Sources of answers that came from the run's own model, live or from a cassette."""

UNASKED: tuple[Source, ...] = ("given", "skipped")
"""Sources of answers from the user, for which no request was sent to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request of a run and its outcome. The request contained the run's first `sent` messages."""

    turn: int
    """Number of the turn, from 1."""
    attempt: int = 1
    """Number of the attempt, from 1; later attempts repeat the request after a failure."""
    model: str = ""
    """Name of the model, without the provider."""
    protocol: str = ""
    """Protocol of the model's server; `script` for a model without a server."""
    sent: int = 0
    system: str = field(default="", repr=False, metadata={"is_part": True})
    system_ends: tuple[int, ...] = field(default=(), repr=False)
    """Offsets in `system` at which the agent's prompt and its skill end."""
    tools: Sequence[ToolSpec] = field(default=(), repr=False, metadata={"is_part": True})
    past_tools: Sequence[ToolSpec] = field(default=(), repr=False, metadata={"is_part": True})
    output: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the final answer; None for plain text."""
    refused: tuple[str, ...] = field(default=(), repr=False)
    """Names of the parts that were left out of the request, in alphabetical order."""
    server: str = field(default="", repr=False)
    """Digest of provider, URL and model; empty if neither request nor reply has an `echo`."""
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    streaming: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the body that requested a stream; empty if none was requested."""
    response: Response | None = field(default=None, repr=False)
    """The response as the run received it; None if there was none."""
    deltas: tuple[Delta, ...] = field(default=(), repr=False)
    """Pieces of a streamed reply, stored only for a cassette."""
    error: ProviderError | None = None
    """Error with which the request failed; None if there was none."""
    was_last: bool = False
    """True if the error was temporary, but no further attempt was allowed."""
    cut: Cut = ""
    cost: float | None = None
    """Cost of the reply in US dollars, at the prices of the time; None if unknown."""
    source: Source = ""

    @classmethod
    def of(cls, request: Request, **more: Any) -> Exchange:
        """Makes an exchange from a request; `more` sets the other fields of the exchange."""
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
    """Results, one per call in call order; fewer only if the run was stopped in this turn."""
    stop_reason: str
    usage: Usage
    parallel: bool = True
    closing: bool = False
    """True for the final summary that is requested from a sub-agent (D-17)."""
    asked: FinalRequest = ""
    question: str = ""
    """Prompt added in this turn: a request for data or its correction, or a fork's prompt."""
    source: Source = ""
    server_calls: tuple[ServerCall, ...] = ()
    """Calls to server-side tools, which the model's server ran."""
    sources: tuple[Page, ...] = ()
    """Pages that the text cites, without duplicates."""


LapKind = Literal["run", "model", "replay", "tool", "retry", "person"]
"""Activity during a `Lap`, a timed part of a run.

`replay` is a request answered from a recording or by the user, and `person` a wait for the user."""


@dataclass(frozen=True, slots=True)
class Lap:
    """A timed part of a run: the whole run, a request, a call or a wait."""

    kind: LapKind
    began: float
    """Start, in seconds since the root run began."""
    ended: float
    turn: int = 0
    """Number of the turn; 0 if the lap belongs to no turn, such as the whole run."""
    call: int = 0
    """Number of the call in its turn, from 1; 0 if the lap belongs to no call."""
