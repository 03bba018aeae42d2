"""Which run, if any, the code at hand was called by: how `axe_nb.run` in a tool finds its parent.

A tool is called with a context and may ignore it; what it calls in turn, also in a thread that
inherits its context variables, still belongs to the run.
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
    """The tool call that is under way."""

    context: ToolContext
    loop: asyncio.AbstractEventLoop
    """The event loop of its run."""


_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("axe_nb_inside", default=False)
_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("axe_nb_call", default=None)


def is_inside() -> bool:
    """Whether the caller was called by a run: by one of its tools or models."""
    return _is_inside.get()


def calling() -> Caller | None:
    """The tool call that the caller belongs to; None outside of tools."""
    return _caller.get()


@contextmanager
def inside_run() -> Iterator[None]:
    """A block that belongs to a run, and to none of the calls above it."""
    inside, caller = _is_inside.set(True), _caller.set(None)
    try:
        yield
    finally:
        _caller.reset(caller)
        _is_inside.reset(inside)


def enter_call(context: ToolContext) -> None:
    """Marks the rest of the current task as part of a tool call."""
    _caller.set(Caller(context, asyncio.get_running_loop()))
