"""OpenAI's Chat Completions API, and compatible servers.

Source: seed 000 §3.3 (A-3.*), B-4; D-11, D-28, D-32, D-49.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, ToolCall, Usage, dump
from axe_nb.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.provider_table import PROVIDERS, ProviderInfo
from axe_nb.providers import server_tools, wire
from axe_nb.providers.connections import show_server
from axe_nb.providers.exchange import exchange
from axe_nb.providers.history import write_messages
from axe_nb.providers.openai_stream import STREAMING
from axe_nb.providers.output_schema import make_strict
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, missing_part, refusal
from axe_nb.providers.thinking import for_chat

PATH = "/v1/chat/completions"

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Keys of a message with reasoning that servers expect to be sent back."""

FILTERED = "content_filter"
"""Beginning of the finish reason of an answer that a content filter cut or removed."""

MALFORMED = "function_call_filter"
"""Beginning of Gemini's finish reason for a call that it could not read."""

_USER, _ASSISTANT = b'{"role":"user"', b'{"role":"assistant"'
"""Beginnings of messages as they are written; no text has them, as quotes are escaped there."""

SIGNED = "extra_content"
"""Key with Gemini's signature of a call; the server rejects the call without it."""


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message as wire messages: one per tool result, none if it is empty.

    Results are text only: their pictures follow in a message of the user's.
    """
    if message.tool_results:
        results: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
            for result in message.tool_results
        ]
        shown = wire.collect_pictures(message.tool_results)
        return [*results, *(encode(shown) if shown else [])]
    if message.pictures:
        return [{"role": "user", "content": [*_encode_parts(message)]}]
    if message.role != "assistant":
        return [{"role": "user", "content": message.content}]
    if not message.content.strip() and not message.tool_calls:
        return []
    kept = message.echo.get("openai", {})
    entry = {
        "role": "assistant",
        "content": message.content if message.content.strip() else None,
        **{key: kept[key] for key in REASONING if key in kept},
    }
    if message.tool_calls:
        entry["tool_calls"] = _encode_calls(message, kept.get(SIGNED, ()))
    return [entry]


def _encode_parts(message: Message) -> Iterator[dict[str, Any]]:
    for part in split_parts(message.content, message.pictures):
        if not isinstance(part, Picture):
            yield {"type": "text", "text": part}
        elif part.is_document:
            file = {"filename": f"{part.digest[:8]}.pdf", "file_data": part.url}
            yield {"type": "file", "file": file}
        else:
            yield {"type": "image_url", "image_url": {"url": part.url}}


def _encode_calls(message: Message, signed: Any) -> list[dict[str, Any]]:
    signatures = [*signed, *[None] * len(message.tool_calls)]
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": wire.tool_name(call.name),
                "arguments": dump(dict(call.arguments)).decode(),
            },
            **({SIGNED: signature} if signature else {}),
        }
        for call, signature in zip(message.tool_calls, signatures, strict=False)
    ]


def write_body(request: Request, streaming: Mapping[str, Any] = wire.WHOLE) -> list[bytes]:
    """Encodes the request as JSON; the system prompt is its first message.

    Args:
        request: the request.
        streaming: the fields that ask for a stream; none = a whole reply.
    """
    params = _make_params(request)
    own = params.pop("stream_options", None)  # refused in requests for whole replies
    fields = {"model": request.model, **params, **streaming}
    if request.output is not None:
        fields["response_format"] = _encode_output(request.output)
    past = () if request.tools else wire.list_past_tools(request)
    if past:
        fields["tool_choice"] = "none"
    if request.must_call:
        fields["tool_choice"] = {"type": "function", "function": {"name": request.must_call}}
    if "stream_options" in streaming:
        fields["stream_options"] = {**streaming["stream_options"], **wire.table(own)}
    system = {"role": "system", "content": request.system}
    head = dump(system) if request.system.strip() else b""
    older, recent = write_messages(request, "openai", encode, _join_turns)
    messages = [head, older, *_merge_users(recent)]
    return wire.envelope(fields, wire.function_tools(request.tools or past), messages)


body = wire.join_body(write_body)
"""Like `write_body`, but returns the body in one piece."""


def _join_turns(messages: Iterable[bytes]) -> bytes:
    return b",".join(_merge_users(messages))


def _merge_users(messages: Iterable[bytes]) -> list[bytes]:
    """Merges consecutive messages of the user's: templates of many models refuse them.

    They follow one another where an empty answer is left out, and after pictures of results.
    """
    messages = [written for written in messages if written]
    if not any(written.startswith(_USER) for written in messages[1:]):
        return messages
    merged: list[bytes] = []
    for written in messages:
        before = merged[-1] if merged and written.startswith(_USER) else b""
        # what a server wants back in the assistant's messages may look like anything
        at = -1 if before.startswith(_ASSISTANT) else before.rfind(_USER)
        if at < 0:
            merged.append(written)
        else:
            merged[-1] = before[:at] + _merge_two(before[at:], written)
    return merged


def _merge_two(first: bytes, second: bytes) -> bytes:
    contents = [json.loads(message)["content"] for message in (first, second)]
    if all(isinstance(content, str) for content in contents):
        return dump({"role": "user", "content": "\n\n".join(filter(None, contents))})
    parts = [
        part
        for content in contents
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]
    return dump({"role": "user", "content": parts})


def _encode_output(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Encodes the schema of an answer; in strict mode if the API can enforce it."""
    strict = make_strict(schema)
    form = {"name": "answer", "strict": strict is not None, "schema": strict or dict(schema)}
    return {"type": "json_schema", "json_schema": form}


def _make_params(request: Request) -> dict[str, Any]:
    """Returns the params, with the limit of tokens under the name that the model takes.

    OpenAI's models that think refuse `max_tokens`.
    """
    params = for_chat(request.model, wire.own_params(request))
    if "max_tokens" in params and find_facts("openai", request.model).thinks != "never":
        params.setdefault("max_completion_tokens", params.pop("max_tokens"))
    return params


def parse(data: Mapping[str, Any]) -> Response:
    """Parses the answer in a reply: its first choice.

    Raises:
        ProviderError: no choice, a malformed one, one that reports an error, or a refusal.
    """
    choices = wire.tables(data.get("choices"), "choices")
    if not choices:
        raise missing_part("choices", data)
    choice = choices[0]
    if choice.get("error"):
        raise error_in_reply(choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise missing_part("message", choice)
    content = _join_text(message.get("content"))
    calls = wire.function_calls("openai", message.get("tool_calls"))
    stop_reason = wire.text(choice.get("finish_reason"))
    if stop_reason == "error":
        raise _make_failure(stop_reason, content)
    if not content.strip():
        _check_refusal(stop_reason, message, calls)
    elif wire.text(message.get("refusal")).strip():
        stop_reason, calls = "refusal", ()
    usage = _parse_usage(wire.table(data.get("usage")))
    server_calls, sources = server_tools.read_chat(message, usage.searches)
    return Response(
        content,
        () if stop_reason.startswith(FILTERED) else calls,
        stop_reason,
        usage,
        _select_parts_to_echo(message),
        reasoning=_find_reasoning(message),
        server_calls=server_calls,
        sources=sources,
    )


def _parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parses the counts; servers report cached tokens in different places."""
    prompt = wire.table(usage.get("prompt_tokens_details"))
    completion = wire.table(usage.get("completion_tokens_details"))
    cached = filter(None, (
        prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"), usage.get("cache_read_input_tokens"),
    ))  # fmt: skip
    written = filter(None, (
        prompt.get("cache_write_tokens"), prompt.get("cache_creation_tokens"),
        usage.get("cache_creation_input_tokens"),
    ))  # fmt: skip
    asked = wire.tokens(usage.get("prompt_tokens"))
    said = wire.tokens(usage.get("completion_tokens"))
    reasoning = wire.tokens(completion.get("reasoning_tokens"))
    if reasoning and asked + said + reasoning == wire.tokens(usage.get("total_tokens")):
        said += reasoning  # as xAI and Gemini count
    return Usage(
        asked,
        said,
        cached_tokens=max(map(wire.tokens, cached), default=0),
        cache_write_tokens=max(map(wire.tokens, written), default=0),
        reasoning_tokens=reasoning,
        searches=wire.tokens(wire.table(usage.get("server_tool_use")).get("web_search_requests")),
    )


def _check_refusal(stop_reason: str, message: Mapping[str, Any], calls: Sequence[ToolCall]) -> None:
    """Rejects a reply without text in which the model declines or a filter has left nothing.

    Raises:
        ProviderError: a refusal, or a call that the server could not read.
    """
    if stop_reason.startswith(FILTERED):
        raise refusal(f"a content filter has removed the answer ({stop_reason})")
    if not calls and (reason := wire.text(message.get("refusal")).strip()):
        raise refusal(reason)
    if not calls and stop_reason.startswith(MALFORMED):
        raise _make_failure(stop_reason)


def _make_failure(stop_reason: str, said: str = "") -> ProviderError:
    """Makes the error for a reply that ends in a failure without an explanation."""
    lacks = "contains only part of an answer" if said.strip() else "contains no answer"
    message = f"response {lacks} (finish_reason {stop_reason})"
    return ProviderError("server", message, partial_text=said)


def _join_text(content: object) -> str:
    """Joins content into text; some servers send it in parts."""
    if isinstance(content, str):
        return content
    return "".join(wire.text(part.get("text")) for part in wire.tables(content, "content"))


def _find_reasoning(message: Mapping[str, Any]) -> str:
    """Returns the reasoning as text; servers have it under one of several keys, or in parts."""
    said = wire.text(message.get("reasoning_content")) or wire.text(message.get("reasoning"))
    if said:
        return said
    parts = [
        wire.text(part.get("text")) or wire.text(part.get("summary"))
        for part in wire.tables(message.get("reasoning_details"), "reasoning_details")
    ]
    if isinstance(message.get("content"), list):
        parts += [
            wire.text(thought.get("text"))
            for part in wire.tables(message["content"], "content")
            for thought in wire.tables(part.get("thinking"), "thinking")
        ]
    return "".join(parts)


def _select_parts_to_echo(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: message[key] for key in REASONING if message.get(key)}
    signatures = [call.get(SIGNED) for call in wire.tables(message.get("tool_calls"), "tool_calls")]
    if any(signatures):
        kept[SIGNED] = signatures
    return {"openai": kept} if kept else {}


@dataclass(frozen=True)
class OpenAI:
    """The API at one URL, with one key."""

    name = "openai"
    base_url: str
    key: str = field(repr=False)
    info: ProviderInfo = field(default=PROVIDERS["openai"], repr=False)
    __repr__ = show_server

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """See `Provider.send`."""
        return await exchange(self, PATH, write_body, parse, request, STREAMING, on_delta)


PROVIDER = OpenAI
