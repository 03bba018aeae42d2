"""Server side of the four protocols: replies as the real servers send them, whole and streamed.

The inverse of what the providers do.
Source: A-2.*, A-3.*, A-4.*, A-1.9, B-4, B-5, D-24, D-31, D-73.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.scripting.wire_requests import Json, read_anthropic, read_chat, read_responses

Protocol = Literal["anthropic", "openai", "responses", "ollama"]

SIGNATURE = "c2NyaXB0"
"""Signature of a thinking block, and encrypted content of reasoning."""

LENGTH = "max_tokens"
"""Anthropic's word for a reply that the token limit cut."""


class Wire:
    """One reply in a protocol. Each method of a stream yields chunks: one event or line each."""

    path = ""
    """Path of model requests."""
    listing = "/v1/models"
    """Path of the list of models."""
    streams = False
    """Default of `stream` if a request does not set it."""
    kind = "text/event-stream; charset=utf-8"
    """Content type of a stream."""
    read = staticmethod(read_chat)
    """(body) -> the request. Raises Malformed."""
    prefix = "call"
    """Beginning of the ids of calls."""

    def __init__(
        self,
        request: Request,
        calls: Sequence[ToolCall] = (),
        *,
        input_tokens: int = 0,
        wants_usage: bool = False,
    ) -> None:
        """Begins a reply.

        Args:
            calls: the calls of a streamed reply, as far as they are known.
            wants_usage: true if the client asked for the usage in the stream.
        """
        self.request, self.calls = request, calls
        self.input_tokens, self.wants_usage = input_tokens, wants_usage
        self.open: tuple[str, int] | None = None
        """(kind, number of the call) of the item that the last delta belongs to."""
        self.begun: dict[tuple[str, int], str] = {}
        """(kind, number of the call) of each item → its text so far."""

    def whole(self, response: Response, reasoning: str = "") -> Json:
        """Returns the body of status 200."""
        raise NotImplementedError

    @staticmethod
    def error(status: int, message: str) -> Json:
        """Returns the body of any other status."""
        kinds = {429: "rate_limit_error", 403: "permission_error"}
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
        told = {"message": message, "type": kind, "param": None, "code": codes.get(status)}
        return {"error": told}

    @staticmethod
    def models(names: Sequence[str]) -> Json:
        """Returns the body of the listing."""
        model = {"object": "model", "created": 0, "owned_by": "axe_nb"}
        return {"object": "list", "data": [{"id": name, **model} for name in names]}

    def begin(self) -> Iterator[bytes]:
        """Yields what comes before the first piece."""
        yield from ()

    def add(self, delta: Delta) -> Iterator[bytes]:
        """Yields a piece, and before it the start of its item."""
        item = (delta.kind, delta.call)
        is_new = item not in self.begun
        self.begun[item] = self.begun.get(item, "") + delta.text
        yield from self.add_piece(item, delta.text, is_new)

    def add_piece(self, item: tuple[str, int], text: str, is_new: bool) -> Iterator[bytes]:
        """Yields a piece of an item, and the start of one that is new."""
        raise NotImplementedError

    def end(self, response: Response) -> Iterator[bytes]:
        """Yields what comes after the last piece, with the end mark."""
        raise NotImplementedError

    def fail(self, status: int, message: str) -> bytes:
        """Returns the event of an error; streams have no status."""
        return self.event(self.error(status, message))

    def event(self, data: Json) -> bytes:
        """Returns an event, named by its type if it has one."""
        name = f"event: {data['type']}\n" if "type" in data else ""
        return b"%sdata: %s\n\n" % (name.encode(), dump(data))

    def id_of(self, number: int, call: ToolCall) -> str:
        """Returns the id of a call, or makes one that is unique in the conversation."""
        return call.id.strip() or f"{self.prefix}_script_{self.request.turn}_{number}"


class _Anthropic(Wire):
    """Server-sent events with blocks, each opened and closed."""

    path, prefix, read = "/v1/messages", "toolu", staticmethod(read_anthropic)

    def whole(self, response: Response, reasoning: str = "") -> Json:
        thinking = {"type": "thinking", "thinking": reasoning, "signature": SIGNATURE}
        text = [{"type": "text", "text": response.content}] if response.content else []
        calls = [
            {**self._make_call(number, call), "input": dict(call.arguments)}
            for number, call in enumerate(response.tool_calls)
        ]
        words = {"stop": "end_turn", "tool_calls": "tool_use", "length": LENGTH}
        return {
            "id": f"msg_script_{self.request.turn}",
            "type": "message",
            "role": "assistant",
            "model": self.request.model,
            "content": [*([thinking] if reasoning else []), *text, *calls],
            "stop_reason": words.get(response.stop_reason, response.stop_reason),
            "stop_sequence": None,
            "usage": self._count(response.usage),
        }

    def _make_call(self, number: int, call: ToolCall) -> Json:
        id_ = self.id_of(number, call)
        return {"type": "tool_use", "id": id_, "name": call.name, "input": {}}

    @staticmethod
    def _count(usage: Usage) -> Json:
        """Returns the counts; `input_tokens` are those that no cache has to do with."""
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        others = {
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        }
        return {
            "input_tokens": max(0, usage.input_tokens - cached - written),
            "output_tokens": usage.output_tokens,
            **(others if _has_kinds(usage) else {}),
        }

    @staticmethod
    def error(status: int, message: str) -> Json:
        kinds = {
            401: "authentication_error", 403: "permission_error", 404: "not_found_error",
            413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
        }  # fmt: skip
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    @staticmethod
    def models(names: Sequence[str]) -> Json:
        made = {"type": "model", "created_at": "1970-01-01T00:00:00Z"}
        models = [{**made, "id": name, "display_name": name} for name in names]
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": models, "has_more": False, "first_id": first, "last_id": last}

    def begin(self) -> Iterator[bytes]:
        usage = {"input_tokens": self.input_tokens, "output_tokens": 1}
        message = {**self.whole(Response()), "stop_reason": None, "usage": usage}
        yield self.event({"type": "message_start", "message": message})
        yield self.event({"type": "ping"})

    def add_piece(self, item: tuple[str, int], text: str, is_new: bool) -> Iterator[bytes]:
        if item != self.open:
            yield from self._close()
            self.open, self._index = item, self._index + 1
            yield self._about_block("content_block_start", content_block=self._make_block(*item))
        if text:
            kind, key = {
                "text": ("text_delta", "text"),
                "reasoning": ("thinking_delta", "thinking"),
            }.get(item[0], ("input_json_delta", "partial_json"))
            yield self._about_block("content_block_delta", delta={"type": kind, key: text})

    _index = -1

    def _about_block(self, kind: str, **fields: object) -> bytes:
        return self.event({"type": kind, "index": self._index, **fields})

    def _make_block(self, kind: str, number: int) -> Json:
        match kind:
            case "text":
                return {"type": "text", "text": ""}
            case "reasoning":
                return {"type": "thinking", "thinking": "", "signature": ""}
        return self._make_call(number, self.calls[number])

    def _close(self) -> Iterator[bytes]:
        if self.open is None:
            return
        if self.open[0] == "reasoning":
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            yield self._about_block("content_block_delta", delta=signed)
        yield self._about_block("content_block_stop")

    def end(self, response: Response) -> Iterator[bytes]:
        yield from self._close()
        whole = self.whole(response)
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self.event({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
        yield self.event({"type": "message_stop"})


class _OpenAI(Wire):
    """Server-sent events, each with changes to the message; `[DONE]` is the last one."""

    path = "/v1/chat/completions"

    def whole(self, response: Response, reasoning: str = "") -> Json:
        message: Json = {"role": "assistant", "content": response.content, "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        if response.tool_calls:
            message["content"] = response.content or None
            message["tool_calls"] = [
                self._make_call(number, call, call.raw or dump(dict(call.arguments)).decode())
                for number, call in enumerate(response.tool_calls)
            ]
        words = {"end_turn": "stop", "tool_use": "tool_calls", LENGTH: "length"}
        reason = words.get(response.stop_reason, response.stop_reason)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        usage = response.usage
        others = {
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }
        counts = {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total,
            **(others if _has_kinds(usage) else {}),
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": counts}

    def _head(self, kind: str = "chat.completion.chunk") -> Json:
        id_ = f"chatcmpl-script-{self.request.turn}"
        return {"id": id_, "object": kind, "created": 0, "model": self.request.model}

    def _make_call(self, number: int, call: ToolCall, arguments: str) -> Json:
        function = {"name": call.name, "arguments": arguments}
        return {"id": self.id_of(number, call), "type": "function", "function": function}

    def begin(self) -> Iterator[bytes]:
        yield self._change({"role": "assistant", "content": "", "refusal": None})

    def add_piece(self, item: tuple[str, int], text: str, is_new: bool) -> Iterator[bytes]:
        kind, number = item
        if kind != "arguments":
            yield self._change({"content" if kind == "text" else "reasoning_content": text})
            return
        if is_new:
            call = self._make_call(number, self.calls[number], "")
            yield self._change({"tool_calls": [{"index": number, **call}]})
        if text:
            change = {"index": number, "function": {"arguments": text}}
            yield self._change({"tool_calls": [change]})

    def _change(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self.wants_usage else {}
        return self.event({**self._head(), "choices": [choice], **usage})

    def end(self, response: Response) -> Iterator[bytes]:
        whole = self.whole(response)
        yield self._change({}, whole["choices"][0]["finish_reason"])
        if self.wants_usage:
            yield self.event({**self._head(), "choices": [], "usage": whole["usage"]})
        yield b"data: [DONE]\n\n"


class _Responses(Wire):
    """Server-sent events with numbered items; the last one has the whole reply."""

    path, read = "/v1/responses", staticmethod(read_responses)
    _number = 0
    """Number of the next event."""

    def whole(self, response: Response, reasoning: str = "") -> Json:
        words = {"length": "max_output_tokens", LENGTH: "max_output_tokens"}
        reason = words.get(response.stop_reason, response.stop_reason)
        is_whole = reason not in ("max_output_tokens", "content_filter")
        status = "completed" if is_whole else "incomplete"
        parts = [_text_part(response.content)] if response.content else []
        if reason == "refusal":
            parts.append({"type": "refusal", "refusal": "declined"})
        output = [self._make_reasoning(reasoning)] if reasoning else []
        output += [self._make_message(parts, status)] if parts else []
        for number, call in enumerate(response.tool_calls):
            arguments = call.raw or dump(dict(call.arguments)).decode()
            output.append(self._make_call(number, call, arguments))
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
        return {
            "id": f"resp_script_{self.request.turn}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.request.model,
            "output": [],
            "parallel_tool_calls": True,
            "store": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }

    def _make_message(self, parts: Sequence[Json], status: str) -> Json:
        item = {"type": "message", "id": f"msg_script_{self.request.turn}", "role": "assistant"}
        return {**item, "status": status, "content": [*parts]}

    def _make_reasoning(self, text: str) -> Json:
        return {
            "type": "reasoning",
            "id": f"rs_script_{self.request.turn}",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": SIGNATURE,
        }

    def _make_call(self, number: int, call: ToolCall, arguments: str) -> Json:
        return {
            "type": "function_call",
            "id": f"fc_script_{self.request.turn}_{number}",
            "call_id": self.id_of(number, call),
            "name": call.name,
            "arguments": arguments,
            "status": "completed",
        }

    def begin(self) -> Iterator[bytes]:
        head = self._head("in_progress")
        yield self.event({"type": "response.created", "response": head})
        yield self.event({"type": "response.in_progress", "response": head})

    def add_piece(self, item: tuple[str, int], text: str, is_new: bool) -> Iterator[bytes]:
        kind, part, _ = _PARTS[item[0]]
        place = self._place(item)
        if is_new:
            made = self._make_item(item, "", "in_progress")
            if item[0] == "reasoning":
                made |= {"summary": [], "encrypted_content": ""}
            yield self._about_item("added", place, made)
            if part:
                start = {**place, "part": self._make_part(item[0], "")}
                yield self.event({"type": f"{part}.added", **start})
        if text:
            yield self.event({"type": f"{kind}.delta", **place, "delta": text})

    def _make_item(self, item: tuple[str, int], text: str, status: str) -> Json:
        match item:
            case "text", _:
                return self._make_message([_text_part(text)] if text else [], status)
            case "reasoning", _:
                return self._make_reasoning(text)
            case _, number:
                made = self._make_call(number, self.calls[number], text)
                return {**made, "status": status}

    def _make_part(self, kind: str, text: str) -> Json:
        return _text_part(text) if kind == "text" else {"type": "summary_text", "text": text}

    def _place(self, item: tuple[str, int]) -> Json:
        """Returns the fields that say which part of the reply an event is about."""
        index = _PARTS[item[0]][2]
        id_, at = self._make_item(item, "", "")["id"], list(self.begun).index(item)
        return {"item_id": id_, "output_index": at, **({index: 0} if index else {})}

    def _about_item(self, what: str, place: Json, item: Json) -> bytes:
        at = place["output_index"]
        kind = f"response.output_item.{what}"
        return self.event({"type": kind, "output_index": at, "item": item})

    def end(self, response: Response) -> Iterator[bytes]:
        whole = self.whole(response, self.begun.get(("reasoning", 0), ""))
        for item, text in self.begun.items():
            status = whole["status"] if item[0] == "text" else "completed"
            made, place = self._make_item(item, text, status), self._place(item)
            kind, part, _ = _PARTS[item[0]]
            done = {"type": f"{kind}.done", **place}
            if part:
                more: Json = {"logprobs": []} if item[0] == "text" else {}
                yield self.event({**done, "text": text, **more})
                said = self._make_part(item[0], text)
                yield self.event({"type": f"{part}.done", **place, "part": said})
            else:
                yield self.event({**done, "name": made["name"], "arguments": text})
            yield self._about_item("done", place, made)
        yield self.event({"type": f"response.{whole['status']}", "response": whole})

    def fail(self, status: int, message: str) -> bytes:
        told = self.error(status, message)["error"]
        code = told["code"] or told["type"]
        return self.event({"type": "error", "code": code, "message": message, "param": None})

    def event(self, data: Json) -> bytes:
        numbered = {"type": data["type"], "sequence_number": self._number, **data}
        self._number += 1
        return super().event(numbered)


_PARTS: Mapping[str, tuple[str, str, str]] = {
    "text": ("response.output_text", "response.content_part", "content_index"),
    "reasoning": (
        "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index",
    ),
    "arguments": ("response.function_call_arguments", "", ""),
}  # fmt: skip
"""Kind of delta → events of its pieces, events of its part, key of the part's number."""


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


class _Ollama(Wire):
    """Lines of JSON; a call comes whole, and the last line is done."""

    path, listing, streams, kind = "/api/chat", "/api/tags", True, "application/x-ndjson"

    def whole(self, response: Response, reasoning: str = "") -> Json:
        message: Json = {"role": "assistant", "content": response.content}
        if reasoning:
            message["thinking"] = reasoning
        if response.tool_calls:
            message["tool_calls"] = [
                self._make_call(number, call) for number, call in enumerate(response.tool_calls)
            ]
        words = {"end_turn": "stop", "tool_use": "stop", "tool_calls": "stop", LENGTH: "length"}
        return {
            **self._head(message),
            "done": True,
            "done_reason": words.get(response.stop_reason, response.stop_reason),
            "total_duration": 0,
            "load_duration": 0,
            "prompt_eval_count": response.usage.input_tokens,
            "prompt_eval_duration": 0,
            "eval_count": response.usage.output_tokens,
            "eval_duration": 0,
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

    @staticmethod
    def models(names: Sequence[str]) -> Json:
        return {"models": [{"name": name, "model": name, "size": 0} for name in names]}

    def add_piece(self, item: tuple[str, int], text: str, is_new: bool) -> Iterator[bytes]:
        match item:
            case "text", _:
                yield self._say(content=text)
            case "reasoning", _:
                yield self._say(thinking=text)
            case _, number if is_new:
                yield self._say(tool_calls=[self._make_call(number, self.calls[number])])

    def _say(self, **parts: object) -> bytes:
        return self.event(self._head({"role": "assistant", "content": "", **parts}))

    def end(self, response: Response) -> Iterator[bytes]:
        done = {"message": {"role": "assistant", "content": ""}}
        yield self.event({**self.whole(response), **done})

    def event(self, data: Json) -> bytes:
        """Returns a line; Ollama escapes what its own client takes for a line end."""
        text = dump(data).decode()
        return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode() + b"\n"


def _has_kinds(usage: Usage) -> bool:
    """True if some tokens are counted apart; other replies stay as short as they can be."""
    return bool(usage.cached_tokens or usage.cache_write_tokens or usage.reasoning_tokens)


WIRES: Mapping[Protocol, type[Wire]] = {
    "anthropic": _Anthropic, "openai": _OpenAI, "responses": _Responses, "ollama": _Ollama,
}  # fmt: skip
