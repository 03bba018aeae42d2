"""Replies as their servers stream them, and the answers that come of them, without a network."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    make_call,
    make_message,
    make_response,
    secrets_of,
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A reply in the pieces in which a model makes it."""

    text: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    calls: Sequence[tuple[str, str, Sequence[str]]] = ()
    """(id, name, pieces of the JSON of its arguments)"""
    stop: str = "stop"


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


def _whole_openai(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)}
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": n, "arguments": "".join(pieces)}}
            for id, n, pieces in answer.calls
        ]
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": answer.stop}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    }


def _anthropic_blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], str, Sequence[str]]]:
    """(start of the block, key of its pieces, pieces)."""
    if answer.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": ""}, "thinking", answer.reasoning
    if answer.text:
        yield {"type": "text", "text": ""}, "text", answer.text
    for id, name, pieces in answer.calls:
        yield {"type": "tool_use", "id": id, "name": name, "input": {}}, "partial_json", pieces


def _stream_anthropic(answer: Answer) -> bytes:
    kinds = {"thinking": "thinking", "text": "text", "partial_json": "input_json"}
    start = {"id": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, (block, key, pieces) in enumerate(_anthropic_blocks(answer)):
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


def _whole_anthropic(answer: Answer) -> dict[str, Any]:
    blocks = []
    for block, key, pieces in _anthropic_blocks(answer):
        if key == "partial_json":
            blocks.append({**block, "input": json.loads("".join(pieces) or "{}")})
        else:
            signed = {"signature": "s"} if key == "thinking" else {}
            blocks.append({**block, key: "".join(pieces), **signed})
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {"id": "m", "content": blocks, "stop_reason": answer.stop, "usage": usage}


def make_reasoning(*summary: str) -> dict[str, Any]:
    """A reasoning item of the Responses API."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "e"}


def _list_items(answer: Answer) -> Iterator[tuple[dict[str, Any], str, Sequence[str]]]:
    """(item, event of its pieces, pieces)"""
    if answer.reasoning:
        item = make_reasoning("".join(answer.reasoning))
        yield item, "response.reasoning_summary_text.delta", answer.reasoning
    if answer.text:
        yield make_message("".join(answer.text)), "response.output_text.delta", answer.text
    for number, (id, name, pieces) in enumerate(answer.calls):
        item = make_call(number, id, name, "".join(pieces))
        yield item, "response.function_call_arguments.delta", pieces


def _stream_responses(answer: Answer) -> bytes:
    whole = _whole_responses(answer)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, (item, kind, pieces) in enumerate(_list_items(answer)):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"content": [], "arguments": "", "summary": [], "encrypted_content": ""}
        begun = {key: empty.get(key, value) for key, value in item.items()}
        events.append({"type": "response.output_item.added", **at, "item": begun})
        events += [{"type": kind, **at, "delta": piece} for piece in pieces]
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return sse(*events, named=True)


def _whole_responses(answer: Answer) -> dict[str, Any]:
    return make_response([item for item, _, _ in _list_items(answer)], answer.stop)


def _ollama_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": id, "function": {"name": name, "arguments": json.loads("".join(pieces) or "{}")}}
        for id, name, pieces in answer.calls
    ]


def _stream_ollama(answer: Answer) -> bytes:
    parts: list[dict[str, Any]] = [{"thinking": piece} for piece in answer.reasoning]
    parts += [{"content": piece} for piece in answer.text]
    parts += [{"content": "", "tool_calls": [call]} for call in _ollama_calls(answer)]
    lines = [{"message": {"role": "assistant", **part}, "done": False} for part in parts]
    end = {"done": True, "done_reason": answer.stop, "prompt_eval_count": 5, "eval_count": 7}
    lines.append({"message": {"role": "assistant", "content": ""}, **end})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _whole_ollama(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)}
    if answer.reasoning:
        message["thinking"] = "".join(answer.reasoning)
    if calls := _ollama_calls(answer):
        message["tool_calls"] = calls
    end = {"done": True, "done_reason": answer.stop, "prompt_eval_count": 5, "eval_count": 7}
    return {"message": message, **end}


FORMS: Mapping[str, tuple[Callable[[Answer], bytes], Callable[[Answer], dict[str, Any]]]] = {
    "anthropic": (_stream_anthropic, _whole_anthropic),
    "openai": (_stream_openai, _whole_openai),
    "responses": (_stream_responses, _whole_responses),
    "ollama": (_stream_ollama, _whole_ollama),
}
"""Protocol → (answer → stream, answer → body of a whole reply)."""
