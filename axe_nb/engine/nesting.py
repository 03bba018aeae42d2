"""The run that the current code belongs to, which `axe_nb.run` in a tool uses as the parent.

A tool may ignore its context; code that it calls, even in a thread that inherits its context
variables, still belongs to the run.
Source: D-57.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from axe_nb.tools.tool import ToolContext


@dataclass(frozen=True, slots=True)
class Caller:
    """A tool call in progress."""

    context: ToolContext
    loop: asyncio.AbstractEventLoop
    """The event loop of its run."""


_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("axe_nb_inside", default=False)
_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("axe_nb_call", default=None)


def is_inside() -> bool:
    """True if the current code was called by a run, from one of its tools or models."""
    return _is_inside.get()


def calling() -> Caller | None:
    """The tool call that the current code belongs to; None outside of tools."""
    return _caller.get()


@contextmanager
def inside_run() -> Iterator[None]:
    """Context manager for code of a run; hides the calls of enclosing runs."""
    inside, caller = _is_inside.set(True), _caller.set(None)
    try:
        yield
    finally:
        _caller.reset(caller)
        _is_inside.reset(inside)


def enter_call(context: ToolContext) -> None:
    """Marks the rest of the current task as part of a tool call."""
    _caller.set(Caller(context, asyncio.get_running_loop()))
