"""Keeps the runs of a map in progress, and yields them as they end.

One async generator, `Driver.ended`, takes prompts and has `Runs` run them side by side, each with
the handle that `axe_nb.arun` uses too. A caller that awaits iterates over it on its own event loop;
for one that blocks it runs on the loop of the portal, and the prompts of an iterator are taken in
the caller's own thread.
Source: D-8, D-58.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from concurrent.futures import wait
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.meter import OverBudget
from axe_nb.errors import AxeError, ConfigError, interrupted
from axe_nb.events import discard
from axe_nb.exploring.map_batch import Batch, Ended, Task
from axe_nb.exploring.map_progress import Progress
from axe_nb.results import RunResult
from axe_nb.session.portal import DRAIN, PUMP, STUCK, answers, portal, record_interrupts, watch_cell
from axe_nb.session.runs import RunHandle

ROOM = 4
"""Maximum number of started tasks with unread results, per concurrent task."""

OUT_OF_BUDGET = "the budget of this session was reached"

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
        self._turns = (_Turns(has_cassette), _Turns(has_cassette))
        """Starting order of the runs, and of their judges."""
        self._handles: dict[Task, RunHandle] = {}

    async def prepare(self) -> None:
        """Called before the first task. Raises ConfigError if no run could begin."""

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks, and passes each result to the batch as it ends, also if it is cancelled."""
        for task in tasks:
            turns = self._turns[task.asking == self._batch.judge]
            try:
                await turns.wait(task.index)
                if not self._batch.settle(task):
                    await self._run_one(task, partial(turns.leave, task.index))
            finally:
                turns.leave(task.index)

    async def _run_one(self, task: Task, on_claim: Callable[[], None]) -> None:
        batch = self._batch
        if why := batch.find_end():
            batch.stop_for(why)
            return
        handle = self._handles[task] = batch.session.start(batch.make_request(task), on_claim)
        try:
            result = await handle.execute(discard)
            if handle.plan and isinstance(handle.plan.scope.env.halt.stop, OverBudget):
                result = replace(result, status="cancelled")
                batch.stop_for(OUT_OF_BUDGET)
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
        """Passes on the result of a run once, whichever thread has ended it."""
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


class _Turns:
    """Lets runs begin in the order of their positions, each as soon as the one before has begun.

    A cassette answers equal requests in the order in which they come, which must not depend on
    timing (D-59). Without a cassette, no run waits.
    """

    def __init__(self, is_used: bool) -> None:
        self._is_used = is_used
        self._begun = defaultdict[int, asyncio.Event](asyncio.Event)
        self._passed = 0

    async def wait(self, index: int) -> None:
        """Waits until the previous run has begun or ended."""
        if index and self._is_used:
            await self._begun[index - 1].wait()
            del self._begun[index - 1]
        self._passed = index

    def leave(self, index: int) -> None:
        """Notes that a run has begun or never will; may be called twice."""
        if self._is_used and index >= self._passed:
            self._begun[index].set()


@dataclass(frozen=True, slots=True)
class _Want:
    most: int
    given: asyncio.Future[list[object]]


class Driver:
    """One map in progress.

    A task is taken when it can begin. It takes room until its result was received: a caller that
    receives slowly holds the runs back.
    """

    def __init__(self, batch: Batch, prompts: Prompts, runs: Runs, progress: Progress) -> None:
        self._batch, self._prompts, self._runs = batch, prompts, runs
        self._progress = progress
        self._most = runs.workers * runs.chunk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        """Set when a run has ended, or a result was received."""
        self._news = deque[Ended | _Want]()
        self._works = set[asyncio.Task[Any]]()
        """Tasks that take prompts and run them."""
        self._taken = self._running = self._received = 0
        self._is_full = self._is_over = False
        """True while runs wait for room; true if no more prompts are taken."""
        self._error: BaseException | None = None
        """The exception that ended the map: one of the caller's own iterable, or worse."""
        self._inbox = deque[Ended | _Want]()
        """Items that a blocking caller has not looked at."""
        self._takes_here = False
        """True if prompts are taken in the thread of a blocking caller, into `_given`."""
        self._given = deque[object]()
        batch.receive, batch.stop = self._news.append, self._finish

    async def ended(self) -> AsyncGenerator[Ended | _Want, None]:
        """Yields the runs as they end; closing it stops the others."""
        self._loop = asyncio.get_running_loop()
        await self._batch.prepare()
        await self._runs.prepare()
        self._begin(self._feed())
        try:
            while self._works or self._news:
                if self._news:
                    yield self._news.popleft()
                else:
                    await self._wait_for_change()
            if self._error is not None:
                raise self._error
        finally:
            if self._works:
                self._runs.halt()
                self._cancel()
                await asyncio.wait(self._works.copy(), timeout=DRAIN)

    async def iterate_later(self) -> AsyncGenerator[Ended, None]:
        """Yields the runs as they end, on the caller's event loop; closing it stops the others."""
        interrupted_cell, unwatch = watch_cell()
        ticker = asyncio.create_task(self._tick())
        try:
            async with aclosing(self.ended()) as ended:
                async for one in ended:
                    assert isinstance(one, Ended)
                    self.receive()
                    yield one
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

    def iterate(self) -> Generator[Ended, None, None]:
        """Yields the runs as they end, and blocks; closing it or an interrupt stops the others."""
        self._takes_here = self._prompts.runs_code
        arrived = threading.Event()

        async def work() -> None:
            async with aclosing(self.ended()) as ended:
                async for one in ended:
                    self._inbox.append(one)
                    arrived.set()

        future, self._loop = portal.begin(work())
        loop = self._loop
        future.add_done_callback(lambda _: arrived.set())
        responds = True
        try:
            while True:
                is_over = future.done() or not responds  # before the last look into the inbox
                if self._inbox:
                    one = self._inbox.popleft()
                    self._progress.tick()
                    if isinstance(one, Ended):
                        yield one
                    else:
                        self._give(one, loop)
                elif is_over:
                    break
                else:
                    responds = self._wait(arrived, loop)
            if responds:
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

    def list_left(self) -> list[Ended]:
        """Returns the runs that had ended, but had not been yielded when the map was stopped."""
        return [one for one in (*self._inbox, *self._news) if isinstance(one, Ended)]

    def receive(self) -> None:
        self._received += 1
        if self._is_full:
            self._wake()

    def cancel(self) -> None:
        """Cancels the runs in progress; from any thread."""
        self._runs.halt()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._finish()
        for work in self._works:
            work.cancel()

    def _finish(self) -> None:
        """Takes no more prompts; runs in progress continue to their end. From any thread."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._changed.set)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._works.discard(task)
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = self._error or error
            self._cancel()

    async def _feed(self) -> None:
        while tasks := await self._take_some():
            self._running += len(tasks)
            self._begin(self._work(tasks))

    async def _work(self, tasks: Sequence[Task]) -> None:
        try:
            await self._runs.work(tasks)
            if self._batch.judge is not None:
                await self._runs.work(self._batch.make_cases(tasks))
        finally:
            self._running -= len(tasks)
            for task in tasks:
                self._batch.release(task.index)

    def _find_room(self) -> int:
        """Returns the number of tasks that may begin now."""
        return min(self._most - self._running, ROOM * self._most - (self._taken - self._received))

    async def _take_some(self) -> list[Task]:
        chunk = self._runs.chunk
        while self._find_room() < chunk and not self._is_over:
            self._is_full = True
            if self._find_room() < chunk:  # once more, as the caller may have received one
                await self._wait_for_change()
            self._is_full = False
        tasks: list[Task] = []
        while len(tasks) < chunk and not self._is_over:
            if (prompt := await self._take()) is END:
                self._is_over = True
            else:
                tasks.append(self._batch.make_task(self._taken, prompt))
                self._taken += 1
        return tasks

    async def _take(self) -> object:
        if not self._takes_here:
            return await self._prompts.take_one()
        if not self._given:
            given = asyncio.get_running_loop().create_future()
            self._news.append(_Want(max(1, self._find_room()), given))
            self._changed.set()
            self._given.extend(await given)
        return self._given.popleft() if self._given else END

    def _give(self, want: _Want, loop: asyncio.AbstractEventLoop) -> None:
        """Takes prompts, in the caller's thread: no more than can begin."""
        prompts = self._prompts.take(want.most)

        def settle() -> None:
            if not want.given.done():
                want.given.set_result(prompts)

        loop.call_soon_threadsafe(settle)

    def _wait(self, arrived: threading.Event, loop: asyncio.AbstractEventLoop) -> bool:
        """Waits until something has arrived; False = the loop does not respond any more."""
        # the signal sets no event: this thread may hold its lock just then
        with record_interrupts(lambda: None) as interrupt:
            while interrupt.at is None and not arrived.wait(PUMP):
                self._progress.tick()
                if self._runs.overdue() > STUCK and not answers(loop):
                    self._batch.stop_for("a tool blocked the event loop")
                    self._runs.abandon(timed_out=True)
                    self._inbox.extend(self._news)
                    self.cancel()  # the others, should it respond again
                    return False
        if interrupt.at is not None:
            raise KeyboardInterrupt
        arrived.clear()
        return True

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PUMP)
            self._progress.tick()

    def _make_interrupt(self) -> KeyboardInterrupt:
        again = self._batch.describe_resuming()
        return interrupted(f"stopped; `.results` of the map has the finished runs; {again}")
