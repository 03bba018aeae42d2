"""Tracks the current tool call, so that `axe_nb.run` in a tool starts a child run (D-57).

The call is held in a context variable, which tasks and threads of `in_thread` inherit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from axe_nb.errors import AxeError
from axe_nb.tools.tool import ToolContext

_caller: ContextVar[ToolContext | None] = ContextVar("axe_nb_caller")
"""Context of the current tool call; None outside of tools, and unset outside of runs."""


def is_inside() -> bool:
    """True if the current code is called by a run, for example as part of a tool."""
    return _caller.get(...) is not ...


def calling() -> ToolContext | None:
    """Returns the context of the current tool call, or None outside of tools."""
    return _caller.get(None)


def refuse_in_tool(name: str) -> None:
    """Raises AxeError if the current code runs inside a tool.

    `name` is the function of `axe_nb` that was called; its runs would not belong to the tool's run
    tree.
    """
    if calling() is not None:
        step = "use `await ctx.delegate(…)` or `await axe_nb.arun(…)`, which the run's views show"
        raise AxeError(f"axe_nb.{name} was called inside a tool", hint=step)


@contextmanager
def inside_run(caller: ToolContext | None = None) -> Iterator[None]:
    """Marks the block as part of a run, or as part of a tool call if `caller` is its context."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)
