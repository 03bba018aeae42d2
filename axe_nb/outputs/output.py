"""The form of an answer: a JSON Schema, and the Python value that the answer becomes.

Source: product.md "Models can do more than text", "Python" (`output=`); D-65.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from axe_nb.errors import ConfigError, words
from axe_nb.outputs import pydantic_types
from axe_nb.outputs.schema import (
    DEFINITIONS,
    MAX_MISTAKES,
    MAX_SECONDS,
    MAX_TOLD,
    clean_schema,
    find_mistakes,
)
from axe_nb.providers.wire import loads
from axe_nb.text import one_line, quote
from axe_nb.tools.json_types import Mistakes, is_record, is_type, shape

SECONDS_PER_BYTE = 1e-5
"""Time that a check may take for each character of an answer, besides `MAX_SECONDS`."""

MAX_QUOTED = 60
"""Characters of an answer without data that the error quotes."""

VALUE = "value"
"""Key of data that is not an object, which some providers accept at the top only."""

Convert: TypeAlias = Callable[[Any, Mistakes], Any]
"""(JSON data, its mistakes so far) → the Python value."""


class WrongOutput(Exception):
    """An answer that does not fit; its text lists the mistakes, for the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A valid answer."""

    data: Any
    """JSON data."""
    value: Any
    """The same as the type that was asked for; JSON data if that was a schema."""
    text: str
    """The data as JSON: the model's own words, unless there was more than the data in them."""


@dataclass(frozen=True, slots=True)
class Output:
    """The form of an answer."""

    sent: Mapping[str, Any]
    """JSON Schema of an object, for the provider."""
    is_wrapped: bool = False
    """True if that object only holds the data, as `value`, because the data is not one."""
    convert: Convert | None = None
    """Makes the Python value; None = it stays JSON data."""

    def read(self, text: str) -> Answer:
        """Reads an answer.

        Raises:
            WrongOutput: it is not JSON, or does not fit.
        """
        bare = _take_out(text.strip())
        try:
            data = loads(bare, strict=True)
        except ValueError as error:
            raise WrongOutput(_tell_no_json(bare, error)) from None
        seconds = MAX_SECONDS + len(bare) * SECONDS_PER_BYTE
        is_whole = not self.is_wrapped or (isinstance(data, dict) and data.keys() == {VALUE})
        mistakes = find_mistakes(self.sent, data, seconds=seconds) if is_whole else []
        if self.is_wrapped and (mistakes or not is_whole):
            # a model that was only told so may leave the object out
            within = {VALUE: data}
            others = find_mistakes(self.sent, within, seconds=seconds)
            if not (is_whole and others):
                data, mistakes = within, others
        if mistakes:
            raise WrongOutput("\n".join(mistakes))
        if self.is_wrapped:
            data = data[VALUE]
        value = self._convert(data)
        is_own = bare == text.strip() and not self.is_wrapped
        return Answer(data, value, text if is_own else json.dumps(data, ensure_ascii=False))

    def _convert(self, data: Any) -> Any:
        if self.convert is None:
            return data
        mistakes: Mistakes = []
        try:
            value = self.convert(data, mistakes)
        except Exception as error:  # of the user's own class, whatever it raises
            said = one_line(f"{type(error).__name__}: {words(error)}", MAX_TOLD)
            raise WrongOutput(f"data: {said}") from None
        if mistakes:
            raise WrongOutput("\n".join(mistakes[:MAX_MISTAKES]))
        return value


def make_output(given: Any, where: str = "output") -> Output:
    """Returns the form of an answer that a JSON Schema or a type describes.

    Args:
        given: a JSON Schema as a dict, a dataclass, a TypedDict, a pydantic model, a list of one
            of these, or any other type that a parameter of a tool may have.
        where: what it is, for the error.

    Raises:
        ConfigError: it cannot be used.
    """
    if isinstance(given, Output):
        return given
    if isinstance(given, Mapping):
        return _wrap(clean_schema(given, where), None)
    if pydantic_types.is_used(given):
        schema, convert = pydantic_types.read(given, where)
        return _wrap(clean_schema(schema, where), convert)
    if not is_type(given):
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


def may_be_output(value: Any) -> bool:
    """True for what describes a form of answers: a record type, a list of them, a schema."""
    if isinstance(value, Mapping):
        return "type" in value or "properties" in value or "$ref" in value
    is_list = typing.get_origin(value) is list
    return is_list or (is_type(value) and (is_record(value) or pydantic_types.is_used(value)))


def _wrap(schema: Mapping[str, Any], convert: Convert | None) -> Output:
    """Puts a schema of other data than an object into one."""
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


def _tell_no_json(bare: str, error: ValueError) -> str:
    if not bare:
        return "it is empty"
    if getattr(error, "pos", None) == 0:
        return f"it is not JSON, but the text {quote(one_line(bare, MAX_QUOTED))}"
    return f"it is not JSON: {error}"


def _take_out(text: str) -> str:
    """Returns what is within the only Markdown fence of an answer, else all of it.

    Thoughts before it, which servers without a parser for them leave in the text, are dropped.
    """
    if text.startswith(("{", "[", '"')):
        return text
    text = text.rpartition("</think>")[2].strip()
    if text.startswith("```") and text.endswith("```") and not text.endswith("\n```"):
        text = f"{text[:-3]}\n```"
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    if len(fences) != 2:
        return text
    first, last = fences
    language = lines[first].strip()[3:].strip().casefold()
    is_closed = lines[last].strip() == "```"
    is_json = is_closed and language in ("", "json")
    return "\n".join(lines[first + 1 : last]).strip() if is_json else text
