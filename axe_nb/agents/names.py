"""Names of agents, models and tools, and of functions that are passed as tools.

Source: B-2, B-12.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from axe_nb.conversion.toml_tables import WrongValue
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import suggest_model
from axe_nb.text import quote


def check_name(name: str) -> None:
    """Rejects agent names that are not plain file names on every system (B-12).

    Raises:
        ConfigError: blank, or contains a path separator, `..`, a colon or a control character.
    """
    if not isinstance(name, str):
        raise ConfigError(f"an agent's name must be a string, not {type(name).__name__}")
    bad = any(part in name for part in ("/", "\\", "..", ":"))
    if bad or not name.strip() or not name.isprintable():
        raise ConfigError(
            f"invalid agent name {quote(name)}: expected a plain name without folders",
            hint="use --agents-dir for another folder",
        )


def check_tool_name(name: str) -> None:
    """Rejects tool names that providers do not accept.

    Raises:
        ConfigError: empty, too long, or with characters other than letters, digits, _ and -.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(
            f"{quote(name)} is not a valid tool name",
            hint="use at most 64 letters, digits, _ and -",
        )


def function_name(function: Any) -> str:
    """Returns the name of a function, or of the one behind a `functools.partial`.

    Raises ConfigError if it has none that a model could call it by.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        kind = "a lambda" if name else f"an object of type {type(function).__name__}"
        step = 'give it a name: axe_nb.tool(name="…")(…), or write a def'
        raise ConfigError(f"{kind} has no name that a model could call", hint=step)
    return name


def check_bound(function: Any) -> None:
    """Rejects a method without its object, whose `self` a model would be asked for.

    Raises ConfigError if its first parameter is `self` or `cls`, without a type.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    first = next(iter(parameters), None)
    if first and first.name in ("self", "cls") and first.annotation is first.empty:
        name = function_name(function)
        raise ConfigError(
            f"{name} is a method without its object",
            hint=f"use that of an object: tools=[thing.{name}], or axe_nb.tool(thing.{name})",
        )


def parse_model(model: str) -> tuple[str, str]:
    """Splits provider/model on the first slash (B-2).

    Raises:
        ConfigError: no slash, or an empty part (exit 1).
    """
    provider, slash, name = model.partition("/")
    problem = (
        "expected provider/model-name"
        if not slash
        else "empty provider"
        if not provider.strip()
        else "empty model name"
        if not name.strip()
        else ""
    )
    if problem:
        examples = f"{suggest_model('anthropic')}, {suggest_model('ollama')} or script/lead"
        raise ConfigError(
            f"invalid model format {quote(model)}: {problem}",
            hint=f"for example {examples}",
            exit_code=1,
        )
    return provider, name


class NamedTool(Protocol):
    """The part of a tool that an agent uses."""

    name: str
    fn: Callable[..., Any]


def own_tools(tools: object) -> dict[str, Any]:
    """Returns name → function or tool for the entries of `tools` that are not names.

    Raises ConfigError if an entry has no valid tool name, or two share one.
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

    Raises ConfigError if it has no name.
    """
    made = getattr(thing, "__axe_tool__", thing)
    return made.name if is_tool(made) else function_name(made)


def is_tool(thing: object) -> TypeGuard[NamedTool]:
    """True for a tool, False for a plain function."""
    return hasattr(thing, "fn") and isinstance(getattr(thing, "name", None), str)
