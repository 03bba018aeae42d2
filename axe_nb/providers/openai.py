"""Provider for OpenAI's Chat Completions API and compatible servers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import zip_longest
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, Usage, dump
from axe_nb.messages.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.providers import server_tools, streaming, wire
from axe_nb.providers.http import HttpProvider, encode_messages
from axe_nb.providers.output_schema import name_form
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, missing_part, refusal
from axe_nb.providers.streaming import Assembly
from axe_nb.providers.thinking import may_think, split

REASONING_TEXTS = ("reasoning_content", "reasoning")
"""Message keys that hold reasoning as text; some servers send both keys."""

REASONING = (*REASONING_TEXTS, "reasoning_details")
"""Message keys that hold reasoning and that servers expect to get back."""

SIGNED = "extra_content"
"""Key of the signature that Gemini sends with a call and requires when the call is sent back."""


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message as zero or more API messages, such as one per tool result."""
    if message.tool_results:
        results: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
            for result in message.tool_results
        ]
        shown = wire.collect_pictures(message.tool_results)
        return [*results, *(encode(shown) if shown else [])]
    if message.pictures:
        parts: list[dict[str, Any]] = []
        for part in split_parts(message.content, message.pictures):
            if not isinstance(part, Picture):
                parts.append({"type": "text", "text": part})
            elif part.is_document:
                file = {"filename": f"{part.digest[:8]}.pdf", "file_data": part.url}
                parts.append({"type": "file", "file": file})
            else:
                parts.append({"type": "image_url", "image_url": {"url": part.url}})
        return [{"role": "user", "content": parts}]
    if message.role != "assistant":
        return [{"role": "user", "content": message.content}]
    if not message.content.strip() and not message.tool_calls:
        return []
    kept = message.echo.get("openai", {})
    content = message.content if message.content.strip() else None
    entry: dict[str, Any] = {"role": "assistant", "content": content}
    entry |= {key: kept[key] for key in REASONING if key in kept}
    if message.tool_calls:
        entry["tool_calls"] = calls = []
        for call, signature in zip_longest(message.tool_calls, kept.get(SIGNED, ())):
            if call:
                arguments = dump(dict(call.arguments)).decode()
                function = {"name": wire.tool_name(call.name), "arguments": arguments}
                signed = {SIGNED: signature} if signature else {}
                calls.append({"id": call.id, "type": "function", "function": function, **signed})
    return [entry]


def body(request: Request, stream: Mapping[str, Any] = wire.WHOLE) -> bytes:
    asked, params = split(wire.own_params(request))
    if asked is not None and may_think(request.model):
        params.setdefault("reasoning_effort", "none" if asked == "off" else asked)
    # OpenAI's reasoning models refuse the older name
    if "max_tokens" in params and find_facts("openai", request.model).thinks != "never":
        params.setdefault("max_completion_tokens", params.pop("max_tokens"))
    own = params.pop("stream_options", None)  # rejected in unstreamed requests
    fields = {"model": request.model, **params, **stream}
    if "stream_options" in stream:
        fields["stream_options"] = {**stream["stream_options"], **wire.table(own)}
    if request.output is not None:
        form = name_form(request.output)
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    past = () if request.tools else wire.list_past_tools(request)
    if past:
        fields["tool_choice"] = "none"
    if request.must_call:
        fields["tool_choice"] = {"type": "function", "function": {"name": request.must_call}}
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    for message in encode_messages(request, encode)[0]:
        if messages and message["role"] == "user" == messages[-1]["role"]:
            # many chat templates refuse two user messages in a row
            before, after = messages[-1]["content"], message["content"]
            content: Any = [*_list_parts(before), *_list_parts(after)]
            if isinstance(before, str) and isinstance(after, str):
                content = "\n\n".join(filter(None, (before, after)))
            messages[-1] = {"role": "user", "content": content}
        else:
            messages.append(message)
    return wire.write_body(fields, [*map(wire.encode_function, request.tools or past)], messages)


def _list_parts(content: Any) -> Any:
    is_text = isinstance(content, (str, StringIO))
    return [{"type": "text", "text": content}] if is_text else content


def parse(data: Mapping[str, Any]) -> Response:
    """Parses a reply's first choice. Raises ProviderError if it is invalid or only a refusal."""
    choices = wire.tables(data.get("choices"), "choices")
    if not choices:
        raise missing_part("choices", data)
    choice = choices[0]
    if choice.get("error"):
        raise error_in_reply(choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise missing_part("message", choice)
    parts = wire.tables(_list_parts(message.get("content")), "content")  # some servers send a list
    content = "".join(wire.text(part.get("text")) for part in parts)
    calls = wire.function_calls("openai", message.get("tool_calls"))
    stop_reason = wire.text(choice.get("finish_reason"))
    declined, says = wire.text(message.get("refusal")).strip(), bool(content.strip())
    is_filtered = stop_reason.startswith("content_filter")
    if not says and is_filtered:
        raise refusal(f"a content filter has removed the answer ({stop_reason})")
    if not says and not calls and declined:
        raise refusal(declined)
    # Gemini could not parse a call
    is_malformed = not says and not calls and stop_reason.startswith("function_call_filter")
    if stop_reason == "error" or is_malformed:
        lacks = "contains only part of an answer" if says else "contains no answer"
        lacks = f"response {lacks} (finish_reason {stop_reason})"
        raise ProviderError("server", lacks, partial_text=content)
    if says and declined:
        stop_reason, calls = "refusal", ()
    usage = _parse_usage(data.get("usage"))
    server_calls, sources = server_tools.read_chat(message, usage.searches)
    reasoning = next(filter(None, (wire.text(message.get(key)) for key in REASONING_TEXTS)), "")
    if not reasoning:
        thoughts = wire.tables(message.get("reasoning_details"), "reasoning_details")
        for part in parts:
            thoughts = [*thoughts, *wire.tables(part.get("thinking"), "thinking")]
        reasoning = "".join(map(_read_thought, thoughts))
    echo = {key: message[key] for key in REASONING if message.get(key)}
    signed = [call.get(SIGNED) for call in wire.tables(message.get("tool_calls"), "tool_calls")]
    echo |= {SIGNED: signed} if any(signed) else {}
    return Response(
        content, () if is_filtered else calls, stop_reason, usage, {"openai": echo} if echo else {},
        reasoning=reasoning, server_calls=server_calls, sources=sources,
    )  # fmt: skip


def _parse_usage(usage: object) -> Usage:
    asked, said = wire.tokens(usage, "prompt_tokens"), wire.tokens(usage, "completion_tokens")
    reasoning = wire.tokens(usage, "completion_tokens_details", "reasoning_tokens")
    if reasoning and asked + said + reasoning == wire.tokens(usage, "total_tokens"):
        said += reasoning  # xAI and Gemini count reasoning separately
    prompt = "prompt_tokens_details"
    cached = (
        (prompt, "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",),
        ("cache_read_input_tokens",),
    )  # fmt: skip
    written = (
        (prompt, "cache_write_tokens"), (prompt, "cache_creation_tokens"),
        ("cache_creation_input_tokens",),
    )  # fmt: skip
    return Usage(
        asked,
        said,
        cached_tokens=max(wire.tokens(usage, *path) for path in cached),
        cache_write_tokens=max(wire.tokens(usage, *path) for path in written),
        reasoning_tokens=reasoning,
        searches=wire.tokens(usage, "server_tool_use", "web_search_requests"),
    )


def _read_thought(part: Mapping[str, Any]) -> str:
    return wire.text(part.get("text")) or wire.text(part.get("summary"))


@dataclass
class _Call:
    number: int
    entry: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)
    last: str = ""
    """The last non-blank piece of the arguments."""

    def is_another(self, id: object, name: str, arguments: object) -> bool:
        """True if a piece with the call's index begins another call; some servers reuse indices."""
        if not name or (id and id == self.entry.get("id")):
            return False
        if id and self.entry.get("id"):
            return True
        if name != self.function.get("name", name):
            return bool(self.last)
        starts = isinstance(arguments, dict) or wire.text(arguments).lstrip().startswith("{")
        return self.last.endswith("}") and starts

    def add(self, piece: dict[str, Any], function: dict[str, Any]) -> str:
        """Adds a piece of the call and returns the arguments that the piece contains."""
        own = self.entry.get("id")
        self.entry.update((key, value) for key, value in piece.items() if value is not None)
        if own:
            self.entry["id"] = own
        name, known = wire.text(function.get("name")), wire.text(self.function.get("name"))
        if name and name != known:
            # the name comes in pieces, or each piece repeats the earlier ones
            self.function["name"] = name if name.startswith(known) else known + name
        arguments = function.get("arguments")
        if arguments is None or arguments == "":
            return ""
        if not isinstance(arguments, str):
            arguments = dump(arguments).decode()
        streaming.append_text(self.function, "arguments", arguments)
        self.last = arguments.strip() or self.last
        return arguments


TEXTUAL = ("text", "thinking", "reasoning.text", "reasoning.summary")
"""Types of content parts whose text may arrive in pieces."""


def _add_part(parts: list[Any], part: dict[str, Any]) -> None:
    """Appends a content part, or extends the last part if the new one continues it."""
    last = parts[-1] if parts else None
    if (
        not isinstance(last, dict)
        or wire.text(part.get("type")) not in TEXTUAL
        or any(part.get(key) not in (None, last.get(key)) for key in ("type", "index", "id"))
    ):
        streaming.check_parts(len(parts) + 1)
        parts.append(dict(part))
        return
    for key, value in part.items():
        if key in ("text", "thinking", "summary") and isinstance(value, str):
            streaming.append_text(last, key, value)
        elif isinstance(value, list) and isinstance(last.get(key), list):
            for entry in wire.tables(value, key):
                _add_part(last[key], entry)
        elif value is not None:
            last[key] = value


class OpenAIAssembly(Assembly):
    """Collects the first choice of a streamed reply."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        super().__init__(on_delta)
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._usage: object = None
        self._stop: object = None
        self._calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def end(self) -> None:
        """Handles the end marker `[DONE]`, which completes an answer even without a finish reason.

        Gateways also send `[DONE]` if their own connection broke, so an empty answer or an
        unfinished call does not count as complete. Cut-off text goes undetected.
        """
        self.has_ended = True
        says = any(streaming.settle(self._message.get(key)) for key in ("content", "refusal"))
        written = (streaming.settle(call.function.get("arguments", "")) for call in self._calls)
        with suppress(ValueError):
            are_whole = all(isinstance(wire.loads_part(text), dict) for text in written)
            self.is_complete |= are_whole and (says or bool(self._calls))

    def add(self, name: str, data: dict[str, Any]) -> None:
        self._top.update(data)
        choices = wire.tables(data.get("choices"), "choices")
        # some servers nest the usage in the choice or in `x_groq`
        for entry in (data, *choices):
            if usage := entry.get("usage") or wire.table(entry.get("x_groq")).get("usage"):
                self._usage = usage
        for choice in choices:
            index, first = choice.get("index"), self._choice.get("index")
            if index != first and index is not None and first is not None:
                continue
            if choice.get("error"):
                raise error_in_reply(choice)
            self._choice.update(choice)
            delta = wire.table(choice.get("delta") or (not self._message and choice.get("message")))
            thoughts = next((key for key in REASONING if delta.get(key)), "")
            for key, value in delta.items():
                if value is not None:
                    self._add_value(key, value, is_shown=key == thoughts)
            if stop := choice.get("finish_reason"):
                self._stop = stop
                self.is_complete = True

    def _add_value(self, key: str, value: object, *, is_shown: bool) -> None:
        """Adds a value to the message under `key`; passes reasoning to `on_delta` if `is_shown`."""
        message, held = self._message, self._message.get(key)
        if key == "tool_calls":
            self._add_calls(value)
        elif key == "content" and isinstance(value, str) and not isinstance(held, list):
            streaming.append_text(message, key, value)
            self.show(value)
        elif key == "content":
            if not isinstance(held, list):
                held = message[key] = _list_parts(held) if held else []
            for part in wire.tables(_list_parts(value), key):
                _add_part(held, part)
                self.show(wire.text(part.get("text")))
                for thought in wire.tables(part.get("thinking"), "thinking"):
                    self.show(wire.text(thought.get("text")), "reasoning")
        elif key in (*REASONING_TEXTS, "refusal") and isinstance(value, str):
            streaming.append_text(message, key, value)
            if is_shown:
                self.show(value, "reasoning")
        elif key == "reasoning_details" and isinstance(value, list):
            details = message[key] = held if isinstance(held, list) else []
            for detail in wire.tables(value, key):
                _add_part(details, detail)
                if is_shown:
                    self.show(_read_thought(detail), "reasoning")
        elif key in ("annotations", "executed_tools") and isinstance(value, list):
            entries = message[key] = held if isinstance(held, list) else []
            streaming.check_parts(len(entries) + len(value))
            entries += value
        else:
            message[key] = value

    def _add_calls(self, value: object) -> None:
        """Adds each piece to the call with its index or id, to the last call, or to a new call."""
        for piece in wire.tables(value, "tool_calls"):
            function = wire.table(piece.get("function"))
            index, id, name = piece.get("index"), piece.get("id"), wire.text(function.get("name"))
            if isinstance(index, int) or (isinstance(index, str) and index):
                call = self._by_index.get(index)
                if call is None or call.is_another(id, name, function.get("arguments")):
                    call = self._by_index[index] = self._begin_call()
            elif isinstance(id, str) and id in self._by_id and not name:
                call = self._by_id[id]
            else:
                last = self._calls[-1] if self._calls else None
                # a piece without an index continues the last call, unless it names a tool
                goes_on = last and (not id or last.entry.get("id") in (None, id))
                call = last if last and goes_on and not (name and last.function) else None
                call = call or self._begin_call()
            if isinstance(id, str):
                self._by_id[id] = call
            known = call.function.get("name")
            arguments = call.add(piece, function)
            if call.function.get("name") != known:
                self.show_call(call.number, call.function["name"])
            if arguments:
                self.show(arguments, "arguments", call.number)

    def _begin_call(self) -> _Call:
        streaming.check_parts(len(self._calls) + 1)
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    def reply(self) -> dict[str, Any]:
        calls = [{**call.entry, "function": call.function} for call in self._calls]
        message = {**self._message, **({"tool_calls": calls} if calls else {})}
        choice = {**self._choice, "message": message, "finish_reason": self._stop}
        choice.pop("delta", None)
        choices = [choice] if self._choice else []
        return {**self._top, "choices": choices, "usage": self._usage}


class OpenAI(HttpProvider):
    """A model server that speaks OpenAI's Chat Completions API."""

    name = "openai"
    assembly = OpenAIAssembly
    body, parse = staticmethod(body), staticmethod(parse)
    stream_fields = ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True})


PROVIDER = OpenAI
