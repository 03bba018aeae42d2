"""Streamed replies of Anthropic's Messages API.

Source: D-24, D-31; seed 000 §3.2 (A-2.*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from axe_nb.messages import dump
from axe_nb.providers import wire
from axe_nb.providers.assembly import Deltas, append_text, check_parts, settle
from axe_nb.providers.decoders import SSEDecoder
from axe_nb.providers.streamed_reply import Streaming

BLOCK_OF = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Type of a delta → type of its block, if the server has not begun one."""


GAP = "\n\n"
"""Stands between a text and the next one, if the server has worked in between."""


def ends_work(kind: str) -> bool:
    """True for the type of a block with the result of a tool that the server has run."""
    return kind.endswith("_tool_result")


@dataclass
class _Block:
    """A block of content that is arriving."""

    entry: dict[str, Any]
    call: int | None
    """Position of its call in the reply, if it is one."""
    gap: str = ""
    """Stands before its text."""

    def settle(self) -> dict[str, Any]:
        """Returns the block as in a whole reply: the pieces of its input are an object."""
        entry = dict(self.entry)
        pieces = wire.text(settle(entry.pop("partial_json", "")))
        if pieces.strip():
            try:
                entry["input"] = wire.loads(pieces, strict=True)
            except ValueError:
                entry["input"] = pieces
        return entry


class AnthropicAssembly:
    """The blocks of a streamed message."""

    def __init__(self, deltas: Deltas) -> None:
        self.is_complete = False
        self.has_ended = False
        self._deltas = deltas
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._by_index: dict[object, _Block] = {}
        self._calls = 0
        self._says = False
        """True once there is some text."""

    def end(self) -> None:
        """Notes the end mark of another protocol, which means nothing here."""

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds an event; unknown ones are ignored."""
        match data.get("type", name):
            case "content_block_delta":
                self._add_delta(data.get("index"), wire.table(data.get("delta")))
            case "content_block_start":
                self._begin_block(data.get("index"), wire.table(data.get("content_block")))
            case "message_start":
                self._begin_message(wire.table(data.get("message")))
            case "message_delta":
                changes = wire.table(data.get("delta"))
                self._add_changes(changes, data.get("usage"))
                self.is_complete = self.is_complete or bool(changes.get("stop_reason"))
            case "message_stop":
                self.is_complete = self.has_ended = True

    def _begin_message(self, message: dict[str, Any]) -> None:
        self._add_changes(message, message.get("usage"))
        for index, block in enumerate(wire.tables(message.get("content"), "content")):
            self._begin_block(index, block)

    def _add_changes(self, changes: dict[str, Any], usage: object) -> None:
        """Replaces fields of the message; counts of tokens are totals, not additions."""
        self._message.update(_without_nulls(changes))
        self._usage.update(_without_nulls(wire.table(usage)))

    def _begin_block(self, index: object, entry: dict[str, Any]) -> _Block:
        check_parts(len(self._blocks) + 1)
        block = _Block(dict(entry), None)
        if entry.get("type") == "tool_use":
            block.call = self._calls
            self._calls += 1
            self._deltas.begin_call(block.call, entry.get("name"))
            if entry.get("input"):
                self._deltas.add(dump(entry["input"]).decode(), "arguments", block.call)
        if self._says and ends_work(wire.text(self._blocks[-1].entry.get("type"))):
            block.gap = GAP
        self._blocks.append(block)
        if isinstance(index, int):
            self._by_index[index] = block
        self._say(block, wire.text(entry.get("text")))
        self._deltas.add(wire.text(entry.get("thinking")), "reasoning")
        return block

    def _find_block(self, index: object, kind: str) -> _Block:
        """Returns the block that a delta belongs to: the last one if it has no index."""
        if isinstance(index, int) and index in self._by_index:
            return self._by_index[index]
        if self._blocks and not isinstance(index, int):
            return self._blocks[-1]
        return self._begin_block(index, {"type": BLOCK_OF.get(kind, "text")})

    def _add_delta(self, index: object, delta: dict[str, Any]) -> None:
        kind = wire.text(delta.get("type"))
        block = self._find_block(index, kind)
        for key, value in delta.items():
            if key == "type" or value is None:
                continue
            if isinstance(value, str) and key != "signature":
                append_text(block.entry, key, value)
                self._show(block, key, value)
            elif key == "citation":
                _append(block.entry, "citations", value)
            else:
                block.entry[key] = value

    def _show(self, block: _Block, key: str, piece: str) -> None:
        match key, block.entry.get("type"):
            case "text", "text":
                self._say(block, piece)
            case "thinking", "thinking":
                self._deltas.add(piece, "reasoning")
            case "partial_json", "tool_use" if block.call is not None:
                self._deltas.add(piece, "arguments", block.call)

    def _say(self, block: _Block, piece: str) -> None:
        if piece:
            self._deltas.add(block.gap + piece)
            block.gap, self._says = "", True

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has."""
        content = [block.settle() for block in self._blocks]
        return {**self._message, "content": content, "usage": self._usage}


def _append(entry: dict[str, Any], key: str, value: object) -> None:
    held = entry.get(key)
    if isinstance(held, list):
        held.append(value)
    else:
        entry[key] = [value]


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


STREAMING = Streaming(
    fields=({"stream": True},),
    decoder=SSEDecoder,
    assembly=AnthropicAssembly,
)
