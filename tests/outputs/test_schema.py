"""Schemas of files and people: checked, bounded, as each API takes them; answers that fit them."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any

import pytest
from anthropic.lib._parse._transform import transform_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.conversion.json_schema import MAX_MISTAKES, clean_schema, find_mistakes
from axe_nb.errors import ConfigError
from axe_nb.providers.output_schema import make_closed, make_strict
from axe_nb.tools.output_form import WrongOutput, make_output

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
        (reduce(lambda inner, _: {"not": inner}, range(5000), {}), "not JSON|nested"),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_with_its_reason(
    schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        clean_schema(schema, "[output]")
    assert str(raised.value).startswith("[output] is not a usable JSON Schema: ")
    assert "\n" not in raised.value.message


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
    [mistake] = find_mistakes(schema, 1)
    assert mistake == "it is nested too deeply, or its schema refers to itself endlessly"


def make_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        make_object(**{"unevaluatedItems": {"type": "string"}, "$dynamicRef": {}, "$id": {}}),
        make_object(**{"$ref": {"type": "string"}, "pattern": {"type": "string"}}),
        make_object(a={"const": {"$ref": "http://x"}}),
        make_object(a={"enum": [{"pattern": "("}, {"$id": "x"}]}),
        make_object(a={"default": {"$ref": "x"}, "examples": [{"unevaluatedItems": 1}]}),
        {"$defs": {"$dynamicRef": {}}, **make_object(a={"$ref": "#/$defs/$dynamicRef"})},
        make_object(a={"pattern": r"^\p{L}+$"}),
    ],
)
def test_names_and_data_in_a_schema_are_no_keywords(schema: dict[str, Any]) -> None:
    assert clean_schema(schema, "[output]") == schema
    assert find_mistakes(schema, {}) == []


@pytest.mark.parametrize(
    ("name", "reference", "is_found"),
    [
        ("a/b", "#/$defs/a~1b", True),
        ("a~b", "#/$defs/a~0b", True),
        ("a b", "#/$defs/a%20b", True),
        ("a/b", "#/$defs/a/b", False),
        ("a/b", "#/$defs/a%2Fb", False),
        ("a%20b", "#/$defs/a%20b", False),
    ],
)
def test_a_reference_is_read_as_the_validator_reads_it(
    name: str, reference: str, is_found: bool
) -> None:
    schema = {"$defs": {name: {"type": "string"}}, **make_object(a={"$ref": reference})}
    if is_found:
        assert find_mistakes(clean_schema(schema, "[output]"), {"a": 1})
    else:
        with pytest.raises(ConfigError, match="is not a schema under"):
            clean_schema(schema, "[output]")


def test_an_object_may_refer_to_itself_as_a_whole() -> None:
    output = make_output(make_object(kids={"type": "array", "items": {"$ref": "#"}}))
    assert output.read('{"kids": [{"kids": []}]}').value == {"kids": [{"kids": []}]}
    with pytest.raises(WrongOutput, match=r"data.kids\[0\].kids"):
        output.read('{"kids": [{"kids": 3}]}')
    with pytest.raises(ConfigError, match='"#"'):
        make_output({"type": "array", "items": {"$ref": "#"}})


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ('Here is the JSON:\n```json\n{"a": 1}\n```\nAnything else?', True),
        ('Sure.\n  ```\n{"a": 1}\n  ```', True),
        ('<think>\nIs it {"a": 2}?\n</think>\n\n{"a": 1}', True),
        ('It is {}.</think>\n```json\n{"a": 1}\n```', True),
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', False),
        ('Run it:\n```python\n{"a": 1}\n```', False),
        ('Here: {"a": 1}', False),
        ('Here:\n```json\n{"a": 1}', False),
        ('Here:\n```json\n{"a": 1}\n```json', False),
    ],
)
def test_words_around_the_only_fence_are_left_out_and_nothing_is_guessed(
    text: str, is_read: bool
) -> None:
    output = make_output({"type": "object"})
    if is_read:
        assert output.read(text).text == '{"a": 1}'
    else:
        with pytest.raises(WrongOutput, match="not JSON"):
            output.read(text)


def test_an_object_whose_only_key_is_value_is_not_taken_for_the_wrapping() -> None:
    output = make_output(dict[str, int] | list[int])
    assert output.read('{"value": 1}').value == {"value": 1}
    assert output.read('{"value": {"value": 1}}').value == {"value": 1}
    assert output.read('{"value": [1]}').value == [1]


def test_strict_mode_gets_no_words_beside_a_reference_and_no_unknown_format() -> None:
    described = {"$ref": "#/$defs/u", "description": "where"}
    schema = {
        "$defs": {"u": {"type": "string", "format": "uri"}}, "required": ["u"],
        **make_object(u=described),
    }  # fmt: skip
    assert make_strict(schema) == {
        "$defs": {"u": {"type": "string"}}, "required": ["u"], "additionalProperties": False,
        **make_object(u={"$ref": "#/$defs/u"}),
    }  # fmt: skip


@pytest.mark.parametrize("make", [make_strict, make_closed])
@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [make_object(a={"type": "string"}), make_object(b={"type": "string"})]},
        {**make_object(a={"type": "string"}), "anyOf": [make_object(b={"type": "string"})]},
    ],
)
def test_schemas_that_have_to_fit_together_are_not_closed_each(make: Any, schema: Any) -> None:
    assert make(schema) is None, "nothing could fit all of them"


ALL_REQUIRED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

OPEN: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {}}, "required": []},
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer"}},
]


def test_strict_mode_is_used_where_all_keys_are_required() -> None:
    assert make_strict(ALL_REQUIRED) == {**ALL_REQUIRED, "additionalProperties": False}


@pytest.mark.parametrize(
    ("make", "schema"),
    [
        *((make, schema) for make in (make_strict, make_closed) for schema in OPEN),
        (make_strict, {"type": "object", "properties": {"a": {"oneOf": []}}, "required": ["a"]}),
        (make_strict, {**ALL_REQUIRED, "additionalProperties": True}),
        (make_strict, {"type": "array", "items": make_object(b={"type": "null"})}),
        (make_strict, {"$defs": {"d": {"type": "object"}}, "$ref": "#/$defs/d"}),
        (make_strict, {"type": "array", "items": False}),
        (make_closed, {"type": "array", "items": True}),
    ],
)
def test_what_an_api_cannot_express_is_asked_for_without_its_form(make: Any, schema: Any) -> None:
    assert make(schema) is None


LEAVES = st.sampled_from(
    [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
    + [{"enum": ["a", 1]}, {"const": None}, {"type": "string", "format": "date"}]
)


def _grow(inner: Any) -> Any:
    names = st.text("abc", min_size=1, max_size=2)
    return st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda some: {"type": "object", "properties": some, "required": sorted(some)},
            st.dictionaries(names, inner, min_size=1, max_size=3),
        ),
    )


@given(st.recursive(LEAVES, _grow, max_leaves=8))
@settings(max_examples=60, deadline=None)
def test_what_is_sent_to_anthropic_is_what_its_own_library_would_send(schema: Any) -> None:
    made = make_closed(schema)
    assert made is not None
    assert _bare(made) == _bare(transform_schema(schema))


def _bare(schema: Any) -> Any:
    """The schema without what is said in words, and the types of listed values."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"description", "format"}
    return {key: _bare(value) for key, value in schema.items() if key not in left_out}
