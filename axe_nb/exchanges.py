"""One exchange with a model: what it was asked, and what came back, as data.

A run keeps one for each request that it sent; replays, cassettes and forks are made of them.
Source: D-59, D-60; product.md "Runs are recordings".
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Message, Request, Response, ToolSpec
from axe_nb.redaction import Filter
from axe_nb.wire_log import WireReply

Cut = Literal["", "timeout", "cancelled", "abandoned"]
"""The reason why an exchange did not end by itself; empty = it did.

`abandoned`: a tool stopped waiting for its child, while the tree went on."""


def drop_spelled(exchange: Exchange, clean: Filter) -> Exchange:
    """Returns the exchange without pieces that spell a secret out only together.

    The answer made of them stays: the filter finds the secret there.
    """
    reply, deltas = exchange.reply, exchange.deltas
    if reply and _spells_out(reply.body.decode("utf-8", "surrogateescape"), clean):
        reply = None
    if _has_secret(_join_deltas(deltas), clean):
        deltas = ()
    return replace(exchange, reply=reply, deltas=deltas)


def _has_secret(texts: Iterable[str], clean: Filter) -> bool:
    return any(clean.text(text) != text for text in texts)


def _spells_out(body: str, clean: Filter) -> bool:
    """True if a secret shows only where the texts of several events are joined."""
    found = _has_secret(_join_events(body), clean)
    return found and _has_secret(_join_events(clean.text(body)), clean)


def _join_deltas(deltas: Iterable[Delta]) -> Iterable[str]:
    pieces: dict[Hashable, list[str]] = {}
    for delta in deltas:
        pieces.setdefault((delta.kind, delta.call), []).append(delta.text)
    return map("".join, pieces.values())


def _join_events(body: str) -> Iterable[str]:
    """Returns the texts of a stream's events, those at the same place joined."""
    pieces: dict[Hashable, list[str]] = {}
    for line in body.split("\n"):
        with suppress(ValueError, RecursionError):
            _collect(json.loads(line.removeprefix("data:")), (), pieces)
    return ("".join(texts) for texts in pieces.values() if len(texts) > 1)


def _collect(value: Any, place: tuple[str, ...], pieces: dict[Hashable, list[str]]) -> None:
    match value:
        case str():
            pieces.setdefault(place, []).append(value)
        case dict():
            for key, item in value.items():
                _collect(item, (*place, key), pieces)
        case list():
            for item in value:
                _collect(item, place, pieces)


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
