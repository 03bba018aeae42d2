"""Streamed replies of Ollama: lines of JSON, each with a part of the message.

Source: D-24, D-31; seed 000 §3.4 (A-4.*).
"""

from __future__ import annotations

from typing import Any

from axe_nb.messages import dump
from axe_nb.providers import wire
from axe_nb.providers.assembly import Deltas, append_text, check_parts
from axe_nb.providers.decoders import NDJSONDecoder
from axe_nb.providers.streamed_reply import Streaming


class OllamaAssembly:
    """The lines of one reply; the last one has `done: true`."""

    def __init__(self, deltas: Deltas) -> None:
        self.is_complete = False
        self.has_ended = False
        self._deltas = deltas
        self._top: dict[str, Any] = {}
        self._message: dict[str, Any] | None = None
        self._calls: list[dict[str, Any]] = []

    def end(self) -> None:
        """Notes the end mark of another protocol, which means nothing here."""

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds a line."""
        self._top.update(data)
        message = data.get("message")
        if isinstance(message, dict):
            self._message = self._message or {}
            for key, value in message.items():
                self._add_value(self._message, key, value)
        if data.get("done"):
            self.is_complete = self.has_ended = True

    def _add_value(self, message: dict[str, Any], key: str, value: object) -> None:
        if key == "tool_calls":
            self._add_calls(value)
        elif key in ("content", "thinking") and isinstance(value, str):
            append_text(message, key, value)
            self._deltas.add(value, "text" if key == "content" else "reasoning")
        elif value is not None:
            message[key] = value

    def _add_calls(self, value: object) -> None:
        for call in wire.tables(value, "tool_calls"):
            check_parts(len(self._calls) + 1)
            function = wire.table(call.get("function"))
            self._deltas.begin_call(len(self._calls), function.get("name"))
            if arguments := function.get("arguments"):
                text = arguments if isinstance(arguments, str) else dump(arguments).decode()
                self._deltas.add(text, "arguments", len(self._calls))
            self._calls.append(call)

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has."""
        if self._message is None:
            return self._top
        calls = {"tool_calls": self._calls} if self._calls else {}
        return {**self._top, "message": {**self._message, **calls}}


STREAMING = Streaming(
    fields=({"stream": True},),
    decoder=NDJSONDecoder,
    assembly=OllamaAssembly,
)
