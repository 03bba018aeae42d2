"""The texts of a run as the attributes of its spans: without secrets, bounded, always valid JSON.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (input and output messages); D-60.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.redaction import find_filter
from axe_nb.text import clean, cut_chars, one_line

MAX_TEXT = 10_000
"""Characters of one text."""

MAX_NAME = 200
"""Characters of a name or id, which a model may have made up."""

MAX_MESSAGES = 100_000
"""Bytes of the messages of one request as JSON; the latest ones stay."""


class Messages:
    """The messages of one run so far, each as JSON."""

    def __init__(self, prompt: str) -> None:
        """Begins with the prompt."""
        self._written: list[str] = []
        self.add("user", make_text(prompt))

    def add(self, role: str, *parts: Mapping[str, Any], **more: str) -> None:
        """Adds a message."""
        named = {key: write_name(value) for key, value in more.items()}
        self._written.append(_write({"role": role, "parts": list(parts), **named}))

    def write_last(self) -> str:
        """Returns a JSON list with the last message alone."""
        return f"[{self._written[-1]}]"

    def write(self) -> str:
        """Returns the latest messages as a JSON list."""
        size, first = 0, len(self._written)
        while first and (size := size + len(self._written[first - 1])) <= MAX_MESSAGES:
            first -= 1
        return f"[{','.join(self._written[first:])}]"


def write_text(text: str) -> str:
    """Returns a text without secrets, cut.

    Without what cannot be written in UTF-8 too: one such character can cost an exporter a batch.
    """
    return cut_chars(clean(find_filter().text(text)), MAX_TEXT, "…")


def write_name(name: str) -> str:
    """Returns a name or id without secrets on one line, cut."""
    return one_line(find_filter().text(name), MAX_NAME)


def write_arguments(call: ToolCall) -> str:
    """Returns the arguments of a call as JSON."""
    return _write(_bound(call.arguments))


def make_text(text: str) -> dict[str, Any]:
    """The part of a message that is text."""
    return {"type": "text", "content": write_text(text)}


def make_call(call: ToolCall) -> dict[str, Any]:
    """The part of a message that is a call."""
    arguments = _bound(call.arguments)
    named = {"id": write_name(call.id), "name": write_name(call.name)}
    return {"type": "tool_call", **named, "arguments": arguments}


def make_result(result: ToolResult) -> dict[str, Any]:
    """The part of a message that is the result of a call."""
    response = write_text(result.content)
    return {"type": "tool_call_response", "id": write_name(result.call_id), "response": response}


def _bound(arguments: Mapping[str, Any]) -> Any:
    """The arguments without secrets; a text that is cut if they are too long."""
    told = find_filter().json(arguments)
    text = _write(told)
    return told if len(text) <= MAX_TEXT else cut_chars(text, MAX_TEXT, "…")


def _write(value: Any) -> str:
    return dump(value).decode()
