"""Forms of Python types in JSON, fields of objects, and the mistakes in JSON values.

Source: product.md "Python" (`@axe_nb.tool`), A-1.2, A-2.2, X-38.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from axe_nb.messages import ToolParameter, dump
from axe_nb.text import cut_chars, quote, suggestion
from axe_nb.values.data import to_data
from axe_nb.values.render import LONGEST_DATA

MAX_MISTAKES = 8
"""Maximum number of mistakes in one answer."""

MAX_SHOWN = 60
"""Maximum length of a quoted wrong value in characters."""

MAX_TOLD = 400
"""Maximum length of one mistake in characters."""

Mistakes: TypeAlias = list[str]
Read: TypeAlias = Callable[[Any, str, Mistakes, bool], Any]
"""(JSON value, its place, mistakes so far, true to read nested values leniently) -> value."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A Python type as JSON."""

    schema: Mapping[str, Any]
    """JSON Schema of its values."""
    wanted: str
    """The expected kind of value in words: `an integer`."""
    read: Read

    def accepts(self, value: object) -> bool:
        """True if a JSON value is valid without conversion."""
        mistakes: Mistakes = []
        self.read(value, "", mistakes, False)
        return not mistakes

    def take(self, value: Any, at: str, mistakes: Mistakes, kindly: bool = True) -> Any:
        """Returns the value as this type, read strictly or leniently.

        If lenient, a string may also be parsed as JSON, and any other value becomes its JSON
        text (D-11).
        """
        if not kindly or value is None or self.accepts(value):
            return self.read(value, at, mistakes, False)
        try:
            other = json.loads(value) if isinstance(value, str) else dump(value).decode()
        except (ValueError, RecursionError):
            other = None
        mine: Mistakes = []
        result = self.read(other, at, mine, True)
        return self.read(value, at, mistakes, True) if mine or other is None else result


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function, or one field of a dataclass."""

    shape: Shape
    description: str = ""
    required: bool = True
    default: object = None
    """Shown to the model; None if there is none."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the accepted values."""
        schema = dict(self.shape.schema)
        if self.description:
            schema["description"] = self.description
        if self.default is not None:
            schema["default"] = to_data(self.default, LONGEST_DATA)
        return schema

    @property
    def spec(self) -> ToolParameter:
        """The parameter as described to the model; without null if omitting it means null."""
        schema = self.schema
        schema.pop("description", None)
        if not self.required and self.default is None and "anyOf" in schema:
            members = [member for member in schema["anyOf"] if member != {"type": "null"}]
            schema = {"anyOf": members} if len(members) > 1 else dict(members[0])
        return ToolParameter(schema.pop("type", ""), self.description, self.required, schema)


def note(mistakes: Mistakes, text: str) -> None:
    """Adds a mistake, unless the list is full."""
    if len(mistakes) <= MAX_MISTAKES:
        mistakes.append(text[:MAX_TOLD])


def note_wrong(mistakes: Mistakes, at: str, wanted: str, value: object) -> None:
    if len(mistakes) > MAX_MISTAKES:
        return
    shown = dump(value).decode()
    note(mistakes, f'"{at}" must be {wanted}, not {cut_chars(shown, MAX_SHOWN, "…")}')


def fields(
    given: Mapping[str, Any],
    wanted: Mapping[str, Parameter],
    at: str,
    mistakes: Mistakes,
    kindly: bool = True,
) -> dict[str, Any]:
    """Returns an object's values by name; null counts as absent if it is not a valid value."""
    for name in given:
        if name not in wanted:
            names = ", ".join(map(quote, wanted)) or "nothing"
            remark = suggestion(name, wanted) or f"expected {names}"
            note(mistakes, f'unexpected "{at}{name[:MAX_SHOWN]}" ({remark})')
    values: dict[str, Any] = {}
    for name, parameter in wanted.items():
        if name not in given and not parameter.required:
            continue
        value = given.get(name)
        if value is not None or parameter.shape.accepts(None):
            values[name] = parameter.shape.take(value, f"{at}{name}", mistakes, kindly)
        elif parameter.required:
            note(mistakes, f'"{at}{name}" is missing; it must be {parameter.shape.wanted}')
    return values
