"""The texts that the events of a stream spell out together, and a stream without what it repeats.

Secrets are looked for in the texts. A history keeps the events of a stream folded: those in a row
that differ in one text only are one event, and the sizes of the texts are noted.
Source: D-60; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from axe_nb.text import count_common

_HOLE = "\ue000"
"""Stands for the text of the first run; a later run has a later character."""

MAX_RUNS = 64
"""Runs that are looked for in one stream; a usual one has up to four."""

_HOLES = re.compile(f"[{_HOLE}-{chr(ord(_HOLE) + MAX_RUNS - 1)}]")

_EVENT = re.compile(r"^(?:data:[ \t]*)?\{.*", re.MULTILINE)
_OBJECT = re.compile(r"^(?:data:)?\s*(\{.*)", re.MULTILINE)

FEW = 16
"""Events that are parsed as fast as runs are looked for."""

MAX_PAIRS = 12
"""Pairs of events that are compared; of a usual stream, the first few are enough."""

NEAR = 5000
"""Characters in which the third event of a run begins."""

LEAST = 3
"""Events of a run."""


class Run(NamedTuple):
    """Events in a row that differ in one text only."""

    between: str
    """The characters from the end of one text to the next."""
    texts: str
    """The texts together, as JSON."""
    sizes: list[int]
    """Those of the texts, in characters."""


class Folded(NamedTuple):
    """A stream in which each run is one event, with a character of its own as its text."""

    body: str
    runs: list[Run]


def fold(body: str) -> Folded:
    """Returns a stream without what its events repeat."""
    runs: list[Run] = []
    if max(body.count("\n{"), body.count("\ndata:")) < FEW:
        return Folded(body, runs)
    at = 0
    for _ in range(MAX_PAIRS):
        one = _EVENT.search(body, at)
        other = _EVENT.search(body, one.end()) if one else None
        if not (one and other):
            break
        before, after = _find_rests(one[0], other[0])
        between = f"{after}{body[one.end() : other.start()]}{before}"
        is_next = body.find(between, other.start(), other.end() + NEAR) >= 0
        if before and after and is_next and _are_rests(before, after):
            body = _take_runs(body, before, between, after, runs)
        at = body.find("\n", one.start())
    return Folded(body, runs)


def unfold(folded: Folded, max_size: int) -> str:
    """Reverses `fold`.

    Raises:
        ValueError: it is damaged, or larger than the maximum size in characters.
    """
    body = folded.body
    if len(body) + sum(len(t) + len(b) * len(s) for b, t, s in folded.runs) > max_size:
        raise ValueError("the stream is too large")
    for number, (between, texts, sizes) in enumerate(folded.runs):
        pieces = [texts[a:b] for a, b in pairwise(accumulate(sizes, initial=0))]
        body = body.replace(_hole(number), between.join(pieces), 1)
    return body


def _hole(number: int) -> str:
    return chr(ord(_HOLE) + number)


def _find_rests(one: str, other: str) -> tuple[str, str]:
    """Returns what two events have before and after a text, if they differ in that only."""
    start = one.rfind('"', 0, count_common(one, other))
    while start > 0 and one[start - 1] == "\\":
        start = one.rfind('"', 0, start)
    end = len(one) - count_common(one[::-1], other[::-1])
    end = one.find('"', max(end, start + 1))
    while end > 0 and one[end - 1] == "\\":
        end = one.find('"', end + 1)
    before, after = one[: start + 1], one[end:] if end > 0 else ""
    return (before, after) if len(other) >= len(before) + len(after) else ("", "")


def _are_rests(before: str, after: str) -> bool:
    """True if both are those of an event with one text at its place."""
    try:
        event = json.loads(f"{before}{_HOLE}{after}".removeprefix("data:"))
        return _count_holes(event) == 1
    except (ValueError, RecursionError):
        return False


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


def _take_runs(body: str, before: str, between: str, after: str, runs: list[Run]) -> str:
    """Takes the runs of one kind of event out of a stream; returns the rest."""
    parts = body.split(between)
    ends = [n for n, part in enumerate(parts) if "\n" in part or n in (0, len(parts) - 1)]
    found, rest = [], parts[0]
    for start, end in pairwise(ends):
        texts, left = parts[start + 1 : end], parts[end]
        if rest[rest.rfind("\n") + 1 :].startswith(before):  # else it is an event of another kind
            texts.insert(0, rest[rest.rfind("\n") + 1 + len(before) :])
            rest = rest[: len(rest) - len(texts[0])]
        else:
            rest += between
        if (last := left.partition("\n")[0]).endswith(after):
            texts.append(last[: -len(after)])
            left = left[len(texts[-1]) :]
        else:
            left = between + left
        if (
            len(texts) >= LEAST
            and len(runs) < MAX_RUNS
            and (hole := _hole(len(runs))) not in body
            and _are_texts(texts)
        ):
            found += [rest, hole]
            runs.append(Run(between, "".join(texts), list(map(len, texts))))
        else:
            found += [rest, between.join(texts)]
            left = left if texts else left.removeprefix(between)  # which both have
        rest = left
    return "".join([*found, rest])


def _are_texts(pieces: list[str]) -> bool:
    """True if each piece is a text in JSON, all together are not empty, and none is a hole."""
    together = '","'.join(pieces)
    try:
        texts = json.loads(f'["{together}"]')
    except ValueError:
        return False
    return len(texts) == len(pieces) and any(pieces) and _HOLES.search(together) is None


def join_texts(body: str) -> Iterator[str]:
    """Yields the texts of a stream, those at the same place of several events joined."""
    return list_texts(fold(body))


def list_texts(folded: Folded) -> Iterator[str]:
    """Yields the texts of a folded stream, those at the same place of several events joined.

    A text of one event alone is none of them: it is in the stream as it is.
    """
    events = _OBJECT.findall(folded.body)
    try:
        parsed = json.loads(f"[{','.join(events)}]")  # far faster than one by one
    except (ValueError, RecursionError):
        lines = folded.body.split("\n")
        events, parsed = _parse_each(line.removeprefix("data:").lstrip() for line in lines)
    if folded.runs:
        parsed = [
            one
            for line, event in zip(events, parsed, strict=True)
            for one in _fill_hole(line, event, folded.runs)
        ]
    texts: dict[str, list[str]] = {}
    _collect_items(parsed, "", texts)
    return ("".join(found) for found in texts.values() if len(found) > 1)  # none is empty


def _parse_each(lines: Iterable[str]) -> tuple[list[str], list[Any]]:
    """Returns the lines that are JSON, and what they say."""
    events, parsed = [], []
    for line in lines:
        with suppress(ValueError, RecursionError):
            parsed.append(json.loads(line))
            events.append(line)
    return events, parsed


def _fill_hole(line: str, event: Any, runs: list[Run]) -> Iterator[Any]:
    """Yields an event as it is, or for a run two with all of its texts."""
    found = _HOLES.search(line)
    if not found or (number := ord(found[0]) - ord(_HOLE)) >= len(runs):
        yield event
        return
    _, texts, sizes = runs[number]
    text = json.loads(f'"{texts}"')
    end = 1 if sum(map(bool, sizes)) > 1 else len(text)
    yield _fill(event, found[0], text[:end], len(sizes) - 1)
    yield _fill(event, found[0], text[end:], 1)


def _fill(value: Any, hole: str, text: str, times: int) -> Any:
    """Returns an event with the text in place of the hole, and each other text several times."""
    if isinstance(value, dict):
        return {key: _fill(item, hole, text, times) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, hole, text, times) for item in value]
    if isinstance(value, str):
        return text if value == hole else value * times
    return value


def _collect(value: Mapping[str, Any], at: str, texts: dict[str, list[str]]) -> None:
    """Adds the texts of an object that are not empty, by their places."""
    for key, item in value.items():
        if not item:
            continue
        kind = item.__class__
        if kind is str:
            place = f"{at}\0{key}"
            if place in texts:
                texts[place].append(item)
            else:
                texts[place] = [item]
        elif kind is dict:
            _collect(item, f"{at}\0{key}", texts)
        elif kind is list:
            _collect_items(item, f"{at}\0{key}", texts)


def _collect_items(items: Iterable[Any], at: str, texts: dict[str, list[str]]) -> None:
    """Adds the texts of a list, all at the same place."""
    for item in items:
        kind = item.__class__
        if kind is dict:
            _collect(item, at, texts)
        elif kind is str and item:
            texts.setdefault(at, []).append(item)
        elif kind is list:
            _collect_items(item, at, texts)
