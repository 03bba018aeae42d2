"""Workers that take tasks in order and run them side by side, on one event loop.

Each takes its next task when it is idle, so there are never more tasks than workers, and no prompt
is taken before it can be asked. A task takes room until its result was received: a caller that
receives slowly holds the workers back.
Source: product.md "Exploring".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from axe_nb.maps.tasks import NoMore, Task

ROOM = 4
"""Tasks begun whose result was not received, for each of those at once."""

Take: TypeAlias = Callable[[], Awaitable[Task]]
"""The next task. Raises NoMore; any other exception ends the map."""

Work: TypeAlias = Callable[[Sequence[Task]], Awaitable[None]]
"""Runs tasks, and passes each result on as it ends; raises only if it is cancelled."""


class Pool:
    """The workers of one map."""

    def __init__(self, take: Take, work: Work, *, workers: int, chunk: int = 1) -> None:
        """Creates the pool; nothing is taken yet.

        Args:
            take: returns the next task; called by one worker at a time.
            work: runs tasks.
            workers: how many work at once.
            chunk: tasks that a worker takes at once.
        """
        self._take, self._work = take, work
        self._workers, self._chunk = workers, chunk
        self._room = ROOM * workers * chunk
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = asyncio.Lock()
        self._freed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began = self._finished = self._received = 0
        self._is_full = False
        self._is_over = False
        """True if no more tasks are taken."""
        self.error: BaseException | None = None
        """The end of the map: an exception of the caller's own iterable, or worse."""

    async def run(self) -> None:
        """Runs all tasks; returns when the last one has ended, or all are cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            self._add_worker()
            while self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end()

    def finish(self) -> None:
        """Takes no more tasks; those in progress go on to their end. From any thread."""
        self._is_over = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._freed.set)

    def cancel(self) -> None:
        """Takes no more tasks, and cancels those in progress. On the loop's thread."""
        self.finish()
        for task in self._tasks:
            task.cancel()

    def count_idle(self) -> int:
        """Returns how many tasks could begin now, at least 1."""
        idle = self._workers * self._chunk - (self._began - self._finished)
        return max(1, min(idle, self._room - (self._began - self._received)))

    def receive(self) -> None:
        """Notes that a result was received; from any thread."""
        self._received += 1
        if self._is_full and self._loop is not None:
            self._loop.call_soon_threadsafe(self._freed.set)

    async def _end(self) -> None:
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _add_worker(self) -> None:
        task = asyncio.create_task(self._work_on())
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = self.error or error
            self.cancel()

    async def _work_on(self) -> None:
        while tasks := await self._take_some():
            if len(self._tasks) < self._workers and not self._is_over:
                self._add_worker()
            try:
                await self._work(tasks)
            finally:
                self._finished += len(tasks)

    async def _take_some(self) -> list[Task]:
        tasks: list[Task] = []
        async with self._taking:
            while len(tasks) < self._chunk and not self._is_over:
                if not tasks:
                    await self._wait_for_room()
                if self._is_over:
                    break
                try:
                    tasks.append(await self._take())
                except NoMore:
                    self.finish()
                    break
                self._began += 1
        return tasks

    async def _wait_for_room(self) -> None:
        while self._has_no_room() and not self._is_over:
            self._freed.clear()
            self._is_full = True
            if self._has_no_room():  # once more, as the caller may have received one meanwhile
                await self._freed.wait()
            self._is_full = False

    def _has_no_room(self) -> bool:
        return self._began - self._received >= self._room


class Turnstile:
    """Lets runs begin in the order of their numbers, each as soon as the one before has begun.

    A cassette gives equal requests their answers in the order in which they come: so they are the
    same in any timing (D-59).
    """

    def __init__(self) -> None:
        self._next = 0
        self._left: set[int] = set()
        self._waiting: dict[int, asyncio.Event] = {}

    async def wait(self, number: int) -> None:
        """Waits until all runs before it have begun, or ended."""
        if number > self._next:
            event = self._waiting[number] = asyncio.Event()
            await event.wait()

    def leave(self, number: int) -> None:
        """Notes that a run has begun, or will not; twice is harmless."""
        if number < self._next:
            return
        self._left.add(number)
        while self._next in self._left:
            self._left.discard(self._next)
            self._next += 1
        if event := self._waiting.pop(self._next, None):
            event.set()
