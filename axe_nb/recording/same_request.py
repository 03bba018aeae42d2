"""Requests to a model in a form for recording and comparison: without a provider's format and ids.

Each turn of a run is described by what it adds to the turn before: the new messages, and the fields
that changed. Two runs had the same requests if all these descriptions are equal. Source: D-59,
D-60.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from axe_nb.conversion.jsonable import jsonable
from axe_nb.delegation.spawn_agent import without_seconds
from axe_nb.messages import Message, Request
from axe_nb.pictures.picture import Picture
from axe_nb.secrets import MASK, Filter

PEM = "KEY-----"
"""Part of the lines around a private key, which has several lines."""

Description: TypeAlias = "dict[str, Any]"
"""A description: the changed ones of `model`, `system`, `params`, `tools` and `messages`."""


def is_same(recorded: Any, asked: Any) -> bool:
    """True if a request equals a recorded one; a removed secret matches any text."""
    if isinstance(recorded, str) and isinstance(asked, str):
        return recorded == asked or _fits(recorded, asked) or _fits(asked, recorded)
    if isinstance(recorded, dict) and isinstance(asked, dict):
        return recorded.keys() == asked.keys() and all(
            is_same(recorded[key], asked[key]) for key in recorded
        )
    if isinstance(recorded, list) and isinstance(asked, list):
        return len(recorded) == len(asked) and all(map(is_same, recorded, asked))
    return bool(recorded == asked)


def _fits(recorded: str, asked: str) -> bool:
    """True if a text equals the recorded one, with a possible secret in place of each mask."""
    first, *rest = recorded.split(MASK)
    if not rest or not asked.startswith(first) or not asked.endswith(rest[-1]):
        return False
    end, last = len(first), len(asked) - len(rest[-1])
    for number, part in enumerate(rest, 1):
        start = last if number == len(rest) else asked.find(part, end)
        before = asked[max(0, end - len(PEM)) : end]
        secret = asked[end:start]  # has no blanks, but for private keys; `***` is in Markdown, too
        if start < end or (PEM not in before + secret and any(map(str.isspace, secret))):
            return False
        end = start + len(part)
    return True


@dataclass
class Describer:
    """Describes the requests of one run, one turn after another."""

    clean: Filter
    _before: Request | None = None
    _fields: Description = field(default_factory=dict)

    def describe(self, request: Request, model: str) -> Description:
        """Returns the part of a request that is new since the previous one."""
        before, self._before = self._before, request
        sent = len(before.messages) if before else 0
        listed: list[tuple[str, Any]] = [("model", self.clean.text(model))]
        if before is None or before.system is not request.system:
            listed.append(("system", self.clean.text(request.system)))
        if before is None or before.params is not request.params:
            listed.append(("params", self.clean.json(jsonable(request.params))))
        if request.output is not None:
            listed.append(("output", self.clean.json(jsonable(request.output))))
        if before is None or before.tools is not request.tools:
            tools = [
                {"name": tool.name, "description": tool.description, **tool.input_schema()}
                for tool in request.tools
            ]
            listed.append(("tools", self.clean.json(jsonable(tools))))
        asked: Description = {}
        for name, value in listed:
            if self._fields.get(name) != value:
                self._fields[name] = asked[name] = value
        asked["messages"] = [_describe_message(m, self.clean) for m in request.messages[sent:]]
        return asked


@dataclass
class AskedRun:
    """One run of a tree, while it is replayed or recorded."""

    describer: Describer
    model: str = ""
    """provider/model."""
    asked: Description = field(default_factory=dict)
    """The part of its latest request that is new since the previous one."""
    place: str = ""
    """The place of its latest request."""
    changed_at: int | None = None
    """The first turn whose request differs from the recorded one; all later ones differ too."""

    def take(self, request: Request, model: str) -> None:
        """Describes a request, unless that was already done at a pause before it."""
        self.model = model
        if request.attempt == 1 and self.place != request.place:
            self.asked, self.place = self.describer.describe(request, model), request.place


def digest(asked: Any) -> str:
    """Returns a short text that is equal only for equal descriptions."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _describe_message(message: Message, clean: Filter) -> dict[str, Any]:
    if message.tool_results:
        results = [
            {
                "tool": result.name,
                **({"error": True} if result.is_error else {}),
                "text": clean.text(without_seconds(result)),
                **_describe_pictures(result.pictures),
            }
            for result in message.tool_results
        ]
        return {"results": results}
    described: dict[str, Any] = {
        message.role: clean.text(message.content),
        **_describe_pictures(message.pictures),
    }
    if message.tool_calls:
        described["calls"] = [
            {
                "tool": call.name,
                "arguments": clean.json(jsonable(call.arguments)),
                **({"raw": clean.text(call.raw)} if call.raw else {}),
            }
            for call in message.tool_calls
        ]
    return described


def _describe_pictures(pictures: Sequence[Picture]) -> dict[str, Any]:
    """Returns the digests of pictures; the text has their formats and sizes."""
    return {"pictures": [picture.digest for picture in pictures]} if pictures else {}
