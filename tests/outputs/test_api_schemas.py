"""Schemas as each API takes them."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib._parse._transform import transform_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.providers.output_schema import make_closed, make_strict

ALL_REQUIRED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_strict_mode_is_used_where_all_keys_are_required() -> None:
    assert make_strict(ALL_REQUIRED) == {**ALL_REQUIRED, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}, "required": []},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"oneOf": []}}, "required": ["a"]},
        {**ALL_REQUIRED, "additionalProperties": True},
        {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "null"}}}},
        {"$defs": {"d": {"type": "object"}}, "$ref": "#/$defs/d"},
        {"type": "array", "items": False},
    ],
)
def test_what_strict_mode_refuses_is_asked_for_without_it(schema: dict[str, Any]) -> None:
    assert make_strict(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array", "items": True},
    ],
)
def test_what_anthropic_cannot_express_is_left_to_a_tool(schema: dict[str, Any]) -> None:
    assert make_closed(schema) is None


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
