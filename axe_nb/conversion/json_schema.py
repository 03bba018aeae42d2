"""JSON Schemas that came from a file or a person: checked, and then used to check data.

A schema may come with a repository, and the data is a model's. Nothing is loaded over the network
or from files, patterns have a time limit, and so has each check as a whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from axe_nb.conversion.json_types import MAX_MISTAKES, MAX_TOLD
from axe_nb.conversion.patterns import compile_pattern
from axe_nb.errors import ConfigError
from axe_nb.messages import dump
from axe_nb.text import MAX_SHOWN, cut_chars, list_some, one_line, quote

MAX_SCHEMA, MAX_NESTING = 100_000, 60
"""Maximum bytes of a schema as JSON, and its levels."""

MAX_SECONDS = 1.0
"""Maximum seconds for checking one answer, as a schema can make a check endless."""

DEFINITIONS = ("$defs", "definitions")
"""Top-level keys whose schemas `$ref` may refer to."""

SCHEMAS = (
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then",
)  # fmt: skip
"""Keywords whose value is a schema."""

LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""

TABLES = (*DEFINITIONS, "dependentSchemas", "patternProperties", "properties")
"""Keywords whose value has a schema for each name."""

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[Any]]
"""(validator, the keyword's value, data, its schema) → mistakes."""


class TooSlow(Exception):
    """A check exceeded its time limit."""


def clean_schema(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns a schema that can be used, without the keywords that say where it comes from.

    Raises ConfigError: it is not a JSON Schema (2020-12), too large, or refers to another place;
    `where` says in the message what it is: `[output]`.
    """
    schema = {key: value for key, value in given.items() if key not in ("$schema", "$id")}
    if not all(isinstance(key, str) for key in schema):
        raise _make_error(where, "its keys are not all strings")
    try:
        size = len(dump(schema))
    except (TypeError, ValueError, RecursionError):
        raise _make_error(where, "it is not JSON") from None
    if size > MAX_SCHEMA:
        raise _make_error(where, f"it has {size} bytes; at most {MAX_SCHEMA} are allowed")
    for problem in _list_problems(schema):
        raise _make_error(where, problem)
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        # without formats: patterns have been checked, and \p{L} is none of Python's `re`
        Draft202012Validator.check_schema(schema, format_checker=None)
    except SchemaError as error:
        path = list(error.absolute_path)
        said = error.message
        if error.validator == "anyOf" and path[-1:] == ["type"]:  # whose words would name no type
            types = "object, array, string, number, integer, boolean, null"
            said = f"{error.instance!r} is not one of {types}"
        place = _format_path(path).lstrip(".") or "at its top"
        raise _make_error(where, f"{place}: {one_line(said, MAX_TOLD)}") from None
    except RecursionError:
        raise _make_error(where, "it is nested too deeply") from None
    return schema


def find_mistakes(
    schema: Mapping[str, Any], data: object, *, seconds: float = MAX_SECONDS
) -> list[str]:
    """Returns the mistakes in the data, each with its place; none if it is valid.

    The schema is one that `clean_schema` has returned; the time is that of this thread on a
    processor.
    """
    from jsonschema.exceptions import best_match

    mistakes: list[str] = []
    try:
        for error in _make_validator(schema, time.thread_time() + seconds).iter_errors(data):
            nearest = best_match([error]) if error.context else error
            message, shown = nearest.message, repr(nearest.instance)
            if len(shown) > MAX_SHOWN and message.startswith(shown):
                message = cut_chars(shown, MAX_SHOWN, "…") + message[len(shown) :]
            place = f"data{_format_path(nearest.absolute_path)}"
            mistakes.append(one_line(f"{place}: {message}", MAX_TOLD))
            if len(mistakes) >= MAX_MISTAKES:
                break
    except TooSlow:
        mistakes.append("it takes too long to check against its schema")
    except RecursionError:
        mistakes.append("it is nested too deeply, or its schema refers to itself endlessly")
    except ArithmeticError as error:
        mistakes.append(f"a number cannot be checked: {error}")
    return mistakes


def _make_error(where: str, problem: str) -> ConfigError:
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
        targets.add(("#",))  # other schemas become a part of one, where # would lead elsewhere
    rest: list[tuple[Any, int]] = [(schema, 0)]
    while rest:
        part, level = rest.pop()
        if level > MAX_NESTING:
            yield f"it is nested deeper than {MAX_NESTING} levels"
        elif isinstance(part, Mapping):
            # their time cannot be limited from outside
            for key in (
                "$dynamicRef",
                "$recursiveRef",
                "unevaluatedItems",
                "unevaluatedProperties",
            ):
                if key in part:
                    yield f"{key} is not supported"
            if isinstance(part.get("$id"), str):
                yield "$id is supported only at the top"
            if isinstance(reference := part.get("$ref"), str):
                steps = unquote(reference).split("/")  # as the validator: #/$defs/a~1b → a/b
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
            for key, value in part.items():  # what is data or a name there is no schema
                below: Iterable[Any] = ()
                if key in SCHEMAS:
                    below = (value,)
                elif key in LISTS and isinstance(value, list):
                    below = value
                elif key in TABLES and isinstance(value, Mapping):
                    below = value.values()
                rest += [(one, level + 1) for one in below]


def _format_path(path: Iterable[str | int]) -> str:
    steps = (f"[{s}]" if isinstance(s, int) else f".{cut_chars(s, MAX_SHOWN, '…')}" for s in path)
    return "".join(steps)


def _make_validator(schema: Mapping[str, Any], deadline: float) -> Any:
    """Makes a validator that loads nothing and checks the deadline at each keyword.

    It descends into data by way of keywords only, so that no check goes on for long after that. The
    library would check four of them with patterns without a limit, or in quadratic time.
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
