"""The executors that maps run on: those of `concurrent.futures`, Dask, ipyparallel.

Each is used as a `concurrent.futures.Executor` to which jobs are submitted one by one.
Source: product.md "Exploring"; cluster-facts.md §2-4.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError, words
from axe_nb.threads import in_thread


@dataclass(frozen=True, kw_only=True)
class Workers:
    """An executor, and what differs from one kind to the other."""

    executor: Executor
    slots: int
    """Jobs that it runs at once."""
    dumps: Callable[[Any], bytes] | None
    """Pickles a job; None = its workers are threads of this process."""
    ask_all: Callable[[Callable[..., Any], Any], Iterable[Any]] | None = None
    """(function, argument) → what it returns on each worker; blocks. None = any one is asked."""

    ping: Callable[[], object] | None = None
    """Raises, or never returns, if the executor is gone, which its jobs do not tell; blocks."""

    async def check(self, function: Callable[..., Any], argument: Any) -> list[Any]:
        """Calls a function on each worker, or on one where they cannot be told apart."""
        if self.ask_all is not None:
            return list(await in_thread(self.ask_all, function, argument))
        future = await in_thread(self.executor.submit, function, argument)
        return [await asyncio.wrap_future(future)]

    def renew(self) -> Executor | None:
        """Returns a pool for one job at a time, in place of one that broke; None = use the same."""
        pool = self.executor
        if type(pool) is not ProcessPoolExecutor:
            return None
        return ProcessPoolExecutor(
            1, mp_context=getattr(pool, "_mp_context", None),
            initializer=getattr(pool, "_initializer", None),
            initargs=getattr(pool, "_initargs", ()),
        )  # fmt: skip


def find_workers(executor: object) -> Workers:
    """Returns the workers of what was passed as `executor`.

    Raises:
        ConfigError: it is none of the kinds that are known.
    """
    home = _find_home(executor)
    try:
        if home == "distributed":
            return _use_dask(executor)
        if home == "ipyparallel":
            return _use_ipyparallel(executor)
    except ConfigError:
        raise
    except Exception as error:  # of whichever kind of executor
        raise ConfigError(
            f"the executor does not respond: {words(error)}", hint="create a new one"
        ) from None
    if not isinstance(executor, Executor):
        raise ConfigError(
            "executor takes a concurrent.futures.Executor, a Dask client, or an ipyparallel "
            f"client or view, not {shown_value(executor)}"
        )
    slots = getattr(executor, "_max_workers", 1)
    if isinstance(executor, ThreadPoolExecutor):
        return Workers(executor=executor, slots=slots, dumps=None)
    return Workers(executor=executor, slots=slots, dumps=_dumps)


def _find_home(executor: object) -> str:
    """The first package of the object's classes that is not Python's own."""
    homes = (kind.__module__.partition(".")[0] for kind in type(executor).__mro__)
    return next((home for home in homes if home not in ("concurrent", "builtins")), "")


def _dumps(job: Any) -> bytes:
    """Pickles functions of a notebook by value; those that refer to what cannot travel, by name."""
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(job)
    except Exception:  # of whatever the functions refer to
        dumped = pickle.dumps(job)
    return dumped


def _use_dask(given: Any) -> Workers:
    client = getattr(given, "_client", given)  # of its own executor
    if getattr(client, "asynchronous", False):
        raise ConfigError(
            "executor does not take an asynchronous Dask client",
            hint="create the client without asynchronous=True",
        )
    _check_open(client)
    return Workers(
        executor=client.get_executor(pure=False),
        slots=sum(client.nthreads().values()) or 1,
        dumps=_dumps,
        ask_all=lambda function, argument: client.run(function, argument).values(),
        ping=partial(_check_open, client),
    )


def _check_open(client: Any) -> None:
    """Raises ConnectionError if a Dask client was closed."""
    if client.status in ("closing", "closed"):
        raise ConnectionError("the Dask client is closed")


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
        dumps=_dumps,
        ask_all=client[named].apply_sync,
        ping=client.queue_status,
    )


DEATHS = {
    "BrokenExecutor", "KilledWorker", "EngineError", "CommClosedError", "FutureCancelledError",
}  # fmt: skip
"""Classes of the exceptions that tell of a worker that died."""


def is_death(error: BaseException) -> bool:
    """True if a job was lost because its worker died."""
    names = [kind.__name__ for kind in type(error).__mro__]
    names.append(getattr(error, "ename", ""))  # of an engine of ipyparallel
    return not DEATHS.isdisjoint(names)
