"""The error for a request that a cassette cannot answer: the change, and how to record it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from axe_nb.conversion.own_text import MAX_SHOWN
from axe_nb.engine.replay import order_of, run_of
from axe_nb.errors import CassetteMiss
from axe_nb.messages import Request
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.records import FIRST, Root
from axe_nb.recording.same_request import Description
from axe_nb.text import one_line, quote

NAMES = {
    "model": "model", "system": "system prompt", "params": "params", "output": "output",
    "tools": "tools",
}  # fmt: skip
"""Field of a request → its name for people."""


def describe_miss(
    cassette: Cassette, root: Root, request: Request, asked: Description
) -> CassetteMiss:
    """Makes the error for a request without a record."""
    model = asked.get("model") or request.model
    name = f"agent {request.agent}" if request.agent else f"model {model}"
    who = f"{name} at {request.place}"
    record = root.records.get(("model", request.place, request.attempt))
    if record and isinstance(record.asked, dict):
        change = next(
            list_changes(record.asked, asked), "its recording was interrupted by a person"
        )
        message = f"{who}: {change}"
    elif not cassette.recorded and not os.path.exists(cassette.path):  # noqa: PTH110  Path raises
        message = f"{who}: the file does not exist"
    elif request.place == FIRST and (count := cassette.count_same(asked)):
        runs = "the recorded run has" if count == 1 else f"all {count} recorded runs have"
        message = f"{who}: {runs} already been replayed, and this run sends the same request again"
    else:
        message = f"{who}: nothing is recorded for this request"
    return CassetteMiss(
        f"cassette {cassette.shown} has no answer for {message}", hint=cassette.how_to_record
    )


def list_changes(recorded: Description, asked: Description) -> Iterator[str]:
    """Yields the differences between two descriptions, in words."""
    for name, shown in NAMES.items():
        before, now = recorded.get(name), asked.get(name)
        if before != now:
            yield f"its {shown} changed{describe_change(before, now)}"
    pairs = zip_longest(recorded.get("messages", ()), asked.get("messages", ()))
    for before, now in pairs:
        if before != now:
            yield _describe_message_change(before, now)


def _describe_message_change(before: Any, now: Any) -> str:
    if not isinstance(before, dict) or not isinstance(now, dict):
        return "it has fewer messages" if now is None else "it has more messages"
    if "results" in before and "results" in now:
        for old, new in zip_longest(before["results"], now["results"]):
            if old != new:
                name = (new or old or {}).get("tool", "")
                return f"the result of {name} changed{_describe_part(old, new, 'text')}"
    role = next(iter(now), "")
    name = {"user": "prompt", "assistant": "history"}.get(role, role)
    return f"its {name} changed{_describe_part(before, now, role)}"


def _describe_part(before: Any, now: Any, text: str) -> str:
    """Returns a description of a changed text; if it is unchanged, of its calls or pictures."""
    old, new = (one.get(text) if one else None for one in (before, now))
    return describe_change(old, new) if old != new else describe_change(before, now)


def describe_change(before: Any, now: Any) -> str:
    """Returns a description of the difference between two values, and its position."""
    if isinstance(before, dict) and isinstance(now, dict):
        both = before.keys() & now.keys()
        key = next(k for k in {**before, **now} if k not in both or before[k] != now[k])
        old, new = (_show(one[key]) if key in one else "nothing" for one in (before, now))
        return f" in {key}: {old} → {new}"
    if isinstance(before, list) and isinstance(now, list):
        return _describe_tools(before, now)
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
    if max(len(old), len(new)) > MAX_SHOWN:  # show them from a few words before the difference
        same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
        start = max(0, same - MAX_SHOWN // 3)
    return f"{where}: {_show(old, start)} → {_show(new, start)}"


def _describe_tools(before: list[Any], now: list[Any]) -> str:
    old, new = ({str(tool.get("name")): tool for tool in tools} for tools in (before, now))
    for what, names in (("added", new.keys() - old), ("removed", old.keys() - new)):
        if names:
            return f": {what} {', '.join(sorted(names))}"
    changed = [name for name, tool in new.items() if old[name] != tool]
    return f": {', '.join(changed)} is described differently" if changed else ": their order"


def _show(value: Any, start: int = 0) -> str:
    if not isinstance(value, str):
        return one_line(json.dumps(value, ensure_ascii=False), MAX_SHOWN)
    return quote(one_line(("…" if start else "") + value[start:], MAX_SHOWN))


def pick_first(misses: list[tuple[str, CassetteMiss]]) -> CassetteMiss:
    """Returns the miss whose place comes first, so that the report does not depend on timing."""
    return min(misses, key=lambda miss: (order_of(miss[0]), run_of(miss[0])))[1]
