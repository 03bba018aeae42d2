"""Functions and tools that an agent was given as objects: `Agent(tools=[function, "grep"])`.

Source: product.md "Python".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from axe_nb.agents.names import check_tool_name
from axe_nb.agents.toml_table import WrongValue
from axe_nb.text import quote


class NamedTool(Protocol):
    """A tool, as far as an agent knows it."""

    name: str
    fn: Callable[..., Any]


def own_tools(tools: object) -> dict[str, Any]:
    """Name → function or tool, of those among `tools` that are no names themselves.

    Raises:
        ConfigError: one of them has no name that a model could use, or two have the same.
    """
    own: dict[str, Any] = {}
    for thing in tools if isinstance(tools, (list, tuple)) else ():
        if not (callable(thing) or is_tool(thing)):
            continue
        name = name_of(thing)
        check_tool_name(name)
        if own.setdefault(name, thing) != thing:
            raise WrongValue(("tools",), f"has two functions with the name {quote(name)}")
    return own


def names_of(tools: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    """The tools by name; what is neither name, function nor tool stays as it is."""
    return tuple(name_of(one) if callable(one) or is_tool(one) else one for one in tools)


def name_of(thing: Any) -> str:
    """The name by which a model calls a function or a tool.

    Raises:
        WrongValue: it has none.
    """
    made = getattr(thing, "__axe_tool__", thing)
    name = made.name if is_tool(made) else getattr(made, "__name__", None)
    if not isinstance(name, str):
        kind = type(thing).__name__
        raise WrongValue(("tools",), f"holds a {kind} without a name", hint="wrap it in a `def`")
    return name


def is_tool(thing: object) -> TypeGuard[NamedTool]:
    """Whether it is a tool and not a function that is to become one."""
    return hasattr(thing, "fn") and isinstance(getattr(thing, "name", None), str)
