"""Drives the workers of a map for its caller: a thread that blocks, or an event loop.

The prompts are taken in the caller's own thread, as any iterable's are; the runs of a caller that
blocks are on the loop of the portal.
Source: product.md "Exploring", "Interrupt"; D-8, D-58; house style §4.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from axe_nb.errors import interrupted
from axe_nb.maps.batch import Batch
from axe_nb.maps.pool import Pool
from axe_nb.maps.progress import Progress
from axe_nb.maps.tasks import NoMore, Prompts, Task
from axe_nb.results import RunResult
from axe_nb.session.portal import DRAIN, PUMP, STUCK, answers, portal, record_interrupts, watch_cell

LOOK = 0.5
"""Seconds between two looks at runs that may be stuck."""

Ended: TypeAlias = "tuple[int, RunResult]"
"""(position of the prompt, result) of a run that has ended."""


class Runs(Protocol):
    """The runs in progress, wherever they are."""

    workers: int
    """Workers of the pool."""
    chunk: int
    """Tasks that one takes at once."""

    async def prepare(self) -> None:
        """Called before the first task. Raises ConfigError if no run could begin."""

    async def work(self, tasks: Sequence[Task]) -> None:
        """See `pool.Work`."""

    def leave(self, task: Task) -> None:
        """Notes that a task will not be run."""

    def halt(self) -> None:
        """Keeps the runs from sending requests; from any thread, also in a signal handler."""

    def overdue(self) -> float:
        """Seconds that a run is past its deadline, the longest of all; 0.0 = none is."""

    def abandon(self, *, timed_out: bool = False) -> None:
        """Ends the runs, which do not end by themselves; called by another thread."""

    def close(self) -> None:
        """Called at the end of the map."""


class Drive:
    """One map in progress."""

    def __init__(self, batch: Batch, prompts: Prompts, runs: Runs, progress: Progress) -> None:
        self._batch, self._prompts, self._runs = batch, prompts, runs
        self._progress = progress
        self.pool = Pool(self._take, runs.work, workers=runs.workers, chunk=runs.chunk)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._taken = 0
        batch.stop = self.pool.finish

    def cancel(self) -> None:
        """Cancels the runs in progress; from any thread."""
        self._runs.halt()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.pool.cancel)

    def _make_interrupt(self) -> KeyboardInterrupt:
        has = "stopped; `.results` of the map has the finished runs"
        return interrupted(f"{has}; {self._batch.describe_resuming()}")

    async def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._batch.prepare()
        await self._runs.prepare()
        self._batch.tally.begin()

    async def _take(self) -> Task:
        task = self._batch.make_task(self._taken, await self._take_prompt())
        self._taken += 1
        return task

    async def _take_prompt(self) -> object:
        return await self._prompts.take_later()


class DriveHere(Drive):
    """A map on the caller's own event loop."""

    def __init__(self, batch: Batch, prompts: Prompts, runs: Runs, progress: Progress) -> None:
        super().__init__(batch, prompts, runs, progress)
        self._ended: asyncio.Queue[Ended | None] = asyncio.Queue()
        batch.receive = lambda *one: self._ended.put_nowait(one)

    async def run(self) -> AsyncGenerator[Ended, None]:
        """Yields results as the runs end; closing it stops the others.

        Raises:
            ConfigError: no run could begin.
        """
        await self._prepare()
        work = asyncio.create_task(self.pool.run())
        work.add_done_callback(lambda _: self._ended.put_nowait(None))
        ticker = asyncio.create_task(self._tick())
        interrupted_cell, unwatch = watch_cell()
        try:
            while (one := await self._ended.get()) is not None:
                yield one
            if self.pool.error is not None:
                raise self.pool.error
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
                self.pool.cancel()
                await asyncio.wait([work], timeout=DRAIN)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PUMP)
            self._progress.tick()


class _End:
    """Marks the end of the map."""


@dataclass(frozen=True, slots=True)
class _Want:
    """Some prompts are wanted, by the loop."""

    most: int
    given: asyncio.Future[list[object]]


class DriveBlocking(Drive):
    """A map on the loop of the portal, for a caller that blocks."""

    def __init__(self, batch: Batch, prompts: Prompts, runs: Runs, progress: Progress) -> None:
        super().__init__(batch, prompts, runs, progress)
        self._events: queue.SimpleQueue[Ended | _Want | _End | None] = queue.SimpleQueue()
        self._given: deque[object] = deque()
        """Prompts that were taken for workers that are idle."""
        self._is_exhausted = False
        self._looked_at = 0.0
        batch.receive = lambda *one: self._events.put(one)

    def run(self) -> Generator[Ended, None, None]:
        """Yields results as the runs end; closing it stops the others.

        Raises:
            ConfigError: no run could begin.
            KeyboardInterrupt: the caller was interrupted; the runs were stopped.
        """
        future, self._loop = portal.begin(self._work())
        future.add_done_callback(lambda _: self._events.put(_End()))
        try:
            while not isinstance(event := self._wait(self._loop), _End):
                if isinstance(event, _Want):
                    self._give(event, self._loop)
                else:
                    yield event
            future.result()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self._batch.stop_for("interrupted")
            self._stop(future)
            if isinstance(error, KeyboardInterrupt):
                raise self._make_interrupt() from None
            raise

    def list_left(self) -> Iterator[Ended]:
        """Yields the results that no one had received when the map was stopped."""
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(event := self._events.get_nowait(), tuple):
                    yield event

    async def _work(self) -> None:
        await self._prepare()
        await self.pool.run()
        if self.pool.error is not None:
            raise self.pool.error

    def _wait(self, loop: asyncio.AbstractEventLoop) -> Ended | _Want | _End:
        """Returns the next event.

        Raises:
            KeyboardInterrupt: the caller was interrupted.
        """
        with contextlib.suppress(queue.Empty):
            if (event := self._events.get_nowait()) is not None:
                self._progress.tick()
                return event
        # a `get` that a signal interrupts just as it times out waits for ever (CPython 3.11)
        event = None
        with record_interrupts(lambda: self._events.put(None)) as interrupt:
            while event is None and interrupt.at is None:
                with contextlib.suppress(queue.Empty):
                    event = self._events.get(timeout=PUMP)
                self._progress.tick()
                if event is None and self._is_stuck(loop):
                    self._batch.stop_for("a tool blocked the event loop")
                    self._runs.abandon(timed_out=True)
                    self._events.put(_End())
        if interrupt.at is not None:
            raise KeyboardInterrupt
        assert event is not None
        return event

    def _is_stuck(self, loop: asyncio.AbstractEventLoop) -> bool:
        now = time.monotonic()
        if now - self._looked_at < LOOK:
            return False
        self._looked_at = now
        return self._runs.overdue() > STUCK and not answers(loop)

    def _stop(self, future: Future[None]) -> None:
        """Stops the runs; those that do not end in time are left behind."""
        self.cancel()
        if not wait([future], DRAIN).done:
            self._runs.abandon()

    async def _take_prompt(self) -> object:
        if self._prompts.is_plain or self._prompts.is_async:
            return await self._prompts.take_later()
        if not self._given and not self._is_exhausted:
            given = asyncio.get_running_loop().create_future()
            self._events.put(_Want(self.pool.count_idle(), given))
            self._given.extend(await given)
        if not self._given:
            raise NoMore
        return self._given.popleft()

    def _give(self, want: _Want, loop: asyncio.AbstractEventLoop) -> None:
        """Takes prompts, in the caller's thread: no more than workers are idle."""
        prompts: list[object] = []
        try:
            while len(prompts) < want.most:
                prompts.append(self._prompts.take())
        except NoMore:
            self._is_exhausted = True

        def settle() -> None:
            if not want.given.done():
                want.given.set_result(prompts)

        loop.call_soon_threadsafe(settle)
