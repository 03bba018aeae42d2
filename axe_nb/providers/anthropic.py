"""Anthropic's Messages API, and servers that speak it.

Source: seed 000 §3.2 (A-2.*), B-4; D-11, D-16, D-28, D-32, D-49.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from axe_nb.answer_tool import with_answer_tool
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, ToolCall, ToolSpec, Usage, dump
from axe_nb.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.provider_table import PROVIDERS, ProviderInfo
from axe_nb.providers import server_tools, wire
from axe_nb.providers.anthropic_stream import GAP, STREAMING, ends_work
from axe_nb.providers.connections import show_server
from axe_nb.providers.exchange import exchange
from axe_nb.providers.history import write_messages
from axe_nb.providers.output_schema import make_closed
from axe_nb.providers.prompt_cache import ROLE, Prefix, mark_prefix
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import TOO_LONG, missing_part, refusal
from axe_nb.providers.thinking import for_anthropic

PATH = "/v1/messages"

THINKING = ("thinking", "redacted_thinking")

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


def write_body(request: Request, streaming: Mapping[str, Any] = wire.WHOLE) -> list[bytes]:
    """Encodes the request as JSON, with the fields that ask for a stream, if any."""
    form = make_closed(request.output) if request.output is not None else None
    if form is None:
        request = with_answer_tool(request)
    past = () if request.tools else wire.list_past_tools(request)
    tools = wire.write_tools(request.tools or past, "anthropic", _encode_tool)
    system = request.system if request.system.strip() else ""
    turns = _encode_turns(request, b"\n".join([*tools, dump(system)]))
    prefix = mark_prefix(request, Prefix(tools, system, turns))
    params = for_anthropic(request.model, wire.own_params(request))
    fields = {
        "model": request.model,
        "max_tokens": params.pop("max_tokens"),
        **params,
        **streaming,
        **({"tool_choice": {"type": "none"}} if past else {}),
        **_encode_output(request, form, wire.table(params.get("output_config"))),
        **({"system": prefix.system} if prefix.system else {}),
    }
    return wire.envelope(fields, prefix.tools, prefix.turns)


body = wire.join_body(write_body)
"""Like `write_body`, but returns the body in one piece."""


def _encode_output(
    request: Request, form: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Encodes the schema of an answer, or the tool that takes it.

    Args:
        request: the request.
        form: the schema; None = text is asked for.
        own: the other settings of the output.
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


def _encode_turns(request: Request, before: bytes) -> list[bytes]:
    """Encodes the messages as turns; the older ones are one part.

    Models with a budget for thinking do not bind it to what stood before it, and demand it back.
    """
    is_bound = find_facts("", request.model).thinking != "budget"
    bound_to = before if is_bound else None
    older, recent = write_messages(request, "anthropic", encode, _join_turns, bound_to)
    return list(filter(None, [older, *_merge(recent)]))


def _join_turns(messages: Iterable[bytes]) -> bytes:
    return b",".join(_merge(messages))


def _merge(messages: Iterable[bytes]) -> list[bytes]:
    """Merges consecutive messages of one role, such as user text after tool results."""
    turns = list(filter(None, messages))
    roles = bytes([turn[ROLE] for turn in turns])
    if b"uu" in roles or b"aa" in roles:
        return [_merge_turns(list(group)) for _, group in groupby(turns, itemgetter(ROLE))]
    return turns


def _merge_turns(turns: Sequence[bytes]) -> bytes:
    start = turns[0].index(b"[") + 1
    return turns[0][:start] + b",".join(turn[start:-2] for turn in turns) + b"]}"


def parse(data: Mapping[str, Any]) -> Response:
    """Parses the answer in a reply.

    Raises:
        ProviderError: missing or malformed content, or a refusal.
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

    Raises:
        ProviderError: there is no text at all.
    """
    if not content.strip():
        parts = (wire.text(details.get(key)) for key in ("category", "explanation"))
        raise refusal(": ".join(filter(None, parts)))
    return [dict(block) for block in blocks if block.get("type") == "text"]


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
            self, PATH, write_body, parse, request, STREAMING, on_delta,
            takes_form=lambda form: make_closed(form) is not None,
        )  # fmt: skip


PROVIDER = Anthropic
