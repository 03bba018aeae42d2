"""Validation of agent, tool and model names.

Source: B-2, B-12.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.model_table import suggest_model
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

    Raises:
        ConfigError: it has none that a model could call it by.
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

    Raises:
        ConfigError: its first parameter is `self` or `cls`, without a type.
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
