"""Server side of the four protocols: parses requests, and formats whole and streamed responses.

Source: A-1.9, A-2.*, A-3.*, A-4.*, B-4, B-5, D-24, D-31, D-73.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.messages import (
    Delta,
    Message,
    Request,
    Response,
    ToolCall,
    ToolParameter,
    ToolResult,
    ToolSpec,
    dump,
)
from axe_nb.pictures.picture import Picture
from axe_nb.providers.wire import table, text

Protocol = Literal["anthropic", "openai", "responses", "ollama"]

Json: TypeAlias = dict[str, Any]

SIGNATURE = "c2NyaXB0"  # dummy for thinking blocks and for encrypted reasoning
LENGTH = "max_tokens"  # Anthropic's stop reason for a response cut off at the token limit
TEXTS = ("text", "input_text", "output_text")


class Malformed(Exception):
    """Raised for a request that a real server would reject with status 400; the text says why."""


class Wire:
    """Formats one response in a provider's protocol, as a whole body or as stream events."""

    path = ""
    streams = False
    """Default value of `stream` for a request that does not set it."""
    kind = "text/event-stream; charset=utf-8"
    prefix = "call"
    mark = b""

    def __init__(self, request: Request, *, input_tokens: int = 0, wants_usage: bool = False):
        """Begins a response; `wants_usage` is true if the client asks for usage in a stream."""
        self.request, self.input_tokens, self.wants_usage = request, input_tokens, wants_usage
        self.calls: list[ToolCall] = []
        """Tool calls in the part of a streamed response that was sent so far."""
        self.items: dict[tuple[str, int], str] = {}
        """(kind, number of the call) → text so far, for each item of a streamed response."""

    def whole(self, response: Response) -> Json:
        raise NotImplementedError

    @staticmethod
    def error(status: int, message: str) -> Json:
        kinds = {429: "rate_limit_error", 403: "permission_error"}
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
        told = {"message": message, "type": kind, "param": None, "code": codes.get(status)}
        return {"error": told}

    def begin(self) -> Iterator[Json]:
        yield from ()

    def add(self, delta: Delta) -> Iterator[Json]:
        """Yields the events for a delta, after a start event if the delta begins a text or call."""
        kind, number = item = (delta.kind, delta.call)
        if item not in self.items:
            self.items[item] = ""
            yield from self.start(kind, number, len(self.items) - 1)
        self.items[item] += delta.text
        if delta.text:
            yield from self.piece(kind, number, [*self.items].index(item), delta.text)

    def start(self, kind: str, number: int, index: int) -> Iterator[Json]:
        yield from ()

    def piece(self, kind: str, number: int, index: int, text: str) -> Iterator[Json]:
        raise NotImplementedError

    def end(self, response: Response) -> Iterator[Json]:
        raise NotImplementedError

    def fail(self, status: int, message: str) -> Json:
        return self.error(status, message)

    def encode(self, event: Json) -> bytes:
        name = f"event: {event['type']}\n" if "type" in event else ""
        return b"%sdata: %s\n\n" % (name.encode(), dump(event))

    def id_of(self, number: int, call: ToolCall) -> str:
        """Returns the id of a call, or creates an id that is unique in the conversation."""
        return call.id.strip() or f"{self.prefix}_script_{self.request.turn}_{number}"


def _write_arguments(call: ToolCall) -> str:
    return call.raw or dump(dict(call.arguments)).decode()


class _Anthropic(Wire):
    """Formats responses of Anthropic's Messages API; streams send events for numbered blocks."""

    path, prefix = "/v1/messages", "toolu"

    def whole(self, response: Response) -> Json:
        content: list[Json] = []
        if response.reasoning:
            thought = {"thinking": response.reasoning, "signature": SIGNATURE}
            content.append({"type": "thinking", **thought})
        if response.content:
            content.append({"type": "text", "text": response.content})
        for number, call in enumerate(response.tool_calls):
            content.append({**self._make_call(number, call), "input": dict(call.arguments)})
        words = {"stop": "end_turn", "tool_calls": "tool_use", "length": LENGTH}
        usage = response.usage
        return {
            "id": f"msg_script_{self.request.turn}",
            "type": "message",
            "role": "assistant",
            "model": self.request.model,
            "content": content,
            "stop_reason": words.get(response.stop_reason, response.stop_reason),
            "stop_sequence": None,
            "usage": {  # `input_tokens` excludes cached tokens
                "input_tokens": max(
                    0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
                ),
                "cache_read_input_tokens": usage.cached_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            },
        }

    def _make_call(self, number: int, call: ToolCall) -> Json:
        return {
            "type": "tool_use", "id": self.id_of(number, call), "name": call.name, "input": {},
        }  # fmt: skip

    @staticmethod
    def error(status: int, message: str) -> Json:
        kinds = {
            401: "authentication_error", 403: "permission_error", 404: "not_found_error",
            429: "rate_limit_error", 529: "overloaded_error",
        }  # fmt: skip
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def begin(self) -> Iterator[Json]:
        usage = {"input_tokens": self.input_tokens, "output_tokens": 1}
        message = {**self.whole(Response()), "stop_reason": None, "usage": usage}
        yield {"type": "message_start", "message": message}

    def start(self, kind: str, number: int, index: int) -> Iterator[Json]:
        block: Json = {"type": "text", "text": ""}
        if kind == "arguments":
            block = self._make_call(number, self.calls[number])
        elif kind == "reasoning":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        yield {"type": "content_block_start", "index": index, "content_block": block}

    def piece(self, kind: str, number: int, index: int, text: str) -> Iterator[Json]:
        delta = {
            "text": {"type": "text_delta", "text": text},
            "reasoning": {"type": "thinking_delta", "thinking": text},
            "arguments": {"type": "input_json_delta", "partial_json": text},
        }[kind]
        yield {"type": "content_block_delta", "index": index, "delta": delta}

    def end(self, response: Response) -> Iterator[Json]:
        for index, (kind, _) in enumerate(self.items):
            if kind == "reasoning":
                delta = {"type": "signature_delta", "signature": SIGNATURE}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        whole = self.whole(response)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
        yield {"type": "message_stop"}


class _OpenAI(Wire):
    """Formats responses of OpenAI's Chat Completions API; streams send message deltas."""

    path, mark = "/v1/chat/completions", b"data: [DONE]\n\n"

    def whole(self, response: Response) -> Json:
        message: Json = {"role": "assistant", "content": response.content, "refusal": None}
        if response.reasoning:
            message["reasoning_content"] = response.reasoning
        if response.tool_calls:
            message["content"] = response.content or None
            message["tool_calls"] = [
                self._make_call(number, call, _write_arguments(call))
                for number, call in enumerate(response.tool_calls)
            ]
        words = {"end_turn": "stop", "tool_use": "tool_calls", LENGTH: "length"}
        reason = words.get(response.stop_reason, response.stop_reason)
        usage = response.usage
        return {
            **self._head("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens": usage.output_tokens,
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.total,
            },
        }

    def _head(self, kind: str = "chat.completion.chunk") -> Json:
        id_ = f"chatcmpl-script-{self.request.turn}"
        return {"id": id_, "object": kind, "created": 0, "model": self.request.model}

    def _make_call(self, number: int, call: ToolCall, arguments: str) -> Json:
        function = {"name": call.name, "arguments": arguments}
        return {"id": self.id_of(number, call), "type": "function", "function": function}

    def begin(self) -> Iterator[Json]:
        yield self._change({"role": "assistant", "content": ""})

    def start(self, kind: str, number: int, index: int) -> Iterator[Json]:
        if kind == "arguments":
            call = self._make_call(number, self.calls[number], "")
            yield self._change({"tool_calls": [{"index": number, **call}]})

    def piece(self, kind: str, number: int, index: int, text: str) -> Iterator[Json]:
        if kind == "arguments":
            more = {"index": number, "function": {"arguments": text}}
            yield self._change({"tool_calls": [more]})
        else:
            yield self._change({"content" if kind == "text" else "reasoning_content": text})

    def _change(self, delta: Json, reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        usage = {"usage": None} if self.wants_usage else {}
        return {**self._head(), "choices": [choice], **usage}

    def end(self, response: Response) -> Iterator[Json]:
        whole = self.whole(response)
        yield self._change({}, whole["choices"][0]["finish_reason"])
        if self.wants_usage:
            yield {**self._head(), "choices": [], "usage": whole["usage"]}


class _Responses(Wire):
    """Formats responses of OpenAI's Responses API; streams send events for each output item."""

    path = "/v1/responses"

    def whole(self, response: Response) -> Json:
        words = {"length": "max_output_tokens", LENGTH: "max_output_tokens"}
        reason = words.get(response.stop_reason, response.stop_reason)
        is_whole = reason not in ("max_output_tokens", "content_filter")
        status = "completed" if is_whole else "incomplete"
        said = {"reasoning": response.reasoning, "text": response.content}
        output = [self._make_item(kind, 0, text, status) for kind, text in said.items() if text]
        self.calls = [*response.tool_calls]
        for number, call in enumerate(self.calls):
            output.append(self._make_item("arguments", number, _write_arguments(call)))
        usage = response.usage
        return {
            **self._head(status),
            "incomplete_details": None if is_whole else {"reason": reason},
            "output": output,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cached_tokens,
                    "cache_write_tokens": usage.cache_write_tokens,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.total,
            },
        }

    def _head(self, status: str) -> Json:
        head = {"id": f"resp_script_{self.request.turn}", "object": "response", "created_at": 0}
        return {**head, "status": status, "model": self.request.model, "output": [], "tools": []}

    def _make_item(self, kind: str, number: int, text: str, status: str = "completed") -> Json:
        own = f"script_{self.request.turn}"
        if kind == "text":
            content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
            head = {"type": "message", "id": f"msg_{own}", "role": "assistant"}
            return {**head, "status": status, "content": content}
        if kind == "reasoning":
            summary = [{"type": "summary_text", "text": text}] if text else []
            kept = {"encrypted_content": SIGNATURE if text else ""}
            return {"type": "reasoning", "id": f"rs_{own}", "summary": summary, **kept}
        call = self.calls[number]
        called = {"call_id": self.id_of(number, call), "name": call.name, "arguments": text}
        return {"type": "function_call", "id": f"fc_{own}_{number}", **called, "status": status}

    def begin(self) -> Iterator[Json]:
        yield {"type": "response.created", "response": self._head("in_progress")}

    def start(self, kind: str, number: int, index: int) -> Iterator[Json]:
        item = self._make_item(kind, number, "", "in_progress")
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        if kind == "text":
            part = {"type": "output_text", "text": "", "annotations": []}
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": part}

    def piece(self, kind: str, number: int, index: int, text: str) -> Iterator[Json]:
        name, place = {
            "text": ("output_text", {"content_index": 0}),
            "reasoning": ("reasoning_summary_text", {"summary_index": 0}),
            "arguments": ("function_call_arguments", {}),
        }[kind]
        place |= {"item_id": self._make_item(kind, number, "")["id"], "output_index": index}
        yield {"type": f"response.{name}.delta", **place, "delta": text}

    def end(self, response: Response) -> Iterator[Json]:
        whole = self.whole(response)
        for index, ((kind, number), said) in enumerate(self.items.items()):
            status = whole["status"] if kind == "text" else "completed"
            item = self._make_item(kind, number, said, status)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": f"response.{whole['status']}", "response": whole}

    def fail(self, status: int, message: str) -> Json:
        told = self.error(status, message)["error"]
        code = told["code"] or told["type"]
        return {"type": "error", "code": code, "message": message, "param": None}


class _Ollama(Wire):
    """Formats responses of Ollama's chat API; a stream is JSON lines up to `"done": true`."""

    path, streams, kind = "/api/chat", True, "application/x-ndjson"

    def whole(self, response: Response) -> Json:
        message: Json = {"role": "assistant", "content": response.content}
        if response.reasoning:
            message["thinking"] = response.reasoning
        if response.tool_calls:
            message["tool_calls"] = [
                self._make_call(number, call) for number, call in enumerate(response.tool_calls)
            ]
        words = {"end_turn": "stop", "tool_use": "stop", "tool_calls": "stop", LENGTH: "length"}
        return {
            **self._head(message),
            "done": True,
            "done_reason": words.get(response.stop_reason, response.stop_reason),
            "prompt_eval_count": response.usage.input_tokens,
            "eval_count": response.usage.output_tokens,
        }

    def _head(self, message: Json) -> Json:
        model, created = self.request.model, "1970-01-01T00:00:00Z"
        return {"model": model, "created_at": created, "message": message, "done": False}

    def _make_call(self, number: int, call: ToolCall) -> Json:
        function = {"index": number, "name": call.name, "arguments": dict(call.arguments)}
        own = {"id": call.id} if call.id.strip() else {}  # only newer servers send one
        return {**own, "function": function}

    @staticmethod
    def error(status: int, message: str) -> Json:
        return {"error": message}

    def start(self, kind: str, number: int, index: int) -> Iterator[Json]:
        if kind == "arguments":
            yield self._say(tool_calls=[self._make_call(number, self.calls[number])])

    def piece(self, kind: str, number: int, index: int, text: str) -> Iterator[Json]:
        if kind != "arguments":
            yield self._say(**{"content" if kind == "text" else "thinking": text})

    def _say(self, **parts: object) -> Json:
        return self._head({"role": "assistant", "content": "", **parts})

    def end(self, response: Response) -> Iterator[Json]:
        yield {**self.whole(response), "message": {"role": "assistant", "content": ""}}

    def encode(self, event: Json) -> bytes:  # in ASCII, as the client splits at any line end
        return json.dumps(event, separators=(",", ":")).encode() + b"\n"


WIRES: Mapping[Protocol, type[Wire]] = {
    "anthropic": _Anthropic, "openai": _OpenAI, "responses": _Responses, "ollama": _Ollama,
}  # fmt: skip


def read_request(body: Json, *, splits_texts: bool = False) -> Request:
    """Parses a request of any protocol. Raises Malformed if it is invalid.

    If `splits_texts` is true, each text of a user message without pictures becomes a message of
    its own.
    """
    key = "input" if "input" in body else "messages"
    entries = body.get(key)
    if isinstance(entries, str):
        entries = [{"role": "user", "content": entries}]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed(f"{key} must be a list of objects")
    model, choice = body.get("model"), body.get("tool_choice")
    if not isinstance(model, str) or not model.strip():
        raise Malformed("model must be the name of a script")
    messages: list[Message] = []
    system = [_join_text(body.get("system")), text(body.get("instructions"))]
    for entry in entries:
        content, blocks = entry.get("content"), _read_blocks(entry.get("content"))
        match entry.get("type", "message"), entry.get("role"):
            case "function_call", _:
                _add_answer(messages, "", [entry])
            case "function_call_output", _:
                _add_result(messages, entry, entry.get("output"))
            case "message", "tool":
                _add_result(messages, entry, content)
            case "message", "system" | "developer":
                system.append(_join_text(content))
            case "message", "assistant":
                uses = (block for block in blocks if block.get("type") == "tool_use")
                calls = [*_dicts(entry.get("tool_calls")), *uses]
                _add_answer(messages, _join_text(content), calls)
            case "message", _:
                results = [block for block in blocks if block.get("type") == "tool_result"]
                for block in results:
                    _add_result(messages, block, block.get("content"))
                images = entry.get("images")
                own = [{"image": image} for image in (images if isinstance(images, list) else ())]
                pictures = _read_pictures([*blocks, *own])
                texts = [_join_text([block]) for block in blocks if block.get("type") in TEXTS]
                if pictures or not splits_texts:
                    texts = ["".join(texts)]
                if pictures or any(texts) or not results:
                    messages += [Message("user", said, pictures=pictures) for said in texts or [""]]
    is_offered = choice != "none" and table(choice).get("type") != "none"
    tools = [_read_tool(tool) for tool in _dicts(body.get("tools"))] if is_offered else []
    tools = [tool for tool in tools if tool.name]  # server tools may have no name
    openai = table(table(body.get("response_format")).get("json_schema"))
    responses = table(table(body.get("text")).get("format"))
    anthropic = table(table(body.get("output_config")).get("format"))
    schema = openai.get("schema") or responses.get("schema") or anthropic.get("schema")
    output = schema or table(body.get("format")) or None
    prompt = "\n\n".join(filter(None, system))
    return Request(model, tuple(messages), prompt, tools=tools, agent=model, output=output)


def _add_result(messages: list[Message], entry: Json, content: Any) -> None:
    call_id = entry.get("tool_use_id") or entry.get("tool_call_id") or entry.get("call_id")
    pictures = _read_pictures(_read_blocks(content))
    is_error = bool(entry.get("is_error"))
    result = ToolResult(text(call_id), _join_text(content), is_error, pictures=pictures)
    is_next = bool(messages) and messages[-1].role == "tool"
    before = messages.pop().tool_results if is_next else ()
    messages.append(Message("tool", tool_results=(*before, result)))


def _add_answer(messages: list[Message], said: str, entries: Iterable[Json]) -> None:
    is_next = bool(messages) and messages[-1].role == "assistant"
    last = messages.pop() if is_next else Message("assistant")
    joined = "\n\n".join(filter(None, (last.content, said)))
    calls = []
    for entry in entries:
        function = table(entry.get("function")) or entry
        arguments = function.get("arguments") or function.get("input")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                raise Malformed("arguments of a tool call are not valid JSON") from None
        call_id = text(entry.get("call_id") or entry.get("id"))
        calls.append(ToolCall(call_id, text(function.get("name")), table(arguments)))
    messages.append(Message("assistant", joined, (*last.tool_calls, *calls)))


def _read_tool(tool: Json) -> ToolSpec:
    function = table(tool.get("function")) or tool
    schema = table(function.get("parameters") or function.get("input_schema"))
    required = schema.get("required")
    parameters = {
        key: ToolParameter(
            text(entry.get("type")),
            text(entry.get("description")),
            isinstance(required, list) and key in required,
        )
        for key, entry in table(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    name, description = text(function.get("name")), text(function.get("description"))
    return ToolSpec(name, description, parameters, schema=schema or None)


def _read_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _dicts(content)


def _read_pictures(blocks: Sequence[Json]) -> tuple[Picture, ...]:
    found: list[str] = []
    for block in blocks:
        match block:
            case {"type": "image" | "document", "source": {"data": str(data)}} | {
                "image": str(data)
            }:
                found.append(data)
            case (
                {"image_url": {"url": str(url)}}
                | {"file": {"file_data": str(url)}}
                | {"type": "input_image", "image_url": str(url)}
                | {"type": "input_file", "file_data": str(url)}
            ):
                found.append(url.partition(",")[2])
    try:
        return tuple(Picture(b64decode(data, validate=True)) for data in found if data)
    except (ConfigError, ValueError) as error:
        raise Malformed(f"invalid picture: {error}") from None


def _join_text(content: Any) -> str:
    return "".join(text(b.get("text")) for b in _read_blocks(content) if b.get("type") in TEXTS)


def _dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
