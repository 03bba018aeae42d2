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
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.maps.batch import Batch
from axe_nb.maps.executors import Workers, is_death
from axe_nb.maps.parcel import make_parcel
from axe_nb.maps.tasks import Task
from axe_nb.maps.worker import Job, Reply, check_worker, run_job
from axe_nb.redaction import find_filter, is_secret_name
from axe_nb.session.runs import RunRequest

SMALL = 16_000
"""Bytes; a common part of this size travels with each job."""

LEFT_BEHIND = "cancelled; its worker may go on until its timeout"


class RemoteRuns:
    """The jobs in progress."""

    def __init__(
        self, batch: Batch, workers: Workers, concurrency: int, given: Mapping[str, Any]
    ) -> None:
        """Creates it; nothing is submitted yet.

        Args:
            batch: the map.
            workers: the executor.
            concurrency: maximum runs at once.
            given: the options of the runs, as keywords.
        """
        slots = max(1, min(workers.slots, concurrency))
        self.chunk = math.ceil(concurrency / slots)
        self.workers = max(1, concurrency // self.chunk)
        self._batch, self._workers, self._given = batch, workers, dict(given)
        self._parcel: Any = None
        self._digest = ""
        self._spare: Executor | None = None
        """Takes the place of a pool that broke."""
        self._alone = asyncio.Lock()
        self._jobs: set[Future[Any]] = set()

    async def prepare(self) -> None:
        """Packs the common part, and has the workers check that they can run it.

        Raises:
            ConfigError: it cannot travel, or a worker lacks something, such as a key.
        """
        if self._parcel is not None:
            return
        batch = self._batch
        assert batch.plan is not None
        workdir = str(batch.plan.briefing.workdir.real)
        self._given["workdir"] = workdir
        batch.overrides = replace(batch.overrides, workdir=workdir)
        overrides = replace(batch.overrides, timeout=None)
        await batch.session.plan(RunRequest(agent=batch.agent, overrides=overrides))
        parcel = make_parcel(batch, self._given)
        self._parcel = parcel if self._workers.dumps is None else self._pack(parcel)
        self._digest = hashlib.sha256(self._parcel).hexdigest() if self._workers.dumps else ""
        self._digest = self._digest or f"{os.getpid()} {id(parcel)}"
        await self._check()

    def _pack(self, parcel: Any) -> bytes:
        assert self._workers.dumps is not None
        try:
            packed = self._workers.dumps(parcel)
        except Exception as error:
            raise ConfigError(
                f"the agent cannot be sent to another process: {words(error)}",
                hint="define its functions at the top of a module that the workers can import, or "
                "use Dask, ipyparallel or loky, which send functions of a notebook",
            ) from None
        _check_secrets(packed, self._batch.session.settings[0].providers)
        return packed

    async def _check(self) -> None:
        job = self._make_job((), with_parcel=True)
        try:
            answers = await self._workers.check(check_worker, job)
        except Exception as error:
            raise ConfigError(
                f"the workers cannot run axe_nb: {type(error).__name__}: {words(error)}",
                hint="install axe_nb where they run",
            ) from None
        for answer in answers:
            reply = _read(answer)
            if reply.problem:
                raise ConfigError(f"on a worker: {reply.problem}", hint=reply.hint)

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks in one job.

        Raises:
            asyncio.CancelledError: the map was stopped; its running jobs are left behind.
        """
        batch = self._batch
        left = [task for task in tasks if not batch.find_kept(task)]
        if why := batch.find_end():
            batch.stop_for(why)
            return
        if not left:
            return
        try:
            reply = await self._ask(left)
        except asyncio.CancelledError:
            for task in left:
                batch.finish(task, batch.make_failed(task, AxeError(LEFT_BEHIND), "cancelled"))
            raise
        except Exception as error:
            for task in left:
                batch.finish(task, batch.make_failed(task, _explain(error)))
            return
        self._receive(left, reply)

    def _receive(self, tasks: Sequence[Task], reply: Reply) -> None:
        if reply.problem:
            problem = ConfigError(f"on a worker: {reply.problem}", hint=reply.hint)
            for task in tasks:
                self._batch.finish(task, self._batch.make_failed(task, problem))
            return
        for task, result in zip(tasks, reply.results, strict=True):
            if result is not None:
                if self._batch.meter is not None:
                    self._batch.meter.add(result)
                self._batch.session.remember(result)
                self._batch.finish(task, result)

    async def _ask(self, tasks: Sequence[Task]) -> Reply:
        try:
            return await self._submit(self._workers.executor, tasks)
        except Exception as error:
            if not is_death(error):
                raise
        async with self._alone:
            replies = [await self._ask_alone(task) for task in tasks]
        return Reply(results=[result for reply in replies for result in reply.results])

    async def _ask_alone(self, task: Task) -> Reply:
        self._spare = self._spare or self._workers.renew()
        try:
            return await self._submit(self._spare or self._workers.executor, [task])
        except Exception as error:
            if is_death(error) and self._spare is not None:
                self._spare.shutdown(wait=False)
                self._spare = None
            result = self._batch.make_failed(task, _explain(error))
            return Reply(results=[result])

    async def _submit(self, executor: Executor, tasks: Sequence[Task]) -> Reply:
        small = not isinstance(self._parcel, bytes) or len(self._parcel) <= SMALL
        for with_parcel in (small, True):
            job = self._make_job([task.prompt for task in tasks], with_parcel=with_parcel)
            future = executor.submit(run_job, job)
            self._jobs.add(future)
            try:
                reply = _read(await asyncio.wrap_future(future))
            finally:
                self._jobs.discard(future)
            if not reply.is_missing:
                break
        return reply

    def _make_job(self, prompts: Sequence[object], *, with_parcel: bool) -> Any:
        job = Job(self._digest, self._parcel if with_parcel else None, prompts)
        return job if self._workers.dumps is None else pickle.dumps(job)

    def halt(self) -> None:
        """See `drives.Runs`: jobs that run in other processes go on to their end."""
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
        f"{what} would travel with the jobs: it is in an agent, an option or a setting",
        hint="leave it out there; workers read keys of their own environment",
    )
