"""The records of a cassette: one for each exchange, decision of a person, or result of a tool.

Source: D-48, D-59, D-61.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.conversion.records import PARTS, Parts, Writer, read_picture, write_picture
from axe_nb.engine.replay import Order, is_place, order_of
from axe_nb.errors import ConfigError
from axe_nb.recording.outcome import decode

Kind = Literal["model", "cap", "person", "tool", "end"]

FIRST = "0/1"
"""Place of the first exchange of a root."""

Key: TypeAlias = "tuple[Kind, str, int]"
"""(kind, place, number): the attempt of an exchange, the number of a question or a call."""

BEGINNING: Key = ("model", FIRST, 1)
"""The record by which a root is found again."""

END: Key = ("end", "0", 1)
"""The record of a tree that was cut while it did not wait for a model."""

AT_TURN: tuple[Kind, ...] = ("model", "cap")
"""Kinds whose records belong to a turn of a run."""

OUTCOMES: Mapping[Kind, str] = {"cap": "refused", "person": "decision", "tool": "output"}
"""Kind → the key of its outcome in the file."""

NUMBER: Mapping[Kind, str] = {
    "model": "attempt", "cap": "attempt", "person": "question", "tool": "call", "end": "number",
}  # fmt: skip
"""Kind → the key of its number in the file."""


@dataclass(slots=True, kw_only=True)
class Record:
    """One recorded exchange, decision or result."""

    kind: Kind
    place: str
    """`0.2/3` for an exchange or a refusal by a cap (`0.2/0`: of a child about to start); the id of
    the run, `0.2`, for all others."""
    number: int = 1
    agent: str = ""
    asked: Any = None
    """The question, as JSON types; None = the same as in the attempt before."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    """The result, as JSON types; pictures unchanged."""
    is_used: bool = field(default=False, compare=False)
    """True if this session has played or recorded it."""

    @property
    def key(self) -> Key:
        """Key of the record within its root."""
        return self.kind, self.place, self.number

    @property
    def order(self) -> tuple[Order, str, int]:
        """Sort key of the record."""
        place = self.place if self.kind in AT_TURN else f"{self.place}/0"
        return order_of(place), self.kind, self.number


@dataclass(slots=True, eq=False)
class Root:
    """The records of one root run."""

    number: int
    """From 1, in the order in which the roots were recorded."""
    records: dict[Key, Record] = field(default_factory=dict)

    @property
    def first(self) -> Record | None:
        """The first exchange."""
        return self.records.get(BEGINNING)


def to_data(roots: Iterable[tuple[int, Iterable[Record]]]) -> list[dict[str, Any]]:
    """Returns the records as JSON types, sorted by place.

    Args:
        roots: (number in the file, records) of each root.
    """
    parts = Parts()
    return [
        _write_pictures(_to_json(number, record), parts)
        for number, records in sorted(roots, key=lambda pair: pair[0])
        for record in sorted(records, key=lambda record: record.order)
    ]


def from_data(data: Any) -> list[Root]:
    """Reverses `to_data`; returns the roots, of which several may have the same number in the data.

    Raises:
        ConfigError: the data is wrong; the message names the record.
    """
    if not isinstance(data, list):
        raise ConfigError("it is not a list of records")
    roots: dict[int, Root] = {}
    others: list[Root] = []
    parts = Parts()
    for position, value in enumerate(data, 1):
        try:
            number, record = _from_json(_read_pictures(value, parts))
        except (ConfigError, ValueError) as error:
            hint = "restore the file, or delete it and record again"
            raise ConfigError(f"record {position}: {error}", hint=hint) from None
        root = roots.setdefault(number, Root(number))
        if record.key in root.records:  # two branches were merged that recorded each a run
            others.append(root)
            root = roots[number] = Root(number)
        root.records[record.key] = record
    for number, root in enumerate(others, 1 + max(roots, default=0)):
        root.number = number
    return sorted((*roots.values(), *others), key=lambda root: root.number)


def _write_pictures(record: dict[str, Any], parts: Parts) -> dict[str, Any]:
    """Returns a record with the bytes of its pictures that no record before it has."""
    output = record.get("output")
    if not (isinstance(output, dict) and output.get("pictures")):
        return record
    parts.begin()
    pictures = [write_picture(one, Writer(None, parts)) for one in output["pictures"]]
    record = {**record, "output": {**output, "pictures": pictures}}
    return {**record, PARTS: new} if (new := parts.take()) else record


def _read_pictures(record: Any, parts: Parts) -> Any:
    """Reverses `_write_pictures`.

    Raises:
        ConfigError: the bytes of a picture are damaged or missing.
    """
    if not isinstance(record, dict):
        return record
    record = dict(record)
    parts.add(record.pop(PARTS, {}))
    output = record.get("output")
    if not (isinstance(output, dict) and "pictures" in output):
        return record
    if not isinstance(output["pictures"], list):
        raise ConfigError("the pictures of a result must be a list")
    pictures = [read_picture(one, "output.pictures", parts) for one in output["pictures"]]
    return {**record, "output": {**output, "pictures": pictures}}


def _check_asked(asked: Any) -> None:
    """Checks that the messages and tools of a request are what its comparison takes them for.

    Raises:
        ValueError: they are not.
    """
    if asked is None:
        return
    lists = [asked.get(name, []) for name in ("messages", "tools")] if type(asked) is dict else [0]
    for entries in lists:
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("its request is malformed")
        for entry in entries:
            results = entry.get("results", [])
            if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
                raise ValueError("its request is malformed")


def _to_json(root: int, record: Record) -> dict[str, Any]:
    number = {} if record.number == 1 else {NUMBER[record.kind]: record.number}
    kind = {} if record.kind == "model" else {"kind": record.kind}
    return {
        "root": root, "place": record.place, **kind, **number, "agent": record.agent,
        **({} if record.asked is None else {"asked": record.asked}), **record.outcome,
    }  # fmt: skip


def _from_json(value: Any) -> tuple[int, Record]:
    if not isinstance(value, dict):
        raise ValueError("a record must be a JSON object")
    value = dict(value)
    root, place = value.pop("root", None), value.pop("place", None)
    kind = value.pop("kind", "model")
    if kind not in get_args(Kind):
        raise ValueError(f"unknown kind of record: {kind!r}"[:100])
    number = value.pop(NUMBER[kind], 1)
    if not all(type(n) is int and 0 < n < 1_000_000_000 for n in (root, number)):
        raise ValueError("root and number of a record must be whole numbers from 1")
    full = place if kind in AT_TURN else f"{place}/0"
    if not (isinstance(full, str) and is_place(full)):
        raise ValueError(f"invalid place: {place!r}"[:100])
    record = Record(
        kind=kind, place=str(place), number=number, agent=str(value.pop("agent", "")),
        asked=value.pop("asked", None), outcome=value,
    )  # fmt: skip
    _check_asked(record.asked)
    if kind in ("model", "end"):
        decode(value, 1, number)  # raises now, not in the middle of a run
    elif not isinstance(value.get(OUTCOMES[kind]), dict):
        raise ValueError(f"a record of kind {kind} has no outcome")
    return root, record
