"""Runs blocking functions in daemon threads, which block neither the event loop nor exit.

The event loop's default executor has few workers, and the interpreter waits for them at exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_normal: list[tuple[int, int, int]] = []
"""Thresholds of the garbage collector, once for each `rare_full_collections` block in progress."""


async def in_thread(function: Callable[..., T], /, *args: Any) -> T:
    """Calls a function in a new thread, and returns its result. Cancelling discards the result."""
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
            # a future cannot hold StopIteration, and GeneratorExit would close awaiting coroutines
            done = (future.set_exception, RuntimeError(f"{type(error).__name__}: {error}"))
        except BaseException as error:
            done = (future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no one awaits the outcome
            loop.call_soon_threadsafe(settle, *done)

    threading.Thread(target=work, name="axe-nb-call", daemon=True).start()
    return await future


@contextlib.contextmanager
def without_group() -> Iterator[None]:
    """Replaces an exception group raised in the block with the first exception in the group."""
    try:
        yield
    except BaseExceptionGroup as stops:
        raise stops.exceptions[0] from None


@contextlib.contextmanager
def rare_full_collections() -> Iterator[None]:
    """Makes full garbage collections ten times rarer within the block.

    Hundreds of simultaneous runs have many objects but no garbage, and scanning the objects would
    take a fifth of the CPU time.
    """
    _normal.append(_normal[0] if _normal else gc.get_threshold())
    young, middle, old = _normal[0]
    gc.set_threshold(young, middle, old * 10)
    try:
        yield
    finally:
        normal = _normal.pop()
        if not _normal:
            gc.set_threshold(*normal)
