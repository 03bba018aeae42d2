"""JSON Schemas for Python types or from files, and validation that reports several errors at once.

Used for tool arguments and structured output. A schema may come from an untrusted repository, and
the data comes from a model. Validation therefore loads nothing from the network or from files, and
has time limits, for each pattern and in total. Related modules: `records` reads axe_nb's own files,
including recursive types, and `toml_tables` reads TOML. Source: A-1.2, A-2.2, X-38.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import time
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias, Union
from urllib.parse import unquote

from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.patterns import compile_pattern
from axe_nb.conversion.value_text import key_of
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolParameter, dump
from axe_nb.text import MAX_SHOWN, cut_chars, list_some, one_line, plural, quote, suggestion

LISTS: Mapping[object, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.Collection, abc.Iterable), list),
    tuple: tuple,
}
"""Type whose JSON form is an array → constructor that takes a list."""

MAX_MISTAKES = 8
"""Maximum number of validation errors reported for one answer."""

MAX_TOLD = 400
"""Maximum length of one validation message, in characters."""

MAX_SCHEMA, MAX_NESTING = 100_000, 60
"""Maximum size of a schema in bytes of JSON, and its maximum nesting depth."""

MAX_SECONDS = 1.0
"""Time limit for validating one answer, in seconds; some patterns would take forever."""

DEFINITIONS = ("$defs", "definitions")
"""Top-level keys that hold the schemas that `$ref` may refer to."""

SCHEMAS = (
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then",
)  # fmt: skip
"""Keywords whose value is a schema."""

MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""

UNBOUNDED = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")
"""Keywords that are not supported, because the time to check them cannot be limited."""

TABLES = (*DEFINITIONS, "dependentSchemas", "patternProperties", "properties")
"""Keywords whose value maps names to schemas."""

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[Any]]
"""Function that takes a validator, a keyword's value, data and a schema, and yields errors."""

Mistakes: TypeAlias = list[str]
Read: TypeAlias = Callable[[Any, str, Mistakes, bool], Any]
"""Function that converts a JSON value. Arguments: the value, its place in the data, the list to
which validation errors are added, and whether the conversion is lenient, as in `take`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The JSON form of a Python type."""

    schema: Mapping[str, Any]
    wanted: str
    """Description of an expected value, such as `an integer`."""
    read: Read

    def accepts(self, value: object) -> bool:
        """True if a JSON value is valid without conversion."""
        mistakes: Mistakes = []
        self.read(value, "", mistakes, False)
        return not mistakes

    def take(self, value: Any, at: str, mistakes: Mistakes, kindly: bool = True) -> Any:
        """Converts a JSON value to the Python type, and adds validation errors to `mistakes`.

        `at` is the place of the value. If `kindly` is true and the value does not fit, a string is
        parsed as JSON, and any other value is converted to a JSON string (D-11).
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

    @property
    def schema(self) -> dict[str, Any]:
        schema = dict(self.shape.schema)
        if self.description:
            schema["description"] = self.description
        if self.default is not None:
            schema["default"] = jsonable(self.default)
        return schema

    @property
    def spec(self) -> ToolParameter:
        """Description of the parameter for the model; without type `null` if optional."""
        schema = self.schema
        schema.pop("description", None)
        if not self.required and self.default is None and "anyOf" in schema:
            members = [member for member in schema["anyOf"] if member != {"type": "null"}]
            schema = {"anyOf": members} if len(members) > 1 else dict(members[0])
        return ToolParameter(schema.pop("type", ""), self.description, self.required, schema)


def note(mistakes: Mistakes, text: str) -> None:
    if len(mistakes) <= MAX_MISTAKES:
        mistakes.append(text[:MAX_TOLD])


def note_wrong(mistakes: Mistakes, at: str, wanted: str, value: object) -> None:
    shown = cut_chars(dump(value).decode(), MAX_SHOWN, "…")
    note(mistakes, f'"{at}" must be {wanted}, not {shown}')


def fields(
    given: Mapping[str, Any],
    wanted: Mapping[str, Parameter],
    at: str,
    mistakes: Mistakes,
    kindly: bool = True,
) -> dict[str, Any]:
    """Converts the values of a JSON object to the types of the `wanted` parameters, keyed by name.

    Null counts as a missing value unless the type allows null. Validation errors are added to
    `mistakes`.
    """
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
            note(mistakes, f'"{at}{name}" is missing ({parameter.shape.wanted})')
    return values


def shape(hint: Any, where: str, inside: tuple[Any, ...] = ()) -> Shape:
    """Returns the JSON form of a Python type. Raises ConfigError if the type has none.

    Error messages contain `where`, the place of the type; `inside` holds the enclosing types.
    """
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
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
        members = [shape(member, where, inside) for member in arguments]
        return _make_list(members, tuple, len(members))
    if origin in LISTS:
        return _make_list([shape((*arguments, Any)[0], where, inside)], LISTS[origin])
    if origin in (dict, abc.Mapping) and arguments[:1] in ((), (str,)):
        item = shape((*arguments, Any, Any)[1], where, inside)
        schema = {"additionalProperties": dict(item.schema)} if item is not ANY else {}

        def read_dict(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
            if not isinstance(value, dict):
                return note_wrong(mistakes, at, "an object", value)
            return {n: item.take(one, f"{at}.{n}", mistakes, kindly) for n, one in value.items()}

        return Shape({"type": "object", **schema}, "an object", read_dict)
    if isinstance(hint, type) and issubclass(hint, Enum) and len(hint):
        values = [(key_of(member), member) for member in hint]
        return _make_choice([*hint.__members__.items(), *values], [key for key, _ in values])
    if hint not in inside and is_record(hint):
        return _make_record(hint, (*inside, hint))
    problem = "contains itself" if hint in inside else "has no JSON equivalent"
    raise _make_type_error(hint, where, problem)


def is_record(given: Any) -> bool:
    is_plain = isinstance(given, type) and not isinstance(given, types.GenericAlias)
    return is_plain and (dataclasses.is_dataclass(given) or _is_typed_dict(given))


def _is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def _make_type_error(hint: Any, where: str, problem: str) -> ConfigError:
    name = hint.__name__ if isinstance(hint, type) else hint
    return ConfigError(
        f"{where} has the type {name}, which {problem}",
        hint="use str, int, float, bool, date, datetime, Literal, Enum, list, tuple, "
        "dict[str, …], dataclass or TypedDict",
    )


def _make_scalar(schema: Mapping[str, Any], wanted: str, make: Callable[[Any], Any]) -> Shape:
    """Makes the `Shape` of a scalar type; `make` converts a value, or raises an error."""

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        try:
            return make(value)
        except (TypeError, ValueError, OverflowError):
            return note_wrong(mistakes, at, wanted, value)

    return Shape(schema, wanted, read)


def _check_exact(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _make_number(kind: type, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if kind is int and value != int(value):
        raise ValueError
    return kind(value)


LITERALS: Mapping[type, str] = {
    str: "string", int: "integer", bool: "boolean", type(None): "null",
}  # fmt: skip

NULL = _make_scalar({"type": "null"}, "null", partial(_check_exact, type(None)))

ANY = _make_scalar({}, "any value", partial(_check_exact, object))

SCALARS: Mapping[object, Shape] = {
    str: _make_scalar({"type": "string"}, "a string", partial(_check_exact, str)),
    bool: _make_scalar({"type": "boolean"}, "true or false", partial(_check_exact, bool)),
    int: _make_scalar({"type": "integer"}, "an integer", partial(_make_number, int)),
    float: _make_scalar({"type": "number"}, "a number", partial(_make_number, float)),
    type(None): NULL,
    Any: ANY,
    object: ANY,
    date: _make_scalar(
        {"type": "string", "format": "date"}, "a date (as in 2026-11-23)", date.fromisoformat
    ),
    datetime: _make_scalar(
        {"type": "string", "format": "date-time"},
        "a date and time (as in 2026-11-23T09:30:00Z)",
        datetime.fromisoformat,
    ),
}


def _make_choice(options: Sequence[tuple[Any, Any]], shown: Sequence[Any]) -> Shape:
    """Makes the `Shape` of an enum or a `Literal`.

    `options` are pairs of JSON value and Python value; the schema lists the values in `shown`.
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


def _make_list(items: list[Shape], make: Callable[[list[Any]], Any], size: int = 0) -> Shape:
    """Makes the `Shape` of a list or, if `size` is set, of a tuple with a type for each value."""
    wanted = f"a list of {plural(size, 'value')}" if size else "a list"

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        if not isinstance(value, list) or (size and len(value) != size):
            return note_wrong(mistakes, at, wanted, value)
        before = len(mistakes)
        pairs = enumerate(zip(items if size else items * len(value), value, strict=True))
        made = [item.take(one, f"{at}[{i}]", mistakes, kindly) for i, (item, one) in pairs]
        return make(made) if len(mistakes) == before else None

    kinds = [dict(item.schema) for item in items]
    schema = kinds[0] if all(kind == kinds[0] for kind in kinds) else {"anyOf": kinds}
    sizes = {"minItems": size, "maxItems": size} if size else {}
    return Shape({"type": "array", "items": schema, **sizes}, wanted, read)


def _make_record(kind: Any, inside: tuple[Any, ...]) -> Shape:
    hints, descriptions = type_hints(kind, kind.__name__), parse_docstring(kind)[1]
    make: Callable[..., Any] = dict if _is_typed_dict(kind) else kind
    wanted = {}
    found: list[tuple[str, bool, object]] = []  # name, whether it is required, default
    if _is_typed_dict(kind):
        marked = typing.get_type_hints(kind, include_extras=True)
        for name in hints:
            mark = typing.get_origin(marked[name])  # `__required_keys__` misses it in a string
            is_usual = name in kind.__required_keys__ and mark is not typing.NotRequired
            found.append((name, is_usual or mark is typing.Required, None))
    else:
        for field in filter(attrgetter("init"), dataclasses.fields(kind)):
            has_default = field.default is not dataclasses.MISSING
            is_required = not has_default and field.default_factory is dataclasses.MISSING
            found.append((field.name, is_required, field.default if has_default else None))
    for name, required, default in found:
        member = shape(hints.get(name, Any), f'"{name}" of {kind.__name__}', inside)
        wanted[name] = Parameter(member, descriptions.get(name, ""), required, default)

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


def type_hints(thing: Any, where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigError(f"the type hints of {where} cannot be read: {error}") from None


def parse_docstring(thing: object) -> tuple[str, dict[str, str]]:
    """Returns the first paragraph and the parameter descriptions of a docstring in any style."""
    import docstring_parser  # imported late, as most processes make no tool

    text = inspect.getdoc(thing) or ""
    try:
        found = docstring_parser.parse(text)
    except (docstring_parser.ParseError, IndexError):  # such as for the line `:: x`
        return " ".join(text.partition("\n\n")[0].split()), {}
    more = "" if found.blank_after_short_description else found.long_description or ""
    first = f"{found.short_description or ''}\n{more}".partition("\n\n")[0]
    descriptions = {
        name.strip().lstrip("*"): " ".join((param.description or "").split())
        for param in found.params
        for name in param.arg_name.split(",")  # NumPy: `x, y : float`
    }
    return " ".join(first.split()), descriptions


class TooSlow(Exception):
    """Raised if validation exceeds its time limit."""


def clean_schema(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Checks a schema and returns a copy without `$schema` and `$id`.

    Raises ConfigError if the schema is not a JSON Schema (2020-12), is too large, uses an
    unsupported keyword or pattern, or refers to another document. `where` is the place to name in
    the error, such as `[output]`.
    """
    schema = {key: value for key, value in given.items() if key not in ("$schema", "$id")}
    if not all(isinstance(key, str) for key in schema):
        raise _make_schema_error(where, "its keys are not all strings")
    try:
        size = len(dump(schema))
    except (TypeError, ValueError, RecursionError):
        raise _make_schema_error(where, "it is not JSON") from None
    if size > MAX_SCHEMA:
        raise _make_schema_error(where, f"it has {size} bytes; at most {MAX_SCHEMA} are allowed")
    for problem in _list_problems(schema):
        raise _make_schema_error(where, problem)
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        # without formats: patterns have been checked, and Python's `re` rejects \p{L}
        Draft202012Validator.check_schema(schema, format_checker=None)
    except SchemaError as error:
        path = list(error.absolute_path)
        said = error.message
        if error.validator == "anyOf" and path[-1:] == ["type"]:  # its message has no types
            types = "object, array, string, number, integer, boolean, null"
            said = f"{error.instance!r} is not one of {types}"
        place = _format_path(path).lstrip(".") or "at its top"
        raise _make_schema_error(where, f"{place}: {one_line(said, MAX_TOLD)}") from None
    except RecursionError:
        raise _make_schema_error(where, "it is nested too deeply") from None
    return schema


def find_wrong_arguments(schema: Mapping[str, Any], arguments: object) -> list[str]:
    """Returns the validation errors of a tool's arguments; empty if the schema is unusable."""
    with suppress(ConfigError):
        return find_mistakes(clean_schema(schema, "arguments"), arguments) if schema else []
    return []


def find_mistakes(
    schema: Mapping[str, Any], data: object, *, seconds: float = MAX_SECONDS
) -> list[str]:
    """Returns the validation errors of the data, each with its place; empty if the data is valid.

    `schema` must come from `clean_schema`; `seconds` limits the CPU time of this thread.
    """
    from jsonschema.exceptions import best_match

    mistakes: list[str] = []
    try:
        errors = _make_validator(schema, time.thread_time() + seconds).iter_errors(data)
        for error in islice(errors, MAX_MISTAKES):
            nearest = best_match([error]) if error.context else error
            message, shown = nearest.message, repr(nearest.instance)
            if nearest.validator == "anyOf":
                parts = [part for part in nearest.validator_value if isinstance(part, Mapping)]
                kinds = [part["type"] for part in parts if isinstance(part.get("type"), str)]
                if len(kinds) == len(nearest.validator_value):
                    message = f"{shown} is not of type {' or '.join(map(repr, kinds))}"
            if len(shown) > MAX_SHOWN and message.startswith(shown):
                message = cut_chars(shown, MAX_SHOWN, "…") + message[len(shown) :]
            place = f"data{_format_path(nearest.absolute_path)}"
            mistakes.append(one_line(f"{place}: {message}", MAX_TOLD))
    except TooSlow:
        mistakes.append("it takes too long to check against its schema")
    except RecursionError:
        mistakes.append("it is nested too deeply, or its schema refers to itself endlessly")
    except ArithmeticError as error:
        mistakes.append(f"a number cannot be checked: {error}")
    return mistakes


def _make_schema_error(where: str, problem: str) -> ConfigError:
    return ConfigError(
        f"{where} is not a usable JSON Schema: {problem}",
        hint='for example type = "object", with a table of `properties`',
    )


def _list_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    targets: set[tuple[str, ...]] = {
        ("#", key, name)
        for key in DEFINITIONS
        if isinstance(defined := schema.get(key), Mapping)
        for name in defined
    }
    if schema.get("type") == "object":
        targets.add(("#",))  # others are wrapped in an object, which # would refer to
    rest: list[tuple[Any, int]] = [(schema, 0)]
    while rest:
        part, level = rest.pop()
        if level > MAX_NESTING:
            yield f"it is nested deeper than {MAX_NESTING} levels"
        elif isinstance(part, Mapping):
            yield from (f"{key} is not supported" for key in UNBOUNDED if key in part)
            if isinstance(part.get("$id"), str):
                yield "$id is supported only at the top"
            if isinstance(reference := part.get("$ref"), str):
                steps = unquote(reference).split("/")  # as in the validator: #/$defs/a~1b → a/b
                if tuple(s.replace("~1", "/").replace("~0", "~") for s in steps) not in targets:
                    shown = quote(one_line(reference, MAX_SHOWN))
                    yield f"$ref {shown} is not a schema under $defs; nothing else is loaded"
            patterns = part.get("patternProperties")
            named = patterns if isinstance(patterns, Mapping) else ()
            for pattern in (part.get("pattern"), *named):
                try:
                    compile_pattern(pattern if isinstance(pattern, str) else "")
                except ConfigError as error:
                    shown = quote(one_line(pattern, MAX_SHOWN))
                    yield f"pattern {shown} cannot be used: {error.message}"
            for key, value in part.items():  # other values are data or names
                below: Iterable[Any] = ()
                if key in SCHEMAS:
                    below = (value,)
                elif key in MANY and isinstance(value, list):
                    below = value
                elif key in TABLES and isinstance(value, Mapping):
                    below = value.values()
                rest += [(one, level + 1) for one in below]


def _format_path(path: Iterable[str | int]) -> str:
    steps = (f"[{s}]" if isinstance(s, int) else f".{cut_chars(s, MAX_SHOWN, '…')}" for s in path)
    return "".join(steps)


def _make_validator(schema: Mapping[str, Any], deadline: float) -> Any:
    """Makes a validator that loads no other schemas and checks the deadline at each keyword.

    Each validation step checks one keyword, so validation stops soon after the deadline. Four of
    jsonschema's checks are replaced, because they have no limit or take quadratic time.
    """
    import referencing
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def matches(pattern: str, text: str) -> bool:
        try:
            return compile_pattern(pattern).search(text, timeout=0.2) is not None
        except TimeoutError:
            raise TooSlow from None

    def check_pattern(validator: Any, pattern: str, data: Any, schema: Any) -> Iterator[Any]:
        if isinstance(data, str) and not matches(pattern, data):
            yield ValidationError(f"{data!r} does not match {pattern!r}")

    def check_patterns(validator: Any, patterns: Any, data: Any, schema: Any) -> Iterator[Any]:
        for pattern, below in patterns.items() if isinstance(data, dict) else ():
            for key, value in data.items():
                if matches(pattern, key):
                    yield from validator.descend(value, below, path=key, schema_path=pattern)

    def check_additional(validator: Any, below: Any, data: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(data, dict):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        others = [k for k in data if k not in known and not any(matches(p, k) for p in patterns)]
        if isinstance(below, Mapping):
            for key in others:
                yield from validator.descend(data[key], below, path=key)
        elif not below and others:
            yield ValidationError(f"unexpected {list_some([*map(quote, others)], MAX_MISTAKES)}")

    def check_unique(validator: Any, wanted: Any, data: Any, schema: Any) -> Iterator[Any]:
        if not wanted or not isinstance(data, list):
            return
        if len({json.dumps(item, sort_keys=True) for item in data}) < len(data):
            yield ValidationError("it contains an item more than once")

    def timed(check: Keyword) -> Keyword:
        def check_in_time(validator: Any, value: Any, data: Any, schema: Any) -> Iterable[Any]:
            if time.thread_time() > deadline:
                raise TooSlow
            return check(validator, value, data, schema) or ()

        return check_in_time

    keywords = {
        **Draft202012Validator.VALIDATORS,
        "additionalProperties": check_additional,
        "pattern": check_pattern,
        "patternProperties": check_patterns,
        "uniqueItems": check_unique,
    }
    bounded = extend(Draft202012Validator, {key: timed(keywords[key]) for key in keywords})
    return bounded(schema, registry=referencing.Registry())
