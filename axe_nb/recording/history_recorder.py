"""Records root runs in the history: a thread writes the events of runs to the file in batches.

Each start or end of a run, each turn and each tool result is stored as a part: compressed text with
the format version in its first line, then JSON. When the root run ends, a single part with the
run's result replaces all earlier parts. Source: D-59, D-60, D-61, D-68.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from axe_nb.agents.data_files import check_header, format_header
from axe_nb.agents.files import display_path, reason
from axe_nb.agents.trust import find_project
from axe_nb.agents.user_config import PROJECT_AGENTS, format_path_or_name, is_test, state_dir
from axe_nb.conversion.records import Parts, from_json, to_json
from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message, ToolResult, Usage, close_open_calls
from axe_nb.results import NO_AGENT, RunResult, Turn, make_metadata, order_of
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import one_line

if TYPE_CHECKING:
    from axe_nb.recording.history_store import Row, Store
    from axe_nb.recording.playback import RootTape

log = logging.getLogger("axe_nb")

VARIABLE = "AXE_NB_HISTORY"
"""Environment variable: `0` turns the history off, `1` also records runs in tests."""

REST = 0.3
"""Seconds for which events are collected before one transaction writes them all."""

DELETED = ConfigError("it was deleted during the run", hint="delete it between runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A recorded event of a run tree; exactly one of `start`, `turn`, `result` and `end` is set."""

    at: float
    """Seconds since the root run started."""
    run: str = "0"
    start: RunStarted | None = None
    history: tuple[Message, ...] = ()
    """The conversation that the root run continues; only set in a root's `start` part."""
    turn: TurnFinished | None = None
    result: ToolResult | None = None
    end: RunResult | None = None
    """The result of a run that has ended, without its children unless it is the root run."""


@dataclass
class RunSoFar:
    """A run of a tree, reconstructed from the events recorded so far."""

    start: RunStarted
    history: Sequence[Message]
    began: float
    latest: float
    """Time of the run's latest event; like `began`, in seconds since the root run started."""
    turns: list[TurnFinished] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    end: RunResult | None = None

    def make_result(self, why: str) -> RunResult:
        """Returns the run's result without children; `why` is the error of an unfinished run."""
        if self.end is not None:
            return self.end
        start = self.start
        messages, log = close_open_calls(self.history), list[Turn]()
        messages.append(Message("user", start.prompt, pictures=start.pictures))
        for turn in self.turns:
            results = tuple(self.results[one.id] for one in turn.calls if one.id in self.results)
            log.append(Turn(
                turn.turn, turn.text, turn.calls, results, turn.stop_reason, turn.usage,
                turn.parallel, turn.closing, turn.asked, turn.question, turn.source,
                turn.server_calls, turn.sources,
            ))  # fmt: skip
            if turn.question:
                messages.append(Message("user", turn.question))
            response = turn.exchanges[-1].response if turn.exchanges else None
            calls = () if response and response.is_cut else turn.calls
            if turn.text.strip() or calls or (response and response.is_paused):
                echo = response.echo if response else {}
                messages.append(Message("assistant", turn.text, calls, echo=echo))
            if results:
                messages.append(Message("tool", tool_results=results))
        exchanges = tuple(one for turn in self.turns for one in turn.exchanges)
        usage = sum((turn.usage for turn in self.turns), Usage())
        return RunResult(
            status="cancelled", error=why, id=start.run, call_id=start.call_id,
            origin=start.origin, undo_id=start.undo_id, agent=start.agent, model=start.model,
            text=next((turn.text for turn in reversed(self.turns) if turn.text), ""),
            turns=len(self.turns), tool_calls=len(self.results), usage=usage,
            retries=sum(one.attempt > 1 for one in exchanges),
            stop_reason=self.turns[-1].stop_reason if self.turns else "",
            duration_ms=round((self.latest - self.began) * 1000),
            metadata=make_metadata(start.run, start.depth, usage) if start.parent else {},
            prompt=start.prompt, pictures=start.pictures, task=start.task,
            messages=tuple(messages), log=tuple(log), exchanges=exchanges,
        )  # fmt: skip


def read_result(rows: Iterable[bytes], why: str) -> RunResult:
    """Builds a root run's result from its parts. Raises ConfigError if they are damaged.

    Unfinished runs have the status `cancelled` and the error `why`.
    """
    runs: dict[str, RunSoFar] = {}
    shared = Parts()
    try:
        for row in rows:
            header, _, data = zlib.decompress(row).decode("utf-8", "surrogatepass").partition("\n")
            check_header("history", header)
            part = from_json(Part, json.loads(data), shared)
            order_of(part.run)
            if part.run == "0" and part.end is not None:
                return part.end
            if part.start is not None:
                runs[part.run] = RunSoFar(part.start, part.history, part.at, part.at)
                continue
            run = runs[part.run]
            run.latest, run.end = part.at, part.end
            if part.turn is not None:
                run.turns.append(part.turn)
            if part.result is not None:
                run.results[part.result.call_id] = part.result
    except ConfigError as error:
        raise ConfigError(f"part of it is damaged: {error.message}", hint=error.hint) from None
    except (zlib.error, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"part of it is damaged: {error!r}"[:200]) from None
    if "0" not in runs:
        raise ConfigError("part of it is missing")

    def join(id: str) -> RunResult:
        begun = (one for one in sorted(runs, key=order_of) if runs[one].start.parent == id)
        children = tuple(join(one) for one in begun if one.startswith(f"{id}."))
        return replace(runs[id].make_result(why), children=children)

    return join("0")


def history_path() -> Path:
    return state_dir() / "runs.sqlite"


def find_reason_against() -> str:
    """Returns the reason why runs are not recorded, or "" if they are recorded."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted == "0":
        return f"{VARIABLE}=0"
    return "runs of tests are not kept" if wanted != "1" and is_test() else ""


class MapRecorder:
    """Maintains the history row of a map or grid.

    Outside the writer's thread, only the constructor and `finish` may be called.
    """

    def __init__(self, kind: str) -> None:
        """Creates the recorder of a `map` or `grid`."""
        self._began = time.time()
        self._kind = kind
        self._ended = 0
        self._failed = 0
        self._status = "completed"
        self._names: dict[str, dict[str, None]] = {"agent": {}, "model": {}}
        self._prompt = ""
        self.note = ""  # follows the number of runs
        self.row: Row | None = None
        self.is_over = False
        self.lost = ""

    def take(self, run: Row, result: RunResult | None = None) -> None:
        """Updates the row for a run that starts, or that has ended with `result`."""
        from axe_nb.recording.history_store import Row

        if self.row is None:
            self._prompt = run.prompt
            self.row = Row(started=self._began, kind=self._kind, cost=0.0, folder=run.folder)
        row = self.row
        for name, known in self._names.items():
            if getattr(run, name) not in known:
                known[getattr(run, name)] = None
                names = [one or NO_AGENT for one in list(known)[:20]]
                setattr(row, name, one_line(", ".join(names), 200))
        if result is not None:
            self._ended += 1
            if not result.ok:
                self._status = result.status if not self._failed else self._status
                self._failed += 1
            row.runs += run.runs
            row.turns += run.turns
            row.tokens += run.tokens
            row.cost = None if row.cost is None or run.cost is None else row.cost + run.cost
        row.seconds = time.time() - self._began
        failed = f", {self._failed:,} not completed" if self._failed else ""
        row.prompt = f"{self._kind} of {self._ended:,}{self.note}{failed}: {self._prompt}"

    def finish(self) -> None:
        """Tells the writer that the map or grid is over."""
        find_writer(history_path()).put((self, 0.0, None))

    def end(self) -> None:
        """Sets the final status: `completed`, or the status of the first run that was not."""
        self.is_over = True
        if self.row is not None:
            self.row.status = self._status


class Recorder:
    """Records one root run in the history. Implements `engine.scope.Recorder`."""

    def __init__(
        self,
        history: Sequence[Message] = (),
        tape: RootTape | None = None,
        above: MapRecorder | None = None,
    ) -> None:
        """Creates a recorder for a run that continues `history`, in the map or grid `above`.

        A run that only replays records of `tape` is not recorded.
        """
        self._writer = find_writer(history_path())
        self._tape = tape
        self._held: list[tuple[float, Event]] = []
        """Events held back as long as every reply is replayed from the tape."""
        self._began, self._folder = time.time(), ""
        with contextlib.suppress(OSError):  # the current folder may be deleted
            here = Path(os.path.realpath(os.curdir))
            project = find_project(here / PROJECT_AGENTS / "*")
            self._folder = display_path(project if here.is_relative_to(project) else here)
        # used by the writer's thread:
        self._history = tuple(history)
        self._started: set[str] = set()
        """Ids of the runs whose start has been added to the row."""
        self._shared = Parts()
        """Contents of earlier parts that later parts refer to."""
        self.above = above
        self.row: Row | None = None
        """The run's row, including parts that have not been written yet."""
        self.is_over = False
        self.lost = ""
        """Reason why part of the run could not be recorded; empty if nothing was lost."""

    def event(self, event: Event) -> None:
        is_root = isinstance(event, RunFinished) and event.run == "0"  # `finish` records it
        is_kept = isinstance(event, RunStarted | TurnFinished | ToolFinished | RunFinished)
        if is_kept and not is_root:
            self._put(event)

    def finish(self, result: RunResult) -> None:
        self._put(RunFinished("0", result))

    def _put(self, event: Event) -> None:
        self._held.append((time.time(), event))
        if self._tape is None or self._tape.has_asked:
            held, self._held = self._held, []
            for at, one in held:
                self._writer.put((self, at - self._began, one))

    def problem(self) -> str:
        """Returns why the run is not fully recorded; "" if it is. May wait for the writer."""
        if self._held:
            return ""
        if not self._writer.is_fine:
            self._writer.flush(0.2)
        return self.lost or self._writer.problem

    def take(self, event: Event, at: float, clean: Filter) -> None:
        """Adds an event to the run's row; `at` is the time in seconds since the run started."""
        from axe_nb.recording.history_store import Row

        if isinstance(event, RunStarted) and self.row is None:
            prompt = clean.text(event.task).strip().partition("\n")[0]
            if event.origin:
                prompt = f"fork of {event.origin}: {prompt}"
            self.row = Row(
                started=self._began, agent=clean.text(event.agent), model=clean.text(event.model),
                prompt=one_line(prompt, 200), folder=clean.text(self._folder),
            )  # fmt: skip
            if self.above is not None:
                self.above.take(self.row)
                self.row.above = self.above.row
        row = self.row
        if row is None or self.is_over:
            return
        row.seconds, at = at, round(at, 4)
        match event:
            case RunStarted(run=run):
                row.runs += 1
                history = () if event.parent else self._history
                part = Part(at=at, run=run, start=event, history=history)
            case TurnFinished(run=run):
                row.turns += 1
                row.tokens += event.usage.total
                part = Part(at=at, run=run, turn=event)
            case ToolFinished(run=run):
                part = Part(at=at, run=run, result=event.result)
            case RunFinished(run="0", result=result):
                self.is_over = True
                row.status, row.seconds = result.status, result.duration_ms / 1000
                row.turns = sum(one.turns for one in result.walk())
                row.tokens = result.total_usage.total
                row.cost = result.total_cost
                part = Part(at=at, end=result)
                if self.above is not None:
                    self.above.take(row, result)
            case RunFinished(run=run):
                part = Part(at=at, run=run, end=replace(event.result, children=()))
        if part.start is None and not self.is_over and part.run not in self._started:
            return
        shared = Parts() if self.is_over else self._shared
        data = to_json(part, clean, shared)
        try:
            text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
            whole = f"{format_header('history')}{text}"
            content = zlib.compress(whole.encode("utf-8", "surrogatepass"), 1)
        except Exception:  # a number with too many digits
            shared.forget(data)
            raise
        if self.is_over:
            row.parts, row.bytes, row.replaces = [], 0, True
        self._started.add(part.run)
        row.parts.append(content)
        row.bytes += len(content)


Work: TypeAlias = "tuple[Recorder | MapRecorder, float, Event | None]"
"""A recorder, the time of an event in seconds since the run started, and the event. The event is
None at the end of a map or grid."""


class Writer:
    """Writes a history file, in a thread that starts on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_fine = False
        self.problem = ""
        self._queue: SimpleQueue[Work | threading.Event] = SimpleQueue()
        self._hurry = threading.Event()
        """Set when a caller waits for all writes, to start the next batch at once."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        """The open history, used only by the thread; None if it is closed."""
        self._is_closing = False

    def put(self, item: Work | threading.Event) -> None:
        """Enqueues work, or an event to set once all earlier work is done. Never blocks."""
        self._queue.put(item)
        with self._starting, contextlib.suppress(RuntimeError):  # at the end of the process
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="axe_nb-history", daemon=True)
                thread.start()
                self._thread = thread

    def flush(self, seconds: float = 5.0) -> bool:
        """Waits until everything is written; returns False if that takes more than `seconds`."""
        if self._thread is None:
            return True
        mark = threading.Event()
        self.put(mark)
        self._hurry.set()
        return mark.wait(seconds)

    def close(self) -> None:
        """Writes the remaining items and closes the file; logs a warning if that takes too long."""
        self._is_closing = True
        if not self.flush():
            where = format_path_or_name(self.path)
            log.warning("the last run is not in the history: %s is locked", where)

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            self._hurry.wait(REST)
            self._hurry.clear()
            while not self._queue.empty():  # no other thread removes items
                batch.append(self._queue.get())
            self._write([item for item in batch if isinstance(item, tuple)])
            if self._is_closing:
                self._close()
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()
            del batch, item  # the results in it may be large

    def _write(self, items: Sequence[Work]) -> None:
        from axe_nb.recording.history_store import Store

        changed: dict[Recorder | MapRecorder, None] = {}
        for run, at, event in items:
            try:
                if isinstance(run, MapRecorder):
                    run.end()
                elif event is not None:
                    run.take(event, at, find_filter())
                    if run.above is not None:
                        changed[run.above] = None  # before its runs, which refer to its id
            except Exception as error:  # the thread must not end
                run.lost = self._explain(error)
            changed[run] = None
        rows = {run.row: run for run in changed if run.row}
        if not rows:
            return
        try:
            if self._store is not None and self._store.is_gone:
                self._close()
            if self._store is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._store = Store(self.path, writes=True)
                self._store.prune()
            try:
                for row in self._store.write(rows):
                    rows[row].lost = self._explain(DELETED)
            finally:  # a row that cannot be written stays as it was last written
                for row, run in rows.items():
                    if run.is_over:
                        self._store.release(row)
            self.is_fine, self.problem = True, ""
        except Exception as error:  # a damaged file has many ways to fail
            self.is_fine, self.problem = False, self._explain(error)
            self._close()

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _explain(self, error: Exception) -> str:
        why = reason(error) if isinstance(error, OSError) else one_line(str(error), 300)
        where = format_path_or_name(self.path)
        hint = error.hint if isinstance(error, ConfigError) else ""
        step = hint or f"{VARIABLE}=0 turns the history off"
        return f"history cannot be written: {why} ({where}); {step}"


_writers: dict[tuple[int, Path], Writer] = {}
"""Writers, keyed by process id and path, as a forked process must not use its parent's files."""


def find_writer(path: Path) -> Writer:
    key = os.getpid(), path
    return _writers.get(key) or _writers.setdefault(key, Writer(path))


@atexit.register
def _close_all() -> None:
    for (process, _), writer in list(_writers.items()):
        if process == os.getpid():
            writer.close()
