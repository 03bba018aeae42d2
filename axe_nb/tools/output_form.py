"""Structured output: JSON Schemas for answers, and answers converted to Python values (D-65)."""

from __future__ import annotations

import json
import os
import re
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.agent import read_schema_file
from axe_nb.agents.files import expand_home
from axe_nb.conversion.json_schema import (
    DEFINITIONS,
    MAX_MISTAKES,
    MAX_SECONDS,
    MAX_TOLD,
    Mistakes,
    clean_schema,
    find_mistakes,
    is_record,
    note,
    shape,
)
from axe_nb.errors import ConfigError, words
from axe_nb.messages import dump
from axe_nb.providers.wire import loads
from axe_nb.text import MAX_SHOWN, one_line, quote

VALUE = "value"
"""Key that wraps data other than an object, as some providers require a top-level object."""

Convert: TypeAlias = Callable[[Any, Mistakes], Any]


def uses_pydantic(given: Any, seen: frozenset[Any] = frozenset()) -> bool:
    if isinstance(given, type) and hasattr(given, "__pydantic_core_schema__"):
        return True
    parts, kind = [*typing.get_args(given)], typing.get_origin(given) or given
    if is_record(given) and kind not in seen:
        seen |= {kind}
        with suppress(Exception):  # unreadable hints are reported when the schema is made
            parts += typing.get_type_hints(kind).values()
    return any(uses_pydantic(part, seen) for part in parts)


def _read_pydantic(given: Any, where: str) -> tuple[Mapping[str, Any], Convert]:
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(given)
        schema = adapter.json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, NameError) as error:
        said = one_line(getattr(error, "message", str(error)), 200)
        raise ConfigError(f"{where} cannot be described as a JSON Schema: {said}") from None

    def convert(data: Any, mistakes: Mistakes) -> Any:
        try:
            return adapter.validate_json(dump(data))
        except pydantic.ValidationError as error:
            for mistake in error.errors(include_url=False, include_context=False):
                steps = (f"[{s}]" if isinstance(s, int) else f".{s}" for s in mistake["loc"])
                note(mistakes, f"data{''.join(steps)}: {mistake['msg']}")
        except Exception as error:  # from the user's own validator
            note(mistakes, f"data: {one_line(str(error), 200)}")
        return None

    return schema, convert


class WrongOutput(Exception):
    """Raised if an answer does not match its schema; the message lists the validation errors."""


@dataclass(frozen=True, slots=True)
class Answer:
    value: Any
    """Answer converted to the requested type, or JSON data if a schema was requested."""
    text: str
    """Answer as JSON text, without the wrapper `{"value": …}`."""


@dataclass(frozen=True, slots=True)
class Output:
    sent: Mapping[str, Any]
    """JSON Schema sent to the provider; it always describes an object."""
    is_wrapped: bool = False
    """True if data other than an object is wrapped as `{"value": data}`."""
    convert: Convert | None = None

    def read(self, text: str) -> Answer:
        bare = _take_out(text.strip())
        try:
            data = loads(bare, strict=True)
        except ValueError as error:
            problem = f"it is not JSON: {error}" if bare else "it is empty"
            if bare and getattr(error, "pos", None) == 0:
                problem = f"it is not JSON, but the text {quote(one_line(bare, MAX_SHOWN))}"
            raise WrongOutput(problem) from None
        seconds = MAX_SECONDS + len(bare) * 1e-5
        forms = [data]
        if self.is_wrapped:  # a model may omit the wrapper if its provider does not enforce it
            is_whole = isinstance(data, dict) and data.keys() == {VALUE}
            forms = [*forms, {VALUE: data}] if is_whole else [{VALUE: data}]
        found = [(form, find_mistakes(self.sent, form, seconds=seconds)) for form in forms]
        data, mistakes = next((one for one in found if not one[1]), found[0])
        if mistakes:
            raise WrongOutput("\n".join(mistakes))
        if self.is_wrapped:
            data = data[VALUE]
        value, mistakes = data, []
        if self.convert is not None:
            try:
                value = self.convert(data, mistakes)
            except Exception as error:  # the user's own class may raise anything
                said = one_line(f"{type(error).__name__}: {words(error)}", MAX_TOLD)
                mistakes = [f"data: {said}"]
        if mistakes:
            raise WrongOutput("\n".join(mistakes[:MAX_MISTAKES]))
        is_own = bare == text.strip() and not self.is_wrapped
        return Answer(value, text if is_own else json.dumps(data, ensure_ascii=False))


def make_output(given: Any, where: str = "output") -> Output:
    """Creates an `Output` from a JSON Schema or a type. Raises ConfigError if it is unsuitable."""
    if isinstance(given, Output):
        return given
    if isinstance(given, Mapping):
        return _wrap(clean_schema(given, where), None)
    if uses_pydantic(given):
        schema, convert = _read_pydantic(given, where)
        return _wrap(clean_schema(schema, where), convert)
    if not isinstance(given, type) and typing.get_origin(given) is None:
        raise ConfigError(
            f"{where} is neither a JSON Schema nor a type",
            hint="pass a dict, a dataclass, a TypedDict, a pydantic model, or list[…] of one",
        )
    try:
        form = shape(given, where)
    except ConfigError as error:
        error.hint += "; put other types into a pydantic model"
        raise

    def convert_strictly(data: Any, mistakes: Mistakes) -> Any:
        return form.read(data, "data", mistakes, False)

    return _wrap(clean_schema(form.schema, where), convert_strictly)


def _wrap(schema: Mapping[str, Any], convert: Convert | None) -> Output:
    """Creates an `Output`, wrapping a schema that does not describe an object."""
    if schema.get("type") == "object":
        return Output(schema, convert=convert)
    defined = {key: schema[key] for key in DEFINITIONS if key in schema}
    inner = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    sent = {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
        **defined,
    }
    return Output(sent, is_wrapped=True, convert=convert)


def _take_out(text: str) -> str:
    """Returns the content of an answer's only code block, or the answer after any `</think>`."""
    if text.startswith(("{", "[", '"')):
        return text
    text = text.rpartition("</think>")[2].strip()  # some servers leave it in the answer
    if text.startswith("```") and text.endswith("```") and not text.endswith("\n```"):
        text = f"{text[:-3]}\n```"
    if len(re.findall(r"(?m)^[ \t]*```", text)) != 2:
        return text
    found = re.search(r"(?ims)^[ \t]*```[ \t]*+(?:json)?[^\S\n]*+\n(.*)^[ \t]*```[^\S\n]*$", text)
    return found[1].strip() if found else text


def find_output(given: Any) -> Output:
    """Creates an `Output` from a JSON Schema, a type, or the path of a schema file."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not isinstance(given, str):
        return make_output(given, "output")
    path = Path(os.path.realpath(expand_home(given)))
    if not path.exists():
        raise ConfigError(
            f"JSON Schema file not found: {quote(one_line(given, 100))}",
            hint="in a notebook, --output also takes the name of a variable with a type or dict, "
            "such as towns for towns = list[Town]; in Python, pass it as output=",
        )
    return make_output(read_schema_file(path, given), quote(given))
