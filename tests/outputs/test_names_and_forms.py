"""Schemas whose names look like keywords, answers with words around them, forms of each API."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb.conversion.json_schema import clean_schema, find_mistakes
from axe_nb.errors import ConfigError
from axe_nb.providers.output_schema import make_closed, make_strict
from axe_nb.tools.output_form import WrongOutput, make_output


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
    assert output.read('{"kids": [{"kids": []}]}').data == {"kids": [{"kids": []}]}
    with pytest.raises(WrongOutput, match=r"data.kids\[0\].kids"):
        output.read('{"kids": [{"kids": 3}]}')
    with pytest.raises(ConfigError, match='"#"'):
        make_output({"type": "array", "items": {"$ref": "#"}})


@pytest.mark.parametrize(
    "text",
    [
        'Here is the JSON:\n```json\n{"a": 1}\n```\nAnything else?',
        'Sure.\n  ```\n{"a": 1}\n  ```',
        '<think>\nIs it {"a": 2}?\n</think>\n\n{"a": 1}',
        'It is {}.</think>\n```json\n{"a": 1}\n```',
    ],
)
def test_words_around_the_only_fence_and_thoughts_are_left_out(text: str) -> None:
    assert make_output({"type": "object"}).read(text).text == '{"a": 1}'


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```',
        'Run it:\n```python\n{"a": 1}\n```',
        'Here: {"a": 1}',
        'Here:\n```json\n{"a": 1}',
        'Here:\n```json\n{"a": 1}\n```json',
    ],
)
def test_what_may_not_be_the_answer_is_not_guessed(text: str) -> None:
    with pytest.raises(WrongOutput, match="not JSON"):
        make_output({"type": "object"}).read(text)


def test_an_object_whose_only_key_is_value_is_not_taken_for_the_wrapping() -> None:
    output = make_output(dict[str, int] | list[int])
    assert output.read('{"value": 1}').data == {"value": 1}
    assert output.read('{"value": {"value": 1}}').data == {"value": 1}
    assert output.read('{"value": [1]}').data == [1]


def test_strict_mode_gets_no_words_beside_a_reference_and_no_unknown_format() -> None:
    uri = {"type": "string", "format": "uri"}
    schema = {
        "$defs": {"u": uri},
        "type": "object",
        "properties": {"u": {"$ref": "#/$defs/u", "description": "where"}},
        "required": ["u"],
    }
    assert make_strict(schema) == {
        "$defs": {"u": {"type": "string"}},
        "type": "object",
        "properties": {"u": {"$ref": "#/$defs/u"}},
        "required": ["u"],
        "additionalProperties": False,
    }


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
