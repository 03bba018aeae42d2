"""Provider for Anthropic's Messages API and compatible servers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from axe_nb.messages import Message, Request, Response, ToolCall, Usage, dump
from axe_nb.messages.answer_tool import with_answer_tool
from axe_nb.messages.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.providers import server_tools, streaming, wire
from axe_nb.providers.http import PREFIX, HttpProvider, encode_messages
from axe_nb.providers.output_schema import make_closed
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import TOO_LONG, missing_part, refusal
from axe_nb.providers.streaming import Assembly
from axe_nb.providers.thinking import for_anthropic

EPHEMERAL = {"type": "ephemeral"}

GAP = "\n\n"
"""Separator between the texts of a reply before and after a server-side tool call."""

_AT_LIMIT = {
    "max_tokens": "raise params.max_tokens of the agent",
    "model_context_window_exceeded": TOO_LONG,
}
"""Stop reason of a reply that reached a limit → hint to show if the reply has no content."""


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message for the API; returns an empty list if the message has no content."""
    content: list[dict[str, Any]] = []
    kept = message.echo.get("anthropic") if message.role == "assistant" else None
    if kept and not message.tool_results and not message.pictures:
        content = _restore_blocks(kept, message.tool_calls)
    elif not message.tool_results:
        content += _encode_parts(message.content, message.pictures)
        content += map(_encode_call, message.tool_calls)
    for result in message.tool_results:
        text: object = result.content or ("failed" if result.is_error else "")  # errors need text
        if result.pictures:
            text = [*_encode_parts(result.content, result.pictures)]
        told = {"type": "tool_result", "tool_use_id": _encode_id(result.call_id), "content": text}
        content.append({**told, "is_error": result.is_error})
    role = "assistant" if message.role == "assistant" else "user"
    return [{"role": role, "content": content}] if content else []


def _restore_blocks(
    kept: Sequence[Mapping[str, Any]], calls: Sequence[ToolCall]
) -> list[dict[str, Any]]:
    """Restores a reply's blocks in their original order, without thinking blocks at the end."""
    left = iter(calls)
    blocks: list[dict[str, Any]] = []
    for block in kept:
        if block["type"] != "tool_use":
            blocks.append(dict(block))
        elif call := next(left, None):
            blocks.append(_encode_call(call))
    blocks += map(_encode_call, left)
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _encode_parts(text: str, pictures: Sequence[Picture]) -> Iterator[dict[str, Any]]:
    for part in split_parts(text, pictures):
        if isinstance(part, Picture):
            source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
            yield {"type": "document" if part.is_document else "image", "source": source}
        elif part.strip():
            yield {"type": "text", "text": part}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    name, given = wire.tool_name(call.name), dict(call.arguments)
    return {"type": "tool_use", "id": _encode_id(call.id), "name": name, "input": given}


def _encode_id(id: str) -> str:
    """Returns a call's id, or a valid substitute if the API would reject the id."""
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id):
        return id
    return f"toolu_{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def body(request: Request, stream: Mapping[str, Any] = wire.WHOLE) -> bytes:
    form = make_closed(request.output) if request.output is not None else None
    request, tools, system, before = _begin(request)
    turns: list[dict[str, Any]] = []
    is_bound = any(PREFIX in message.echo for message in request.messages)
    for message in encode_messages(request, encode, before if is_bound else None)[0]:
        if turns and turns[-1]["role"] == message["role"]:  # such as text after tool results
            content = [*turns[-1]["content"], *message["content"]]
            turns[-1] = {"role": message["role"], "content": content}
        else:
            turns.append(message)
    params = for_anthropic(request.model, wire.own_params(request))
    most = params.pop("max_tokens")
    fields = {"model": request.model, "max_tokens": most, **params, **stream}
    if tools and not request.tools:
        fields["tool_choice"] = {"type": "none"}
    if form is not None:
        own = wire.table(params.get("output_config"))
        fields["output_config"] = {**own, "format": {"type": "json_schema", "schema": form}}
    elif request.must_call:
        fields["tool_choice"] = {"type": "tool", "name": request.must_call}
    if system:
        fields["system"] = system
    goes_on = request.tools or any(message.role == "assistant" for message in request.messages)
    if goes_on and "cache_control" not in request.params:
        _mark_for_cache(fields, tools, turns)
    return wire.write_body(fields, tools, turns)


def _begin(request: Request) -> tuple[Request, list[dict[str, Any]], str, Sequence[object] | None]:
    """Prepares a request for encoding.

    Returns the request with its encoded tools, its system prompt, and the part that precedes its
    messages. That part, the argument `before` of `encode_messages`, is the tools and the system
    prompt; it is None if the server accepts earlier thinking even after these have changed.
    """
    if request.output is None or make_closed(request.output) is None:
        request = with_answer_tool(request)
    tools = []
    for spec in request.tools or wire.list_past_tools(request):
        named = {"name": spec.name, "description": spec.description}
        made = {**named, "input_schema": spec.input_schema()}
        tools.append(dict(made if spec.entry is None else spec.entry))
    system = request.system if request.system.strip() else ""
    is_bound = find_facts("", request.model).thinking != "budget"
    return request, tools, system, (*tools, system) if is_bound else None


def _mark_for_cache(
    fields: dict[str, Any], tools: Sequence[dict[str, Any]], turns: list[dict[str, Any]]
) -> None:
    """Sets up to four breakpoints for the prompt cache, if the request is long enough.

    The breakpoints follow the tools, the system prompt and the last two user messages. The previous
    request ended with the earlier of the two messages; without a breakpoint there, the API may miss
    the cached part, as it searches only the 20 blocks before a breakpoint. Cached input costs a
    tenth of the normal price; writing to the cache costs 25 % more than the normal price.
    """
    system = fields.get("system", "")
    sizes = (len(dump(part)) for part in (*tools, system, *turns))
    if all(size < 4096 for size in accumulate(sizes)):  # fewer than 1024 tokens are not cached
        return
    if system:
        fields["system"] = [{"type": "text", "text": system, "cache_control": EPHEMERAL}]
    if tools:
        tools[-1]["cache_control"] = EPHEMERAL
    latest = range(max(0, len(turns) - 3), len(turns))
    for at in [at for at in latest if turns[at]["role"] == "user"][-2:]:
        *before, last = turns[at]["content"]
        turns[at] = {"role": "user", "content": [*before, {**last, "cache_control": EPHEMERAL}]}


def parse(data: Mapping[str, Any]) -> Response:
    """Parses a whole reply. Raises ProviderError if it is invalid or only a refusal."""
    stop_reason = wire.text(data.get("stop_reason"))
    blocks = wire.tables(data.get("content"), "content")
    content = before = ""
    for block in blocks:
        kind, text = wire.text(block.get("type")), wire.text(block.get("text"))
        if kind == "text" and text:
            content += GAP + text if content and before.endswith("_tool_result") else text
        before = kind
    if stop_reason == "refusal":
        if not content.strip():
            details = wire.table(data.get("stop_details"))
            reasons = (wire.text(details.get(key)) for key in ("category", "explanation"))
            raise refusal(": ".join(filter(None, reasons)))
        blocks = [block for block in blocks if block.get("type") == "text"]  # calls may be cut off
    if not blocks and (stop_reason != "end_turn" or not isinstance(data.get("content"), list)):
        why = f" (stop_reason {stop_reason})" if stop_reason else ""
        error = missing_part(f"content{why}", data)
        if hint := _AT_LIMIT.get(stop_reason):  # a retry would be cut off again
            error.hint, error.retryable = hint, False
        raise error
    uses = (block for block in blocks if block.get("type") == "tool_use")
    calls = (
        wire.call("anthropic", index, use.get("id"), use.get("name"), use.get("input"))
        for index, use in enumerate(uses)
    )
    counts = data.get("usage")  # `input_tokens` excludes cached tokens
    cached = wire.tokens(counts, "cache_read_input_tokens")
    written = wire.tokens(counts, "cache_creation_input_tokens")
    usage = Usage(
        wire.tokens(counts, "input_tokens") + cached + written,
        wire.tokens(counts, "output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=wire.tokens(counts, "output_tokens_details", "thinking_tokens"),
        searches=wire.tokens(counts, "server_tool_use", "web_search_requests"),
    )
    server_calls, sources = server_tools.read_anthropic(blocks)
    kept = _select_blocks_to_echo(blocks, is_cut=stop_reason in _AT_LIMIT)
    return Response(
        content, tuple(calls), stop_reason, usage, {"anthropic": kept} if kept else {},
        reasoning=GAP.join(filter(None, (wire.text(block.get("thinking")) for block in blocks))),
        server_calls=server_calls, sources=sources,
    )  # fmt: skip


def _select_blocks_to_echo(
    blocks: Sequence[Mapping[str, Any]], *, is_cut: bool
) -> list[Mapping[str, Any]]:
    """Selects the blocks of a reply to send back in the next request; empty if none is needed.

    The blocks are needed if any of them contains thinking, belongs to a server-side tool, is a text
    with citations, or has an unknown type: these must be sent back unchanged. A tool call is kept
    as a placeholder. Server-side calls whose results were cut off by a limit are left out, because
    the API rejects calls without results.
    """
    answered = {block.get("tool_use_id") for block in blocks}
    kept: list[Mapping[str, Any]] = []
    has_special = False
    for block in blocks:
        kind, text = block.get("type"), wire.text(block.get("text"))
        if kind == "tool_use":
            kept.append({"type": "tool_use"})
        elif kind == "text" and not (block.get("citations") and text.strip()):
            kept += _encode_parts(text, ())
        elif isinstance(kind, str) and not (
            is_cut and kind == "server_tool_use" and block.get("id") not in answered
        ):
            kept.append(block)
            has_special = True
    return kept if has_special else []


class AnthropicAssembly(Assembly):
    """Collects the blocks of a streamed message."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        super().__init__(on_delta)
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._by_index: dict[object, dict[str, Any]] = {}
        self._calls: dict[int, int] = {}
        """`id()` of a tool call's block → position of the call in the reply."""

    def add(self, name: str, data: dict[str, Any]) -> None:
        match data.get("type", name):
            case "content_block_delta":
                self._add_delta(data.get("index"), wire.table(data.get("delta")))
            case "content_block_start":
                self._begin_block(data.get("index"), wire.table(data.get("content_block")))
            case "message_start":
                message = wire.table(data.get("message"))
                self._change(message, message.get("usage"))
                for index, block in enumerate(wire.tables(message.get("content"), "content")):
                    self._begin_block(index, block)
            case "message_delta":
                changes = wire.table(data.get("delta"))
                self._change(changes, data.get("usage"))
                self.is_complete = self.is_complete or bool(changes.get("stop_reason"))
            case "message_stop":
                self.is_complete = self.has_ended = True

    def _change(self, changes: dict[str, Any], usage: object) -> None:
        """Updates the message. Token counts are totals, so each count replaces the one before."""
        for held, new in ((self._message, changes), (self._usage, wire.table(usage))):
            held.update({key: value for key, value in new.items() if value is not None})

    def _begin_block(self, index: object, entry: dict[str, Any]) -> dict[str, Any]:
        streaming.check_parts(len(self._blocks) + 1)
        before = wire.text(self._blocks[-1].get("type")) if self._blocks else ""
        block = dict(entry)
        self._blocks.append(block)
        if isinstance(index, int):
            self._by_index[index] = block
        if block.get("type") == "tool_use":
            self.show_call(len(self._calls), block.get("name"))
            if block.get("input"):
                given = dump(block["input"]).decode()
                self.show(given, "arguments", len(self._calls))
            self._calls[id(block)] = len(self._calls)
        if block.get("type") == "text" and before.endswith("_tool_result") and self.text:
            self.show(GAP)
        self.show(wire.text(block.get("text")))
        self.show(wire.text(block.get("thinking")), "reasoning")
        return block

    def _add_delta(self, index: object, delta: dict[str, Any]) -> None:
        """Adds a delta to the block at `index`, by default the last block, or to a new block."""
        if isinstance(index, int) and index in self._by_index:
            block = self._by_index[index]
        elif self._blocks and not isinstance(index, int):
            block = self._blocks[-1]
        else:
            kind = wire.text(delta.get("type")).removesuffix("_delta")
            kinds = {"thinking": "thinking", "signature": "thinking", "input_json": "tool_use"}
            block = self._begin_block(index, {"type": kinds.get(kind, "text")})
        for key, value in delta.items():
            if key == "type" or value is None:
                continue
            if key == "citation":
                if not isinstance(block.get("citations"), list):
                    block["citations"] = []
                block["citations"].append(value)
            elif isinstance(value, str) and key != "signature":
                streaming.append_text(block, key, value)
                match key, block.get("type"):
                    case "text", "text":
                        self.show(value)
                    case "thinking", "thinking":
                        self.show(value, "reasoning")
                    case "partial_json", "tool_use":
                        self.show(value, "arguments", self._calls[id(block)])
            else:
                block[key] = value

    def reply(self) -> dict[str, Any]:
        content = []
        for block in self._blocks:
            entry = dict(block)
            pieces = wire.text(streaming.settle(entry.pop("partial_json", "")))
            if pieces.strip():
                entry["input"] = pieces
                with suppress(ValueError):
                    entry["input"] = wire.loads(pieces, strict=True)
            content.append(entry)
        return {**self._message, "content": content, "usage": self._usage}


class Anthropic(HttpProvider):
    """A model server that speaks Anthropic's Messages API."""

    name = "anthropic"
    assembly = AnthropicAssembly
    body, parse = staticmethod(body), staticmethod(parse)

    @staticmethod
    def takes_form(schema: Mapping[str, Any]) -> bool:
        return make_closed(schema) is not None

    @staticmethod
    def find_prefix(request: Request) -> str:
        request, _, _, before = _begin(request)
        return encode_messages(request, encode, before)[1]


PROVIDER = Anthropic
