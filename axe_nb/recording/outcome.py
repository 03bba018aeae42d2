"""The outcome of an exchange as JSON data, for files: a server's bytes, or a script's answer.

Source: D-59, D-61.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from axe_nb.exchanges import Exchange
from axe_nb.records.convert import from_json, to_json
from axe_nb.redaction import Filter

STREAM = re.compile("event-stream|ndjson", re.IGNORECASE)
"""Content types of streams, of which a single line may be an object too."""


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Returns the outcome of an exchange, cleaned."""
    reply = None if _spells_out(exchange, clean) else exchange.reply
    outcome = Exchange(
        turn=exchange.turn,
        reply=reply,
        response=None if reply else exchange.response,
        deltas=exchange.deltas,
        error=None if reply else exchange.error,
        cut=exchange.cut,
    )
    kept = to_json(outcome, clean)
    del kept["turn"]
    if reply is not None:
        kept["reply"] = _shorten(kept["reply"], clean)
    return kept


def decode(kept: Mapping[str, Any], turn: int, attempt: int) -> Exchange:
    """Reverses `encode`.

    Raises:
        ConfigError: it was made by something else.
    """
    reply = kept.get("reply")
    if isinstance(reply, dict) and "json" in reply:
        kept = {**kept, "reply": {**reply, "pieces": [json.dumps(reply["json"])]}}
    return from_json(Exchange, {**kept, "turn": turn, "attempt": attempt})


def _shorten(reply: dict[str, Any], clean: Filter) -> dict[str, Any]:
    """Returns a reply with its body in the form that reads best."""
    pieces = reply.pop("pieces", [])
    whole = clean.text("".join(pieces))
    parsed = None
    if not STREAM.search(reply.get("headers", {}).get("content-type", "")):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(whole)
    if isinstance(parsed, dict):
        reply["json"] = parsed
    elif pieces:
        reply["pieces"] = pieces if whole == "".join(pieces) else [whole]
    return reply


def _spells_out(exchange: Exchange, clean: Filter) -> bool:
    """True if the pieces of a stream, joined, contain what must not be kept."""
    kind = exchange.reply.headers.get("content-type", "") if exchange.reply else ""
    if not STREAM.search(kind):
        return False
    said = Exchange(turn=1, response=exchange.response, error=exchange.error)
    return to_json(said, clean) != to_json(said)
