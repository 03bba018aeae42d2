"""The exchanges of a part, each without what it has in common with another text that is kept.

Source: D-59, D-60.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from axe_nb.events import TurnFinished
from axe_nb.exchanges import Exchange, drop_spelled
from axe_nb.messages import Response
from axe_nb.recording.outcome import STREAM
from axe_nb.records.convert import from_json
from axe_nb.redaction import Filter
from axe_nb.run_history.story import RunStory
from axe_nb.run_history.text import spread
from axe_nb.wire_log import WireReply

CONSTANT = ("model", "system", "tools", "past_tools", "params")
"""Fields of an exchange that it often has in common with the one before it."""

OF_TURN = {
    "content": "text", "tool_calls": "calls", "stop_reason": "stop_reason", "usage": "usage",
}  # fmt: skip
"""Field of a response → that of its turn."""


def write_exchanges(
    story: RunStory,
    exchanges: Iterable[Exchange],
    clean: Filter,
    turn: TurnFinished | None = None,
) -> list[dict[str, Any]]:
    """Adds exchanges to a run; returns their data, with secrets that lie in one text."""
    return [_write_exchange(story, exchange, clean, turn) for exchange in exchanges]


def _write_exchange(
    story: RunStory, exchange: Exchange, clean: Filter, turn: TurnFinished | None
) -> dict[str, Any]:
    kept = drop_spelled(exchange, clean) if _is_in_pieces(exchange) else exchange
    data = spread(kept)
    if kept.reply is not None and len(kept.reply.pieces) > 1:
        data["reply"] = _join_pieces(kept.reply)
    if story.exchanges:
        before = story.exchanges[-1]
        data["as_before"] = [n for n in CONSTANT if getattr(exchange, n) == getattr(before, n)]
        for name in data["as_before"]:
            data.pop(name, None)
    if turn is not None and exchange.response is not None:
        response = data["response"] = spread(exchange.response)
        pairs = OF_TURN.items()
        data["as_turn"] = [n for n, m in pairs if getattr(exchange.response, n) == getattr(turn, m)]
        for name in data["as_turn"]:
            response.pop(name, None)
    story.exchanges.append(exchange)
    return data


def _is_in_pieces(exchange: Exchange) -> bool:
    """True if the answer is spread over the events of a stream."""
    kind = exchange.reply.headers.get("content-type", "") if exchange.reply else ""
    return bool(exchange.deltas or STREAM.search(kind))


def _join_pieces(reply: WireReply) -> dict[str, Any]:
    """Returns a reply with one text, in which secrets are found, and the bytes of its pieces."""
    return {**spread(reply), "pieces": (reply.body,), "sizes": list(map(len, reply.pieces))}


def clean_part(part: Any, clean: Filter) -> Any:
    """Returns a part without secrets, as JSON data; a reply that changed is in one piece."""
    cleaned = clean.json(part)
    for data, kept in zip(part.get("exchanges", ()), cleaned.get("exchanges", ()), strict=True):
        reply = data.get("reply") or {}
        if "sizes" in reply and reply["pieces"] != kept["reply"]["pieces"]:
            del kept["reply"]["sizes"]
    return cleaned


def read_exchanges(
    story: RunStory, exchanges: Iterable[Any], turn: TurnFinished | None = None
) -> tuple[Exchange, ...]:
    """Adds exchanges to a run, of the data of `write_exchanges`."""
    return tuple(_read_exchange(story, data, turn) for data in exchanges)


def _read_exchange(story: RunStory, data: Any, turn: TurnFinished | None) -> Exchange:
    exchange = from_json(Exchange, data)
    if exchange.reply is not None and "sizes" in data["reply"]:
        pieces = tuple(_split(exchange.reply.body, data["reply"]["sizes"]))
        exchange = replace(exchange, reply=replace(exchange.reply, pieces=pieces))
    if story.exchanges:
        names = [name for name in CONSTANT if name in data["as_before"]]
        before = story.exchanges[-1]
        exchange = replace(exchange, **{name: getattr(before, name) for name in names})
    if turn is not None and "as_turn" in data:
        names = [name for name in OF_TURN if name in data["as_turn"]]
        said = {name: getattr(turn, OF_TURN[name]) for name in names}
        exchange = replace(exchange, response=replace(exchange.response or Response(), **said))
    story.exchanges.append(exchange)
    return exchange


def _split(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    for start, end in pairwise(accumulate(sizes, initial=0)):
        yield body[start:end]
