"""Keeps the runs of a map in progress, and yields them as they end.

One coroutine, `Driver.run`, takes prompts and has `Runs` run them side by side, each with the
handle that `axe_nb.arun` uses too. A caller that awaits has it on its own event loop; for one that
blocks it runs on the loop of the portal, and the prompts of an iterator are taken in the caller's
own thread.
Source: D-8, D-58.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import queue
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from axe_nb.engine.limits import OverBudget
from axe_nb.errors import AxeError, ConfigError, interrupted
from axe_nb.events import discard
from axe_nb.exploring.map_batch import Batch, Ended, Tally, Task
from axe_nb.results import RunResult
from axe_nb.session.drive import Line, NoLine
from axe_nb.session.portal import DRAIN, PUMP, STUCK, answers, portal, record_interrupts, watch_cell
from axe_nb.session.runs import RunHandle
from axe_nb.text import shown_value

ROOM = 4
"""Maximum number of started tasks with unread results, per concurrent task."""

Source: TypeAlias = "Iterable[object] | AsyncIterable[object]"
"""Prompts: texts, or lists of texts and pictures."""

END: Any = object()


class Prompts:
    """Prompts from any iterable, each taken only when its run can begin."""

    def __init__(self, prompts: Source) -> None:
        """Begins to iterate, without taking a prompt."""
        is_table = isinstance(prompts, Mapping) or hasattr(prompts, "columns")  # a data frame
        is_known = isinstance(prompts, Iterable | AsyncIterable)
        if is_table or isinstance(prompts, str | bytes) or not is_known:
            given = type(prompts).__name__ if is_table else shown_value(prompts)
            raise ConfigError(
                f"prompts takes an iterable of prompts, not {given}",
                hint='for example axe_nb.map("lead", ["What changed?", "Who did it?"]), '
                'or one column of a table, as in frame["question"]',
            )
        self.total = len(prompts) if isinstance(prompts, Sized) else None
        """Number of prompts, if it is known before they are taken."""
        self.runs_code = not isinstance(prompts, list | tuple | AsyncIterable)
        """True if taking a prompt runs the user's code, which belongs in the caller's thread."""
        self._later = aiter(prompts) if isinstance(prompts, AsyncIterable) else None
        self._now: Iterator[object] = iter(prompts) if isinstance(prompts, Iterable) else iter(())

    def take(self, most: int) -> list[object]:
        """Returns the next prompts of a plain iterable; fewer than `most` only at the end."""
        return list(islice(self._now, most))

    async def take_one(self) -> object:
        """Returns the next prompt of any iterable; `END` after the last one."""
        return next(self._now, END) if self._later is None else await anext(self._later, END)


class Runs:
    """The runs in progress; those of an executor are a subclass."""

    chunk = 1
    """Number of tasks for one call of `work`."""

    def __init__(self, batch: Batch, concurrency: int) -> None:
        self._batch = batch
        self.workers = concurrency
        """Calls of `work` at once."""
        has_cassette = batch.session.cassette is not None
        self._turns = (_Turns(), _Turns()) if has_cassette else None
        """Starting order of the runs, and of their judges."""
        self._handles: dict[Task, RunHandle] = {}

    async def prepare(self) -> None:
        """Called before the first task. Raises ConfigError if no run could begin."""
        await self._batch.prepare()

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks, and passes each result to the batch as it ends, also if it is cancelled."""
        for task in tasks:
            if self._turns is None:
                await self._run(task)
                continue
            turns = self._turns[task.judged is not None]
            try:
                await turns.wait(task.index)
                await self._run(task, partial(turns.leave, task.index))
            finally:
                turns.leave(task.index)

    async def _run(self, task: Task, on_claim: Callable[[], None] | None = None) -> None:
        batch = self._batch
        if batch.settle(task) or batch.is_spent():
            return
        handle = self._handles[task] = batch.session.start(batch.make_request(task), on_claim)
        try:
            result = await handle.execute(discard)
            if handle.plan and isinstance(handle.plan.scope.env.halt.stop, OverBudget):
                result = replace(result, status="cancelled")
                batch.stop_for("the budget of this session was reached")
            self._put(task, result)
        except AxeError as error:
            self._put(task, batch.make_failed(task, error))
        except BaseException:
            if handle.finished is not None:
                self._put(task, handle.finished)
            raise
        finally:
            self._handles.pop(task, None)

    def _put(self, task: Task, result: RunResult) -> None:
        """Keeps the result of a run once, whichever thread has ended it."""
        if self._handles.pop(task, None) is not None:
            self._batch.finish(task, result)

    def halt(self) -> None:
        """Keeps the runs from sending requests; from any thread, also in a signal handler."""
        for handle in list(self._handles.values()):
            handle.halt()

    def overdue(self) -> float:
        """Seconds that a run is past its deadline, the longest of all; 0.0 = none is."""
        handles = list(self._handles.values())
        return max((handle.overdue() for handle in handles), default=0.0)

    def abandon(self, *, timed_out: bool = False) -> None:
        """Ends the runs of a loop that does not respond, as timed out or cancelled.

        Called by another thread.
        """
        for task, handle in list(self._handles.items()):
            is_late = timed_out and handle.overdue() > 0.0
            result = handle.abandon(discard, timed_out=is_late)
            if result is not None:
                self._put(task, result)
        self._batch.release_all()

    def close(self) -> None:
        """Called at the end of the map."""
        self._batch.close()


class _Turns:
    """Lets runs begin in the order of their positions, each as soon as the one before has begun.

    A cassette answers equal requests in the order in which they come, which must not depend on
    timing (D-59).
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, asyncio.Event] = {}

    async def wait(self, index: int) -> None:
        """Waits until the previous run has begun or ended."""
        if index > self._next:
            await self._waiting.setdefault(index, asyncio.Event()).wait()

    def leave(self, index: int) -> None:
        """Notes that a run has begun or never will; may be called twice."""
        if index == self._next:
            self._next += 1
            if waiting := self._waiting.pop(self._next, None):
                waiting.set()


class Progress:
    """Keeps a line up to date, at most ten times a second; used by one thread."""

    def __init__(self, tally: Tally, line: Line) -> None:
        self.tally, self._line = tally, line
        self._next_at = time.monotonic() + 0.1

    def tick(self) -> None:
        if isinstance(self._line, NoLine):
            return
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + 0.1
            self._line.show(self.tally.format(is_live=True))

    def finish(self) -> None:
        self._line.finish(self.tally.format())


@contextlib.contextmanager
def rare_full_collections() -> Iterator[None]:
    """Has the garbage collector look through all objects a tenth as often within the block.

    A thousand runs in flight are many objects and no garbage; looking through them again and again
    takes a third of the time of a wide map. Multiplied and divided, as maps may overlap.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, old * 10)
    try:
        yield
    finally:
        young, middle, old = gc.get_threshold()
        gc.set_threshold(young, middle, old // 10)


class Driver:
    """One map in progress.

    A task is taken when it can begin. It takes room until its result was received: a caller that
    receives slowly holds the runs back.
    """

    def __init__(self, batch: Batch, prompts: Prompts, runs: Runs, progress: Progress) -> None:
        self._batch, self._prompts, self._runs = batch, prompts, runs
        self._progress = progress
        self._most = runs.workers * runs.chunk
        self._main: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._changed = asyncio.Event()
        """Set when runs have ended, or a result was received."""
        self._taken = self._running = self._received = 0
        self._is_full = False
        """True while runs wait for room."""
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Queue of a blocking caller: runs that have ended, requests for prompts, `END`."""
        self._takes_here = False
        """True if prompts are taken in the thread of a blocking caller, into `_given`."""
        self._given = deque[object]()

    async def run(self) -> None:
        """Takes prompts and runs them; the batch passes on each run as it ends."""
        task = asyncio.current_task()
        assert task is not None
        self._main = asyncio.get_running_loop(), task
        await self._runs.prepare()
        try:
            with rare_full_collections():
                async with asyncio.TaskGroup() as group:
                    while tasks := await self._take_tasks():
                        self._running += len(tasks)
                        group.create_task(self._work(tasks))
                        await asyncio.sleep(0)  # else all begin, and later end, at the same time
        except BaseExceptionGroup as errors:  # one of the caller's own iterable, or worse
            raise errors.exceptions[0] from None

    async def iterate_later(self) -> AsyncGenerator[Ended, None]:
        """Yields the runs as they end, on the caller's event loop; closing it stops the others."""
        ended: asyncio.Queue[Any] = asyncio.Queue()
        self._batch.receive = ended.put_nowait
        interrupted_cell, unwatch = watch_cell()
        work = asyncio.create_task(self.run())
        work.add_done_callback(lambda _: ended.put_nowait(END))

        async def tick() -> None:
            while True:
                await asyncio.sleep(PUMP)
                self._progress.tick()

        ticker = asyncio.create_task(tick())
        try:
            while (one := await ended.get()) is not END:
                self.receive()
                yield one
            if not work.cancelled():
                work.result()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit) as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            if interrupted_cell.is_set() or isinstance(error, KeyboardInterrupt):
                self._batch.stop_for("interrupted")
            elif is_cancelled:
                self._batch.stop_for("cancelled")
            if interrupted_cell.is_set() and is_cancelled:
                raise self._make_interrupt() from None
            raise
        finally:
            unwatch()
            ticker.cancel()
            if not work.done():
                self._runs.halt()
                work.cancel()
                await asyncio.wait([work], timeout=DRAIN)

    def iterate(self) -> Generator[Ended, None, None]:
        """Yields the runs as they end, and blocks; closing it or an interrupt stops the others."""
        self._batch.receive = self._ended.put
        self._takes_here = self._prompts.runs_code
        future, loop = portal.begin(self.run())
        future.add_done_callback(lambda _: self._ended.put(END))
        try:
            while (one := self._wait(loop)) is not END:
                self._progress.tick()
                if isinstance(one, Ended):
                    yield one
                    continue
                most, give = one
                prompts = self._prompts.take(most)  # in the caller's thread
                loop.call_soon_threadsafe(give, prompts)
            if future.done() and not future.cancelled():
                future.result()
        except BaseException as error:
            is_interrupt = isinstance(error, KeyboardInterrupt)
            if is_interrupt:
                self._batch.stop_for("interrupted")
            self.cancel()
            if not wait([future], DRAIN).done:
                self._runs.abandon()
            if is_interrupt:
                raise self._make_interrupt() from None
            raise

    def _wait(self, loop: asyncio.AbstractEventLoop) -> Any:
        """Returns what arrives next; `END` also if the loop does not respond any more."""
        one = None
        # the signal only leaves a note: what has arrived just then must not be lost
        with record_interrupts(lambda: None) as interrupt:
            while one is None and interrupt.at is None:
                try:
                    one = self._ended.get(timeout=PUMP)
                except queue.Empty:
                    self._progress.tick()
                    if self._runs.overdue() > STUCK and not answers(loop):
                        self._batch.stop_for("a tool blocked the event loop")
                        self._runs.abandon(timed_out=True)
                        self.cancel()  # the others, should it respond again
                        self._ended.put(END)
        if interrupt.at is None:
            return one
        if one is not None:
            self._ended.put(one)
        raise KeyboardInterrupt

    def list_left(self) -> list[Ended]:
        """Returns the runs that had ended, but had not been yielded when the map was stopped."""
        left = [self._ended.get() for _ in range(self._ended.qsize())]
        return [one for one in left if isinstance(one, Ended)]

    def receive(self) -> None:
        """Notes that the caller has received a result; from its thread."""
        self._received += 1
        if self._is_full and self._main is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._main[0].call_soon_threadsafe(self._changed.set)

    def cancel(self) -> None:
        """Cancels the runs in progress; from any thread."""
        self._runs.halt()
        if self._main is not None:
            loop, task = self._main
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

    async def _work(self, tasks: Sequence[Task]) -> None:
        try:
            await self._runs.work(tasks)
            if self._batch.judge is not None:
                await self._runs.work([self._batch.make_case(task) for task in tasks])
        finally:
            self._running -= len(tasks)
            for task in tasks:
                self._batch.release(task)
            self._changed.set()

    def _find_room(self) -> int:
        """Returns the number of tasks that may begin now."""
        return min(self._most - self._running, ROOM * self._most - (self._taken - self._received))

    async def _take_tasks(self) -> list[Task]:
        """Takes the tasks of the next call of `work`, once there is room; empty = none is left."""
        chunk = self._runs.chunk
        while self._find_room() < chunk and not self._batch.stopped:
            self._is_full = True
            self._changed.clear()
            if self._find_room() < chunk:  # once more, as the caller may have received one
                await self._changed.wait()
            self._is_full = False
        tasks: list[Task] = []
        while len(tasks) < chunk and not self._batch.stopped:
            if (prompt := await self._take_prompt()) is END:
                break
            tasks.append(self._batch.make_task(self._taken, prompt))
            self._taken += 1
        return tasks

    async def _take_prompt(self) -> object:
        if not self._takes_here:
            return await self._prompts.take_one()
        if not self._given:
            arrived = asyncio.Event()

            def give(prompts: list[object]) -> None:
                self._given.extend(prompts)
                arrived.set()

            self._ended.put((max(1, self._find_room()), give))
            await arrived.wait()
        return self._given.popleft() if self._given else END

    def _make_interrupt(self) -> KeyboardInterrupt:
        again = self._batch.describe_resuming()
        return interrupted(f"stopped; `.results` of the map has the finished runs; {again}")
