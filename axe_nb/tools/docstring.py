"""Type hints and docstrings of functions and classes.

Source: product.md "Python" (`@axe_nb.tool`: type hints and docstring become the schema).
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

from axe_nb.errors import ConfigError


def type_hints(thing: Any, where: str) -> dict[str, Any]:
    """Returns the type hints of a function or a class by name.

    Raises:
        ConfigError: they cannot be resolved.
    """
    try:
        return typing.get_type_hints(thing)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigError(f"the type hints of {where} cannot be read: {error}") from None


def parse_docstring(thing: object) -> tuple[str, dict[str, str]]:
    """Returns (first paragraph, name → description) of a docstring in any of the usual styles."""
    import docstring_parser  # on first use: most processes make no tool

    text = inspect.getdoc(thing) or ""
    try:
        found = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return " ".join(text.partition("\n\n")[0].split()), {}
    more = "" if found.blank_after_short_description else found.long_description or ""
    first = f"{found.short_description or ''}\n{more}".partition("\n\n")[0]
    descriptions = {
        name.strip().lstrip("*"): " ".join((param.description or "").split())
        for param in found.params
        for name in param.arg_name.split(",")  # NumPy: `x, y : float`
    }
    return " ".join(first.split()), descriptions
