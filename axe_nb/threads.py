"""Runs blocking functions in daemon threads, which delay neither the event loop nor exit.

The default executor would do both: it has few workers, and exit waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], /, *args: Any) -> T:
    """Calls the function in a thread; if the wait is cancelled, its outcome is discarded."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            set_outcome(outcome)

    def work() -> None:
        try:
            done: tuple[Callable[[Any], None], object] = (
                future.set_result,
                context.run(function, *args),
            )
        except (StopIteration, GeneratorExit) as error:
            # a future cannot hold the first, and the second closes every coroutine that awaits it
            fault = RuntimeError(f"{type(error).__name__}: {error}")
            done = (future.set_exception, fault)
        except BaseException as error:
            done = (future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
            loop.call_soon_threadsafe(settle, *done)

    threading.Thread(target=work, name="axe-nb-call", daemon=True).start()
    return await future


@contextlib.contextmanager
def without_group() -> Iterator[None]:
    """Re-raises the exception that stopped a task group, as its tasks raise only RunStopped."""
    try:
        yield
    except BaseExceptionGroup as stops:
        raise stops.exceptions[0] from None
