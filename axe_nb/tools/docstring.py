"""Type hints and docstrings of functions and classes.

Source: product.md "Python" (`@axe_nb.tool`: type hints and docstring become the schema).
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

from axe_nb.errors import ConfigError

SECTIONS = ("Args:", "Arguments:", "Parameters:", "Attributes:")


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
    """Returns (first paragraph, name → description) of a docstring in Google style."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    first = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    descriptions: dict[str, str] = {}
    section, name, margin = "", "", 0
    for line in lines[first:]:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if text and not indent:
            section, name, margin = text, "", 0
        elif text and section in SECTIONS:
            margin = margin or indent
            label, colon, rest = text.partition(":")
            if indent == margin and colon:
                name = label.partition("(")[0].strip()
                descriptions[name] = rest.strip()
            elif name:
                descriptions[name] = f"{descriptions[name]} {text}".strip()
    return " ".join(line.strip() for line in lines[:first]), descriptions
