"""The texts that the events of a stream spell out together, in which secrets are looked for.

Source: D-60; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

_Places: TypeAlias = "dict[str, tuple[list[str], _Places]]"
"""Key → the texts at its place, and the places below."""

_HOLE = "\ue000"
"""Stands for the text of a template."""

FEW = 12
"""Events that are parsed faster than templates are looked for."""

MAX_TEMPLATES = 8
"""Templates that are looked for in one stream; a usual one has up to four."""


class _Template(NamedTuple):
    """The common parts of events that differ in one text only."""

    before: str
    after: str
    event: Any
    """Such an event, with `_HOLE` as its text."""


def join_texts(body: str) -> Iterator[str]:
    """Yields the texts of a stream, those at the same place of several events joined."""
    lines = [line.removeprefix("data:").lstrip() for line in body.split("\n") if line]
    events = [line for line in lines if line[:1] == "{"]
    try:
        parsed = _parse_all(events) if len(events) < FEW else _fold(events)
    except (ValueError, RecursionError):
        parsed = _parse_each(lines)
    below: _Places = {}
    _collect_items(parsed, "", below)
    return ("".join(texts) for texts in _list_texts(below) if len(texts) > 1)


def _parse_all(events: Iterable[str]) -> list[Any]:
    """Parses events at once, which is far faster than one by one."""
    parsed: list[Any] = json.loads(f"[{','.join(events)}]")
    return parsed


def _parse_each(lines: Iterable[str]) -> list[Any]:
    """Parses the lines that are JSON."""
    parsed = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            parsed.append(json.loads(line))
    return parsed


def _fold(events: list[str]) -> list[Any]:
    """Parses events; those in a row that differ in one text only become one with joined texts.

    Raises:
        ValueError: one is not valid.
    """
    found: list[Any] = []
    templates: list[_Template] = []
    looked = at = 0
    while at < len(events):
        for template in templates:
            if pieces := _take_pieces(template, events, at):
                text = json.loads(f'"{"".join(pieces)}"')
                found.append(_fill(template.event, text, len(pieces)))
                found.append(_fill(template.event, "", 0))  # several texts, of which one is empty
                at += len(pieces)
                break
        else:
            new = _find_template(events[at : at + 2]) if looked < MAX_TEMPLATES else None
            looked += 1
            templates += [new] if new else []
            if new is None:
                found.append(json.loads(events[at]))
                at += 1
    return found


def _take_pieces(template: _Template, events: list[str], at: int) -> list[str]:
    """Returns the texts of the events from a place on that the template fits, as JSON."""
    before, after, _ = template
    start, end, least = len(before), -len(after), len(before) + len(after)
    pieces = []
    for number in range(at, len(events)):
        event = events[number]
        if not (event.startswith(before) and event.endswith(after) and len(event) >= least):
            break
        piece = event[start:end]
        if '"' in piece or ("\\" in piece and not _is_text(piece)):
            break
        pieces.append(piece)
    return pieces


def _is_text(piece: str) -> bool:
    try:
        json.loads(f'"{piece}"')
    except ValueError:
        return False
    return True


def _find_template(events: list[str]) -> _Template | None:
    """Returns what two events have in common, if they differ in one text."""
    one, other = events[0], events[-1]
    start = one.rfind('"', 0, _count_common(one, other))
    while start > 0 and one[start - 1] == "\\":
        start = one.rfind('"', 0, start)
    end = len(one) - _count_common(one[::-1], other[::-1])
    end = one.find('"', max(end, start + 1))
    while end > 0 and one[end - 1] == "\\":
        end = one.find('"', end + 1)
    before, after = one[: start + 1], one[end:]
    try:
        event = json.loads(f"{before}{_HOLE}{after}")
        if _count_holes(event) != 1:
            return None
    except (ValueError, RecursionError):
        return None
    template = _Template(before, after, event)
    return template if len(_take_pieces(template, events, 0)) == 2 else None


def _count_common(one: str, other: str) -> int:
    """Returns the length of the beginning that two texts have in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _count_holes(value: Any) -> int:
    """Returns how often the hole occurs.

    Raises:
        ValueError: a list has several items: their texts, at the same place, would be out of order.
    """
    if isinstance(value, dict):
        return sum(map(_count_holes, value.values()))
    if isinstance(value, list):
        if len(value) > 1:
            raise ValueError
        return sum(map(_count_holes, value))
    return int(value == _HOLE)


def _fill(value: Any, text: str, times: int) -> Any:
    """Returns an event with the text in place of the hole, and each other text several times."""
    if isinstance(value, dict):
        return {key: _fill(item, text, times) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, text, times) for item in value]
    if isinstance(value, str):
        return text if value == _HOLE else value * times
    return value


def _collect(value: Mapping[str, Any], places: _Places) -> None:
    """Adds the texts of an object."""
    for key, item in value.items():
        kind = item.__class__
        if kind is str:
            if key in places:
                places[key][0].append(item)
            else:
                places[key] = [item], {}
        elif kind is dict:
            if key not in places:
                places[key] = [], {}
            _collect(item, places[key][1])
        elif kind is list:
            _collect_items(item, key, places)


def _collect_items(items: Iterable[Any], key: str, places: _Places) -> None:
    """Adds the texts of a list below a key, all at the same place."""
    texts, below = places.setdefault(key, ([], {}))
    for item in items:
        kind = item.__class__
        if kind is dict:
            _collect(item, below)
        elif kind is str:
            texts.append(item)
        elif kind is list:
            _collect_items(item, key, places)


def _list_texts(places: _Places) -> Iterator[list[str]]:
    for texts, below in places.values():
        yield texts
        yield from _list_texts(below)
