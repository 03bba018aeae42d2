"""Python types as JSON Schema; JSON values as values of those types, or their mistakes.

Source: product.md "Python" (`@axe_nb.tool`), A-1.2, A-2.2, X-38.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, Union

from axe_nb.errors import ConfigError
from axe_nb.jsonable import jsonable, key_of
from axe_nb.messages import ToolParameter, dump
from axe_nb.text import cut_chars, quote, suggestion
from axe_nb.tools.docstring import parse_docstring, type_hints

MAX_MISTAKES = 8
"""Maximum number of mistakes in one answer."""

MAX_SHOWN = 60
"""Maximum length of a quoted wrong value in characters."""

MAX_TOLD = 400
"""Maximum length of one mistake in characters."""

Mistakes: TypeAlias = list[str]
Read: TypeAlias = Callable[[Any, str, Mistakes, bool], Any]
"""(JSON value, its place, mistakes so far, true to read nested values leniently) -> value."""

LISTS: Mapping[object, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
"""Type that is a JSON array → function that makes one from a list."""

DICTS = (dict, abc.Mapping, abc.MutableMapping)


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
            schema["default"] = jsonable(self.default)
        return schema

    @property
    def spec(self) -> ToolParameter:
        """The parameter as described to the model; without null if omitting it means null."""
        schema = self.schema
        schema.pop("description", None)
        if not self.required and self.default is None and "anyOf" in schema:
            members = [member for member in schema["anyOf"] if member != NULL.schema]
            schema = {"anyOf": members} if len(members) > 1 else dict(members[0])
        return ToolParameter(schema.pop("type", ""), self.description, self.required, schema)


def shape(hint: Any, where: str, inside: tuple[type, ...] = ()) -> Shape:
    """A type as JSON.

    Args:
        where: what has this type, for the error.
        inside: the dataclasses that are being described already.

    Raises:
        ConfigError: JSON has no such type.
    """
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if not isinstance(origin, abc.Hashable):
        raise _make_type_error(hint, where, "is not a type")
    if origin in SCALARS:
        return SCALARS[origin]
    if origin is Literal and all(type(value) in LITERALS for value in arguments):
        return _make_choice([(value, value) for value in arguments], arguments)
    if origin in (Union, types.UnionType):
        return _make_union([shape(member, where, inside) for member in arguments])
    if origin is tuple and arguments and arguments[-1] is not ...:
        return _make_tuple([shape(member, where, inside) for member in arguments])
    if origin in LISTS:
        return _make_list(shape((*arguments, Any)[0], where, inside), LISTS[origin])
    if origin in DICTS and arguments[:1] in ((), (str,)):
        return _make_dict(shape((*arguments, Any, Any)[1], where, inside))
    if isinstance(hint, type) and issubclass(hint, Enum) and len(hint):
        values = [(key_of(member), member) for member in hint]
        return _make_choice([*hint.__members__.items(), *values], [key for key, _ in values])
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in inside:
        return _make_record(hint, where, (*inside, hint))
    problem = "contains itself" if hint in inside else "has no JSON form"
    raise _make_type_error(hint, where, problem)


def _make_type_error(hint: Any, where: str, problem: str) -> ConfigError:
    name = hint.__name__ if isinstance(hint, type) else hint
    return ConfigError(
        f"{name}, the type of {where}, {problem}",
        hint="use str, int, float, bool, Literal, Enum, list, dict[str, …] or a dataclass",
    )


def note(mistakes: Mistakes, text: str) -> None:
    """Adds a mistake, unless the list is full."""
    if len(mistakes) <= MAX_MISTAKES:
        mistakes.append(text[:MAX_TOLD])


def _note_wrong(mistakes: Mistakes, at: str, wanted: str, value: object) -> None:
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


def _make_scalar(
    schema: Mapping[str, Any],
    wanted: str,
    fits: Callable[[Any], bool],
    make: Callable[[Any], Any],
) -> Shape:
    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        return make(value) if fits(value) else _note_wrong(mistakes, at, wanted, value)

    return Shape(schema, wanted, read)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _fits_float(value: Any) -> bool:
    return isinstance(value, float) or (_is_number(value) and abs(value) < 2**1023)


def _keep(value: Any) -> Any:
    return value


LITERALS: Mapping[type, str] = {
    str: "string", int: "integer", bool: "boolean", type(None): "null",
}  # fmt: skip
"""Type of a literal value → its JSON Schema type."""

NULL = _make_scalar({"type": "null"}, "null", lambda value: value is None, _keep)

ANY = _make_scalar({}, "any value", lambda value: True, _keep)

SCALARS: Mapping[object, Shape] = {
    str: _make_scalar({"type": "string"}, "a string", lambda value: isinstance(value, str), _keep),
    bool: _make_scalar({"type": "boolean"}, "true or false", lambda v: isinstance(v, bool), _keep),
    int: _make_scalar({"type": "integer"}, "an integer", _is_whole, int),
    float: _make_scalar({"type": "number"}, "a number", _fits_float, float),
    type(None): NULL,
    Any: ANY,
    object: ANY,
}
"""Type → its shape."""


def _make_choice(options: Sequence[tuple[Any, Any]], shown: Sequence[Any]) -> Shape:
    """One of fixed values.

    Args:
        options: (what may be given, what it means); a later one wins.
        shown: those that the model is descriptions of.
    """
    by_text = {dump(key): value for key, value in options}
    kinds = {LITERALS[type(key)] for key in shown}
    wanted = "one of " + ", ".join(dump(key).decode() for key in shown)

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        known = type(value) in LITERALS and (text := dump(value)) in by_text
        return by_text[text] if known else _note_wrong(mistakes, at, wanted, value)

    kind = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return Shape({**kind, "enum": list(shown)}, wanted, read)


def _make_union(members: Sequence[Shape]) -> Shape:
    wanted = " or ".join(member.wanted for member in members)
    others = [member for member in members if member is not NULL]

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        for member in members:
            mine: Mistakes = []
            result = member.read(value, at, mine, kindly)
            if not mine:
                return result
        if len(others) == 1:  # its own mistakes say more than "none of these"
            return others[0].read(value, at, mistakes, kindly)
        return _note_wrong(mistakes, at, wanted, value)

    return Shape({"anyOf": [dict(member.schema) for member in members]}, wanted, read)


def _make_list(item: Shape, make: Callable[[list[Any]], Any]) -> Shape:
    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, list):
            return _note_wrong(mistakes, at, "a list", value)
        before = len(mistakes)
        items = [item.take(one, f"{at}[{i}]", mistakes, kindly) for i, one in enumerate(value)]
        return make(items) if len(mistakes) == before else None

    return Shape({"type": "array", "items": dict(item.schema)}, "a list", read)


def _make_tuple(items: Sequence[Shape]) -> Shape:
    """A tuple of fixed length, each value with its own type."""
    wanted = f"a list of {len(items)} values"

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            return _note_wrong(mistakes, at, wanted, value)
        pairs = enumerate(zip(items, value, strict=True))
        return tuple(item.take(one, f"{at}[{i}]", mistakes, kindly) for i, (item, one) in pairs)

    kinds = [dict(item.schema) for item in items]
    one_kind = all(kind == kinds[0] for kind in kinds)
    schema = kinds[0] if one_kind else {"anyOf": kinds}
    size = {"minItems": len(items), "maxItems": len(items)}
    return Shape({"type": "array", "items": schema, **size}, wanted, read)


def _make_dict(item: Shape) -> Shape:
    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, dict):
            return _note_wrong(mistakes, at, "an object", value)
        return {n: item.take(one, f"{at}.{n}", mistakes, kindly) for n, one in value.items()}

    schema = {"additionalProperties": dict(item.schema)} if item is not ANY else {}
    return Shape({"type": "object", **schema}, "an object", read)


def _make_record(kind: type, where: str, inside: tuple[type, ...]) -> Shape:
    """A dataclass."""
    types_of, descriptions = type_hints(kind, kind.__name__), parse_docstring(kind)[1]
    wanted: dict[str, Parameter] = {}
    for field in dataclasses.fields(kind):
        if field.init:
            member = shape(types_of[field.name], f'"{field.name}" of {kind.__name__}', inside)
            fresh = field.default_factory is not dataclasses.MISSING
            required = field.default is dataclasses.MISSING and not fresh
            default = None if required or fresh else field.default
            wanted[field.name] = Parameter(
                member, descriptions.get(field.name, ""), required, default
            )

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, dict):
            return _note_wrong(mistakes, at, "an object", value)
        mine: Mistakes = []
        values = fields(value, wanted, f"{at}.", mine, kindly)
        try:
            return None if mine else kind(**values)
        except (ValueError, TypeError) as error:
            mine.append(f'"{at}": {error}')
        finally:
            for mistake in mine:
                note(mistakes, mistake)

    schema = {
        "type": "object",
        "properties": {name: parameter.schema for name, parameter in wanted.items()},
        "required": [name for name, parameter in wanted.items() if parameter.required],
        "additionalProperties": False,
    }
    return Shape(schema, "an object", read)
