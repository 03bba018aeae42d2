"""JSON that a person types at a prompt: arguments of calls, replies, and their mistakes.

Source: D-48; product.md "Step by step".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from axe_nb.conversion.json_schema import find_mistakes
from axe_nb.messages import Response, ToolCall
from axe_nb.providers.wire import check_nesting
from axe_nb.scripting.rules import stop_reason
from axe_nb.text import list_some, quote

ARGUMENTS = "arguments, as JSON: "
"""The prompt for arguments."""

REPLY = "reply, as text or JSON: "
"""The prompt for a reply."""

EXAMPLE = '{"text": "…", "calls": [{"tool": "…", "arguments": {…}}]}'
"""A reply as JSON."""


class WrongInput(Exception):
    """Typed text that cannot be used; the message is a sentence with the place."""


def read_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for the arguments of a call.

    Args:
        schema: their JSON Schema; empty = they are not checked.

    Raises:
        WrongInput: they are not a JSON object, or do not fit the schema.
    """
    arguments = _parse(input(ARGUMENTS), "The arguments must be a JSON object")
    if not isinstance(arguments, dict):
        raise WrongInput("The arguments must be a JSON object, in braces.")
    if mistakes := find_mistakes(schema, arguments) if schema else []:
        told = "; ".join(f"arguments{mistake.removeprefix('data')}" for mistake in mistakes)
        raise WrongInput(f"The arguments do not fit their schema: {told}.")
    return arguments


def parse_reply(typed: str) -> Response:
    """Returns the reply that a person typed: a text, or JSON with its text and calls.

    Raises:
        WrongInput: it begins with a brace, and is not JSON, or no reply.
    """
    if not typed.lstrip().startswith("{"):
        return Response(typed, (), stop_reason(()))
    said = _parse(
        typed, 'A reply in braces must be JSON; for text that starts with one, type {"text": "…"}'
    )
    assert isinstance(said, dict)
    if not said or not said.keys() <= {"text", "calls"}:
        return Response(typed, (), stop_reason(()))  # an answer that is data
    text, listed = said.get("text", ""), said.get("calls", [])
    if not isinstance(text, str):
        raise WrongInput("The text of a reply must be a string.")
    if not isinstance(listed, list):
        raise WrongInput(f"The calls of a reply must be a list, as in {EXAMPLE}.")
    calls = tuple(_read_call(one, f"calls[{index}]") for index, one in enumerate(listed))
    return Response(text, calls, stop_reason(calls))


def _read_call(said: Any, place: str) -> ToolCall:
    if not isinstance(said, dict) or not isinstance(said.get("tool"), str) or not said["tool"]:
        raise WrongInput(f"{place} has no tool, as in {EXAMPLE}.")
    if unknown := sorted(said.keys() - {"tool", "arguments"}):
        raise WrongInput(f"{place} has an unknown key: {list_some([*map(quote, unknown)], 3)}.")
    arguments = said.get("arguments", {})
    if not isinstance(arguments, dict):
        raise WrongInput(f"{place}.arguments must be a JSON object.")
    return ToolCall("", said["tool"], arguments)


def _parse(typed: str, wanted: str) -> Any:
    """Parses JSON.

    Raises:
        WrongInput: it is not JSON, or nested too deeply.
    """
    try:
        value = json.loads(typed)
        check_nesting(value)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        raise WrongInput(f"{wanted} ({where}: {error.msg}).") from None
    except (ValueError, RecursionError):
        raise WrongInput(f"{wanted}, nested less deeply.") from None
    return value
