"""Anthropic's Messages API, and servers that speak it.

Source: A-2.*, B-4, D-11, D-16, D-28, D-32, D-49.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from axe_nb.agents.provider_table import PROMPT_CACHE, PROVIDERS, ProviderInfo
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, ToolCall, ToolSpec, Usage, dump
from axe_nb.messages.answer_tool import with_answer_tool
from axe_nb.messages.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.providers import server_tools, wire
from axe_nb.providers.assembly import Deltas, append_text, check_parts, settle
from axe_nb.providers.connections import show_server
from axe_nb.providers.decoders import SSEDecoder
from axe_nb.providers.exchange import exchange
from axe_nb.providers.history import encode_messages, find_prefix
from axe_nb.providers.output_schema import make_closed
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import TOO_LONG, missing_part, refusal
from axe_nb.providers.streamed_reply import Streaming
from axe_nb.providers.thinking import for_anthropic

PATH = "/v1/messages"

THINKING = ("thinking", "redacted_thinking")

LEAST = 4096
"""Bytes; shorter beginnings of a request have fewer than the 1024 tokens that the API caches."""

EPHEMERAL = {"type": "ephemeral"}

_AT_LIMIT = {
    "max_tokens": "raise params.max_tokens of the agent",
    "model_context_window_exceeded": TOO_LONG,
}
"""Stop reason of a limit that left no room for content → next step."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message as a wire message; none if it is empty."""
    role = "assistant" if message.role == "assistant" else "user"
    content = _encode_content(message)
    return [{"role": role, "content": content}] if content else []


def _encode_content(message: Message) -> list[dict[str, Any]]:
    if message.tool_results:
        return [
            {
                "type": "tool_result",
                "tool_use_id": _encode_id(result.call_id),
                # the API rejects an error without text
                "content": [*_encode_parts(result.content, result.pictures)]
                if result.pictures
                else result.content or ("failed" if result.is_error else ""),
                "is_error": result.is_error,
            }
            for result in message.tool_results
        ]
    if message.pictures:
        return [*_encode_parts(message.content, message.pictures)]
    kept = message.echo.get("anthropic")
    if kept and message.role == "assistant":
        return _restore_blocks(kept, message.tool_calls)
    return [*_encode_text(message.content), *map(_encode_call, message.tool_calls)]


def _restore_blocks(
    kept: Sequence[Mapping[str, Any]], calls: Sequence[ToolCall]
) -> list[dict[str, Any]]:
    """Restores thinking, text and calls in their original order; thinking may not come last."""
    left = iter(calls)
    blocks: list[dict[str, Any]] = []
    for block in kept:
        if block["type"] != "tool_use":
            blocks.append(dict(block))
        elif call := next(left, None):
            blocks.append(_encode_call(call))
    blocks += map(_encode_call, left)
    while blocks and blocks[-1]["type"] in THINKING:
        blocks.pop()
    return blocks


def _encode_text(content: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if content.strip() else []


def _encode_parts(text: str, pictures: Sequence[Picture]) -> Iterator[dict[str, Any]]:
    for part in split_parts(text, pictures):
        if isinstance(part, Picture):
            source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
            yield {"type": "document" if part.is_document else "image", "source": source}
        else:
            yield from _encode_text(part)


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _encode_id(call.id),
        "name": wire.tool_name(call.name),
        "input": dict(call.arguments),
    }


def _encode_id(id: str) -> str:
    """Returns the call's id, or a valid substitute for an id from another provider."""
    if _ID.fullmatch(id):
        return id
    return f"toolu_{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def body(request: Request, streaming: Mapping[str, Any] = wire.WHOLE) -> bytes:
    """Encodes the request as JSON, with the fields that ask for a stream, if any."""
    form = make_closed(request.output) if request.output is not None else None
    request, tools, system = _begin(request)
    before = (*tools, system) if _binds_thinking(request) else None
    turns = _merge(encode_messages(request, encode, before))
    params = for_anthropic(request.model, wire.own_params(request))
    fields = {
        "model": request.model,
        "max_tokens": params.pop("max_tokens"),
        **params,
        **streaming,
        **({"tool_choice": {"type": "none"}} if tools and not request.tools else {}),
        **_encode_output(request, form, wire.table(params.get("output_config"))),
        **({"system": system} if system else {}),
    }
    if _is_worth_caching(request, (*tools, system, *turns)):
        _mark(fields, tools, turns)
    return wire.write_body(fields, tools, turns)


def _begin(request: Request) -> tuple[Request, list[dict[str, Any]], str]:
    """Returns the request as it is sent, with its tools and system prompt, which come first."""
    if request.output is None or make_closed(request.output) is None:
        request = with_answer_tool(request)
    tools = list(map(_encode_tool, request.tools or wire.list_past_tools(request)))
    return request, tools, request.system if request.system.strip() else ""


def _binds_thinking(request: Request) -> bool:
    """True unless the model has a budget for thinking.

    Such models do not bind it to what stood before it, and demand it back.
    """
    return find_facts("", request.model).thinking != "budget"


def find_bound_prefix(request: Request) -> str:
    """Returns the digest of what a reply's thinking is bound to; empty if to nothing (D-78)."""
    request, tools, system = _begin(request)
    return find_prefix(request, encode, (*tools, system)) if _binds_thinking(request) else ""


def _is_worth_caching(request: Request, prefix: Iterable[object]) -> bool:
    """True if a request is likely to be continued, and long enough for the API's prompt cache.

    What was read before costs a tenth; writing costs a quarter more.
    """
    goes_on = bool(request.tools) or any(m.role == "assistant" for m in request.messages)
    is_wanted = request.params.get(PROMPT_CACHE) is not False
    if not (is_wanted and goes_on) or "cache_control" in request.params:
        return False
    return any(size >= LEAST for size in accumulate(len(dump(part)) for part in prefix))


def _mark(
    fields: dict[str, Any], tools: Sequence[dict[str, Any]], turns: list[dict[str, Any]]
) -> None:
    """Marks what the prompt cache is to keep, in four places at most.

    These are the ends of the tools, of the system prompt, of the latest message, which the next
    request finds again, and of the user's before it, which the API may look for in vain behind more
    than 20 blocks of results.
    """
    if tools:
        tools[-1]["cache_control"] = EPHEMERAL
    if system := fields.get("system"):
        fields["system"] = [{"type": "text", "text": system, "cache_control": EPHEMERAL}]
    latest = range(max(0, len(turns) - 3), len(turns))
    for at in [at for at in latest if turns[at]["role"] == "user"][-2:]:
        *before, last = turns[at]["content"]
        turns[at] = {"role": "user", "content": [*before, {**last, "cache_control": EPHEMERAL}]}


def _encode_output(
    request: Request, form: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Encodes the schema of an answer, or the tool that takes it.

    Args:
        form: the schema; None = text is asked for.
    """
    if form is not None:
        return {"output_config": {**own, "format": {"type": "json_schema", "schema": form}}}
    if request.must_call:
        return {"tool_choice": {"type": "tool", "name": request.must_call}}
    return {}


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    if spec.entry is not None:
        return dict(spec.entry)
    schema = spec.input_schema()
    return {"name": spec.name, "description": spec.description, "input_schema": schema}


def _merge(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges consecutive messages of one role, such as user text after tool results."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            content = [*turns[-1]["content"], *message["content"]]
            turns[-1] = {"role": message["role"], "content": content}
        else:
            turns.append(message)
    return turns


def parse(data: Mapping[str, Any]) -> Response:
    """Parses the answer in a reply.

    Raises ProviderError for missing or malformed content, or a refusal.
    """
    stop_reason = wire.text(data.get("stop_reason"))
    blocks = wire.tables(data.get("content"), "content")
    content = _join_texts(blocks)
    if stop_reason == "refusal":
        blocks = _check_refusal(content, blocks, wire.table(data.get("stop_details")))
    if not blocks and (stop_reason != "end_turn" or not isinstance(data.get("content"), list)):
        raise _make_empty_error(stop_reason, data)
    uses = (block for block in blocks if block.get("type") == "tool_use")
    calls = (
        wire.call("anthropic", index, use.get("id"), use.get("name"), use.get("input"))
        for index, use in enumerate(uses)
    )
    whole = _drop_cut_calls(blocks) if stop_reason in _AT_LIMIT else blocks
    kept = list(_select_blocks_to_echo(whole)) if any(map(_is_special, whole)) else []
    server_calls, sources = server_tools.read_anthropic(blocks)
    return Response(
        content,
        tuple(calls),
        stop_reason,
        _parse_usage(wire.table(data.get("usage"))),
        {"anthropic": kept} if kept else {},
        reasoning="\n\n".join(filter(None, (wire.text(b.get("thinking")) for b in blocks))),
        server_calls=server_calls,
        sources=sources,
    )


def _join_texts(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Joins the text of a reply; what the model says after a search is a paragraph of its own."""
    texts: list[str] = []
    before = ""
    for block in blocks:
        kind = wire.text(block.get("type"))
        if kind == "text" and (text := wire.text(block.get("text"))):
            texts += [GAP, text] if texts and ends_work(before) else [text]
        before = kind
    return "".join(texts)


def _make_empty_error(stop_reason: str, data: Mapping[str, Any]) -> ProviderError:
    """Makes the error for a reply without content; one that a limit cut would be cut again."""
    why = f" (stop_reason {stop_reason})" if stop_reason else ""
    error = missing_part(f"content{why}", data)
    if hint := _AT_LIMIT.get(stop_reason):
        error.hint, error.retryable = hint, False
    return error


def _parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parses the counts; the API's `input_tokens` are those that no cache has to do with."""
    details = wire.table(usage.get("output_tokens_details"))
    cached = wire.tokens(usage.get("cache_read_input_tokens"))
    written = wire.tokens(usage.get("cache_creation_input_tokens"))
    return Usage(
        wire.tokens(usage.get("input_tokens")) + cached + written,
        wire.tokens(usage.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=wire.tokens(details.get("thinking_tokens")),
        searches=wire.tokens(wire.table(usage.get("server_tool_use")).get("web_search_requests")),
    )


def _select_blocks_to_echo(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yields the blocks to send back for a reply with special ones; calls are placeholders."""
    for block in blocks:
        match block.get("type"):
            case "tool_use":
                yield {"type": "tool_use"}
            case "text" if not _is_special(block):
                yield from _encode_text(wire.text(block.get("text")))
            case str():
                yield block


def _drop_cut_calls(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the blocks without the server's calls that a limit cut off from their results.

    The API rejects them, unless it has paused the reply or waits for the results of other calls.
    """
    answered = {block.get("tool_use_id") for block in blocks}
    return [b for b in blocks if b.get("type") != "server_tool_use" or b.get("id") in answered]


def _is_special(block: Mapping[str, Any]) -> bool:
    """True for a block that has to be sent back unchanged to keep its meaning.

    These are thinking, tools that the server runs, and whatever the API adds; a text is one if it
    cites their results.
    """
    match block.get("type"):
        case "text":
            return bool(block.get("citations")) and bool(wire.text(block.get("text")).strip())
        case "tool_use":
            return False
        case kind:
            return isinstance(kind, str)


def _check_refusal(
    content: str, blocks: Sequence[Mapping[str, Any]], details: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the text blocks of an answer that the model broke off; its calls are not whole.

    Raises ProviderError if there is no text at all.
    """
    if not content.strip():
        parts = (wire.text(details.get(key)) for key in ("category", "explanation"))
        raise refusal(": ".join(filter(None, parts)))
    return [dict(block) for block in blocks if block.get("type") == "text"]


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


@dataclass(frozen=True)
class Anthropic:
    """The API at one URL, with one key."""

    name = "anthropic"
    base_url: str
    key: str = field(repr=False)
    info: ProviderInfo = field(default=PROVIDERS["anthropic"], repr=False)
    __repr__ = show_server

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """See `Provider.send`."""
        return await exchange(
            self, PATH, body, parse, request, STREAMING, on_delta,
            takes_form=lambda form: make_closed(form) is not None, find_prefix=find_bound_prefix,
        )  # fmt: skip


PROVIDER = Anthropic
