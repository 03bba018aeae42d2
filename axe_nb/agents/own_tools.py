"""Functions and tools passed to an agent as objects: `Agent(tools=[function, "grep"])`.

Source: product.md "Python".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from axe_nb.agents.names import check_bound, check_tool_name, function_name
from axe_nb.conversion.toml_tables import WrongValue
from axe_nb.text import quote


class NamedTool(Protocol):
    """The part of a tool that an agent uses."""

    name: str
    fn: Callable[..., Any]


def own_tools(tools: object) -> dict[str, Any]:
    """Returns name → function or tool for the entries of `tools` that are not names.

    Raises:
        ConfigError: an entry has no valid tool name, or two share one.
    """
    if callable(tools):
        raise WrongValue(
            ("tools",), "must be a list of strings", hint=f"write tools=[{name_of(tools)}]"
        )
    own: dict[str, Any] = {}
    for thing in tools if isinstance(tools, (list, tuple)) else ():
        if not (callable(thing) or is_tool(thing)):
            continue
        check_bound(thing)
        name = name_of(thing)
        check_tool_name(name)
        if own.setdefault(name, thing) != thing:
            raise WrongValue(("tools",), f"contains two functions named {quote(name)}")
    return own


def names_of(tools: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    """Replaces functions and tools by their names; anything else is kept."""
    return tuple(name_of(one) if callable(one) or is_tool(one) else one for one in tools)


def name_of(thing: Any) -> str:
    """Returns the name under which a model calls a function or a tool.

    Raises:
        ConfigError: it has no name.
    """
    made = getattr(thing, "__axe_tool__", thing)
    return made.name if is_tool(made) else function_name(made)


def is_tool(thing: object) -> TypeGuard[NamedTool]:
    """True for a tool, False for a plain function."""
    return hasattr(thing, "fn") and isinstance(getattr(thing, "name", None), str)
