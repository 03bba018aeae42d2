"""Runs the tasks of a map on the workers of an executor, several in one job.

An executor is what jobs are submitted to: one of `concurrent.futures`, a Dask client, an
ipyparallel client or view. A job is the bytes of some prompts, and `worker.run_job` runs it there.
If a worker dies, each of its jobs is tried once more, alone, so that the one that kills its worker
costs no other. If it dies again, the reason is the result. Source: D-59.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.exploring.map_batch import Batch, Task
from axe_nb.exploring.map_driver import Runs
from axe_nb.exploring.map_worker import (
    Job,
    Reply,
    check_worker,
    dump_by_value,
    make_parcel,
    run_job,
)
from axe_nb.recording.modes import find_mode
from axe_nb.secrets import find_filter, is_secret_name
from axe_nb.threads import in_thread

HERE = "in this process, because a cassette is in use"

SMALL = 16_000
"""Bytes; a common part of this size travels with each job."""

LOOK = 3.0
"""Seconds without an outcome after which the executor is checked for being alive."""

PATIENCE = 20.0
"""Seconds that it may take to respond."""

CLOSED = "the executor was closed, or no longer responds"

LEFT_BEHIND = "cancelled; its worker may keep running until its timeout"

DEATHS = {
    "BrokenExecutor", "KilledWorker", "EngineError", "CommClosedError", "FutureCancelledError",
}  # fmt: skip
"""Classes of exceptions that are raised when a worker dies."""


def make_runs(batch: Batch, executor: object, concurrency: int) -> Runs:
    """Returns the runs of a batch, in this process or on an executor."""
    # threads of this process would only wait for its event loop
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return Runs(batch, concurrency)
    workers, cassette = _find_workers(executor), batch.session.cassette
    if cassette is not None and find_mode(cassette.mode, can_ask=False) != "live":
        # equal prompts have their answers in the order in which they come, which one place knows
        batch.tally.notes.append(HERE)
        return Runs(batch, concurrency)
    return RemoteRuns(batch, workers, concurrency)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """An executor, behind one interface for all kinds."""

    executor: Executor
    slots: int
    ping: Callable[[], object] = lambda: None
    """Raises, or never returns, if the executor is gone, which its jobs do not report; blocks."""


def _find_workers(executor: object) -> Workers:
    # the first package of the object's classes that is not Python's own
    homes = (kind.__module__.partition(".")[0] for kind in type(executor).__mro__)
    home = next((home for home in homes if home not in ("concurrent", "builtins")), "")
    try:
        if home == "distributed":
            return _use_dask(executor)
        if home == "ipyparallel":
            return _use_ipyparallel(executor)
    except Exception as error:  # of whichever kind of executor
        raise ConfigError(
            f"the executor does not respond: {words(error)}", hint="create a new one"
        ) from None
    if not isinstance(executor, Executor):
        raise ConfigError(
            "executor takes a concurrent.futures.Executor, a Dask client, or an ipyparallel "
            f"client or view, not {shown_value(executor)}"
        )
    return Workers(executor=executor, slots=getattr(executor, "_max_workers", 1))


def _use_dask(given: Any) -> Workers:
    client = getattr(given, "_client", given)  # of its own executor

    def check_open() -> None:
        if client.status in ("closing", "closed"):
            raise ConnectionError("the Dask client is closed")

    check_open()
    return Workers(
        executor=client.get_executor(pure=False),
        slots=sum(client.nthreads().values()) or 1,
        ping=check_open,
    )


def _use_ipyparallel(given: Any) -> Workers:
    view = getattr(given, "view", given)  # of its own executor
    client = getattr(view, "client", view)
    targets = getattr(view, "targets", None)
    chosen = [targets] if isinstance(targets, int) else targets
    is_all = chosen is None or chosen == "all" or set(chosen) == set(client.ids)
    named = list(client.ids) if is_all or chosen is None else list(chosen)
    return Workers(
        # with engines named, one that died is an error for all later jobs
        executor=client.load_balanced_view(targets=None if is_all else named).executor,
        slots=len(named) or 1,
        ping=client.queue_status,
    )


class RemoteRuns(Runs):
    def __init__(self, batch: Batch, workers: Workers, concurrency: int) -> None:
        slots = max(1, min(workers.slots, concurrency))
        self.chunk = math.ceil(concurrency / slots)
        super().__init__(batch, max(1, concurrency // self.chunk))
        self._executor, self._ping = workers.executor, workers.ping
        self._parcel = b""
        self._digest = ""
        self._spare: Executor | None = None
        """Takes the place of a process pool that broke."""
        self._alone = asyncio.Lock()
        self._jobs: set[Future[Any]] = set()
        self._is_halted = self._is_gone = False
        self._pinged_at = 0.0
        self._refused = ""
        """The reason that the executor accepts no more jobs; empty = it accepts them."""

    async def prepare(self) -> None:
        """Packs the common part, and has a worker check that it can run it."""
        if self._parcel:
            return
        for asking in self._batch.askings:
            assert asking.plan is not None
            workdir = str(asking.plan.briefing.workdir)
            asking.overrides = replace(asking.overrides, workdir=workdir)
            await asking.prepare(self._batch.session)
        parcel = make_parcel(self._batch)
        try:
            self._parcel = dump_by_value(parcel)
        except Exception as error:
            raise ConfigError(
                f"the agent cannot be sent to another process: {words(error)}",
                hint="define its functions at the top of a module that the workers can import",
            ) from None
        self._digest = hashlib.sha256(self._parcel).hexdigest()
        _check_secrets(self._parcel)
        job = self._make_job((), with_parcel=True)
        if await self._has_left():
            raise ConfigError(CLOSED, hint="create a new one")
        try:
            future = await in_thread(self._executor.submit, check_worker, job)
            reply = _read(await asyncio.wrap_future(future))
        except Exception as error:
            raise ConfigError(
                f"the workers cannot run axe_nb: {type(error).__name__}: {words(error)}",
                hint="install axe_nb where they run, or create a new executor if this one is shut "
                "down",
            ) from None
        if reply.problem:
            raise ConfigError(f"on a worker: {reply.problem}", hint=reply.hint)

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks in one job; if the map is stopped, the job is left running."""
        batch = self._batch
        left = {task.index: task for task in tasks if not batch.settle(task)}
        if why := batch.find_end():
            batch.stop_for(why)
        elif left:
            try:
                if not await self._run(list(left.values()), left):
                    async with self._alone:
                        for task in list(left.values()):
                            await self._run([task], left, is_last=True)
            finally:
                why = self._refused or LEFT_BEHIND
                for task in left.values():
                    batch.finish(task, batch.make_failed(task, AxeError(why), "cancelled"))

    async def _run(
        self, tasks: Sequence[Task], left: dict[int, Task], *, is_last: bool = False
    ) -> bool:
        """Runs tasks, and removes those with a result from `left`; False = their worker died."""
        if self._refused:
            return True
        executor = self._executor
        if is_last:
            executor = self._spare or self._renew() or executor
        try:
            await self._submit(executor, tasks, left)
        except _Gone as error:
            if error.is_death and not is_last and (self._spare or self._renew()):
                return False
            self._refused = self._refused or str(error)
            self._batch.stop_for(self._refused)
        except Exception as error:
            is_dead = _is_death(error)
            if is_dead and not is_last:
                return False
            if is_dead:
                self.close()
            name = type(error).__name__
            why = f"its worker died twice: {name}" if is_dead else ""
            self._fail(tasks, AxeError(why or f"its job failed: {name}: {words(error)}"), left)
        return True

    def _renew(self) -> Executor | None:
        """Makes a pool for one job at a time, in place of one that broke; None = use the same."""
        if type(pool := self._executor) is ProcessPoolExecutor:
            self._spare = ProcessPoolExecutor(
                1, mp_context=getattr(pool, "_mp_context", None),
                initializer=getattr(pool, "_initializer", None),
                initargs=getattr(pool, "_initargs", ()),
            )  # fmt: skip
        return self._spare

    async def _submit(
        self, executor: Executor, tasks: Sequence[Task], left: dict[int, Task]
    ) -> None:
        """Runs tasks in one job and passes on their results; raises _Gone if it is refused."""
        for with_parcel in (len(self._parcel) <= SMALL, True):
            job = self._make_job(tasks, with_parcel=with_parcel)
            future = await in_thread(self._start, executor, job)
            try:
                reply = _read(await self._wait(future))
            finally:
                self._jobs.discard(future)
            if not reply.is_missing:
                break
        if reply.problem:
            self._fail(tasks, ConfigError(f"on a worker: {reply.problem}", hint=reply.hint), left)
            return
        for task, result in zip(tasks, reply.results, strict=True):
            del left[task.index]
            if result is not None:
                if self._batch.meter is not None:
                    self._batch.meter.add(result)
                self._batch.session.remember(result)
                self._batch.finish(task, result)

    def _fail(self, tasks: Sequence[Task], why: AxeError, left: dict[int, Task]) -> None:
        for task in tasks:
            self._batch.finish(left.pop(task.index), self._batch.make_failed(task, why))

    def _make_job(self, tasks: Sequence[Task], *, with_parcel: bool) -> bytes:
        return pickle.dumps(Job(self._digest, self._parcel if with_parcel else None, tasks))

    def _start(self, executor: Executor, job: bytes) -> Future[Any]:
        """Submits a job; in a thread, as some executors run it there and then."""
        try:
            future = executor.submit(run_job, job)
        except Exception as error:
            why = f"the executor accepts no more jobs: {type(error).__name__}: {words(error)}"
            raise _Gone(why, is_death=_is_death(error)) from None
        self._jobs.add(future)
        if self._is_halted:
            future.cancel()
        return future

    async def _wait(self, future: Future[Any]) -> Any:
        """Returns the outcome of a job; raises _Gone if there will be none."""
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
            raise _Gone(CLOSED)
        return await waiting

    async def _has_left(self) -> bool:
        """True if the executor was closed, or does not respond; checked now and then."""
        now = time.monotonic()
        if now - self._pinged_at < LOOK or self._is_gone:
            return self._is_gone
        self._pinged_at = now
        try:
            await asyncio.wait_for(in_thread(self._ping), PATIENCE)
        except Exception:  # of whichever kind of executor
            self._is_gone = True
        return self._is_gone

    def halt(self) -> None:
        """See `Runs`; jobs in other processes run to their end."""
        self._is_halted = True
        for future in list(self._jobs):
            future.cancel()

    def close(self) -> None:
        """Ends the pool that took the place of a broken one."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(Exception):
                spare.shutdown(wait=False, cancel_futures=True)


class _Gone(Exception):
    """The executor accepts no more jobs, or drops those that it has."""

    def __init__(self, why: str, *, is_death: bool = False) -> None:
        super().__init__(why)
        self.is_death = is_death


def _is_death(error: BaseException) -> bool:
    """True if a job was lost because its worker died."""
    names = [kind.__name__ for kind in type(error).__mro__]
    names.append(getattr(error, "ename", ""))  # of an engine of ipyparallel
    return not DEATHS.isdisjoint(names)


def _read(answer: Any) -> Reply:
    reply = pickle.loads(answer)
    assert isinstance(reply, Reply)
    return reply


def _check_secrets(packed: bytes) -> None:
    """Rejects a job that would carry a secret of this process."""
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
