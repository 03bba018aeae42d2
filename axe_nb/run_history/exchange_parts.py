"""The exchanges of a part, each without what it has in common with another text that is kept.

Source: D-59, D-60.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from axe_nb.events import TurnFinished
from axe_nb.exchanges import Exchange, drop_spelled, join_deltas
from axe_nb.messages import Response
from axe_nb.records.convert import from_json
from axe_nb.redaction import Filter
from axe_nb.run_history.replies import write_body
from axe_nb.run_history.story import RunStory
from axe_nb.run_history.text import Part, spread
from axe_nb.spelled import Folded, fold, list_texts
from axe_nb.wire_log import is_stream, pack, split

CONSTANT = (
    "model", "protocol", "system", "system_ends", "tools", "past_tools", "output", "refused",
    "server", "params", "streaming",
)  # fmt: skip
"""Fields of an exchange that it often has in common with the one before it."""

OF_TURN = {
    "content": "text", "tool_calls": "calls", "stop_reason": "stop_reason", "usage": "usage",
}  # fmt: skip
"""Field of a response → that of its turn."""

_get_constant = attrgetter(*CONSTANT)
_get_of_response, _get_of_turn = attrgetter(*OF_TURN), attrgetter(*OF_TURN.values())


class Pieces(NamedTuple):
    """An exchange with its data and what is beside it: the body of its reply."""

    exchange: Exchange
    data: dict[str, Any]
    """The data of the exchange, without the body of its reply."""
    beside: bytes
    """The body of its reply as it is stored."""
    folded: Folded
    """The body as text."""
    is_stream: bool
    """True if the body is one of events."""

    def list_texts(self) -> list[str]:
        """Returns the texts in which a secret may be that the data does not show."""
        texts = [self.folded.body, *join_deltas(self.exchange.deltas)]
        for run in self.folded.runs:
            texts += run[:2]
        return [*texts, *list_texts(self.folded)] if self.is_stream else texts


def write_exchanges(
    story: RunStory, exchanges: Iterable[Exchange], turn: TurnFinished | None = None
) -> Iterator[Pieces]:
    """Adds exchanges to a run; yields their data, and what is beside it."""
    for exchange in exchanges:
        yield _write_exchange(story, exchange, turn)
        story.exchanges.append(exchange)


def _write_exchange(story: RunStory, exchange: Exchange, turn: TurnFinished | None) -> Pieces:
    before = story.exchanges[-1] if story.exchanges else None
    if before is not None and _get_constant(exchange) == _get_constant(before):
        data = spread(exchange, CONSTANT)
    else:
        data = spread(exchange)
        if before is not None:
            same = [n for n in CONSTANT if getattr(exchange, n) == getattr(before, n)]
            _leave_out(data, same, data, "as_before")
    response, reply = exchange.response, exchange.reply
    if turn is not None and response is not None:
        if _get_of_response(response) == _get_of_turn(turn):
            data["response"] = spread(response, tuple(OF_TURN))
        else:
            data["response"] = spread(response)
            pairs = OF_TURN.items()
            same = [n for n, m in pairs if getattr(response, n) == getattr(turn, m)]
            _leave_out(data["response"], same, data, "as_turn")
    if reply is None:
        return Pieces(exchange, data, b"", Folded("", []), is_stream=False)
    body, has_events = reply.body, is_stream(reply.headers)
    folded = _fold(body, has_events)
    beside = write_body(reply.pieces, body, folded)
    data["reply"] = spread(reply, ("pieces",)) | {"beside": len(beside)}
    return Pieces(exchange, data, beside, folded, has_events)


def _fold(body: bytes, has_events: bool) -> Folded:
    """Returns a body as text, folded if it is one of events."""
    try:
        text = body.decode()
    except UnicodeDecodeError:  # joined, halves of characters would become whole
        return Folded(body.decode("utf-8", "surrogateescape"), [])
    return fold(text) if has_events else Folded(text, [])


def _leave_out(
    fields: dict[str, Any], same: Collection[str], data: dict[str, Any], key: str
) -> None:
    """Leaves out fields that are the same elsewhere, and notes their names."""
    for name in same:
        fields.pop(name, None)
    data[key] = same


def clean_exchanges(data: Any, exchanges: Iterable[Pieces], clean: Filter) -> Any:
    """Returns the data of a part without secrets; nothing is beside it.

    A reply that changes is in one piece.
    """
    for given, one in zip(data.get("exchanges", ()), exchanges, strict=True):
        exchange = one.exchange
        exchange = drop_spelled(exchange, clean)
        if not exchange.deltas:
            given.pop("deltas", None)
        if exchange.reply is None:
            given.pop("reply", None)
        else:
            del given["reply"]["beside"]
            given["reply"]["pieces"] = [exchange.reply.text]
            if len(exchange.reply.pieces) > 1:
                given["reply"]["sizes"] = list(map(len, exchange.reply.pieces))
    cleaned = clean.json(data)
    for given, kept in zip(data.get("exchanges", ()), cleaned.get("exchanges", ()), strict=True):
        reply = given.get("reply") or {}
        if "sizes" in reply and reply["pieces"] != kept["reply"]["pieces"]:
            del kept["reply"]["sizes"]
    return cleaned


def read_exchanges(
    story: RunStory, part: Part, turn: TurnFinished | None = None
) -> tuple[Exchange, ...]:
    """Adds the exchanges of a part to a run; returns them.

    Raises:
        ValueError, LookupError, TypeError: they are damaged.
    """
    bodies, found = iter(part.bodies), []
    for data in part.data.get("exchanges", ()):
        exchange = from_json(Exchange, data)
        if (reply := exchange.reply) is not None:
            if "beside" in data["reply"]:
                reply = replace(reply, pieces=next(bodies))
            elif "sizes" in data["reply"]:
                reply = replace(reply, pieces=pack(split(reply.body, data["reply"]["sizes"])))
            exchange = replace(exchange, reply=reply)
        found.append(_complete(story, exchange, data, turn))
    return tuple(found)


def _complete(
    story: RunStory, exchange: Exchange, data: Any, turn: TurnFinished | None
) -> Exchange:
    """Adds an exchange to a run, with what it has in common with others."""
    if story.exchanges:
        names = [name for name in CONSTANT if name in data.get("as_before", CONSTANT)]
        before = story.exchanges[-1]
        exchange = replace(exchange, **{name: getattr(before, name) for name in names})
    if turn is not None and "response" in data:
        names = [name for name in OF_TURN if name in data.get("as_turn", OF_TURN)]
        said = {name: getattr(turn, OF_TURN[name]) for name in names}
        exchange = replace(exchange, response=replace(exchange.response or Response(), **said))
    story.exchanges.append(exchange)
    return exchange
