"""Server side of streams of the Responses API: encodes deltas as OpenAI's server sends them.

Source: D-24, D-31, D-73.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from axe_nb.messages import Delta, Response, dump
from axe_nb.scripting import wire
from axe_nb.scripting.wire_requests import Json
from axe_nb.scripting.wire_streams import EVENTS, StreamedReply


@dataclass
class ResponsesStream:
    """Server-sent events with numbered items; the last one has the whole reply."""

    reply: StreamedReply
    kind: ClassVar[str] = EVENTS
    _items: dict[tuple[str, int], str] = field(default_factory=dict, init=False)
    """(kind, number of the call) → the text so far, in the order of the items."""
    _number: int = field(default=0, init=False)
    """Number of the next event."""

    def begin(self) -> Iterator[bytes]:
        """Yields the empty reply."""
        head = wire.make_responses_head(self.reply.request)
        yield self._event("response.created", response=head)
        yield self._event("response.in_progress", response=head)

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece, and before it the start of its item."""
        item = (delta.kind, delta.call)
        if item not in self._items:
            self._items[item] = ""
            yield from self._open(item)
        self._items[item] += delta.text
        if delta.text:
            kind = _RESPONSES_DELTAS[delta.kind]
            yield self._event(f"{kind}.delta", **self._place(item), delta=delta.text)

    def _open(self, item: tuple[str, int]) -> Iterator[bytes]:
        made = self._make_item(item, "", "in_progress")
        place = self._place(item)
        at = place["output_index"]
        match item[0]:
            case "text":
                yield self._event("response.output_item.added", output_index=at, item=made)
                part = wire.make_text_part("")
                yield self._event("response.content_part.added", **place, part=part)
            case "reasoning":
                begun = {**made, "summary": [], "encrypted_content": ""}
                yield self._event("response.output_item.added", output_index=at, item=begun)
                part = {"type": "summary_text", "text": ""}
                yield self._event("response.reasoning_summary_part.added", **place, part=part)
            case _:
                begun = {**made, "arguments": ""}
                yield self._event("response.output_item.added", output_index=at, item=begun)

    def _close(self, item: tuple[str, int], status: str) -> Iterator[bytes]:
        text, place = self._items[item], self._place(item)
        made = self._make_item(item, text, status)
        match item[0]:
            case "text":
                part = wire.make_text_part(text)
                yield self._event("response.output_text.done", **place, text=text, logprobs=[])
                yield self._event("response.content_part.done", **place, part=part)
            case "reasoning":
                part = {"type": "summary_text", "text": text}
                yield self._event("response.reasoning_summary_text.done", **place, text=text)
                yield self._event("response.reasoning_summary_part.done", **place, part=part)
            case _:
                done = "response.function_call_arguments.done"
                yield self._event(done, **place, name=made["name"], arguments=text)
        at = place["output_index"]
        yield self._event("response.output_item.done", output_index=at, item=made)

    def _make_item(self, item: tuple[str, int], text: str, status: str) -> Json:
        request = self.reply.request
        match item:
            case "text", _:
                parts = [wire.make_text_part(text)] if text else []
                return wire.make_message_item(request, parts, status)
            case "reasoning", _:
                return wire.make_reasoning_item(request, text)
            case _, number:
                id_ = self.reply.make_id("call", number)
                made = wire.make_call_item(request, id_, number, self.reply.calls[number])
                return {**made, "status": status}

    def _place(self, item: tuple[str, int]) -> Json:
        """Returns the fields that say which part of the reply an event is about."""
        place: Json = {
            "item_id": self._make_item(item, "", "")["id"],
            "output_index": list(self._items).index(item),
        }
        match item[0]:
            case "text":
                place |= {"content_index": 0}
            case "reasoning":
                place |= {"summary_index": 0}
        return place

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields the ends of the items, and the whole reply."""
        reasoning = self._items.get(("reasoning", 0), "")
        whole = wire.make_responses_response(self.reply.request, response, reasoning)
        for item in self._items:
            yield from self._close(item, whole["status"] if item[0] == "text" else "completed")
        yield self._event(f"response.{whole['status']}", response=whole)

    def error(self, status: int, message: str) -> bytes:
        """Returns the event of an error."""
        error = wire.make_openai_error(status, message)["error"]
        code = error["code"] or error["type"]
        return self._event("error", code=code, message=message, param=None)

    def nonsense(self, content: bytes) -> bytes:
        """Returns an event with content that is not JSON."""
        return b"event: response.output_text.delta\ndata: %s\n\n" % content

    def _event(self, kind: str, **fields: object) -> bytes:
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), dump(data))


_RESPONSES_DELTAS: Mapping[str, str] = {
    "text": "response.output_text",
    "reasoning": "response.reasoning_summary_text",
    "arguments": "response.function_call_arguments",
}
