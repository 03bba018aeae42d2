"""The records of a cassette: one for each exchange, decision of a person, or result of a tool.

They contain no secrets, and no paths of the machine. Source: D-48, D-59, D-60, D-61.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.conversion.jsonable import change_texts
from axe_nb.conversion.records import (
    from_json,
    to_json,
)
from axe_nb.engine.person import Decision
from axe_nb.engine.replay import Order, is_place, order_of
from axe_nb.errors import ConfigError
from axe_nb.messages import WireReply
from axe_nb.messages.exchanges import Exchange
from axe_nb.providers.wire import check_nesting
from axe_nb.secrets import Filter, find_filter
from axe_nb.tools.tool import ToolOutput

Kind = Literal["model", "cap", "person", "tool", "end"]

FIRST = "0/1"
"""Place of the first exchange of a root."""

Key: TypeAlias = "tuple[Kind, str, int]"
"""(kind, place, number): the attempt of an exchange, the number of a question or a call."""

BEGINNING: Key = ("model", FIRST, 1)
"""Key of the record by which a root is found again."""

END: Key = ("end", "0", 1)
"""Key of the record of a tree that was cut while it was not waiting for a model."""

AT_TURN: tuple[Kind, ...] = ("model", "cap")
"""Kinds whose records belong to a turn of a run."""

NUMBER: Mapping[Kind, str] = {
    "model": "attempt", "cap": "attempt", "person": "question", "tool": "call", "end": "number",
}  # fmt: skip
"""Kind → the key of its number in the file."""

FOLDER, HOME = "⟨folder⟩", "⟨home⟩"
"""Marks that replace the paths of the notebook's folder and the user's home."""

SHORTEST = 4
"""Minimum characters of a folder's path to replace; shorter ones, such as `/`, are on every
machine."""


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
    """The result, as JSON types."""
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
    """Number from 1, in recording order."""
    records: dict[Key, Record] = field(default_factory=dict)
    likenesses: tuple[Any, ...] = ()
    """Keys that it shares with similar roots."""

    @property
    def first(self) -> Record | None:
        """The first exchange."""
        return self.records.get(BEGINNING)


def to_data(roots: Iterable[Root]) -> list[dict[str, Any]]:
    """Returns the records as JSON types, sorted by place."""
    data = []
    for root in sorted(roots, key=lambda root: root.number):
        for record in sorted(root.records.values(), key=lambda record: record.order):
            number = {} if record.number == 1 else {NUMBER[record.kind]: record.number}
            kind = {} if record.kind == "model" else {"kind": record.kind}
            asked = {} if record.asked is None else {"asked": record.asked}
            data.append({
                "root": root.number, "place": record.place, **kind, **number,
                "agent": record.agent, **asked, **record.outcome,
            })  # fmt: skip
    return data


def from_data(data: Any) -> list[Root]:
    """Reverses `to_data`; several of the returned roots may have had the same number.

    Raises ConfigError: the data is wrong; the message names the record.
    """
    if not isinstance(data, list):
        raise ConfigError("it is not a list of records")
    roots: dict[int, Root] = {}
    others: list[Root] = []
    for position, value in enumerate(data, 1):
        try:
            number, record = _read_record(value)
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


def _read_record(value: Any) -> tuple[int, Record]:
    """Returns a record and the number of its root. Raises ConfigError or ValueError."""
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
    match kind:  # raises now, not in the middle of a run
        case "person":
            from_json(Decision, value.get("decision"))
        case "tool":
            from_json(ToolOutput, value.get("output"))
        case "cap":
            if not isinstance(value.get("refused"), dict):
                raise ValueError("a record of kind cap has no outcome")
        case _:
            decode(value, 1, number)
    return root, record


def _check_asked(asked: Any) -> None:
    """Checks that messages and tools have the form that `is_same` expects. Raises ValueError."""
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


@dataclass(frozen=True, slots=True)
class Cleaner(Filter):
    """Removes secrets, and paths below a folder and the user's home."""

    paths: re.Pattern[str] = field(kw_only=True)
    names: Mapping[str, str] = field(kw_only=True)
    """Path of a folder → the mark that replaces it."""

    def text(self, text: str) -> str:
        """Returns a text without secrets, and with marks for paths."""
        if any(path in text for path in self.names):
            text = self.paths.sub(lambda match: self.names[match[0]], text)
        return Filter.text(self, text)

    def restore(self, value: Any) -> Any:
        """Returns JSON data with this machine's paths in place of the marks."""

        def put_back(text: str) -> str:
            for path, name in self.names.items():
                text = text.replace(name, path)
            return text

        return change_texts(value, put_back, also_keys=True)

    def clean_again(self, value: Any) -> Any:
        """Returns JSON data that was cleaned before, without secrets that have been added since."""
        now = find_filter()
        return value if now.forms == self.forms else now.json(value)


def make_cleaner(folders: Mapping[Path, str]) -> Cleaner:
    """Returns a filter for the current secrets.

    Args:
        folders: folder → the mark that replaces its path.
    """
    names = {f"{path}": name for path, name in folders.items()}
    with suppress(RuntimeError):  # there may be no home
        names = {f"{Path.home()}": HOME, **names}
    names = {path: name for path, name in names.items() if len(path) >= SHORTEST}
    paths = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    found = re.compile(rf"(?:(?<![\w.-])|(?<=\\[nrtbf]))(?:{paths})(?![\w.-])")
    return Cleaner(find_filter().forms, paths=found, names=names)


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Returns the outcome of an exchange as JSON data, cleaned.

    A stream with a secret split over several events is left out, as is a script's; the answer made
    of it is recorded instead, in which the filter finds the secret.
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
        turn=exchange.turn, protocol=exchange.protocol, refused=exchange.refused,
        server=exchange.server, reply=reply, response=None if reply else exchange.response,
        deltas=deltas, error=None if reply else exchange.error, was_last=exchange.was_last,
        cut=exchange.cut, cost=exchange.cost,
    )  # fmt: skip
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

    Raises ConfigError: it was not made by `encode`.
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


def list_failed(records: Iterable[Record]) -> set[str]:
    """Returns the places whose last attempt brought no answer."""
    last: dict[str, Record] = {}
    for record in records:
        before = last.get(record.place)
        if record.kind == "model" and (before is None or before.number < record.number):
            last[record.place] = record
    return {place for place, one in last.items() if has_failed(decode(one.outcome, 1, one.number))}


def _parse(reply: WireReply) -> dict[str, Any] | None:
    """Returns the object in a body; None if it is a stream, or not an object of usual depth."""
    if reply.is_stream:
        return None
    try:
        parsed = json.loads(b"".join(reply.pieces))
        check_nesting(parsed)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _parse_events(body: str) -> list[Any]:
    """Returns the JSON values in the lines of a body, or else the whole body."""
    found = []
    for line in body.split("\n"):
        with suppress(ValueError, RecursionError):
            found.append(json.loads(line.removeprefix("data:")))
    if not found:
        with suppress(ValueError, RecursionError):
            found.append(json.loads(body))
    return found


def _spells_secret(events: Sequence[Any], clean: Filter) -> bool:
    """True if a secret appears in the joined texts of events at the same place."""
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
