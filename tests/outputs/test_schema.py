"""Schemas of files and people, and data of models: checked, bounded, nothing loaded."""

from __future__ import annotations

import time
from typing import Any

import pytest

from axe_nb.conversion.json_schema import MAX_MISTAKES, clean_schema, find_mistakes
from axe_nb.errors import ConfigError

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "tags": {"type": "array", "items": {"enum": ["a"]}}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("data", "mistakes"),
    [
        ({"x": 1}, []),
        ({"x": 1.5, "tags": ["a"]}, []),
        ({}, ["data: 'x' is a required property"]),
        ({"x": "1"}, ["data.x: '1' is not of type 'number'"]),
        ({"x": 1, "tags": ["a", "b"]}, ["data.tags[1]: 'b' is not one of ['a']"]),
        ({"x": 1, "y": 2}, ['data: unexpected "y"']),
        ([], ["data: [] is not of type 'object'"]),
    ],
)
def test_a_mistake_has_its_place_and_the_validators_words(data: Any, mistakes: list[str]) -> None:
    assert find_mistakes(POINT, data) == mistakes


def test_mistakes_are_few_and_short() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    mistakes = find_mistakes(schema, ["x" * 10_000] * 1000)
    assert len(mistakes) == MAX_MISTAKES
    assert all(len(mistake) < 150 for mistake in mistakes)
    assert mistakes[0].endswith("… is not of type 'integer'")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objct"}, "type: 'objct' is not one of object, array, string, number"),
        ({"properties": []}, "not of type 'object'"),
        ({"$ref": "http://127.0.0.1:9/x"}, "nothing else is loaded"),
        ({"$ref": "file:///etc/passwd"}, "nothing else is loaded"),
        ({"$ref": "#/$defs/missing"}, "nothing else is loaded"),
        ({"$defs": {"a": {}}, "items": {"$ref": "a.json"}}, "nothing else is loaded"),
        ({"items": {"$id": "http://x/", "$ref": "#"}}, "\\$id is supported only at the top"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties is not supported"),
        ({"pattern": "((a{1000}){1000}){1000}"}, "its repeats make it too large"),
        ({"pattern": "("}, "cannot be used"),
        ({"patternProperties": {"(": {}}}, "cannot be used"),
        ({"const": "x" * 200_000}, "bytes; at most "),
        ({"const": {1, 2}}, "it is not JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_with_its_reason(
    schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        clean_schema(schema, "[output]")
    assert str(raised.value).startswith("[output] is not a usable JSON Schema: ")
    assert "\n" not in raised.value.message


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(ConfigError, match=r"not JSON|nested"):
        clean_schema(schema, "[output]")


def _fork(levels: int) -> dict[str, Any]:
    """A schema whose check takes 2 ** levels steps."""
    twice = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)
    }  # fmt: skip
    return {"$defs": {**twice, f"d{levels}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


HARD = [
    pytest.param({"pattern": "^(a|a)*$"}, "a" * 60 + "b", id="a pattern without end"),
    pytest.param({"pattern": "^(a+)+$"}, "a" * 200_000 + "b", id="another"),
    pytest.param({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 60 + "b": 1}, id="of a key"),
    pytest.param(_fork(40), 1, id="alternatives that double"),
    pytest.param(
        {"type": "array", "items": {"anyOf": [*[{"type": "integer"}] * 500, {"type": "string"}]}},
        ["x"] * 100_000,
        id="much data, many alternatives",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "data"), HARD)
def test_a_check_that_would_not_end_is_stopped(schema: dict[str, Any], data: Any) -> None:
    schema = clean_schema(schema, "[output]")
    started = time.thread_time()
    mistakes = find_mistakes(schema, data, seconds=0.1)
    assert any("takes too long" in mistake for mistake in mistakes)
    assert time.thread_time() - started < 10


def test_a_schema_that_refers_to_itself_without_an_end_is_a_mistake_of_the_answer() -> None:
    schema = clean_schema({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "[output]")
    assert find_mistakes(schema, 1) == [
        "it is nested too deeply, or its schema refers to itself endlessly"
    ]
