"""Replies as their servers stream them, and the answers that come of them, without a network."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, DeltaKind, Response
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import read_reply
from axe_nb.providers.streaming import StreamedReply
from tests.providers.dialects import (
    KEY,
    MODULES,
    Answer,
    anthropic_blocks,
    list_items,
    ollama_calls,
    secrets_of,
    write_whole,
)


@dataclass(frozen=True)
class Outcome:
    """All that comes of a reply."""

    response: Response | None = None
    error: ProviderError | None = None
    deltas: Sequence[Delta] = field(default=(), compare=False)

    def joined(self, kind: DeltaKind, call: int = 0) -> str:
        """The pieces of one kind together."""
        return "".join(d.text for d in self.deltas if (d.kind, d.call) == (kind, call))


def read_stream(
    protocol: str, pieces: Iterable[bytes], on_delta: OnDelta | None = None, key: str = KEY
) -> Outcome:
    """What the provider makes of the body of a reply with status 200 that arrives like this."""
    deltas: list[Delta] = []
    reply = StreamedReply(MODULES[protocol].PROVIDER.protocol, on_delta or deltas.append)

    async def receive() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    try:
        body = asyncio.run(reply.read(receive()))
        response = parse(protocol, body, key)
    except ProviderError as error:
        error.partial_text = reply.partial_text
        return Outcome(error=error, deltas=deltas)
    return Outcome(response, deltas=deltas)


def read_whole(protocol: str, body: bytes, key: str = KEY) -> Outcome:
    """What the provider makes of the body of a whole reply with status 200."""
    try:
        return Outcome(parse(protocol, body, key))
    except ProviderError as error:
        return Outcome(error=error)


def parse(protocol: str, body: bytes, key: str) -> Response:
    response: Response = MODULES[protocol].parse(
        read_reply(PROTOCOLS[protocol], 200, {}, body, secrets_of(protocol, key))
    )
    return response


def cut(stream: bytes, seed: int, longest: int = 40) -> list[bytes]:
    """The stream in pieces of random sizes."""
    dice = random.Random(seed)
    pieces = []
    start = 0
    while start < len(stream):
        end = start + dice.randint(1, longest)
        pieces.append(stream[start:end])
        start = end
    return pieces


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


def sse(*events: Mapping[str, Any] | str, named: bool = False) -> bytes:
    """Server-sent events of JSON objects, or of texts as they are."""
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if named and not isinstance(event, str) else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def chunk(delta: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of OpenAI's protocol; `more` belongs to its choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None, **more}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def _stream_openai(answer: Answer) -> bytes:
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": piece}) for piece in answer.reasoning]
    chunks += [chunk({"content": piece}) for piece in answer.text]
    for index, (id, name, pieces) in enumerate(answer.calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": id, "type": "function", "function": function}
        chunks.append(chunk({"tool_calls": [call]}))
        chunks += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in pieces
        ]
    chunks.append(chunk(finish_reason=answer.stop))
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    return sse(*chunks, {"choices": [], "usage": usage}, "[DONE]")


def _stream_anthropic(answer: Answer) -> bytes:
    kinds = {"thinking": "thinking", "text": "text", "partial_json": "input_json"}
    start = {"id": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, (block, key, pieces) in enumerate(anthropic_blocks(answer)):
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": block})
        for piece in pieces:
            delta = {"type": f"{kinds[key]}_delta", key: piece}
            events.append({"type": "content_block_delta", **at, "delta": delta})
        if key == "thinking":
            delta = {"type": "signature_delta", "signature": "s"}
            events.append({"type": "content_block_delta", **at, "delta": delta})
        events.append({"type": "content_block_stop", **at})
    end = {"delta": {"stop_reason": answer.stop}, "usage": {"output_tokens": 7}}
    return sse(*events, {"type": "message_delta", **end}, {"type": "message_stop"}, named=True)


def _stream_responses(answer: Answer) -> bytes:
    whole = write_whole("responses", answer)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, (item, kind, pieces) in enumerate(list_items(answer)):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"content": [], "arguments": "", "summary": [], "encrypted_content": ""}
        begun = {key: empty.get(key, value) for key, value in item.items()}
        events.append({"type": "response.output_item.added", **at, "item": begun})
        events += [{"type": kind, **at, "delta": piece} for piece in pieces]
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return sse(*events, named=True)


def _stream_ollama(answer: Answer) -> bytes:
    parts: list[dict[str, Any]] = [{"thinking": piece} for piece in answer.reasoning]
    parts += [{"content": piece} for piece in answer.text]
    parts += [{"content": "", "tool_calls": [call]} for call in ollama_calls(answer)]
    lines = [{"message": {"role": "assistant", **part}, "done": False} for part in parts]
    end = {"done": True, "done_reason": answer.stop, "prompt_eval_count": 5, "eval_count": 7}
    lines.append({"message": {"role": "assistant", "content": ""}, **end})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


STREAMS = {
    "anthropic": _stream_anthropic,
    "openai": _stream_openai,
    "responses": _stream_responses,
    "ollama": _stream_ollama,
}
FORMS: Mapping[str, tuple[Callable[[Answer], bytes], Callable[[Answer], dict[str, Any]]]] = {
    name: (written, partial(write_whole, name)) for name, written in STREAMS.items()
}
"""Protocol → (answer → stream, answer → body of a whole reply)."""
