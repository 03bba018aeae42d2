"""Runs some prompts of a map in a worker process: the functions that executors call there.

All that goes in and out is bytes, so that every executor carries it alike; no exception of ours
leaves a worker, as some executors lose what it says, or die of it.
Source: product.md "Exploring"; cluster-facts.md §2-4.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.maps.batch import Batch
from axe_nb.maps.drives import DriveBlocking
from axe_nb.maps.local import LocalRuns
from axe_nb.maps.parcel import Parcel, find_version
from axe_nb.maps.progress import Progress
from axe_nb.maps.tasks import Prompts, Task
from axe_nb.results import RunResult
from axe_nb.session.drive import NoLine
from axe_nb.session.portal import run_and_wait

KEPT = 8
"""Maps whose common part a worker keeps, those used last."""

_batches: OrderedDict[str, Batch] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Job:
    """Some prompts of a map, which run at once in one worker."""

    digest: str
    """Hash of the common part."""
    parcel: Any
    """The common part: pickled, a `Parcel` in the same process; None = the worker has it."""
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a job; one of the fields is set."""

    results: Sequence[RunResult | None] = ()
    """In the order of the tasks; None = the run did not begin."""
    is_missing: bool = False
    """True if the worker needs the common part."""
    problem: str = ""
    """The reason that none of its runs could begin."""
    hint: str = ""


def check_worker(job: bytes | Job) -> bytes | Reply:
    """Checks that a worker can run a map; its reply has the problem, if there is one."""
    return _answer(job, lambda batch, tasks: Reply())


def run_job(job: bytes | Job) -> bytes | Reply:
    """Runs the tasks of a job, and returns its `Reply`."""
    return _answer(job, _run)


def _answer(job: bytes | Job, work: Any) -> bytes | Reply:
    if isinstance(job, Job):
        return _reply(job, work)
    try:
        reply = _reply(pickle.loads(job), work)
    except Exception as error:  # a function or type that cannot be imported here
        why = f"{type(error).__name__}: {words(error)}"
        hint = "define it in a module that the workers can import"
        reply = Reply(problem=f"the job cannot be loaded there: {why}", hint=hint)
    try:
        return pickle.dumps(reply)
    except Exception:  # data of a type that was defined in a notebook
        return _dump_by_value(reply)


def _dump_by_value(reply: Reply) -> bytes:
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(reply)
    except Exception:  # data of a type that cannot be pickled
        results = [one and replace(one, data=jsonable(one.data)) for one in reply.results]
        dumped = pickle.dumps(replace(reply, results=results))
    return dumped


def _reply(job: Job, work: Any) -> Reply:
    try:
        batch = _find_batch(job)
        return Reply(is_missing=True) if batch is None else work(batch, job.tasks)
    except AxeError as error:
        return Reply(problem=error.message, hint=error.hint)


def _find_batch(job: Job) -> Batch | None:
    """Returns the map of a job, ready to run; None = its common part is not here.

    Raises:
        ConfigError: it cannot run here: a key, a script or a folder is missing.
    """
    with _lock:
        batch = _batches.get(job.digest)
        if batch is None:
            if job.parcel is None:
                return None
            whole = isinstance(job.parcel, Parcel)
            parcel = job.parcel if whole else pickle.loads(job.parcel)
            if parcel.version != find_version():
                raise ConfigError(
                    f"it has axe_nb {find_version()}, not {parcel.version}",
                    hint="install the same version everywhere",
                )
            batch = parcel.make_batch()
            run_and_wait(batch.prepare())
            _batches[job.digest] = batch
            while len(_batches) > KEPT:
                _batches.popitem(last=False)
        _batches.move_to_end(job.digest)
        return batch


def _run(batch: Batch, tasks: Sequence[Task]) -> Reply:
    own = replace(batch, tally=replace(batch.tally, statuses=batch.tally.statuses.copy()))
    runs = LocalRuns(own, len(tasks))
    drive = DriveBlocking(own, Prompts(list(tasks)), runs, Progress(own.tally, NoLine()))
    with closing(drive.run()) as ended:
        found = dict(ended)
    return Reply(results=[found.get(position) for position in range(len(tasks))])
