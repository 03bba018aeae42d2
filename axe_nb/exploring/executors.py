"""Runs the tasks of a map on the workers of an executor, several tasks per job.

An executor is one from `concurrent.futures`, a Dask client, or an ipyparallel client or view. A job
calls `run_job`, whose argument and result are bytes, which every executor can transport. A job
returns its errors, because some executors lose the message of a raised error, or crash on it.
Agents, skills and context files are read before the map begins and sent to the workers, with script
models and tools. Keys and settings are not sent: each worker reads its own environment and
`config.toml`.

If a worker dies, the tasks of its job fail; a resume file has them asked again. Source: D-53, D-59.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import pickle
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.names import parse_model
from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import provider_for
from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.exploring.map_driver import Asking, Batch, Driver, MapSession, Runs, Tally, Task
from axe_nb.providers.prices import Prices
from axe_nb.recording.modes import find_mode
from axe_nb.results import RunResult, Status
from axe_nb.scripting.rules import Script, ScriptFunction, Scripts
from axe_nb.secrets import find_filter, is_secret_name
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import run_and_wait
from axe_nb.session.snapshot import Read, Snapshot
from axe_nb.text import shown_value
from axe_nb.threads import in_thread
from axe_nb.tools.tool import Tool

VERSION = str(vars(sys.modules["axe_nb"])["__version__"])

LOOK = 3.0
"""Seconds without a reply after which the executor is checked."""

CLOSED = "the executor was closed, or no longer responds"


def make_runs(batch: Batch, executor: object, concurrency: int) -> Runs:
    # threads of this process would only wait for its event loop
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return Runs(batch, concurrency)
    found, slots, ping = _find_workers(executor)
    cassette = batch.session.cassette
    if cassette is not None and find_mode(cassette.mode, can_ask=False) != "live":
        # a cassette answers equal prompts in the order in which they come: in one process only
        batch.tally.notes.append("in this process, because a cassette is in use")
        return Runs(batch, concurrency)
    chunk = math.ceil(concurrency / max(1, min(slots, concurrency)))
    return RemoteRuns(batch, found, ping, chunk, max(1, concurrency // chunk))


def _find_workers(given: Any) -> tuple[Executor, int, Callable[[], object]]:
    """Returns an executor, its number of workers, and a function that checks whether it is alive.

    Dask and ipyparallel jobs do not report that their executor is lost; the function then raises
    an exception or never returns. For other executors, the function does nothing.
    """
    # the first package of the object's classes that is not part of Python
    homes = (kind.__module__.partition(".")[0] for kind in type(given).__mro__)
    home = next((home for home in homes if home not in ("concurrent", "builtins")), "")
    try:
        if home == "distributed":
            dask = getattr(given, "_client", given)  # Dask's own executor

            def check_open() -> None:
                if dask.status in ("closing", "closed"):
                    raise ConnectionError("the Dask client is closed")

            check_open()
            slots = sum(dask.nthreads().values())
            return dask.get_executor(pure=False), slots, check_open
        if home == "ipyparallel":
            view = getattr(given, "view", given)  # ipyparallel's own executor
            client, targets = getattr(view, "client", view), getattr(view, "targets", None)
            chosen = [targets] if isinstance(targets, int) else targets
            if chosen is None or chosen == "all" or set(chosen) == set(client.ids):
                chosen = None  # with a list of engines, a dead one would make all later jobs fail
            slots = len(client.ids if chosen is None else chosen)
            return client.load_balanced_view(chosen).executor, slots, client.queue_status
    except Exception as error:  # executors have error classes of their own
        raise ConfigError(
            f"the executor does not respond: {words(error)}", hint="create a new one"
        ) from None
    if not isinstance(given, Executor):
        raise ConfigError(
            "executor takes a concurrent.futures.Executor, a Dask client, or an ipyparallel "
            f"client or view, not {shown_value(given)}"
        )
    return given, getattr(given, "_max_workers", 1), lambda: None


class RemoteRuns(Runs):
    def __init__(
        self, batch: Batch, executor: Executor, ping: Callable[[], object], chunk: int, jobs: int
    ) -> None:
        super().__init__(batch, jobs)
        self.chunk = chunk
        self._executor, self._ping = executor, ping
        self._shared = b""
        self._digest = ""
        self._jobs: set[Future[Any]] = set()
        self._is_halted = self._is_gone = False
        self._pinged_at = 0.0
        self._refused = ""
        """Why the executor accepts no more jobs; empty while it accepts them."""

    async def prepare(self) -> None:
        """Pickles the part that all jobs share, and has a worker check that it can run the map."""
        await super().prepare()
        for asking in self._batch.askings:
            workdir = str(asking.plan.briefing.workdir)
            asking.overrides = replace(asking.overrides, workdir=workdir)
            await asking.prepare(self._batch.session)
        shared = make_shared_part(self._batch)
        try:
            packed = _dump_by_value(shared)
        except Exception as error:
            raise ConfigError(
                f"the agent cannot be sent to another process: {words(error)}",
                hint="define its functions at the top of a module that the workers can import",
            ) from None
        forms = (form for form in find_filter().forms if form.encode(errors="replace") in packed)
        if secret := next(forms, None):
            names = (name for name, value in os.environ.items() if secret in value)
            name = next(filter(is_secret_name, names), "")
            raise ConfigError(
                f"{f'the value of {name}' if name else 'a key'} would be sent with the jobs: it is "
                "in an agent, an option or a setting",
                hint="remove it from there; workers read keys from their own environment",
            )
        self._shared, self._digest = packed, hashlib.sha256(packed).hexdigest()
        if await self._has_left():
            raise ConfigError(CLOSED, hint="create a new one")
        try:
            reply = await self._send([])
        except Exception as error:  # executors have error classes of their own
            raise ConfigError(
                f"the workers cannot run axe_nb: {words(error)}",
                hint="install axe_nb where they run, or create a new executor if this one is shut "
                "down",
            ) from None
        if isinstance(reply, ConfigError):
            raise reply

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks as one job. Stopping the map does not stop a job that a worker has begun."""
        tasks = [task for task in tasks if not self._batch.settle(task)]
        if not tasks or self._batch.is_spent():
            return
        try:
            await self._run_job(tasks)
        finally:
            why = self._refused or "cancelled; its worker may keep running until its timeout"
            self._fail(tasks, AxeError(why), "cancelled")

    async def _run_job(self, tasks: Sequence[Task]) -> None:
        if self._refused:
            return
        try:
            reply = await self._send(tasks)
        except _Gone as error:
            self._refused = self._refused or str(error)
            self._batch.stop_for(self._refused)
            return
        except Exception as error:  # executors have error classes of their own
            why = f"its job failed: {type(error).__name__}: {words(error)}"
            self._fail(tasks, AxeError(why))
            return
        if isinstance(reply, ConfigError):
            self._fail(tasks, reply)
            return
        for task, result in zip(tasks, reply, strict=True):
            if result is not None:
                if self._batch.meter is not None:
                    self._batch.meter.add(result)
                self._batch.session.remember(result)
                self._batch.finish(task, result)

    def _fail(self, tasks: Sequence[Task], why: AxeError, status: Status = "error") -> None:
        for task in tasks:
            if task.result is None:
                self._batch.finish(task, self._batch.make_failed(task, why, status))

    async def _send(self, tasks: Sequence[Task]) -> list[RunResult | None] | ConfigError:
        """Submits a job, and returns its results or the error that kept it from running.

        The result of a run that did not begin is None. Raises _Gone if the executor refuses or
        loses the job.
        """

        def submit(job: bytes) -> Future[Any]:
            try:
                future = self._executor.submit(run_job, job)
            except Exception as error:
                name = type(error).__name__
                raise _Gone(f"the executor accepts no more jobs: {name}: {words(error)}") from error
            self._jobs.add(future)
            if self._is_halted:
                future.cancel()
            return future

        prompts = [(task.asking, task.text, task.pictures) for task in tasks]
        reply: list[RunResult | None] | ConfigError | None = None
        # if larger than 16 kB, it is only sent to workers that lack it, which reply with None
        with_shared = len(self._shared) <= 16_000 or not tasks
        while reply is None:
            job = pickle.dumps((self._digest, self._shared if with_shared else None, prompts))
            with_shared = True
            future = await in_thread(submit, job)  # some executors run it at once
            waiting = asyncio.wrap_future(future)
            try:
                while not (await asyncio.wait([waiting], timeout=LOOK))[0]:
                    if await self._has_left():
                        waiting.cancel()
                if waiting.cancelled() and not self._is_halted:
                    raise _Gone(CLOSED)
                reply = pickle.loads(await waiting)
            finally:
                waiting.cancel()
                self._jobs.discard(future)
        return reply

    async def _has_left(self) -> bool:
        """True if the executor is closed or unresponsive; checked at most every `LOOK` seconds."""
        now = time.monotonic()
        if now - self._pinged_at >= LOOK and not self._is_gone:
            self._pinged_at = now
            try:
                await asyncio.wait_for(in_thread(self._ping), 20.0)
            except Exception:  # executors have error classes of their own
                self._is_gone = True
        return self._is_gone

    def halt(self) -> None:
        self._is_halted = True
        for future in list(self._jobs):
            future.cancel()


class _Gone(Exception):
    """Raised if the executor accepts no more jobs, or has dropped submitted jobs."""


@dataclass(frozen=True, kw_only=True)
class SharedPart:
    askings: tuple[tuple[str | Agent | None, Overrides], ...]
    defined: Mapping[str, Agent]
    read: Read
    tools: tuple[Tool, ...]
    scripts: Mapping[str, ScriptFunction | Script]
    version: str


def make_shared_part(batch: Batch) -> SharedPart:
    assert batch.session.settings is not None
    _, snapshot = batch.session.settings
    plans = [asking.plan for asking in batch.askings]
    agents = [plan.agent for plan in plans]
    for plan in plans:
        agents += [below[0] for below in plan.scope.env.walk_below((plan.agent,))]
    tools = {name for agent in agents for name in agent.tools}
    needed = {name for agent in agents for name in agent.sub_agents}
    needed |= {asking.agent for asking in batch.askings if isinstance(asking.agent, str)}
    models = {agent.model for agent in agents}
    for asking in batch.askings:
        models |= {asking.overrides.model or "", asking.overrides.model_all or ""} - {""}
    scripts: dict[str, ScriptFunction | Script] = {}
    for provider, name in map(parse_model, models):
        if provider == "script":
            known: Scripts = snapshot.provider_for(provider, name).scripts  # type: ignore[attr-defined]
            scripts[name] = known.find(name)
    return SharedPart(
        askings=tuple((asking.agent, asking.overrides) for asking in batch.askings),
        defined={name: agent for name, agent in snapshot.defined.items() if name in needed},
        read=snapshot.read,
        tools=tuple(tool for name in sorted(tools) if (tool := batch.session.tools.find(name))),
        scripts=scripts, version=VERSION,
    )  # fmt: skip


def _dump_by_value(thing: Any) -> bytes:
    """Pickles an object; functions and types from a notebook are included by value if possible."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(thing))
    except Exception:  # raised by values that its functions refer to
        return pickle.dumps(thing)


# everything below runs in a worker

_batches: OrderedDict[str, Batch] = OrderedDict()
"""Digest of a map's shared part → its batch, for the eight most recently used maps."""
_lock = threading.Lock()


def run_job(packed: bytes) -> bytes:
    """Runs a job in a worker, and returns its reply. A job without tasks only prepares the map.

    A job is a pickled tuple of the shared part's digest, the shared part or None, and a tuple
    (asking, text, pictures) for each task.
    """
    try:
        digest, shared, prompts = pickle.loads(packed)
        with _lock:
            if digest not in _batches and shared is not None:
                _batches[digest] = _make_batch(pickle.loads(shared))
            if digest not in _batches:
                return pickle.dumps(None)
            batch = _batches[digest]
            _batches.move_to_end(digest)
            while len(_batches) > 8:
                _batches.popitem(last=False)
        own = replace(batch, tally=Tally("worker"), results={})
        tasks = [Task(asking=asking, text=text, pictures=p) for asking, text, p in prompts]
        driver = Driver(own, tasks, Runs(own, max(1, len(tasks))))
        with contextlib.closing(driver.iterate()) as ended:
            found = {one.index: one.result for one in ended}
        results = [found.get(index) for index in range(len(tasks))]
    except AxeError as error:
        return pickle.dumps(ConfigError(f"on a worker: {error.message}", hint=error.hint))
    except Exception as error:  # a function or type that cannot be imported here
        why = f"{type(error).__name__}: {words(error)}"
        problem = f"on a worker: the job cannot be loaded there: {why}"
        hint = "define it in a module that the workers can import"
        return pickle.dumps(ConfigError(problem, hint=hint))
    return _dump_by_value(results)  # results may have types of a notebook


def _make_batch(shared: SharedPart) -> Batch:
    """Builds a map's batch in a worker, with a new session and the worker's own settings."""
    if shared.version != VERSION:
        raise ConfigError(
            f"it has axe_nb {VERSION}, not {shared.version}",
            hint="install the same version everywhere",
        )
    config = Config.load()
    askings = [Asking(agent, overrides) for agent, overrides in shared.askings]
    provider = provider_for(config, sent=shared.scripts)
    agents_dir = askings[0].overrides.agents_dir
    snapshot = Snapshot(shared.defined, agents_dir, provider, Prices(config), shared.read)
    session = MapSession(
        agents=dict(shared.defined), handed=shared.tools, keeps_history=False,
        settings=(config, snapshot),
    )  # fmt: skip
    batch = Batch(askings=askings, session=session, tally=Tally(""), checks=False)
    run_and_wait(batch.prepare())
    return batch
