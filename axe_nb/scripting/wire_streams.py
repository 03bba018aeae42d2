"""Server side of the four protocols' streams: encodes deltas as the real servers send them.

Each method yields chunks of the body: one event or line each.
Source: product.md "Providers"; D-24, D-31; seed 000 §3.2-3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from axe_nb.messages import Delta, Request, Response, ToolCall, dump
from axe_nb.scripting import wire
from axe_nb.scripting.wire_requests import Json

EVENTS = "text/event-stream; charset=utf-8"


class WireStream(Protocol):
    """One streamed reply in a protocol."""

    @property
    def kind(self) -> str:
        """Content type of the reply."""

    def begin(self) -> Iterator[bytes]:
        """Yields what comes before the first piece."""

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece."""

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields what comes after the last piece, with the end mark."""

    def error(self, status: int, message: str) -> bytes:
        """Returns the event of an error; streams have no status."""

    def nonsense(self, content: bytes) -> bytes:
        """Returns an event with content that is not JSON."""


@dataclass(kw_only=True)
class StreamedReply:
    """The request that is answered, and the calls of its reply as far as they are known."""

    request: Request
    calls: Sequence[ToolCall]
    input_tokens: int
    wants_usage: bool
    """True if the client asked for the usage in the stream."""

    def make_id(self, prefix: str, number: int) -> str:
        """Returns the id of a call, as in a whole reply."""
        return self.calls[number].id.strip() or f"{prefix}_script_{self.request.turn}_{number}"


@dataclass
class AnthropicStream:
    """Server-sent events with blocks, each opened and closed."""

    reply: StreamedReply
    kind: ClassVar[str] = EVENTS
    _block: tuple[str, int] | None = field(default=None, init=False)
    """(kind, number of the call) of the open block."""
    _index: int = field(default=-1, init=False)

    def begin(self) -> Iterator[bytes]:
        """Yields the empty message."""
        whole = wire.make_anthropic_response(self.reply.request, Response())
        usage = {"input_tokens": self.reply.input_tokens, "output_tokens": 1}
        message = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield self._event({"type": "message_start", "message": message})
        yield self._event({"type": "ping"})

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece, and before it the start of its block."""
        block = (delta.kind, delta.call)
        if block != self._block:
            yield from self._close()
            self._block, self._index = block, self._index + 1
            yield self._event(
                {
                    "type": "content_block_start",
                    "index": self._index,
                    "content_block": self._make_block(delta),
                }
            )
        if delta.text:
            yield self._add_to_block(_ANTHROPIC_DELTAS[delta.kind], delta.text)

    def _make_block(self, delta: Delta) -> Json:
        match delta.kind:
            case "text":
                return {"type": "text", "text": ""}
            case "reasoning":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case "arguments":
                name = self.reply.calls[delta.call].name
                id_ = self.reply.make_id("toolu", delta.call)
                return {"type": "tool_use", "id": id_, "name": name, "input": {}}

    def _add_to_block(self, kind: tuple[str, str], text: str) -> bytes:
        piece = {"type": kind[0], kind[1]: text}
        return self._event({"type": "content_block_delta", "index": self._index, "delta": piece})

    def _close(self) -> Iterator[bytes]:
        if self._block is None:
            return
        if self._block[0] == "reasoning":
            yield self._add_to_block(("signature_delta", "signature"), wire.SIGNATURE)
        yield self._event({"type": "content_block_stop", "index": self._index})

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields the stop reason, the usage and the end."""
        yield from self._close()
        whole = wire.make_anthropic_response(self.reply.request, response)
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._event({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
        yield self._event({"type": "message_stop"})

    def error(self, status: int, message: str) -> bytes:
        """Returns the event of an error."""
        return self._event(wire.make_anthropic_error(status, message))

    def nonsense(self, content: bytes) -> bytes:
        """Returns an event with content that is not JSON."""
        return b"event: content_block_delta\ndata: %s\n\n" % content

    def _event(self, data: Json) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), dump(data))


_ANTHROPIC_DELTAS: Mapping[str, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "arguments": ("input_json_delta", "partial_json"),
}


@dataclass
class OpenAIStream:
    """Server-sent events, each with changes to the message; `[DONE]` is the last one."""

    reply: StreamedReply
    kind: ClassVar[str] = EVENTS
    _begun: set[int] = field(default_factory=set, init=False)
    """Numbers of the calls that have begun."""

    def begin(self) -> Iterator[bytes]:
        """Yields the empty message."""
        yield self._change({"role": "assistant", "content": "", "refusal": None})

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece, and before it the start of its call."""
        if delta.kind == "text":
            yield self._change({"content": delta.text})
            return
        if delta.kind == "reasoning":
            yield self._change({"reasoning_content": delta.text})
            return
        if delta.call not in self._begun:
            self._begun.add(delta.call)
            function = {"name": self.reply.calls[delta.call].name, "arguments": ""}
            id_ = self.reply.make_id("call", delta.call)
            yield self._change_call(delta.call, id=id_, type="function", function=function)
        if delta.text:
            yield self._change_call(delta.call, function={"arguments": delta.text})

    def _change_call(self, number: int, **change: object) -> bytes:
        return self._change({"tool_calls": [{"index": number, **change}]})

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields the finish reason, the usage if it was asked for, and the end."""
        whole = wire.make_openai_response(self.reply.request, response)
        yield self._change({}, whole["choices"][0]["finish_reason"])
        if self.reply.wants_usage:
            yield self._event({**self._head(), "choices": [], "usage": whole["usage"]})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, message: str) -> bytes:
        """Returns the event of an error."""
        return self._event(wire.make_openai_error(status, message))

    def nonsense(self, content: bytes) -> bytes:
        """Returns an event with content that is not JSON."""
        return b"data: %s\n\n" % content

    def _change(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self.reply.wants_usage else {}
        return self._event({**self._head(), "choices": [choice], **usage})

    def _head(self) -> Json:
        return {
            "id": f"chatcmpl-script-{self.reply.request.turn}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.reply.request.model,
        }

    def _event(self, data: Json) -> bytes:
        return b"data: %s\n\n" % dump(data)


@dataclass
class OllamaStream:
    """Lines of JSON; a call comes whole, and the last line is done."""

    reply: StreamedReply
    kind: ClassVar[str] = "application/x-ndjson"
    _begun: set[int] = field(default_factory=set, init=False)
    """Numbers of the calls that have been sent."""

    def begin(self) -> Iterator[bytes]:
        """Yields nothing."""
        yield from ()

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece; a whole call at its first one."""
        match delta.kind:
            case "text":
                yield self._line({"role": "assistant", "content": delta.text})
            case "reasoning":
                yield self._line({"role": "assistant", "content": "", "thinking": delta.text})
            case "arguments" if delta.call not in self._begun:
                self._begun.add(delta.call)
                call = wire.make_ollama_call(delta.call, self.reply.calls[delta.call])
                yield self._line({"role": "assistant", "content": "", "tool_calls": [call]})

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields the last line, with the usage."""
        whole = wire.make_ollama_response(self.reply.request, response)
        yield _line({**whole, "message": {"role": "assistant", "content": ""}})

    def error(self, status: int, message: str) -> bytes:
        """Returns the line of an error."""
        return _line(wire.make_ollama_error(status, message))

    def nonsense(self, content: bytes) -> bytes:
        """Returns a line that is not JSON."""
        return content + b"\n"

    def _line(self, message: Json) -> bytes:
        head = {"model": self.reply.request.model, "created_at": "1970-01-01T00:00:00Z"}
        return _line({**head, "message": message, "done": False})


def _line(data: Json) -> bytes:
    """Encodes a line as Ollama does, which escapes what its own client takes for a line end."""
    text = dump(data).decode()
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode() + b"\n"
