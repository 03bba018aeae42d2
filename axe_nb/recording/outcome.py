"""Outcomes as JSON data, for cassettes: of exchanges, of calls of tools, of caps that refused one.

Source: D-48, D-59, D-60, D-61.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.records import from_json, to_json
from axe_nb.limits import RunStopped
from axe_nb.messages import WireReply
from axe_nb.messages.exchanges import Exchange
from axe_nb.providers.wire import check_nesting
from axe_nb.recording.cleaning import Cleaner
from axe_nb.results import Status
from axe_nb.secrets import Filter
from axe_nb.tools.tool import ToolOutput


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Returns the outcome of an exchange, cleaned.

    A stream that spells a secret out over several events is left out, as is a script's; then the
    answer made of it is kept, in which the filter finds the secret.
    """
    reply, deltas = exchange.reply, exchange.deltas
    parsed = _parse(reply) if reply else None
    if reply and parsed is None:
        before, after = map(_parse_events, (reply.text, clean.text(reply.text)))
        if len(before) != len(after) or _spells_secret(after, clean):
            reply = None
    if _spells_secret([{f"{one.kind} {one.call}": one.text} for one in deltas], clean):
        deltas = ()
    outcome = Exchange(
        turn=exchange.turn,
        protocol=exchange.protocol,
        refused=exchange.refused,
        server=exchange.server,
        reply=reply,
        response=None if reply else exchange.response,
        deltas=deltas,
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


def has_failed(exchange: Exchange) -> bool:
    """True if an exchange brought no answer."""
    status = exchange.reply.status if exchange.reply else 200
    failure = exchange.error or (exchange.reply and exchange.reply.failure)
    return bool(failure) or exchange.cut in ("timeout", "cancelled") or not 200 <= status < 300


def _parse(reply: WireReply) -> dict[str, Any] | None:
    """Returns the object that a body is; None if it is a stream, or no object of usual depth."""
    if reply.is_stream:
        return None
    try:
        parsed = json.loads(reply.body)
        check_nesting(parsed)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _parse_events(body: str) -> list[Any]:
    """Returns what the lines of a body say that are JSON, or else the whole."""
    found = []
    for line in body.split("\n"):
        with suppress(ValueError, RecursionError):
            found.append(json.loads(line.removeprefix("data:")))
    if not found:
        with suppress(ValueError, RecursionError):
            found.append(json.loads(body))
    return found


def _spells_secret(events: Sequence[Any], clean: Filter) -> bool:
    """True if the texts of events, those at the same place joined, hold a secret."""
    texts: dict[Hashable, list[str]] = {}
    left: list[tuple[Hashable, Any]] = [("", event) for event in reversed(events)]
    while left:
        place, value = left.pop()
        if isinstance(value, str):
            texts.setdefault(place, []).append(value)
        elif isinstance(value, dict):
            left += [((place, key), item) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            left += [((place,), item) for item in reversed(value)]
    joined = "\n".join(map("".join, texts.values()))
    return clean.text(joined) != joined


def describe_call(tool: str, arguments: Mapping[str, Any], clean: Filter) -> dict[str, Any]:
    """Returns a call as it is kept and compared."""
    return {"tool": tool, "arguments": clean.json(jsonable(arguments))}


def write_output(output: ToolOutput, clean: Filter) -> dict[str, Any]:
    """Returns the output of a tool as it is kept."""
    kept: dict[str, Any] = {"text": clean.text(output.content)}
    if output.is_error:
        kept["error"] = True
    if output.note:
        kept["note"] = clean.text(output.note)
    if output.pictures:
        kept["pictures"] = list(output.pictures)
    return kept


def read_output(kept: Mapping[str, Any]) -> ToolOutput:
    """Reverses `write_output`."""
    return ToolOutput(
        str(kept.get("text", "")), bool(kept.get("error")), str(kept.get("note", "")),
        tuple(kept.get("pictures", ())),
    )  # fmt: skip


def write_refusal(stop: RunStopped, clean: Filter) -> dict[str, Any]:
    """Returns a refusal by a cap as it is kept."""
    return {"cap": stop.cap, "status": stop.status, "error": clean.text(str(stop))}


def read_refusal(kept: Mapping[str, Any]) -> RunStopped:
    """Reverses `write_refusal`."""
    status: Status = "max_tokens" if kept.get("status") == "max_tokens" else "error"
    return RunStopped(status, str(kept.get("error", "")), str(kept.get("cap", "")))
