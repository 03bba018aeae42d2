"""Python types as JSON Schema; JSON values as values of those types, or their mistakes.

Source: product.md "Python" (`@axe_nb.tool`), A-1.2, A-2.2, X-38.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union

from axe_nb.errors import ConfigError
from axe_nb.messages import dump
from axe_nb.text import plural
from axe_nb.tools.docstring import parse_docstring, type_hints
from axe_nb.tools.shapes import Mistakes, Parameter, Shape, fields, note, note_wrong
from axe_nb.tools.text_types import TEXT_TYPES
from axe_nb.values.opened import key_of

LISTS: Mapping[object, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
"""Type that is a JSON array → function that makes one from a list."""

DICTS = (dict, abc.Mapping, abc.MutableMapping)


def shape(hint: Any, where: str, inside: tuple[Any, ...] = ()) -> Shape:
    """A type as JSON.

    Args:
        where: what has this type, for the error.
        inside: the types that are being described already.

    Raises:
        ConfigError: JSON has no such type.
    """
    hint = _find_bare(hint)
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
    if hint not in inside and (make := _find_maker(origin)):
        return make(origin, arguments, (*inside, hint))
    if _is_alias(hint) and hint not in inside:
        return shape(hint.__value__, where, (*inside, hint))
    problem = "contains itself" if hint in inside else "has no JSON equivalent"
    raise _make_type_error(hint, where, problem)


def is_type(given: Any) -> bool:
    """True for a value that may be a type, with or without a JSON equivalent."""
    is_named = isinstance(given, type | typing.NewType) or _is_alias(given)
    return is_named or typing.get_origin(given) is not None


def is_record(given: Any) -> bool:
    """True for a dataclass, a NamedTuple or a TypedDict, also a generic one with its arguments."""
    return _find_maker(typing.get_origin(given) or given) is not None


def _is_alias(given: Any) -> bool:
    return type(given).__name__ == "TypeAliasType"  # in `typing` of newer Pythons only


def _find_bare(hint: Any) -> Any:
    """Returns the type below remarks, a name of its own, or a variable for any type."""
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated or getattr(origin, "_name", "") == "ReadOnly":
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        else:
            return hint


def _find_maker(kind: Any) -> Callable[[Any, tuple[Any, ...], tuple[Any, ...]], Shape] | None:
    """Returns what describes records of a class; None if it is not one of records."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return _make_typed_dict  # `typing.is_typeddict` knows none of typing_extensions
    is_record = dataclasses.is_dataclass(kind) or (
        issubclass(kind, tuple) and hasattr(kind, "_field_defaults")
    )
    return _make_record if is_record else None


def _make_type_error(hint: Any, where: str, problem: str) -> ConfigError:
    name = hint.__name__ if isinstance(hint, type) else hint
    return ConfigError(
        f"{where} has the type {name}, which {problem}",
        hint="use str, int, float, bool, date, Decimal, UUID, Literal, Enum, list, dict[str, …], "
        "dataclass, NamedTuple or TypedDict",
    )


def _make_scalar(
    schema: Mapping[str, Any],
    wanted: str,
    fits: Callable[[Any], bool],
    make: Callable[[Any], Any],
) -> Shape:
    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        return make(value) if fits(value) else note_wrong(mistakes, at, wanted, value)

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
    **TEXT_TYPES,
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
        return by_text[text] if known else note_wrong(mistakes, at, wanted, value)

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
        return note_wrong(mistakes, at, wanted, value)

    return Shape({"anyOf": [dict(member.schema) for member in members]}, wanted, read)


def _make_list(item: Shape, make: Callable[[list[Any]], Any]) -> Shape:
    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, list):
            return note_wrong(mistakes, at, "a list", value)
        before = len(mistakes)
        items = [item.take(one, f"{at}[{i}]", mistakes, kindly) for i, one in enumerate(value)]
        return make(items) if len(mistakes) == before else None

    return Shape({"type": "array", "items": dict(item.schema)}, "a list", read)


def _make_tuple(items: Sequence[Shape]) -> Shape:
    """A tuple of fixed length, each value with its own type."""
    wanted = f"a list of {plural(len(items), 'value')}"

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            return note_wrong(mistakes, at, wanted, value)
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
            return note_wrong(mistakes, at, "an object", value)
        return {n: item.take(one, f"{at}.{n}", mistakes, kindly) for n, one in value.items()}

    schema = {"additionalProperties": dict(item.schema)} if item is not ANY else {}
    return Shape({"type": "object", **schema}, "an object", read)


def _make_record(kind: type, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    """A dataclass or a NamedTuple."""
    types_of, descriptions = _find_types(kind, arguments), parse_docstring(kind)[1]
    wanted = {}
    for name, required, default in _list_fields(kind):
        member = shape(types_of.get(name, Any), f'"{name}" of {kind.__name__}', inside)
        wanted[name] = Parameter(member, descriptions.get(name, ""), required, default)
    return _make_object(wanted, kind)


def _list_fields(kind: Any) -> Iterator[tuple[str, bool, object]]:
    """Yields name, whether it is required, and default of each field."""
    if not dataclasses.is_dataclass(kind):
        for name in kind._fields:
            yield name, name not in kind._field_defaults, kind._field_defaults.get(name)
        return
    for field in dataclasses.fields(kind):
        if field.init:
            has_default = field.default is not dataclasses.MISSING
            is_fresh = field.default_factory is not dataclasses.MISSING
            yield field.name, not (has_default or is_fresh), field.default if has_default else None


def _make_typed_dict(kind: Any, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    """A TypedDict; keys may be `NotRequired`."""
    types_of, descriptions = _find_types(kind, arguments), parse_docstring(kind)[1]
    marked = typing.get_type_hints(kind, include_extras=True)
    wanted = {}
    for name, hint in types_of.items():
        mark = typing.get_origin(marked[name])  # what `__required_keys__` misses in a text
        required = mark is not typing.NotRequired and name in kind.__required_keys__
        member = shape(hint, f'"{name}" of {kind.__name__}', inside)
        wanted[name] = Parameter(
            member, descriptions.get(name, ""), required or mark is typing.Required
        )
    return _make_object(wanted, dict)


def _find_types(kind: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Returns the types of a record's fields; of a generic one, for these arguments."""
    values = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    hints = type_hints(kind, kind.__name__)
    return {name: _fill_in(hint, values) for name, hint in hints.items()}


def _fill_in(hint: Any, values: Mapping[Any, Any]) -> Any:
    """Returns a type with its variables replaced."""
    if isinstance(hint, TypeVar):
        return values.get(hint, hint)
    variables = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(values.get(one, one) for one in variables)] if variables else hint


def _make_object(wanted: Mapping[str, Parameter], make: Callable[..., Any]) -> Shape:
    """An object with exactly these keys, from which `make` makes the value."""

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, dict):
            return note_wrong(mistakes, at, "an object", value)
        mine: Mistakes = []
        values = fields(value, wanted, f"{at}.", mine, kindly)
        try:
            return None if mine else make(**values)
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
