"""Streamed replies of OpenAI's Responses API, and of compatible servers.

Source: D-24, D-31, D-73.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import DeltaKind
from axe_nb.providers import wire
from axe_nb.providers.assembly import Deltas, check_parts
from axe_nb.providers.decoders import SSEDecoder
from axe_nb.providers.reply_errors import error_in_reply, missing_part
from axe_nb.providers.streamed_reply import Streaming

BETWEEN = "\n\n"
"""Separates the texts of several messages in one reply, and parts of a summary."""


def read_message(item: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the text of a message, and the model's reason for declining; each may be empty."""
    content = item.get("content")
    if isinstance(content, str):
        return content, ""
    parts = wire.tables(content, "content")
    said = (wire.text(part.get("text")) for part in parts if part.get("type") == "output_text")
    declined = (wire.text(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    return "".join(said), "".join(declined).strip()


def read_thought(item: Mapping[str, Any]) -> str:
    """Returns the summary of an item of reasoning, or its text where a server sends that instead.

    Other items have none.
    """
    if item.get("type") != "reasoning":
        return ""
    parts = wire.tables(item.get("summary"), "summary") or wire.tables(
        item.get("content"), "content"
    )
    return BETWEEN.join(filter(None, (wire.text(part.get("text")) for part in parts)))


class ResponsesAssembly:
    """The items of a streamed reply: whole ones of the last event, else of their own."""

    def __init__(self, deltas: Deltas) -> None:
        self.is_complete = False
        self.has_ended = False
        self._deltas = deltas
        self._response: dict[str, Any] = {}
        self._items: dict[object, dict[str, Any]] = {}
        """Position in the reply, or id → item, from its first event on."""
        self._whole: set[object] = set()
        """Those that have arrived to their end."""
        self._calls: dict[object, int] = {}
        """The same → position among the calls, once the call has begun."""
        self._shown: set[object] = set()
        """Items of which a piece has been passed on."""
        self._last: dict[str, object] = {}
        """Kind of pieces → the item that the last one belongs to; None if its part has ended."""

    def end(self) -> None:
        """Notes the end mark of another protocol: an answer without its last event is not whole."""
        self.has_ended = True

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds an event; unknown ones are ignored."""
        key: object = data.get("output_index")
        if not isinstance(key, int):
            key = wire.text(data.get("item_id") or wire.table(data.get("item")).get("id"))
        match data.get("type", name):
            case "response.output_text.delta":
                self._show(key, "text", data.get("delta"))
            case "response.function_call_arguments.delta":
                self._show(key, "arguments", data.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._show(key, "reasoning", data.get("delta"))
            case "response.reasoning_summary_part.added" if "reasoning" in self._last:
                self._last["reasoning"] = None
            case "response.output_item.added":
                self._begin(key, wire.table(data.get("item")))
            case "response.output_item.done":
                self._finish(key, wire.table(data.get("item")))
            case "response.completed" | "response.incomplete":
                self._response = wire.table(data.get("response"))
                self.is_complete = self.has_ended = True
            case "response.failed":
                raise self._make_error(wire.table(data.get("response")))

    def _make_error(self, response: dict[str, Any]) -> ProviderError:
        if response.get("error"):
            return error_in_reply(response, self._deltas.secrets)
        return missing_part("answer (status failed)", response)

    def _begin(self, key: object, item: dict[str, Any]) -> None:
        if key not in self._items:
            check_parts(len(self._items) + 1)
        self._items[key] = item
        if item.get("type") == "function_call" and key not in self._calls:
            self._calls[key] = len(self._calls)
            self._deltas.begin_call(self._calls[key], item.get("name"))

    def _finish(self, key: object, item: dict[str, Any]) -> None:
        """Keeps a whole item; a server may have sent no pieces of it."""
        self._begin(key, item)
        self._whole.add(key)
        if key in self._shown:
            return
        match item.get("type"):
            case "function_call":
                self._show(key, "arguments", item.get("arguments"))
            case "message":
                self._show(key, "text", read_message(item)[0])
            case "reasoning":
                self._show(key, "reasoning", read_thought(item))

    def _show(self, key: object, kind: DeltaKind, piece: object) -> None:
        if not isinstance(piece, str) or not piece:
            return
        self._shown.add(key)
        if kind == "arguments":
            if key in self._calls:
                self._deltas.add(piece, kind, self._calls[key])
            return
        if self._last.get(kind, key) != key:
            self._deltas.add(BETWEEN, kind)
        self._last[kind] = key
        self._deltas.add(piece, kind)

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has; some servers leave its items out of it.

        Raises:
            ProviderError: so has this one, and an item is not whole: a call could lack arguments.
        """
        if self._response.get("output") or not self._items:
            return self._response
        if self._items.keys() - self._whole:
            raise missing_part("whole answer", self._response)
        return {**self._response, "output": [*self._items.values()]}


STREAMING = Streaming(
    fields=({"stream": True},),
    decoder=SSEDecoder,
    assembly=ResponsesAssembly,
)
