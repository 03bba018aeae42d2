"""JSON Schemas for structured output, converted to the subset that each API can enforce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

STRICT = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems",
    "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
}  # fmt: skip
"""JSON Schema keywords that OpenAI accepts in strict mode."""

ANTHROPIC = {
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "definitions",
    "description", "enum", "items", "properties", "required", "title", "type",
}  # fmt: skip
"""JSON Schema keywords that `make_closed` keeps, as Anthropic accepts them."""

FORMATS = {
    "", "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid",
}  # fmt: skip
"""Values of `format` that OpenAI accepts in strict mode; "" stands for a missing `format`."""

TABLE_KEYS = ("$defs", "definitions")
"""Keywords that hold the named schemas that `$ref` refers to."""


def make_strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Converts a schema to OpenAI's strict mode; returns None if strict mode cannot express it."""
    if "$ref" in schema:  # strict mode allows no other keywords beside `$ref`
        notes = ("default", "deprecated", "description", "examples", "title")
        schema = {key: value for key, value in schema.items() if key not in notes}
        if len(schema.keys() - TABLE_KEYS) > 1:
            return None
    if not schema.keys() <= STRICT or _is_joined(schema):
        return None
    if schema.get("format", "") not in FORMATS:
        schema = {key: value for key, value in schema.items() if key != "format"}
    if schema.get("type") == "object" or "properties" in schema:
        names = set(schema.get("properties", ()))
        if set(schema.get("required", ())) != names or _is_open(schema):
            return None
        schema = {**schema, "additionalProperties": False}
    return _rebuild(schema, make_strict)


def name_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Wraps a schema as `{name, strict, schema}` for OpenAI; uses strict mode if possible."""
    strict = make_strict(schema)
    return {"name": "answer", "strict": strict is not None, "schema": strict or dict(schema)}


def make_closed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Converts a schema for Anthropic, or returns None if Anthropic's API cannot express it.

    Keywords that the API does not accept, such as bounds, become part of the description, but are
    dropped beside `$ref`; `oneOf` becomes `anyOf`.
    """
    if isinstance(schema.get("oneOf"), list) and "anyOf" not in schema:
        schema = {**schema, "anyOf": schema["oneOf"]}
        del schema["oneOf"]
    kept = {key: value for key, value in schema.items() if key in ANTHROPIC}
    others = {key: value for key, value in schema.items() if key not in ANTHROPIC}
    if _is_joined(schema) or not kept.keys() & {"type", "anyOf", "allOf", "enum", "const", "$ref"}:
        return None
    if schema.get("type") == "object" or "properties" in schema:
        if _is_open(schema) or "patternProperties" in schema:
            return None
        kept["additionalProperties"] = False
    if others and "$ref" not in kept:
        limits = ", ".join(f"{key}: {value}" for key, value in others.items())
        kept["description"] = f"{kept.get('description', '')} ({limits})".strip()
    return _rebuild(kept, make_closed)


def _is_joined(schema: Mapping[str, Any]) -> bool:
    """True if a schema combines subschemas that conflict once each forbids additional keys."""
    parts = [key for key in ("$ref", "allOf", "anyOf", "properties") if key in schema]
    return len(parts) > 1 or len(schema.get("allOf", ())) > 1


def _is_open(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping) or (
        schema.get("additionalProperties") is True or not schema.get("properties")
    )


def _rebuild(
    schema: Mapping[str, Any], make: Callable[[Mapping[str, Any]], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Applies `make` to each direct subschema; returns None if `make` returns None for any."""
    made = dict(schema)
    parts: list[Any] = []

    def remake(value: object) -> Any:
        parts.append(make(value) if isinstance(value, Mapping) else None)
        return parts[-1]

    for key, value in schema.items():
        if key == "items" or (key == "additionalProperties" and isinstance(value, Mapping)):
            made[key] = remake(value)
        elif key in ("allOf", "anyOf"):
            made[key] = [remake(one) for one in value]
        elif key in (*TABLE_KEYS, "properties"):
            made[key] = {name: remake(one) for name, one in value.items()}
    return None if any(part is None for part in parts) else made
