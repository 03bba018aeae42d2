"""The tools that an agent can name: built-in, delegation, session and its own tools.

Source: D-19, D-20, D-44.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from axe_nb.agents.agent import Agent
from axe_nb.builtin import table as builtin
from axe_nb.delegation import table as delegation
from axe_nb.errors import ConfigError
from axe_nb.text import quote
from axe_nb.tools.python_tool import make_tool, tool_of
from axe_nb.tools.registry import Registry, ToolTable
from axe_nb.tools.tool import Effect, Tool

F = TypeVar("F", bound=Callable[..., Any])

BUILT_IN = Registry((builtin.SOURCE, delegation.SOURCE))
"""The tools that come with axe_nb, whose names are reserved."""

SESSION = ToolTable()
"""The tools of this process made by `@axe_nb.tool`."""

REGISTRY = Registry((*BUILT_IN.sources, SESSION))
"""The tools that any agent can name."""


def registry_of(agent: Agent, handed: Sequence[Tool] = ()) -> Registry:
    """The tools that an agent can name: its own, those of its run, then the registered ones.

    Raises:
        ConfigError: a function of the agent cannot be used as a tool.
    """
    own = {name: tool_of(thing) for name, thing in agent.own_tools.items()}
    return REGISTRY.with_tools({**{tool.name: tool for tool in handed}, **own})


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, name: str = "", read_only: bool = False, writes: bool = False, record: bool = False
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    read_only: bool = False,
    writes: bool = False,
    record: bool = False,
) -> Any:
    """Makes a function a tool that agents can name; the function itself is unchanged.

    Methods of an object, `functools.partial` and objects that can be called are functions too.

    The type hints become the schema, the first paragraph of the docstring becomes the description,
    and its parameters are described in Google, NumPy or reST style. A parameter annotated
    `ToolContext` receives the context of the call.

    Args:
        name: the tool's name; empty = the function's own name.
        read_only: the tool changes nothing, so `plan` mode allows it.
        writes: the tool changes something, so `ask` mode asks before it runs.
        record: keep the tool's results in cassettes; replays use them and do not run the tool.

    Raises:
        ConfigError: the function cannot be used as a tool.
    """
    if read_only and writes:
        raise ConfigError("a tool cannot have both read_only and writes", hint="remove one of them")
    effect: Effect = "read" if read_only else "write" if writes else "user"

    def mark(function: Any) -> Any:
        if isinstance(function, staticmethod):
            return staticmethod(mark(function.__func__))
        made = replace(make_tool(function, effect, name), record=record)
        if made.name in BUILT_IN.known:
            raise ConfigError(
                f"{quote(made.name)} is a built-in tool", hint='choose another name: name="…"'
            )
        SESSION.tools[made.name] = made
        marked: Any = function
        try:
            marked.__axe_tool__ = made
        except AttributeError:  # bound methods and built-in functions have no room for it
            marked = functools.partial(function)
            marked.__axe_tool__ = made
        return marked

    return mark if function is None else mark(function)
