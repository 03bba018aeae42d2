"""The tool call that the current code belongs to, which `axe_nb.run` in a tool starts a child of.

A tool may ignore its context; code that it calls, even in a thread that inherits its context
variables, still belongs to the call.
Source: D-57.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError
from axe_nb.results import RunResult
from axe_nb.tools.tool import Job, ToolContext

StartBelow: TypeAlias = Callable[[Job, Env], Coroutine[Any, Any, RunResult]]
"""(job, dependencies of the child and its descendants) → the child's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A tool call in progress."""

    context: ToolContext
    env: Env
    """Dependencies of its run."""
    start: StartBelow
    """Runs a child; may be awaited on any event loop."""


_caller: ContextVar[Caller | None] = ContextVar("axe_nb_caller")
"""Unset = no code of a run; None = code of a run, such as its model, but of none of its tools."""


def _leave_run() -> None:
    global _caller
    _caller = ContextVar("axe_nb_caller")


if hasattr(os, "register_at_fork"):  # in a forked process, nothing carries out the run any more
    os.register_at_fork(after_in_child=_leave_run)


def is_inside() -> bool:
    """True if the current code was called by a run, from one of its tools or models."""
    return _caller.get(...) is not ...


def calling() -> Caller | None:
    """The tool call that the current code belongs to; None outside of tools."""
    return _caller.get(None)


def refuse_in_tool(name: str) -> None:
    """Refuses a function whose runs would be no part of the tree of a tool that calls it.

    Raises:
        AxeError: a tool calls it.
    """
    if calling() is not None:
        raise AxeError(
            f"axe_nb.{name} was called inside a tool",
            hint="use `await ctx.delegate(…)` or `await axe_nb.arun(…)`, which the run's views "
            "show",
        )


class InsideRun:
    """Context manager for code of a run; hides the calls of enclosing runs."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _caller.set(None)

    def __exit__(self, *_: object) -> None:
        _caller.reset(self._before)


def enter_call(caller: Caller) -> None:
    """Marks the rest of the current task as part of a tool call."""
    _caller.set(caller)
