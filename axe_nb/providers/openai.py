"""OpenAI's Chat Completions API, and compatible servers.

Source: A-3.*, B-4, D-11, D-28, D-32, D-49.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from axe_nb.agents.provider_table import PROVIDERS, ProviderInfo
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, ToolCall, Usage, dump
from axe_nb.messages.model_table import find_facts
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.providers import server_tools, wire
from axe_nb.providers.assembly import Deltas, add_part, append_text, check_parts, settle
from axe_nb.providers.connections import show_server
from axe_nb.providers.decoders import SSEDecoder
from axe_nb.providers.exchange import exchange
from axe_nb.providers.history import encode_messages
from axe_nb.providers.output_schema import name_form
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, missing_part, refusal
from axe_nb.providers.streamed_reply import Streaming
from axe_nb.providers.thinking import for_chat

PATH = "/v1/chat/completions"

REASONING_TEXTS = ("reasoning_content", "reasoning")
"""Keys of a message with reasoning as text; some servers send it under both."""

REASONING = (*REASONING_TEXTS, "reasoning_details")
"""Keys of a message with reasoning that servers expect to be sent back."""

FILTERED = "content_filter"
"""Beginning of the finish reason of an answer that a content filter cut or removed."""

MALFORMED = "function_call_filter"
"""Beginning of Gemini's finish reason for a call that it could not read."""

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


def body(request: Request, streaming: Mapping[str, Any] = wire.WHOLE) -> bytes:
    """Encodes the request as JSON; the system prompt is its first message.

    Args:
        streaming: the fields that ask for a stream; none = a whole reply.
    """
    params = _make_params(request)
    own = params.pop("stream_options", None)  # refused in requests for whole replies
    fields = {"model": request.model, **params, **streaming}
    if request.output is not None:
        fields["response_format"] = {
            "type": "json_schema",
            "json_schema": name_form(request.output),
        }
    past = () if request.tools else wire.list_past_tools(request)
    if past:
        fields["tool_choice"] = "none"
    if request.must_call:
        fields["tool_choice"] = {"type": "function", "function": {"name": request.must_call}}
    if "stream_options" in streaming:
        fields["stream_options"] = {**streaming["stream_options"], **wire.table(own)}
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    messages = [*system, *_merge_users(encode_messages(request, encode))]
    return wire.write_body(fields, [*map(wire.encode_function, request.tools or past)], messages)


def _merge_users(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges consecutive messages of the user's: templates of many models refuse them.

    They follow one another where an empty answer is left out, and after pictures of results.
    """
    merged: list[dict[str, Any]] = []
    for message in messages:
        if merged and message["role"] == "user" == merged[-1]["role"]:
            content = _join_contents([merged[-1]["content"], message["content"]])
            merged[-1] = {"role": "user", "content": content}
        else:
            merged.append(message)
    return merged


def _join_contents(contents: Sequence[Any]) -> Any:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(filter(None, contents))
    return [
        part
        for content in contents
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]


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

    Raises ProviderError for no choice, a malformed one, one that reports an error, or a refusal.
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

    Raises ProviderError for a refusal, or a call that the server could not read.
    """
    if stop_reason.startswith(FILTERED):
        raise refusal(f"a content filter has removed the answer ({stop_reason})")
    if not calls and (reason := wire.text(message.get("refusal")).strip()):
        raise refusal(reason)
    if not calls and stop_reason.startswith(MALFORMED):
        raise _make_failure(stop_reason)


def _make_failure(stop_reason: str, said: str = "") -> ProviderError:
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


@dataclass
class _Call:
    """A tool call that is arriving."""

    number: int
    """Position of the call in the reply."""
    entry: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)
    last: str = ""
    """The last piece of its arguments that is not blank."""

    def is_another(self, id: object, name: str, arguments: object) -> bool:
        """True if a piece under this call's index begins another call.

        Some servers number all calls 0; they repeat the name, or send another id with it.
        """
        if not name or (id and id == self.entry.get("id")):
            return False
        if id and self.entry.get("id"):
            return True
        if name != self.function.get("name", name):
            return bool(self.last)
        starts = isinstance(arguments, dict) or wire.text(arguments).lstrip().startswith("{")
        return self.last.endswith("}") and starts

    def is_whole(self) -> bool:
        """True if its arguments are a JSON object, and so not cut."""
        try:
            return isinstance(wire.loads_part(settle(self.function.get("arguments", ""))), dict)
        except ValueError:
            return False

    def add(self, piece: dict[str, Any], function: dict[str, Any]) -> str:
        """Adds a piece; returns its part of the arguments."""
        own = self.entry.get("id")
        self.entry.update((key, value) for key, value in piece.items() if value is not None)
        if own:
            self.entry["id"] = own
        name, known = wire.text(function.get("name")), wire.text(self.function.get("name"))
        if name and name != known:
            # in pieces, or each time with what has arrived before
            self.function["name"] = name if name.startswith(known) else known + name
        return self._add_arguments(function.get("arguments"))

    def _add_arguments(self, arguments: object) -> str:
        if arguments is None or arguments == "":
            return ""
        if not isinstance(arguments, str):
            arguments = dump(arguments).decode()
        append_text(self.function, "arguments", arguments)
        self.last = arguments.strip() or self.last
        return arguments


LISTED = ("annotations", "executed_tools")
"""Keys of lists whose entries arrive in several chunks."""


class OpenAIAssembly:
    """The first choice of a streamed reply."""

    def __init__(self, deltas: Deltas) -> None:
        self.is_complete = False
        self.has_ended = False
        self._deltas = deltas
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._usage: object = None
        self._stop: object = None
        self._calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def end(self) -> None:
        """Notes the end mark `[DONE]`, which completes an answer without a finish reason too.

        Some servers give a reason only where they cut an answer (vllm-mlx), or never. But gateways
        also send the mark behind an answer that broke off on its way to them: an empty one, or one
        with half a call, is not complete. Half a text cannot be told from a whole one.
        """
        self.has_ended = True
        self.is_complete = self.is_complete or self._holds_answer()

    def _holds_answer(self) -> bool:
        """True if something has been said or called, and no call is cut."""
        says = any(settle(self._message.get(key)) for key in ("content", "refusal"))
        return (says or bool(self._calls)) and all(call.is_whole() for call in self._calls)

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds a chunk."""
        self._top.update(data)
        if "usage" in data or "x_groq" in data:
            self._add_usage(data)
        for choice in wire.tables(data.get("choices"), "choices"):
            index, first = choice.get("index"), self._choice.get("index")
            if index == first or index is None or first is None:
                self._add_choice(choice)

    def _add_usage(self, entry: dict[str, Any]) -> None:
        """Keeps the latest usage; some servers have it in the choice, or under `x_groq`."""
        if usage := entry.get("usage") or wire.table(entry.get("x_groq")).get("usage"):
            self._usage = usage

    def _add_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("error"):
            raise error_in_reply(choice, self._deltas.secrets)
        self._choice.update(choice)
        if "usage" in choice:
            self._add_usage(choice)
        delta = choice.get("delta") or (not self._message and choice.get("message"))
        if isinstance(delta, dict):
            for key, value in delta.items():
                if value is not None:
                    self._add_value(key, value, delta)
        if stop := choice.get("finish_reason"):
            self._stop = stop
            self.is_complete = True

    def _add_value(self, key: str, value: object, delta: dict[str, Any]) -> None:
        message = self._message
        if key == "content":
            self._add_content(value)
        elif key == "tool_calls":
            self._add_calls(value)
        elif key in REASONING_TEXTS and isinstance(value, str):
            append_text(message, key, value)
            if not any(delta.get(other) for other in REASONING_TEXTS[: REASONING_TEXTS.index(key)]):
                self._deltas.add(value, "reasoning")
        elif key == "reasoning_details" and isinstance(value, list):
            self._add_details(
                value, is_shown=not any(delta.get(other) for other in REASONING_TEXTS)
            )
        elif key == "refusal" and isinstance(value, str):
            append_text(message, key, value)
        elif key in LISTED and isinstance(value, list):
            held = message.setdefault(key, [])
            check_parts(len(held) + len(value))
            held += value
        else:
            message[key] = value

    def _add_content(self, value: object) -> None:
        held = self._message.get("content")
        if isinstance(value, str) and not isinstance(held, list):
            if value or held is None:
                append_text(self._message, "content", value)
                self._deltas.add(value)
            return
        if not isinstance(held, list):
            before = {"type": "text", "text": held} if held else None
            held = self._message["content"] = [before] if before else []
        said = [{"type": "text", "text": value}] if isinstance(value, str) else value
        for part in wire.tables(said, "content"):
            add_part(held, part)
            self._deltas.add(wire.text(part.get("text")))
            for thought in wire.tables(part.get("thinking"), "thinking"):
                self._deltas.add(wire.text(thought.get("text")), "reasoning")

    def _add_details(self, value: list[Any], *, is_shown: bool) -> None:
        held = self._message.setdefault("reasoning_details", [])
        for detail in wire.tables(value, "reasoning_details"):
            add_part(held, detail)
            if is_shown:
                thought = wire.text(detail.get("text")) or wire.text(detail.get("summary"))
                self._deltas.add(thought, "reasoning")

    def _add_calls(self, value: object) -> None:
        for piece in wire.tables(value, "tool_calls"):
            function = wire.table(piece.get("function"))
            call = self._find_call(piece, function)
            if isinstance(id := piece.get("id"), str):
                self._by_id[id] = call
            known = call.function.get("name")
            arguments = call.add(piece, function)
            if call.function.get("name") != known:
                self._deltas.begin_call(call.number, call.function["name"])
            if arguments:
                self._deltas.add(arguments, "arguments", call.number)

    def _find_call(self, piece: dict[str, Any], function: dict[str, Any]) -> _Call:
        """Returns the call that a piece belongs to: by its index or id, or else the last one."""
        index, id, name = piece.get("index"), piece.get("id"), wire.text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(index, int) or (isinstance(index, str) and index):
            call = self._by_index.get(index)
            if call is None or call.is_another(id, name, arguments):
                call = self._by_index[index] = self._begin_call()
            return call
        if isinstance(id, str) and id in self._by_id and not name:
            return self._by_id[id]
        same = [call for call in self._calls[-1:] if not id or call.entry.get("id") in (None, id)]
        # a piece without an index continues the last call, unless it names a tool
        return same[0] if same and not (name and same[0].function) else self._begin_call()

    def _begin_call(self) -> _Call:
        check_parts(len(self._calls) + 1)
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has."""
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [
                {**call.entry, "function": call.function} for call in self._calls
            ]
        choice = {**self._choice, "message": message, "finish_reason": self._stop}
        choice.pop("delta", None)
        choices = [choice] if self._choice else []
        return {**self._top, "choices": choices, "usage": self._usage}


STREAMING = Streaming(
    fields=({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    decoder=SSEDecoder,
    assembly=OpenAIAssembly,
)


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
        return await exchange(self, PATH, body, parse, request, STREAMING, on_delta)


PROVIDER = OpenAI
