"""The outcome of an exchange as JSON data, for files: a server's bytes, or a script's answer.

Source: D-59, D-61.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from axe_nb.exchanges import Exchange, drop_spelled
from axe_nb.providers.wire import check_nesting
from axe_nb.recording.cleaning import Cleaner
from axe_nb.records.convert import from_json, to_json
from axe_nb.redaction import Filter
from axe_nb.wire_log import WireReply, is_stream


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Returns the outcome of an exchange, cleaned."""
    parsed = _parse(exchange.reply) if exchange.reply else None
    if parsed is None:
        exchange = drop_spelled(exchange, clean)
    reply = exchange.reply
    outcome = Exchange(
        turn=exchange.turn,
        protocol=exchange.protocol,
        refused=exchange.refused,
        server=exchange.server,
        reply=reply,
        response=None if reply else exchange.response,
        deltas=exchange.deltas,
        error=None if reply else exchange.error,
        was_last=exchange.was_last,
        cut=exchange.cut,
        cost=exchange.cost,
    )
    kept = to_json(outcome, clean)
    del kept["turn"]
    if parsed is not None:
        kept["reply"].pop("pieces", None)
        kept["reply"]["json"] = clean.json(parsed)
    return kept


def decode(
    kept: Mapping[str, Any], turn: int, attempt: int, clean: Cleaner | None = None
) -> Exchange:
    """Reverses `encode`.

    Args:
        clean: puts the paths of this machine back; None = they stay marks.

    Raises:
        ConfigError: it was made by something else.
    """
    kept = clean.restore(dict(kept)) if clean else kept
    reply = kept.get("reply")
    if isinstance(reply, dict) and "json" in reply:
        kept = {**kept, "reply": {**reply, "pieces": [json.dumps(reply["json"])]}}
    return from_json(Exchange, {**kept, "turn": turn, "attempt": attempt})


def _parse(reply: WireReply) -> dict[str, Any] | None:
    """Returns the object that a body is; None if it is a stream, or no object of usual depth."""
    if is_stream(reply.headers):
        return None
    try:
        parsed = json.loads(reply.body)
        check_nesting(parsed)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def has_failed(exchange: Exchange) -> bool:
    """True if an exchange brought no answer."""
    status = exchange.reply.status if exchange.reply else 200
    failure = exchange.error or (exchange.reply and exchange.reply.failure)
    return bool(failure) or exchange.cut in ("timeout", "cancelled") or not 200 <= status < 300
