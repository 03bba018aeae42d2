"""Runs the tasks of a map on the workers of an executor, some in one job.

A worker that dies costs its jobs one more try, each alone, so that the one that kills its worker
costs no other. Then the reason is the result.
Source: product.md "Exploring"; cluster-facts.md §4.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import pickle
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.maps.batch import Batch
from axe_nb.maps.executors import Workers, is_death
from axe_nb.maps.parcel import make_parcel
from axe_nb.maps.tasks import Task
from axe_nb.maps.worker import Job, Reply, check_worker, run_job
from axe_nb.redaction import find_filter, is_secret_name
from axe_nb.threads import in_thread

SMALL = 16_000
"""Bytes; a common part of this size travels with each job."""

CLOSED = "the executor was closed, or no longer responds"

LOOK = 3.0
"""Seconds without an outcome after which the executor is asked whether it is still there."""

PATIENCE = 20.0
"""Seconds that it may take to respond."""

LEFT_BEHIND = "cancelled; its worker may keep running until its timeout"


class _Refused(Exception):
    """The executor did not take a job."""

    def __init__(self, why: Exception) -> None:
        super().__init__(why)
        self.why = why


class _Dropped(Exception):
    """The executor cancelled a job that the map had not given up, or no longer responds."""


class RemoteRuns:
    """The jobs in progress."""

    def __init__(self, batch: Batch, workers: Workers, concurrency: int) -> None:
        """Creates it; nothing is submitted yet.

        Args:
            batch: the map.
            workers: the executor.
            concurrency: maximum runs at once.
        """
        slots = max(1, min(workers.slots, concurrency))
        self.chunk = math.ceil(concurrency / slots)
        self.workers = max(1, concurrency // self.chunk)
        self._batch, self._workers = batch, workers
        self._parcel: Any = None
        self._digest = ""
        self._spare: Executor | None = None
        """Takes the place of a pool that broke."""
        self._alone = asyncio.Lock()
        self._jobs: set[Future[Any]] = set()
        self._is_halted = self._is_gone = False
        self._pinged_at = 0.0
        self._refused = ""
        """The reason that the executor takes no more jobs; empty = it does."""

    async def prepare(self) -> None:
        """Packs the common part, and has the workers check that they can run it.

        Raises:
            ConfigError: it cannot travel, or a worker lacks something, such as a key.
        """
        if self._parcel is not None:
            return
        batch = self._batch
        for asking in batch.askings:
            assert asking.plan is not None
            asking.change(workdir=str(asking.plan.briefing.workdir))
            await asking.prepare(batch.session)
        parcel = make_parcel(batch)
        self._parcel = parcel if self._workers.dumps is None else self._pack(parcel)
        self._digest = hashlib.sha256(self._parcel).hexdigest() if self._workers.dumps else ""
        self._digest = self._digest or f"{os.getpid()} {id(parcel)}"
        await self._check()

    def _pack(self, parcel: Any) -> bytes:
        assert self._workers.dumps is not None
        try:
            packed = self._workers.dumps(parcel)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the agent cannot be sent to another process: {words(error)}",
                hint="define its functions at the top of a module that the workers can import",
            ) from None
        _check_secrets(packed, self._batch.session.settings[0].providers)
        return packed

    async def _check(self) -> None:
        job = self._make_job((), with_parcel=True)
        if await self._has_left():
            raise ConfigError(CLOSED, hint="create a new one")
        try:
            replies = [_read(one) for one in await self._workers.check(check_worker, job)]
        except Exception as error:
            raise ConfigError(
                f"the workers cannot run axe_nb: {type(error).__name__}: {words(error)}",
                hint="install axe_nb where they run, or create a new executor if this one is shut "
                "down",
            ) from None
        for reply in replies:
            if reply.problem:
                raise ConfigError(f"on a worker: {reply.problem}", hint=reply.hint)

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks in one job.

        Raises:
            asyncio.CancelledError: the map was stopped; its running jobs are left behind.
        """
        batch = self._batch
        left = {task.index: task for task in tasks if not batch.settle(task)}
        if why := batch.find_end():
            batch.stop_for(why)
        elif left:
            try:
                await self._run(left)
            finally:
                why = self._refused or LEFT_BEHIND
                for task in left.values():
                    batch.finish(task, batch.make_failed(task, AxeError(why), "cancelled"))

    async def _run(self, left: dict[int, Task]) -> None:
        """Runs tasks, which leave the table when they have a result."""
        tasks = list(left.values())
        try:
            await self._submit(self._workers.executor, tasks, left)
            return
        except _Refused as error:
            if not (is_death(error.why) and (self._spare or self._renew())):
                self._stop(_format_refusal(error.why))
                return
        except _Dropped:
            self._stop(CLOSED)
            return
        except Exception as error:
            if not is_death(error):
                self._fail(tasks, _explain(error), left)
                return
        async with self._alone:
            for task in tasks:
                await self._run_alone(task, left)

    async def _run_alone(self, task: Task, left: dict[int, Task]) -> None:
        if self._refused:
            return
        try:
            executor = self._spare or self._renew() or self._workers.executor
            await self._submit(executor, [task], left)
        except _Refused as error:
            self._stop(_format_refusal(error.why))
        except _Dropped:
            self._stop(CLOSED)
        except Exception as error:
            if is_death(error) and self._spare is not None:
                self._spare.shutdown(wait=False)
                self._spare = None
            self._fail([task], _explain(error), left)

    def _renew(self) -> Executor | None:
        self._spare = self._workers.renew()
        return self._spare

    def _stop(self, why: str) -> None:
        """Ends the map, as its executor takes no more jobs."""
        self._refused = self._refused or why
        self._batch.stop_for(self._refused)

    def _fail(self, tasks: Sequence[Task], why: AxeError, left: dict[int, Task]) -> None:
        for task in tasks:
            self._batch.finish(left.pop(task.index), self._batch.make_failed(task, why))

    def _receive(self, tasks: Sequence[Task], reply: Reply, left: dict[int, Task]) -> None:
        if reply.problem:
            problem = ConfigError(f"on a worker: {reply.problem}", hint=reply.hint)
            self._fail(tasks, problem, left)
            return
        for task, result in zip(tasks, reply.results, strict=True):
            del left[task.index]
            if result is not None:
                if self._batch.meter is not None:
                    self._batch.meter.add(result)
                self._batch.session.remember(result)
                self._batch.finish(task, result)

    async def _submit(
        self, executor: Executor, tasks: Sequence[Task], left: dict[int, Task]
    ) -> None:
        """Runs tasks in one job, and passes their results on."""
        small = not isinstance(self._parcel, bytes) or len(self._parcel) <= SMALL
        for with_parcel in (small, True):
            job = self._make_job(tasks, with_parcel=with_parcel)
            future = await in_thread(self._start, executor, job)
            try:
                reply = _read(await self._wait(future))
            finally:
                self._jobs.discard(future)
            if not reply.is_missing:
                break
        self._receive(tasks, reply, left)

    async def _wait(self, future: Future[Any]) -> Any:
        """Returns the outcome of a job.

        Raises:
            _Dropped: there will be none.
        """
        waiting = asyncio.wrap_future(future)
        try:
            while not (await asyncio.wait([waiting], timeout=LOOK))[0]:
                if await self._has_left():
                    waiting.cancel()
                    break
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        if waiting.cancelled() and not self._is_halted:
            raise _Dropped
        return await waiting

    async def _has_left(self) -> bool:
        """True if the executor was closed, or does not respond; it is asked now and then."""
        now = time.monotonic()
        if self._workers.ping is None or now - self._pinged_at < LOOK or self._is_gone:
            return self._is_gone
        self._pinged_at = now
        try:
            await asyncio.wait_for(in_thread(self._workers.ping), PATIENCE)
        except Exception:  # of whichever kind of executor
            self._is_gone = True
        return self._is_gone

    def _start(self, executor: Executor, job: Any) -> Future[Any]:
        """Submits a job; in a thread, as some executors run it there and then."""
        try:
            future = executor.submit(run_job, job)
        except Exception as error:
            raise _Refused(error) from None
        self._jobs.add(future)
        if self._is_halted:
            future.cancel()
        return future

    def _make_job(self, tasks: Sequence[Task], *, with_parcel: bool) -> Any:
        job = Job(self._digest, self._parcel if with_parcel else None, tasks)
        return job if self._workers.dumps is None else pickle.dumps(job)

    def leave(self, task: Task) -> None:
        """See `drives.Runs`: none waits for another."""

    def halt(self) -> None:
        """See `drives.Runs`: jobs that run in other processes go on to their end."""
        self._is_halted = True
        for future in list(self._jobs):
            future.cancel()

    def overdue(self) -> float:
        """See `drives.Runs`: workers keep their own time."""
        return 0.0

    def abandon(self, *, timed_out: bool = False) -> None:
        """See `drives.Runs`."""

    def close(self) -> None:
        """Ends the pool that took the place of a broken one."""
        if self._spare is not None:
            with contextlib.suppress(Exception):
                self._spare.shutdown(wait=False, cancel_futures=True)


def _format_refusal(why: Exception) -> str:
    return f"the executor accepts no more jobs: {type(why).__name__}: {words(why)}"


def _read(answer: Any) -> Reply:
    reply = answer if isinstance(answer, Reply) else pickle.loads(answer)
    assert isinstance(reply, Reply)
    return reply


def _explain(error: Exception) -> AxeError:
    if is_death(error):
        return AxeError(f"its worker died twice: {type(error).__name__}")
    return AxeError(f"its job failed: {type(error).__name__}: {words(error)}")


def _check_secrets(packed: bytes, providers: Mapping[str, Mapping[str, Any]]) -> None:
    """Rejects a job that would carry a secret of this process.

    Raises:
        ConfigError: names the variable.
    """
    forms = find_filter().forms
    found = next((form for form in forms if form.encode(errors="replace") in packed), None)
    if found is None:
        return
    names = [name for name, value in os.environ.items() if found in value and is_secret_name(name)]
    what = f"the value of {names[0]}" if names else "a key"
    raise ConfigError(
        f"{what} would be sent with the jobs: it is in an agent, an option or a setting",
        hint="remove it from there; workers read keys from their own environment",
    )
