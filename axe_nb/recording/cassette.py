"""Cassettes: text files that record a notebook's model exchanges, decisions and tool results.

In records, secrets are masked, and placeholders replace the current folder and the user's home.
Source: D-48, D-59, D-60, D-61, D-68.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.agents.data_files import read_data, write_data
from axe_nb.agents.files import expand_home, hold_lock
from axe_nb.agents.user_config import format_path, state_dir
from axe_nb.conversion.jsonable import change_texts
from axe_nb.conversion.records import from_json, to_json
from axe_nb.engine.person import Decision
from axe_nb.errors import CassetteMiss, ConfigError
from axe_nb.messages import Delta, DeltaKind
from axe_nb.messages.exchanges import Exchange
from axe_nb.recording.modes import DEFAULT, Mode, check_mode
from axe_nb.recording.same_request import Description, digest, is_same
from axe_nb.results import Order, is_place, order_of
from axe_nb.secrets import MASK, Filter, find_filter
from axe_nb.text import hide_in_tab
from axe_nb.tools.tool import ToolOutput

Kind = Literal["model", "cap", "person", "tool", "end"]

Key: TypeAlias = "tuple[Kind, str, int]"
"""Key of a record: its kind, its place, and the number of the attempt, question or call."""

BEGINNING: Key = ("model", "0/1", 1)
"""Key of a root run's first request, which is compared to find the recording to replay."""

END: Key = ("end", "0", 1)
"""Key of the record of a timeout or cancellation while no model request was open."""

AT_TURN: tuple[Kind, ...] = ("model", "cap")
"""Kinds of record that belong to a turn; the other kinds belong to a run."""

NUMBER: Mapping[Kind, str] = {
    "model": "attempt", "cap": "attempt", "person": "question", "tool": "call", "end": "number",
}  # fmt: skip
"""Maps each kind of record to the JSON key under which the record's number is saved."""

FOLDER, HOME = "⟨folder⟩", "⟨home⟩"
"""Placeholders in records for the paths of the current folder and the user's home."""

SHARE = 20
"""Minimum time until a run saves the cassette again, as a multiple of the last save's duration."""


@dataclass(slots=True, kw_only=True)
class Record:
    """One recorded exchange, decision or tool result."""

    kind: Kind
    place: str
    """Place in the run tree. Kind `model`: the turn, such as `0.2/3`. Kind `cap`: the turn that a
    limit prevented, or `0.2/0` if child run `0.2` was not started. Other kinds: the run."""
    number: int = 1
    agent: str = ""
    asked: Any = None
    """The request, question or call as JSON; None in the record of a retry, and for kinds `cap`
    and `end`."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    is_used: bool = field(default=False, compare=False)

    @property
    def key(self) -> Key:
        return self.kind, self.place, self.number

    @property
    def order(self) -> tuple[Order, str, int]:
        place = self.place if self.kind in AT_TURN else f"{self.place}/0"
        return order_of(place), self.kind, self.number


@dataclass(slots=True, eq=False)
class Root:
    """The records of one root run and its descendants."""

    number: int
    """Number of the root in the file, starting at 1."""
    records: dict[Key, Record] = field(default_factory=dict)
    likenesses: tuple[str, ...] = ()
    """Digests of parts of the first request, to find similar roots; empty until first used."""

    def is_like(self, likeness: str) -> bool:
        first = self.records.get(BEGINNING)
        if not self.likenesses and first and isinstance(first.asked, dict):
            masked = [MASK] if MASK in json.dumps(first.asked) else []
            self.likenesses = (*_list_likenesses(first.asked, first.agent), *masked)
        return likeness in self.likenesses


def to_data(roots: Iterable[Root]) -> list[dict[str, Any]]:
    """Converts the records of roots to JSON types, sorted by root and place."""
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
    """Reverses `to_data`. Raises ConfigError if the data is not a list of valid records."""
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
        if record.key in root.records:  # two branches, each with a new run, were merged
            others.append(root)
            root = roots[number] = Root(number)
        root.records[record.key] = record
    for number, root in enumerate(others, 1 + max(roots, default=0)):
        root.number = number
    return sorted((*roots.values(), *others), key=lambda root: root.number)


def _read_record(value: Any) -> tuple[int, Record]:
    """Parses a saved record. Returns the number of its root, and the record.

    Raises ConfigError or ValueError if the record is invalid.
    """
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
    asked = value.pop("asked", None)
    if not (asked is None or isinstance(asked, dict)):
        raise ValueError("its request is malformed")
    for entries in [asked.get(name, []) for name in ("messages", "tools")] if asked else ():
        # the form that `list_changes` expects
        if not _is_table(entries) or not all(_is_table(one.get("results", [])) for one in entries):
            raise ValueError("its request is malformed")
    record = Record(
        kind=kind, place=str(place), number=number, agent=str(value.pop("agent", "")),
        asked=asked, outcome=value,
    )  # fmt: skip
    match kind:  # raises errors now, not in the middle of a run
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


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


@dataclass(frozen=True, slots=True)
class Cleaner(Filter):
    """Masks secrets, and replaces folder paths, such as the user's home, with placeholders."""

    paths: re.Pattern[str] = field(kw_only=True)
    names: Mapping[str, str] = field(kw_only=True)

    def text(self, text: str) -> str:
        if any(path in text for path in self.names):
            text = self.paths.sub(lambda match: self.names[match[0]], text)
        return Filter.text(self, text)

    def restore(self, value: Any) -> Any:
        """Replaces placeholders in JSON data with the paths on this machine."""

        def put_back(text: str) -> str:
            for path, name in self.names.items():
                text = text.replace(name, path)
            return text

        return change_texts(value, put_back, also_keys=True)

    def clean_again(self, value: Any) -> Any:
        """Masks secrets in JSON data again if any became known after this filter was created."""
        now = find_filter()
        return value if now.forms == self.forms else now.json(value)


def encode(exchange: Exchange, clean: Filter) -> dict[str, Any]:
    """Converts an exchange's outcome to JSON; joins deltas, to mask secrets split across them."""
    parts: dict[tuple[DeltaKind, int], list[Delta]] = {}
    for delta in exchange.deltas:
        parts.setdefault((delta.kind, delta.call), []).append(delta)
    deltas = []
    for (kind, call), part in parts.items():
        name = next((delta.name for delta in reversed(part) if delta.name), "")
        deltas.append(Delta("".join(delta.text for delta in part), kind, call, name))
    outcome = Exchange(
        turn=exchange.turn, protocol=exchange.protocol, refused=exchange.refused,
        server=exchange.server, streaming=exchange.streaming, response=exchange.response,
        deltas=tuple(deltas), error=exchange.error, was_last=exchange.was_last,
        cut=exchange.cut, cost=exchange.cost,
    )  # fmt: skip
    kept = to_json(outcome, clean)
    del kept["turn"]
    return kept


def decode(
    kept: Mapping[str, Any], turn: int, attempt: int, clean: Cleaner | None = None
) -> Exchange:
    """Reverses `encode`; `clean` restores the paths. Raises ConfigError if the data is invalid."""
    kept = clean.restore(dict(kept)) if clean else kept
    return from_json(Exchange, {**kept, "turn": turn, "attempt": attempt})


def has_failed(exchange: Exchange) -> bool:
    """True if an exchange has no response, unless it was cancelled while its run tree went on."""
    return exchange.response is None and exchange.cut != "abandoned"


def list_failed(records: Iterable[Record]) -> set[str]:
    """Returns the places of the turns whose last recorded attempt failed."""
    by_number = sorted(records, key=lambda record: record.number)
    last = {record.place: record for record in by_number if record.kind == "model"}
    return {place for place, one in last.items() if has_failed(decode(one.outcome, 1, one.number))}


class Cassette:
    """An open cassette: its file, its records, and which of them this session uses."""

    __dir__ = hide_in_tab(
        "cell", "change_mode", "claim", "commit", "enter_cell", "folders", "format_status",
        "how_to_record", "list_records", "make_cleaner", "save_quietly", "shown",
    )  # fmt: skip

    def __init__(self, path: str | os.PathLike[str], mode: Mode | None = None) -> None:
        """Opens the cassette at `path`; the file may be missing.

        Raises ConfigError if the file or the mode is invalid.
        """
        self.path = expand_home(os.fspath(path)).absolute()
        typed = format_path(self.path) if Path(path).is_absolute() else os.fspath(path)
        self.shown = Path(typed).name if Path(typed).is_absolute() else typed
        """The path as shown in messages, shortened to the file name if it would be absolute."""
        command = f'axe_nb.cassette("{typed}", "auto")'
        if "IPython" in sys.modules and sys.modules["IPython"].get_ipython():
            command = f"%axe cassette {typed} --mode auto"
        self.how_to_record = f"record it with {command}, then run this again"
        self.missed: list[CassetteMiss] = []
        self.mode: Mode | None = None
        self.change_mode(mode)
        self.folders = {Path.cwd(): FOLDER}
        """Maps folders on this machine to their placeholders in records."""
        self.hits = self.misses = self.recorded = 0
        self.cell = ""
        """Id of the running cell; empty if unknown."""
        self._lock = threading.RLock()
        self._saving = threading.Lock()
        """Held while the file is saved; acquired before `_lock`."""
        self._roots: list[Root] = []
        self._owners: dict[Root, str] = {}
        """Maps each root in use to the id of the cell that claimed it."""
        self._base: dict[int, tuple[Root, Mapping[Key, Record]]] = {}
        """Roots with their records as last read or written, keyed by number in the file."""
        self._stamp: tuple[int, int, int] | None = None
        self._is_changed, self._written_at, self._writing = False, 0.0, 0.0
        self._problem = ""
        """Error message of the last write by `save_quietly`; empty if it succeeded."""
        try:
            self._read_changes()
        except ConfigError as error:
            message = error.message.replace(format_path(self.path), self.shown)
            raise ConfigError(message, hint=error.hint) from None

    def change_mode(self, mode: Mode | None) -> None:
        """Changes the mode for later runs. Raises ConfigError if there is no such mode."""
        self.mode = None if mode is None else check_mode(mode)

    def make_cleaner(self) -> Cleaner:
        """Creates the filter that masks secrets and replaces folder paths in records."""
        names = {f"{path}": name for path, name in self.folders.items()}
        with suppress(RuntimeError):  # there may be no home
            names = {f"{Path.home()}": HOME, **names}
        # shorter paths, such as `/`, exist on every machine
        names = {path: name for path, name in names.items() if len(path) >= 4}
        paths = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
        found = re.compile(rf"(?:(?<![\w.-])|(?<=\\[nrtbf]))(?:{paths})(?![\w.-])")
        return Cleaner(find_filter().forms, paths=found, names=names)

    def enter_cell(self, cell: str | None) -> None:
        """Sets the running cell. A cell that runs again can replay the same records again."""
        with self._lock:
            self.cell = cell or ""
            kept = self._owners.items()
            self._owners = {root: owner for root, owner in kept if not cell or owner != cell}

    def claim(self, asked: Description, agent: str) -> tuple[Root, Root]:
        """Returns the root whose records a run may replay, and the root for its new records.

        If an unused root began with the same request, both are that root. Otherwise, the second is
        new; the first is a similar root whose child runs may be replayed, or also the new root.
        """
        with self._lock:
            whole, *others = _list_likenesses(asked, agent)
            root = next(self._list_free(whole), None)
            if root is None:  # the first request may contain a secret that is masked in the record
                masked = self._list_free(MASK)
                alike = (one for one in masked if is_same(one.records[BEGINNING].asked, asked))
                root = next(alike, None)
            if root is not None:
                self._owners[root] = self.cell
                return root, root
            source = next(chain.from_iterable(map(self._list_free, others)), None)
            target = Root(1 + max((root.number for root in self._roots), default=0))
            self._roots.append(target)
            self._owners[target] = self.cell
            return source or target, target

    def _list_free(self, likeness: str) -> Iterator[Root]:
        return (one for one in self._roots if one not in self._owners and one.is_like(likeness))

    def commit(self, root: Root, new: Iterable[Record], stale: Iterable[Record]) -> str:
        """Replaces `stale` records of a root with `new` ones; saves unless the last save is recent.

        Returns the error message of the latest write, or "" if it succeeded.
        """
        with self._lock:
            old = {record.key for record in stale}
            kept = {key: record for key, record in root.records.items() if key not in old}
            added = {record.key: record for record in new}
            if old or added:
                self._is_changed, root.records = True, {**kept, **added}
            if time.monotonic() < self._written_at + SHARE * self._writing:
                return self._problem
        return self.save_quietly()

    def save_quietly(self) -> str:
        """Saves changes like `save`, but returns the error message; returns "" on success."""
        try:
            self.save()
            self._problem = ""
        except ConfigError as error:
            self._problem = f"{error.message}; the exchanges are kept in this session only"
        return self._problem

    def save(self) -> None:
        """Saves changes, merged with what others have saved. Raises ConfigError on failure."""
        with self._saving, ExitStack() as stack:
            if not self._is_changed:
                return
            began = time.monotonic()
            # one lock for all cassettes, in the state folder, as repositories must not contain it
            with suppress(ConfigError):  # if that folder cannot be written, there is no lock
                stack.enter_context(hold_lock(state_dir() / "cassettes"))
            try:
                self._is_changed = False  # later changes are written next time
                self._read_changes()
                with self._lock:
                    kept = [(root, Root(root.number, root.records)) for root in self._roots]
                write_data(self.path, "cassette", to_data(one for _, one in kept))
                self._base = {one.number: (root, one.records) for root, one in kept}
                self._stamp = _find_stamp(self.path)
            except BaseException:
                self._is_changed = True
                raise
            finally:
                self._written_at = time.monotonic()
                self._writing = self._written_at - began

    def _read_changes(self) -> None:
        """Merges others' changes to the file, but keeps roots that this session uses or changed."""
        stamp = _find_stamp(self.path)
        if stamp is None or stamp == self._stamp:
            return
        now = {root.number: root for root in read_data(self.path, "cassette", from_data)}
        with self._lock:
            before, self._base, self._stamp = self._base, {}, stamp
            for number, (root, records) in before.items():
                if number in now and now[number].records == records:
                    self._base[number] = root, records
                    del now[number]
                elif root.records is records and root not in self._owners:
                    self._roots.remove(root)
            ours = [root.records for root in self._roots]
            added = [root for root in now.values() if root.records not in ours]
            numbers = {root.number for root in added}
            for root in self._roots:
                if root.number in numbers:
                    root.number = 1 + max(numbers | {one.number for one in self._roots})
            self._roots += added
            self._base |= {root.number: (root, root.records) for root in added}

    @property
    def unused(self) -> int:
        """Number of records that no run in this session has used."""
        return sum(not record.is_used for _, record in self.list_records())

    def format_status(self) -> str:
        counts = f"{self.hits} replayed, {self.misses} not found, {self.recorded} recorded"
        return f"{self.shown} ({self.mode or DEFAULT}): {counts}; {self.unused} not used"

    def prune(self) -> int:
        """Removes the records that no run in this session has used; returns their number.

        Raises ConfigError if no run has replayed or recorded an answer, or if saving fails.
        """
        with self._lock:
            if not self.hits and not self.recorded:
                raise ConfigError(
                    f"no run in this session has used {self.shown}: nothing would be left",
                    hint="run the whole notebook first",
                )
            removed = 0
            for root in self._roots:
                used = {key: record for key, record in root.records.items() if record.is_used}
                if len(used) < len(root.records):
                    removed += len(root.records) - len(used)
                    self._is_changed, root.records = True, used
            self._roots = [r for r in self._roots if r.records or r in self._owners]
        self.save()
        return removed

    def list_records(self) -> list[tuple[Root, Record]]:
        with self._lock:
            return [(root, record) for root in self._roots for record in root.records.values()]


def _list_likenesses(asked: Description, agent: str) -> list[str]:
    """Returns digests of a run's first request, of its prompt alone, and of its agent's setup."""
    prompt = [agent, asked.get("messages")]
    made = [agent, *(asked.get(name) for name in ("model", "system", "tools"))]
    return [digest(asked), digest(prompt), digest(made)]


def _find_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError for a NUL in the name
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
