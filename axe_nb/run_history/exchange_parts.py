"""The exchanges of a part, each without what it has in common with another text that is kept.

Source: D-59, D-60.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from axe_nb.events import TurnFinished
from axe_nb.exchanges import Exchange, drop_spelled, has_secret, list_spelled
from axe_nb.messages import Response
from axe_nb.records.convert import from_json
from axe_nb.redaction import Filter
from axe_nb.run_history.story import RunStory
from axe_nb.run_history.text import is_clean, spread
from axe_nb.wire_log import PackedPieces, WireReply, is_stream, pack, split

CONSTANT = (
    "model", "protocol", "system", "system_ends", "tools", "past_tools", "output", "answer_tool",
    "params", "streaming",
)  # fmt: skip
"""Fields of an exchange that it often has in common with the one before it."""

WRITTEN = (
    json.JSONEncoder(ensure_ascii=False).encode, json.JSONEncoder(ensure_ascii=True).encode,
)  # fmt: skip
"""The forms in which servers write a text as JSON."""

SHORTEST = 40
"""Characters of a text that are worth being left out of a reply."""

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
    kept, body = exchange, exchange.reply.text if exchange.reply is not None else ""
    unsearched: Filter | None = clean
    if _is_in_pieces(exchange):
        if has_secret((body, *list_spelled(body, exchange.deltas)), clean):
            kept = drop_spelled(exchange, clean)
        else:
            unsearched = None
    data = spread(kept)
    said = turn.text if turn is not None else ""
    if kept.reply is not None:
        data["reply"] = _write_reply(kept.reply, body, said, unsearched)
    if story.exchanges:
        before = story.exchanges[-1]
        same = [n for n in CONSTANT if getattr(exchange, n) == getattr(before, n)]
        _leave_out(data, same, CONSTANT, data, "as_before")
    if turn is not None and exchange.response is not None:
        response = data["response"] = spread(exchange.response)
        pairs = OF_TURN.items()
        same = [n for n, m in pairs if getattr(exchange.response, n) == getattr(turn, m)]
        _leave_out(response, same, OF_TURN, data, "as_turn")
    story.exchanges.append(exchange)
    return data


def _leave_out(
    fields: dict[str, Any], same: list[str], usual: Collection[str], data: dict[str, Any], key: str
) -> None:
    """Leaves out fields that are the same elsewhere, and notes their names if some are not."""
    for name in same:
        fields.pop(name, None)
    if len(same) < len(usual):
        data[key] = same


def _is_in_pieces(exchange: Exchange) -> bool:
    """True if the answer is spread over the events of a stream."""
    return bool(exchange.deltas or (exchange.reply and is_stream(exchange.reply.headers)))


def _write_reply(reply: WireReply, body: str, said: str, clean: Filter | None) -> dict[str, Any]:
    """Returns a reply: compressed, or without what its turn says, unless it has secrets.

    Then it has one text, in which they are found, and the sizes of its pieces.

    Args:
        reply: the reply.
        body: its body as text.
        said: the text of its turn.
        clean: finds secrets in the body; None if it was searched, and has none.
    """
    data, pieces = spread(reply), reply.pieces
    if isinstance(pieces, PackedPieces):
        if is_clean(body, clean):
            packed, sizes = (b64encode(part).decode() for part in pieces.packed)
            del data["pieces"]
            return {**data, "packed": packed, "packed_sizes": sizes}
    elif len(pieces) == 1 and len(said) >= SHORTEST:
        for form, write in enumerate(WRITTEN):
            parts = body.split(write(said)[1:-1])
            if len(parts) == 2:
                if is_clean(body, clean):
                    del data["pieces"]
                    return {**data, "around": parts, "form": form}
                break
    if len(pieces) < 2:
        return data
    return {**data, "pieces": (reply.body,), "sizes": list(map(len, pieces))}


def _read_pieces(data: Any, reply: WireReply, said: str) -> Sequence[bytes]:
    """Reverses `_write_reply`.

    Raises:
        ValueError: it is damaged.
    """
    if "packed" in data:
        return PackedPieces.of_packed(
            b64decode(data["packed"], validate=True), b64decode(data["packed_sizes"], validate=True)
        )
    if "around" in data:
        before, after = data["around"]
        body = f"{before}{WRITTEN[data['form']](said)[1:-1]}{after}"
        return (body.encode("utf-8", "surrogateescape"),)
    if "sizes" in data:
        return pack(split(reply.body, data["sizes"]))
    return reply.pieces


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
    if exchange.reply is not None:
        pieces = _read_pieces(data["reply"], exchange.reply, turn.text if turn else "")
        exchange = replace(exchange, reply=replace(exchange.reply, pieces=pieces))
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
