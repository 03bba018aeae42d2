"""Every tool that an agent can name: built in, for delegating, made in this session, its own.

Source: product.md "Python" (`@axe_nb.tool`); D-19, D-20, D-44.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from axe_nb import builtin, delegation
from axe_nb.agents.agent import Agent
from axe_nb.errors import ConfigError
from axe_nb.text import quote
from axe_nb.tools.python_tool import make_tool, tool_of
from axe_nb.tools.registry import Registry, ToolTable
from axe_nb.tools.tool import Effect, Tool

F = TypeVar("F", bound=Callable[..., Any])

BUILT_IN = Registry((builtin.SOURCE, delegation.SOURCE))
"""The tools that come with axe_nb; their names are taken."""

SESSION = ToolTable()
"""The tools of this process that `@axe_nb.tool` made; the only home of that state."""

REGISTRY = Registry((*BUILT_IN.sources, SESSION))
"""The tools that any agent can name."""


def registry_of(agent: Agent, handed: Sequence[Tool] = ()) -> Registry:
    """The tools that this agent can name: first those that it carries, then those of its run.

    Args:
        agent: who names them.
        handed: tools that were given to the run as objects.

    Raises:
        ConfigError: a function that the agent carries cannot be a tool.
    """
    own = {name: tool_of(thing) for name, thing in agent.own_tools.items()}
    return REGISTRY.with_tools({**{tool.name: tool for tool in handed}, **own})


def delegates(name: str) -> bool:
    """Whether the tool of that name starts children."""
    tool = REGISTRY.find(name)
    return tool is not None and tool.effect == "delegate"


def is_one_child(name: str) -> bool:
    """Whether a call of that tool is exactly one child."""
    tool = REGISTRY.find(name)
    return tool is not None and tool.is_one_child


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str = "", read_only: bool = False, writes: bool = False) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    read_only: bool = False,
    writes: bool = False,
) -> Any:
    """Makes a function a tool that agents may name; the function itself stays as it was.

    Type hints become the schema, the first paragraph of the docstring the description, and its
    `Args:` those of the parameters. A parameter annotated `ToolContext` gets the context.

    Args:
        name: what models call it; empty = the function's own name.
        read_only: it changes nothing, so `plan` mode allows it.
        writes: it changes things, so `ask` mode asks before it runs.

    Raises:
        ConfigError: no tool can be made of it.
    """
    if read_only and writes:
        raise ConfigError("a tool cannot be read_only and writes", hint="leave one of them out")
    effect: Effect = "read" if read_only else "write" if writes else "user"

    def mark(function: F) -> F:
        made = make_tool(function, effect, name)
        if made.name in BUILT_IN.known:
            raise ConfigError(
                f"{quote(made.name)} is a tool of axe_nb's own", hint='choose another: name="…"'
            )
        SESSION.add(made)
        function.__axe_tool__ = made  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)
