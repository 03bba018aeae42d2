"""Parameters of a function from its signature, and checks of a model's arguments.

Source: A-2.2, D-11, X-38.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from axe_nb.conversion.json_types import (
    MAX_MISTAKES,
    Mistakes,
    Parameter,
    fields,
    parse_docstring,
    shape,
    type_hints,
)
from axe_nb.errors import ConfigError
from axe_nb.tools.tool import ToolContext, ToolError


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a function as described to a model."""

    description: str
    parameters: Mapping[str, Parameter]
    context: str
    """The parameter for the ToolContext, hidden from the model; empty = none."""
    python: inspect.Signature


def signature(function: Callable[..., Any], name: str) -> Signature:
    """Reads the signature of a function.

    Args:
        name: name of the function, for errors.

    Raises:
        ConfigError: there is no signature, or a parameter has no name or no JSON type.
    """
    plain, fixed = function, set[str]()  # what partials give by name is no parameter
    while isinstance(plain, functools.partial):
        fixed |= plain.keywords.keys()
        plain = plain.func
    types_of = type_hints(plain, name)
    description, descriptions = parse_docstring(plain)
    wanted: dict[str, Parameter] = {}
    context = ""
    try:
        python = inspect.signature(function)
    except (TypeError, ValueError) as error:
        step = "wrap it in a def with type hints"
        raise ConfigError(f"the signature of {name} cannot be read: {error}", hint=step) from None
    for parameter in python.parameters.values():
        if parameter.name in fixed:
            continue
        hint = types_of.get(parameter.name, Any)
        if hint is ToolContext or ToolContext in typing.get_args(hint):
            context = parameter.name
        else:
            wanted[parameter.name] = _parse_parameter(parameter, hint, descriptions, name)
    return Signature(description, wanted, context, python)


def _parse_parameter(
    parameter: inspect.Parameter, hint: Any, descriptions: Mapping[str, str], name: str
) -> Parameter:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigError(
            f'"{parameter}" of {name} cannot be described in a JSON Schema',
            hint="replace it with named parameters",
        )
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    kind = shape(hint, f'"{parameter.name}" of {name}')
    return Parameter(kind, descriptions.get(parameter.name, ""), required, default)


def check(arguments: Mapping[str, Any], wanted: Mapping[str, Parameter]) -> dict[str, Any]:
    """Converts the arguments to their types; omitted ones stay absent.

    Raises:
        ToolError: they do not fit; the text lists the mistakes, up to a limit.
    """
    mistakes: Mistakes = []
    values = fields(arguments, wanted, "", mistakes)
    if mistakes:
        more = ["and more"] if len(mistakes) > MAX_MISTAKES else []
        listed = "; ".join([*mistakes[:MAX_MISTAKES], *more])
        raise ToolError(f"wrong arguments: {listed}. Correct all of them and call again")
    return values
