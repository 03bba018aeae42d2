"""The recording of root runs in the history: a thread writes their events in batches.

Source: D-60, D-68.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from axe_nb.agents.files import reason
from axe_nb.agents.user_config import format_path_or_name, state_dir
from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message
from axe_nb.recording.history_tree import Tree
from axe_nb.recording.modes import is_test
from axe_nb.results import RunResult
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import one_line

if TYPE_CHECKING:
    from axe_nb.recording.history_store import Row, Store
    from axe_nb.recording.playback import RootTape

log = logging.getLogger("axe_nb")

VARIABLE = "AXE_NB_HISTORY"
"""Environment variable: `0` turns the history off, `1` also records the runs of tests."""

PATIENCE = 0.2
"""Maximum seconds that the end of a run waits to learn whether the run was written, while the disk
is nearly full or the last write failed."""

LOW = 100_000_000
"""Bytes of free space below which a disk may be full before the next batch is written."""

AT_EXIT = 1.5
"""Seconds that the end of the process waits for pending writes."""

REST = 0.3
"""Seconds that events are collected: a turn and the results of its calls are one transaction, and
neither a burst of children nor a chain of quick turns is slowed down."""

DELETED = ConfigError("it was deleted during the run", hint="delete it between runs")


def history_path() -> Path:
    """Returns the path of the history; it need not exist."""
    return state_dir() / "runs.sqlite"


def find_reason_against() -> str:
    """Returns the reason that runs are not recorded; empty if they are."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted == "0":
        return f"{VARIABLE}=0"
    return "runs of tests are not kept" if wanted != "1" and is_test() else ""


def begin_recorder(history: Sequence[Message], tape: RootTape | None) -> Recorder | None:
    """Returns the recorder for a root run; None if it is not recorded.

    Args:
        history: the conversation that the run continues.
        tape: the tape of the tree; a tree that is only replayed is not recorded.
    """
    return None if find_reason_against() else Recorder(find_writer(history_path()), history, tape)


class Recorder:
    """The recording of one root run; implements `engine.scope.Recorder`."""

    def __init__(
        self, writer: Writer, history: Sequence[Message] = (), tape: RootTape | None = None
    ) -> None:
        self._writer = writer
        self._tape = tape
        self._held: list[tuple[float, Event]] = []
        """Events before the first request that was not replayed."""
        self._began = time.time()
        # used by the writer's thread:
        self._tree = Tree(history)
        self.row: Row | None = None
        """Its row in the list, with the parts that are not written yet."""
        self.is_over = False
        self.lost = ""
        """The reason that a part of the run cannot be written any more; empty = all can."""

    def event(self, event: Event) -> None:
        """See `engine.scope.Recorder`."""
        is_root = isinstance(event, RunFinished) and event.run == "0"  # it is passed to `finish`
        if (
            isinstance(event, RunStarted | TurnFinished | ToolFinished | RunFinished)
            and not is_root
        ):
            self._put(event)

    def finish(self, result: RunResult) -> None:
        """See `engine.scope.Recorder`."""
        self._put(RunFinished("0", result))

    def _put(self, event: Event) -> None:
        self._held.append((time.time(), event))
        if self._tape is None or self._tape.has_asked:
            held, self._held = self._held, []
            for at, one in held:
                self._writer.put((self, at - self._began, one))

    def problem(self) -> str:
        """See `engine.scope.Recorder`."""
        if self._held:
            return ""
        is_nearly_full = False
        with contextlib.suppress(OSError):  # the folder may not exist yet
            is_nearly_full = shutil.disk_usage(self._writer.path.parent).free < LOW
        if is_nearly_full or not self._writer.is_fine:
            self._writer.flush(PATIENCE)
        return self.lost or self._writer.problem

    def take(self, event: Event, at: float, clean: Filter) -> None:
        """Adds an event to the row, `at` seconds after the start of the run."""
        from axe_nb.recording.history_store import Row

        if isinstance(event, RunStarted) and self.row is None:
            prompt = clean.text(event.task).strip().partition("\n")[0]
            self.row = Row(
                started=self._began, agent=clean.text(event.agent), model=clean.text(event.model),
                prompt=one_line(prompt, 200),
            )  # fmt: skip
        row = self.row
        if row is None or self.is_over:
            return
        row.seconds = at
        ends = [event]
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
                # with those of the runs that no event has ended
                left = [one for one in result.walk() if one.id not in self._tree.ends]
                ends = [RunFinished(one.id, one) for one in reversed(left)]
        for one in ends:
            if (part := self._tree.add(one, at, clean)) is not None:
                row.parts.append(part)
                row.bytes += len(part)


Item: TypeAlias = "tuple[Recorder, float, Event] | threading.Event"
"""(run, seconds since its start, event); or a threading event to set once all earlier items are
written."""


class Writer:
    """Writes one history file in a thread of its own, started with the first run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_fine = False
        """True if the latest attempt to write succeeded."""
        self.problem = ""
        """The reason that the latest attempt failed."""
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._hurry = threading.Event()
        """Set while someone waits for all writes."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        """The open file; used by the thread."""
        self._is_closing = False

    def put(self, item: Item) -> None:
        """Enqueues an item; never blocks."""
        self._queue.put(item)
        if self._thread is None:
            with self._starting, contextlib.suppress(RuntimeError):  # at the end of the process
                if self._thread is None:
                    thread = threading.Thread(target=self._work, name="axe_nb-history", daemon=True)
                    thread.start()
                    self._thread = thread

    def flush(self, seconds: float = AT_EXIT) -> bool:
        """Waits for all writes; returns False if the time runs out."""
        if self._thread is None:
            return True
        mark = threading.Event()
        self.put(mark)
        self._hurry.set()
        return mark.wait(seconds)

    def close(self) -> None:
        """Writes the remaining items and closes the file, if that can be done soon."""
        self._is_closing = True
        self.flush()

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            self._hurry.wait(REST)
            self._hurry.clear()
            with contextlib.suppress(Empty):
                while True:
                    batch.append(self._queue.get_nowait())
            try:
                self._process([item for item in batch if isinstance(item, tuple)])
            except Exception as error:  # the thread must not end
                log.debug("the history missed %s events", len(batch), exc_info=error)
            if self._is_closing:
                self._close()
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()
            del batch, item  # the results in it may be large

    def _process(self, items: Sequence[tuple[Recorder, float, Event]]) -> None:
        clean = find_filter()
        changed: dict[Recorder, None] = {}
        for run, at, event in items:
            changed[run] = None
            try:
                run.take(event, max(0.0, at), clean)
            except Exception as error:
                run.lost = self._explain(error)
        if runs := [run for run in changed if run.row is not None]:
            try:
                self._write(runs)
                self.is_fine, self.problem = True, ""
            except Exception as error:  # a damaged file has many ways to fail
                self.is_fine, self.problem = False, self._explain(error)
                self._close()

    def _write(self, runs: Sequence[Recorder]) -> None:
        from axe_nb.recording.history_store import Store

        if self._store is not None and self._store.is_gone:
            self._close()
        if self._store is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = Store(self.path, writes=True)
            self._store.prune()
        store = self._store
        rows = {id(run.row): run for run in runs}
        try:
            for row in store.write([run.row for run in runs if run.row]):
                rows[id(row)].lost = self._explain(DELETED)
        finally:  # if it was not written, it stays as last written
            for run in runs:
                if run.is_over and run.row and run.row.id is not None:
                    store.release(run.row, run.row.id)

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _explain(self, error: Exception) -> str:
        why = reason(error) if isinstance(error, OSError) else one_line(str(error), 300)
        where = format_path_or_name(self.path)
        hint = error.hint if isinstance(error, ConfigError) else ""
        step = hint or "AXE_NB_HISTORY=0 turns the history off"
        return f"history cannot be written: {why} ({where}); {step}"


_writers: dict[Path, Writer] = {}
_inherited: list[Writer] = []
"""Writers of a parent process, whose files SQLite must not even close here."""


def find_writer(path: Path) -> Writer:
    """Returns the writer of a file; each process has one."""
    return _writers.get(path) or _writers.setdefault(path, Writer(path))


@atexit.register
def _close_all() -> None:
    for writer in list(_writers.values()):
        writer.close()


def _leave_to_parent() -> None:
    _inherited.extend(_writers.values())
    _writers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
