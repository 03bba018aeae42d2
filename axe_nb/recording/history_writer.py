"""The thread that writes the history: it makes rows of events, and writes them in batches.

Source: D-60.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from axe_nb.agents.config import format_path_or_name
from axe_nb.agents.files import reason
from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, TurnFinished
from axe_nb.recording.history_parts import Tree
from axe_nb.recording.run_locks import RunLocks
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import one_line

if TYPE_CHECKING:
    from axe_nb.recording.history_store import Row, Store

log = logging.getLogger("axe_nb")

AT_EXIT = 1.5
"""Seconds that the end of the process waits for what is not written yet."""

BATCH = 500
"""Maximum number of events written in one transaction."""

REST, MIN_REST, MAX_REST = 9.0, 0.1, 0.5
"""Before it writes, the thread rests this many times the seconds that it wrote last, within these
limits: a turn and the results of its calls are one transaction, and neither a burst of children nor
a chain of quick turns is slowed down."""

PRUNE_EVERY = 200
"""Finished runs after which the limits are applied again; they first are at the first write."""

MAX_PROMPT = 200
"""Maximum characters of a prompt in the list."""

Item: TypeAlias = "tuple[RootLog, float, Event] | threading.Event"
"""(root, seconds since the epoch, event); or an event to set once all before it is written."""


@dataclass(eq=False)
class RootLog:
    """One root run that is kept; used by the writer's thread, `problem` also by others."""

    tree: Tree
    began: float
    """Seconds since the epoch."""
    process: int = field(default_factory=os.getpid)
    """The process that runs it; a fork of it does not."""
    row: Row | None = None
    """Its row in the list, with the parts that are not written yet."""
    problem: str = ""
    """The reason why it is not written; empty if it is."""
    is_over: bool = False

    def add(self, event: Event, at: float, clean: Filter) -> None:
        """Adds an event to its row, `at` seconds after its beginning."""
        from axe_nb.recording.history_store import Row

        if isinstance(event, RunStarted) and self.row is None:
            prompt = clean.text(event.task).strip().partition("\n")[0]
            self.row = Row(
                started=self.began, agent=clean.text(event.agent), model=clean.text(event.model),
                prompt=one_line(prompt, MAX_PROMPT),
            )  # fmt: skip
        row = self.row
        if row is None:
            return
        row.seconds = at
        match event:
            case RunStarted():
                row.runs += 1
            case TurnFinished():
                row.turns += 1
                row.tokens += event.usage.total
            case RunFinished(run="0", result=result):
                self.is_over = True
                row.status, row.seconds = result.status, result.duration_ms / 1000
                row.turns = sum(one.turns for one in result.walk())
                row.tokens = result.total_usage.total
                row.cost = result.total_cost
        for one in self._list_ends(event):
            if (part := self.tree.add(one, at, clean)) is not None:
                row.parts.append(part)
                row.bytes += len(part)

    def _list_ends(self, event: Event) -> list[Event]:
        """Returns the event; before the end of the root those of runs that no event has ended."""
        if not (isinstance(event, RunFinished) and event.run == "0"):
            return [event]
        left = [one for one in event.result.walk() if one.id not in self.tree.ends]
        return [RunFinished(one.id, one) for one in reversed(left)]


class Writer:
    """Writes one history file in a thread of its own, which starts with the first run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start_anew()

    def _start_anew(self) -> None:
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._ended = 0
        self._is_awaited = threading.Event()
        """Set while someone waits until all is written."""
        self._is_closing = False
        self.is_fine = False
        """True if the file is open, and the latest attempt to write succeeded."""

    def leave_to_parent(self) -> Store | None:
        """Resets the writer in a forked process; returns the connection, which it must not use."""
        store = self._store
        self._start_anew()
        return store

    def put(self, item: Item) -> None:
        """Enqueues an item; never blocks."""
        self._queue.put(item)
        if self._thread is None:
            with self._starting, contextlib.suppress(RuntimeError):  # at the end of the process
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="axe_nb-history", daemon=True
                    )
                    self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Waits until all is written; returns False if the time does not suffice."""
        if self._thread is None:
            return True
        mark = threading.Event()
        self.put(mark)
        self._is_awaited.set()
        return mark.wait(seconds)

    def close(self) -> None:
        """Writes what is left and closes the file, if that can be done soon."""
        self._is_closing = True
        self.flush(AT_EXIT)

    def _work(self) -> None:
        rest = MIN_REST
        while True:
            batch = [self._queue.get()]
            if rest and isinstance(batch[0], tuple):  # soon there is more: the results of calls
                self._is_awaited.wait(rest)
            began = time.monotonic()
            with contextlib.suppress(Empty):
                while len(batch) < BATCH:
                    batch.append(self._queue.get_nowait())
            try:
                self._process([item for item in batch if isinstance(item, tuple)])
            except Exception as error:  # the thread must not end
                log.debug("the history missed %s events", len(batch), exc_info=error)
            if self._is_closing:
                self._close()
            marks = [item for item in batch if isinstance(item, threading.Event)]
            is_full = len(batch) == BATCH
            del batch  # the results in it may be large
            if marks:
                self._is_awaited.clear()
                if not self._queue.empty():  # perhaps another one waits
                    self._is_awaited.set()
            for mark in marks:
                mark.set()
            rest = min(max(REST * (time.monotonic() - began), MIN_REST), MAX_REST)
            if is_full:  # with a rest after each batch, more would come in than is written
                rest = 0.0

    def _process(self, items: Iterable[tuple[RootLog, float, Event]]) -> None:
        clean = find_filter()
        changed: dict[RootLog, str] = {}
        """Those with events, and the reason why some of these are not written; empty if all are."""
        for root, at, event in items:
            if root.process != os.getpid() or root.is_over:
                continue
            changed.setdefault(root, "")
            try:
                root.add(event, max(0.0, at - root.began), clean)
            except Exception as error:
                changed[root] = self._explain(error)
        kept = {root: problem for root, problem in changed.items() if root.row is not None}
        for root in changed.keys() - kept.keys():
            root.problem = changed[root]
        if kept:
            self._write(kept)

    def _write(self, roots: Mapping[RootLog, str]) -> None:
        """Writes the rows of runs; notes why events or rows are not written."""
        try:
            store = self._open()
            lost = [root for root in roots if root.row and not store.knows(root.row)]
            roots = {root: problem for root, problem in roots.items() if root not in lost}
            store.write(root.row for root in roots if root.row)
            self._lose(lost)
            ended = sum(root.is_over for root in roots)
            for root, problem in roots.items():
                root.problem = problem
                if root.is_over and root.row and root.row.id and store.locks:
                    store.locks.release(root.row.id)
            if not self.is_fine or self._ended + ended >= PRUNE_EVERY:
                self._ended = -ended
                store.prune()
            self._ended += ended
            self.is_fine = True
        except Exception as error:  # a damaged file has many ways to fail
            self._close()
            for root in roots:
                root.problem = self._explain(error)
                if root.is_over and root.row and root.row.id is not None:
                    find_locks(self.path).release(root.row.id)  # it stays as last written

    def _lose(self, roots: Iterable[RootLog]) -> None:
        """Notes that the file with the beginning of these runs is not there any more."""
        deleted = ConfigError("it was deleted during the run", hint="delete it between runs")
        for root in roots:
            root.problem = self._explain(deleted)
            if root.row:
                root.row.parts.clear()

    def _open(self) -> Store:
        from axe_nb.recording.history_store import Store

        if self._store is not None and self._store.is_gone:
            self._close()
        if self._store is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = Store(self.path, find_locks(self.path))
        return self._store

    def _close(self) -> None:
        store, self._store = self._store, None
        self.is_fine = False
        if store is not None:
            with contextlib.suppress(Exception):
                store.close()

    def _explain(self, error: Exception) -> str:
        why = reason(error) if isinstance(error, OSError) else one_line(str(error), 300)
        where = format_path_or_name(self.path)
        hint = error.hint if isinstance(error, ConfigError) else ""
        step = hint or "AXE_NB_HISTORY=0 turns the history off"
        return f"history cannot be written: {why} ({where}); {step}"


_writers: dict[Path, Writer] = {}
_locks: dict[Path, RunLocks] = {}
_inherited: list[Store | None] = []
"""Connections of a parent process: SQLite must not even close them here."""
_finding = threading.Lock()


def find_writer(path: Path) -> Writer:
    """Returns the writer of a file, one in each process."""
    writer = _writers.get(path)
    if writer is None:
        with _finding:
            writer = _writers.setdefault(path, Writer(path))
    return writer


def find_locks(path: Path) -> RunLocks:
    """Returns the locks of the runs in a file, which stay open unless someone deletes their file.

    Raises:
        OSError: they cannot be opened.
    """
    with _finding:
        locks = _locks.get(path)
        if locks is None or locks.is_gone:
            locks = _locks[path] = RunLocks(path.with_suffix(".lock"))
        return locks


@atexit.register
def _close_all() -> None:
    for writer in list(_writers.values()):
        writer.close()


def _leave_to_parent() -> None:
    global _finding
    _finding = threading.Lock()
    _inherited.extend(writer.leave_to_parent() for writer in _writers.values())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
