"""The current tool call, so that `axe_nb.run` inside a tool starts a child of its run (D-57).

A context variable holds the call, which threads inherit with the context of the tool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from axe_nb.errors import AxeError
from axe_nb.tools.tool import ToolContext

_caller: ContextVar[ToolContext | None] = ContextVar("axe_nb_caller")
"""The current call; unset = outside of runs, None = in a run, but outside of tools."""


def _leave_run() -> None:
    global _caller
    _caller = ContextVar("axe_nb_caller")


if hasattr(os, "register_at_fork"):  # a forked process does not continue the run
    os.register_at_fork(after_in_child=_leave_run)


def is_inside() -> bool:
    """True if the current code was called by a run, from one of its tools or models."""
    return _caller.get(...) is not ...


def calling() -> ToolContext | None:
    """Returns the tool call that the current code belongs to; None outside of tools."""
    return _caller.get(None)


def refuse_in_tool(name: str) -> None:
    """Raises AxeError inside a tool, whose tree would not include runs of function `name`."""
    if calling() is not None:
        step = "use `await ctx.delegate(…)` or `await axe_nb.arun(…)`, which the run's views show"
        raise AxeError(f"axe_nb.{name} was called inside a tool", hint=step)


@contextmanager
def inside_run(caller: ToolContext | None = None) -> Iterator[None]:
    """Marks the block as code of a run, or of one of its tools; hides enclosing runs."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)
