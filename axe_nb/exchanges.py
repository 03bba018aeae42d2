"""One exchange with a model: what it was asked, and what came back, as data.

A run keeps one for each request that it sent; replays, cassettes and forks are made of them.
Source: D-59; product.md "Runs are recordings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Message, Request, Response, ToolSpec
from axe_nb.wire_log import WireReply

Cut = Literal["", "timeout", "cancelled"]
"""The reason why an exchange did not end by itself; empty = it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a run and its outcome.

    The messages are not copied: the request had the first `sent` messages of the run.
    """

    turn: int
    """From 1."""
    attempt: int = 1
    """From 1; a later one repeats the request after a failure."""
    model: str = ""
    """Name of the model, without the provider."""
    protocol: str = ""
    """Protocol of its server; `script` for a model without one."""
    sent: int = 0
    """Number of messages in the request."""
    system: str = field(default="", repr=False)
    system_ends: tuple[int, ...] = field(default=(), repr=False)
    """As in `Request`."""
    tools: Sequence[ToolSpec] = field(default=(), repr=False)
    past_tools: Sequence[ToolSpec] = field(default=(), repr=False)
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    streaming: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The fields of its body that asked for a stream."""
    reply: WireReply | None = field(default=None, repr=False)
    """The bytes of the server's reply; None for a model without a server."""
    response: Response | None = field(default=None, repr=False)
    """The answer as the run received it; None if there was none."""
    deltas: tuple[Delta, ...] = field(default=(), repr=False)
    """For a model without a server: the pieces of the reply."""
    error: ProviderError | None = None
    """The failure of the request."""
    cut: Cut = ""

    def request(self, messages: Sequence[Message], agent: str, run: str) -> Request:
        """Returns the request, as it was sent.

        Args:
            messages: those of the run.
            agent: the name of its agent.
            run: its id.
        """
        return Request(
            self.model, tuple(messages[: self.sent]), self.system, self.tools,
            self.params, agent, f"{run}/{self.turn}", self.attempt, past_tools=self.past_tools,
            system_ends=self.system_ends,
        )  # fmt: skip
