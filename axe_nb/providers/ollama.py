"""Provider for Ollama's own API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, Usage, dump
from axe_nb.providers import streaming, wire
from axe_nb.providers.http import HttpProvider, encode_messages
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import missing_part
from axe_nb.providers.streaming import Assembly
from axe_nb.providers.thinking import split

TOP_LEVEL = frozenset(
    {"format", "keep_alive", "think", "logprobs", "top_logprobs", "truncate", "shift"}
)
"""Params that are top-level keys of a request; all others go into `options`."""


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message as zero or more API messages, such as one per tool result."""
    if message.tool_results:
        results: list[dict[str, Any]] = []
        for result in message.tool_results:
            named = {"tool_name": wire.tool_name(result.name)} if result.name else {}
            named |= _encode_id("tool_call_id", result.call_id)
            results.append({"role": "tool", "content": result.content, **named})
        shown = wire.collect_pictures(message.tool_results)
        return [*results, *(encode(shown) if shown else [])]
    if message.pictures:
        if any(picture.is_document for picture in message.pictures):
            hint = "send its text, or its pages as pictures, or use another provider"
            raise ProviderError("bad_request", "Ollama cannot read PDF files", hint=hint)
        images = [picture.base64 for picture in message.pictures]
        return [{"role": "user", "content": message.content, "images": images}]
    if message.role != "assistant":
        return [{"role": "user", "content": message.content}]
    if not message.content.strip() and not message.tool_calls:
        return []
    entry: dict[str, Any] = {"role": "assistant", "content": message.content}
    if thinking := message.echo.get("ollama"):
        entry["thinking"] = thinking
    for call in message.tool_calls:
        function = {"name": wire.tool_name(call.name), "arguments": dict(call.arguments)}
        encoded = {**_encode_id("id", call.id), "function": function}
        entry.setdefault("tool_calls", []).append(encoded)
    return [entry]


def _encode_id(key: str, id: str) -> dict[str, str]:
    """Returns a dict with the id under `key`; empty if axe_nb generated the id (D-29)."""
    return {} if re.fullmatch(r"ollama_\d+", id) else {key: id}


def body(request: Request, stream: Mapping[str, Any] = wire.WHOLE) -> bytes:
    asked, params = split(wire.own_params(request))
    if asked is not None:
        params.setdefault("think", False if asked == "off" else asked)
    beside = {key: params.pop(key) for key in TOP_LEVEL & params.keys()}
    options = wire.table(params.pop("options", None)) | params
    if "max_tokens" in options:
        options = {"num_predict": options.pop("max_tokens"), **options}
    fields = {"model": request.model, "stream": False, **stream, **beside}
    if options:
        fields["options"] = options
    if request.output is not None:
        fields["format"] = dict(request.output)
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    messages = [*system, *encode_messages(request, encode)[0]]
    return wire.write_body(fields, [*map(wire.encode_function, request.tools)], messages)


def parse(data: Mapping[str, Any]) -> Response:
    """Parses a whole reply. Raises ProviderError if its message is missing or incomplete."""
    message = data.get("message")
    if not isinstance(message, dict):
        raise missing_part("message", data)
    if data.get("done") is False:
        raise ProviderError("server", "the reply is not complete (done is false)")
    calls = wire.function_calls("ollama", message.get("tool_calls"))
    reason = wire.text(data.get("done_reason"))
    thinking = wire.text(message.get("thinking"))
    stop_reason = "tool_calls" if calls and reason == "stop" else reason
    usage = Usage(wire.tokens(data, "prompt_eval_count"), wire.tokens(data, "eval_count"))
    echo = {"ollama": thinking} if thinking else {}
    content = wire.text(message.get("content"))
    return Response(content, calls, stop_reason, usage, echo, reasoning=thinking)


class OllamaAssembly(Assembly):
    """Collects the lines of a streamed reply; the last line has `done: true`."""

    decoder = streaming.NDJSONDecoder

    def __init__(self, on_delta: OnDelta | None) -> None:
        super().__init__(on_delta)
        self._top: dict[str, Any] = {}
        self._message: dict[str, Any] | None = None
        self._calls: list[dict[str, Any]] = []

    def add(self, name: str, data: dict[str, Any]) -> None:
        self._top.update(data)
        message = data.get("message")
        if isinstance(message, dict):
            self._message = self._message or {}
            for key, value in message.items():
                if key in ("content", "thinking") and isinstance(value, str):
                    streaming.append_text(self._message, key, value)
                    self.show(value, "text" if key == "content" else "reasoning")
                elif key != "tool_calls" and value is not None:
                    self._message[key] = value
            for call in wire.tables(message.get("tool_calls"), "tool_calls"):
                streaming.check_parts(len(self._calls) + 1)
                function = wire.table(call.get("function"))
                self.show_call(len(self._calls), function.get("name"))
                if arguments := function.get("arguments"):
                    text = arguments if isinstance(arguments, str) else dump(arguments).decode()
                    self.show(text, "arguments", len(self._calls))
                self._calls.append(call)
        if data.get("done"):
            self.is_complete = self.has_ended = True

    def reply(self) -> dict[str, Any]:
        if self._message is None:
            return self._top
        calls = {"tool_calls": self._calls} if self._calls else {}
        return {**self._top, "message": {**self._message, **calls}}


class Ollama(HttpProvider):
    """A model server that speaks Ollama's own API. It needs a key only if it is behind a proxy."""

    name = "ollama"
    assembly = OllamaAssembly
    body, parse = staticmethod(body), staticmethod(parse)
    answers_without_tools = True
    """True if a turn whose answer must match a schema cannot also call tools (D-65)."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Sends a request. An empty reply in the first turn also raises ProviderError (D-37)."""
        response = await super().send(request, on_delta)
        says_something = response.content.strip() or response.tool_calls or response.is_cut
        if not says_something and request.turn == 1:
            hint = "try again, or use another model"
            raise ProviderError("server", "response contains no content", hint=hint)
        return response


PROVIDER = Ollama
