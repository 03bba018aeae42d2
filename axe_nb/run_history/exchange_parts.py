"""The exchanges of a part, each without what it has in common with another text that is kept.

Source: D-59, D-60.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from axe_nb.events import TurnFinished
from axe_nb.exchanges import Exchange, drop_spelled, join_deltas
from axe_nb.messages import Response
from axe_nb.records.convert import from_json
from axe_nb.redaction import Filter
from axe_nb.run_history.replies import read_reply, write_reply
from axe_nb.run_history.story import RunStory
from axe_nb.run_history.text import Part, encode, spread
from axe_nb.spelled import Folded, fold, list_texts
from axe_nb.wire_log import PackedPieces, WireReply, is_stream, pack, split

CONSTANT = (
    "model", "protocol", "system", "system_ends", "tools", "past_tools", "output", "answer_tool",
    "params", "streaming",
)  # fmt: skip
"""Fields of an exchange that it often has in common with the one before it."""

OF_TURN = {
    "content": "text", "tool_calls": "calls", "stop_reason": "stop_reason", "usage": "usage",
}  # fmt: skip
"""Field of a response → that of its turn."""

_get_constant = attrgetter(*CONSTANT)
_get_of_response, _get_of_turn = attrgetter(*OF_TURN), attrgetter(*OF_TURN.values())

PACKED = {"packed": True}
"""Placeholder for a reply that is stored beside the data."""

_FORMS = (
    json.JSONEncoder(ensure_ascii=False).encode, json.JSONEncoder(ensure_ascii=True).encode,
)  # fmt: skip
"""The forms in which version 1 left the text of a turn out of a reply."""


class Pieces(NamedTuple):
    """An exchange with its data and what is beside it: its reply, or the pieces of its answer."""

    exchange: Exchange
    data: dict[str, Any]
    """The data of the exchange; its reply is `PACKED` if that is stored beside it."""
    head: str
    """The reply without its body, as JSON; empty if the reply is within the data."""
    body: bytes
    folded: Folded
    """The body as text."""
    is_stream: bool
    """True if the body is one of events."""

    def list_texts(self) -> Iterator[str]:
        """Yields the texts in which a secret may be that the data does not show."""
        yield self.head
        yield self.folded.body
        for run in self.folded.runs:
            yield from run[:2]
        if self.is_stream:
            yield from list_texts(self.folded)
        yield from join_deltas(self.exchange.deltas)


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
    response, reply, head, body = exchange.response, exchange.reply, "", b""
    if turn is not None and response is not None:
        if _get_of_response(response) == _get_of_turn(turn):
            data["response"] = spread(response, tuple(OF_TURN))
        else:
            data["response"] = spread(response)
            pairs = OF_TURN.items()
            same = [n for n, m in pairs if getattr(response, n) == getattr(turn, m)]
            _leave_out(data["response"], same, data, "as_turn")
    if reply is not None and (body := reply.body):
        data["reply"], head = PACKED, _write_head(reply)
    text = body.decode("utf-8", "surrogateescape")
    has_events = reply is not None and is_stream(reply.headers)
    folded = fold(text) if has_events else Folded(text, [])
    return Pieces(exchange, data, head, body, folded, has_events)


def _write_head(reply: WireReply) -> str:
    """Returns all of a reply but its body as JSON; it is mostly that of the reply before."""
    if reply.failure:
        return encode(spread(reply, ("pieces",)))
    return _encode_head(reply.status, tuple(reply.headers.items()))


@lru_cache(maxsize=16)
def _encode_head(status: int, headers: tuple[tuple[str, str], ...]) -> str:
    return encode(spread(WireReply(status=status, headers=dict(headers)), ("pieces",)))


def _leave_out(
    fields: dict[str, Any], same: Collection[str], data: dict[str, Any], key: str
) -> None:
    """Leaves out fields that are the same elsewhere, and notes their names."""
    for name in same:
        fields.pop(name, None)
    data[key] = same


def write_replies(exchanges: Iterable[Pieces], line: str, known: bytes) -> tuple[list[str], bytes]:
    """Returns the replies beside a part, and what is known of them for the next ones.

    Args:
        exchanges: those of the part.
        line: the text of their data.
        known: what is known before it.
    """
    replies = []
    for one in exchanges:
        if one.head and one.exchange.reply is not None:
            known += line.encode()
            reply, known = write_reply(one.exchange.reply, one.head, one.body, one.folded, known)
            replies.append(reply)
    return replies, known


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
        elif one.head:
            given["reply"] = {**json.loads(one.head), "pieces": [exchange.reply.text]}
            if len(exchange.reply.pieces) > 1:
                given["reply"]["sizes"] = list(map(len, exchange.reply.pieces))
    cleaned = clean.json(data)
    for given, kept in zip(data.get("exchanges", ()), cleaned.get("exchanges", ()), strict=True):
        reply = given.get("reply") or {}
        if "sizes" in reply and reply["pieces"] != kept["reply"]["pieces"]:
            del kept["reply"]["sizes"]
    return cleaned


def read_exchanges(
    story: RunStory, part: Part, known: bytes, turn: TurnFinished | None = None
) -> tuple[tuple[Exchange, ...], bytes]:
    """Adds the exchanges of a part to a run; returns them, and what is known for the next ones.

    Raises:
        ValueError, LookupError, TypeError: they are damaged.
    """
    replies, found = iter(part.replies), []
    for data in part.data.get("exchanges", ()):
        exchange = from_json(Exchange, data)
        if (reply := exchange.reply) is not None:
            if data["reply"] == PACKED:
                reply, known = read_reply(next(replies, ""), known + part.line.encode())
            else:
                pieces = _read_pieces(data["reply"], reply, turn.text if turn else "")
                reply = replace(reply, pieces=pieces)
            exchange = replace(exchange, reply=reply)
        found.append(_complete(story, exchange, data, turn))
    return tuple(found), known


def _read_pieces(data: Any, reply: WireReply, said: str) -> Sequence[bytes]:
    """Returns the pieces of a body that is within the data: one with secrets, or of version 1."""
    if "packed" in data:
        return PackedPieces.of_packed(
            b64decode(data["packed"], validate=True), b64decode(data["packed_sizes"], validate=True)
        )
    if "around" in data:
        before, after = data["around"]
        body = f"{before}{_FORMS[data['form']](said)[1:-1]}{after}"
        return (body.encode("utf-8", "surrogateescape"),)
    if "sizes" in data:
        return pack(split(reply.body, data["sizes"]))
    return reply.pieces


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
