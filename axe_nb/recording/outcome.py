"""The outcome of an exchange as JSON data, for files: a server's bytes, or a script's answer.

Source: D-59, D-61.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from axe_nb.exchanges import Exchange, drop_spelled
from axe_nb.records.convert import from_json, to_json
from axe_nb.redaction import Filter

STREAM = re.compile("event-stream|ndjson", re.IGNORECASE)
"""Content types of streams, of which a single line may be an object too."""


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Returns the outcome of an exchange, cleaned."""
    exchange = drop_spelled(exchange, clean)
    reply = exchange.reply
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
