"""Describes requests for recording and comparison, independent of call ids and wire format.

A turn's request is described by its new messages and by the fields that changed since the previous
turn. Two runs sent the same requests if the descriptions of all their requests are equal.
Source: D-59, D-60.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

from axe_nb.conversion.jsonable import jsonable
from axe_nb.delegation.spawn_agent import without_seconds
from axe_nb.messages import Message, Request
from axe_nb.pictures.picture import Picture
from axe_nb.secrets import MASK, Filter
from axe_nb.text import MAX_SHOWN, count_common, one_line, quote

PEM = "KEY-----"
"""Text at the end of the BEGIN and END lines of a PEM private key."""

Description: TypeAlias = "dict[str, Any]"
"""Description of a request: new `messages`, and changed fields such as `system`."""


def is_same(recorded: Any, asked: Any) -> bool:
    """True if two JSON values are equal; a mask in one may stand for a secret in the other."""
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
    """True if `recorded` has masks, and `asked` is the same text with secrets in their place."""
    first, *rest = recorded.split(MASK)
    if not rest or not asked.startswith(first) or not asked.endswith(rest[-1]):
        return False
    end, last = len(first), len(asked) - len(rest[-1])
    for number, part in enumerate(rest, 1):
        start = last if number == len(rest) else asked.find(part, end)
        before = asked[max(0, end - len(PEM)) : end]
        secret = asked[end:start]  # only private keys have blanks; in Markdown, `***` is no mask
        if start < end or (PEM not in before + secret and any(map(str.isspace, secret))):
            return False
        end = start + len(part)
    return True


class Describer:
    """Describes the requests of one run, turn by turn."""

    def __init__(self, clean: Filter) -> None:
        self.clean = clean
        self.asked: Description = {}
        """Description of the latest request."""
        self.place = ""
        """Place of the latest request; empty before the first request."""
        self._before: Request | None = None
        self._fields: Description = {}

    def describe(self, request: Request, model: str) -> Description:
        """Returns the description of the next request; for a retry, that of the first attempt."""
        if request.place == self.place:
            return self.asked
        before, self._before = self._before, request
        sent = len(before.messages) if before else 0
        listed: dict[str, Any] = {"model": self.clean.text(model)}
        if before is None or before.system is not request.system:
            listed["system"] = self.clean.text(request.system)
        if before is None or before.params is not request.params:
            listed["params"] = self.clean.json(jsonable(request.params))
        if request.output is not None:
            listed["output"] = self.clean.json(jsonable(request.output))
        if before is None or before.tools is not request.tools:
            tools = [
                {"name": tool.name, "description": tool.description, **tool.input_schema()}
                for tool in request.tools
            ]
            listed["tools"] = self.clean.json(jsonable(tools))
        asked = {key: value for key, value in listed.items() if self._fields.get(key) != value}
        self._fields |= asked
        asked["messages"] = [_describe_message(m, self.clean) for m in request.messages[sent:]]
        self.place, self.asked = request.place, asked
        return asked


def digest(asked: Any) -> str:
    """Returns the SHA-256 digest of a JSON value, independent of key order."""
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
    described: dict[str, Any] = {message.role: clean.text(message.content)}
    described |= _describe_pictures(message.pictures)
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
    return {"pictures": [picture.digest for picture in pictures]} if pictures else {}


def list_changes(recorded: Description, asked: Description) -> Iterator[str]:
    """Yields phrases that describe how two requests differ."""
    for name in ("model", "system", "params", "output", "tools"):
        before, now = recorded.get(name), asked.get(name)
        if before != now:
            shown = "system prompt" if name == "system" else name
            yield f"its {shown} changed{describe_change(before, now)}"
    for before, now in zip_longest(recorded.get("messages", ()), asked.get("messages", ())):
        if before == now:
            continue
        if not isinstance(before, dict) or not isinstance(now, dict):
            yield "it has fewer messages" if now is None else "it has more messages"
            continue
        results = zip_longest(before.get("results", ()), now.get("results", ()))
        changed = [pair for pair in results if pair[0] != pair[1]]
        if "results" in before and "results" in now and changed:
            old, new = changed[0]
            what, text = f"the result of {(new or old).get('tool', '')}", "text"
        else:
            old, new, text = before, now, next(iter(now), "")
            what = {"user": "its prompt", "assistant": "its history"}.get(text, f"its {text}")
        texts = [one.get(text) if one else None for one in (old, new)]
        if texts[0] != texts[1]:  # otherwise its calls or pictures changed
            old, new = texts
        yield f"{what} changed{describe_change(old, new)}"


def describe_change(before: Any, now: Any) -> str:
    """Formats the first difference between two values, such as ` in line 2: "a" → "b"`."""
    if isinstance(before, dict) and isinstance(now, dict):
        both = before.keys() & now.keys()
        key = next(k for k in {**before, **now} if k not in both or before[k] != now[k])
        old, new = (_show(one[key]) if key in one else "nothing" for one in (before, now))
        return f" in {key}: {old} → {new}"
    if isinstance(before, list) and isinstance(now, list):  # lists of tools
        had, has = ({str(tool.get("name")): tool for tool in tools} for tools in (before, now))
        for what, names in (("added", has.keys() - had), ("removed", had.keys() - has)):
            if names:
                return f": {what} {', '.join(sorted(names))}"
        changed = [name for name, tool in has.items() if had[name] != tool]
        return f": {', '.join(changed)} is described differently" if changed else ": their order"
    if not isinstance(before, str) or not isinstance(now, str):
        old, new = ("nothing" if one is None else _show(one) for one in (before, now))
        return f": {old} → {new}"
    lines = zip_longest(before.split("\n"), now.split("\n"))
    number, (old, new) = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
    where = f" in line {number}" if "\n" in before + now else ""
    if old is None or new is None:
        what = "added" if old is None else "removed"
        return f"{where}, which was {what}: {_show(old if new is None else new)}"
    start = 0
    if max(len(old), len(new)) > MAX_SHOWN:  # show lines from a few words before the difference
        start = max(0, count_common(old, new) - MAX_SHOWN // 3)
    return f"{where}: {_show(old, start)} → {_show(new, start)}"


def _show(value: Any, start: int = 0) -> str:
    if not isinstance(value, str):
        return one_line(json.dumps(value, ensure_ascii=False), MAX_SHOWN)
    return quote(one_line(("…" if start else "") + value[start:], MAX_SHOWN))
