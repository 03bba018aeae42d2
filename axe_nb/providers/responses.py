"""Provider for OpenAI's Responses API; each request contains the whole conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from axe_nb.agents.provider_table import SEARCH
from axe_nb.errors import ProviderError
from axe_nb.messages import DeltaKind, Message, Request, Response, ToolCall, Usage, dump
from axe_nb.pictures.picture import Picture, split_parts
from axe_nb.providers import server_tools, streaming, wire
from axe_nb.providers.http import INCLUDE, SUMMARY, HttpProvider, encode_messages
from axe_nb.providers.output_schema import name_form
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, missing_part, refusal
from axe_nb.providers.streaming import Assembly
from axe_nb.providers.thinking import asks_for_summary, may_think, split

BETWEEN = "\n\n"
"""Separator between message texts in one reply, and between parts of a reasoning summary."""


def encode(message: Message) -> list[dict[str, Any]]:
    """Encodes a message as zero or more input items, such as one per tool result."""
    results: list[dict[str, Any]] = []
    for result in message.tool_results:
        parts = [*_encode_parts(result.content, result.pictures)] if result.pictures else None
        output = parts or result.content
        item = {"type": "function_call_output", "call_id": result.call_id, "output": output}
        results.append(item)
    if results:
        return results
    if message.pictures:
        return [_make_message("user", [*_encode_parts(message.content, message.pictures)])]
    if message.role != "assistant":
        return [_make_message("user", message.content)]
    if kept := wire.tables(message.echo.get("responses"), "echo"):
        return _restore_items(kept, message.tool_calls)
    text = [_make_message("assistant", message.content)] if message.content.strip() else []
    return [*text, *map(_encode_call, message.tool_calls)]


def _make_message(role: str, content: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _encode_parts(text: str, pictures: Sequence[Picture]) -> Iterator[dict[str, Any]]:
    for part in split_parts(text, pictures):
        if not isinstance(part, Picture):
            yield {"type": "input_text", "text": part}
        elif part.is_document:
            name = f"{part.digest[:8]}.pdf"
            yield {"type": "input_file", "filename": name, "file_data": part.url}
        else:
            yield {"type": "input_image", "image_url": part.url, "detail": "auto"}


def _encode_call(call: ToolCall, kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Encodes a tool call; `kept` holds the fields that the server added, such as the item's id."""
    name, arguments = wire.tool_name(call.name), dump(dict(call.arguments)).decode()
    given = {"call_id": call.id, "name": name, "arguments": arguments}
    return {**(kept or {"type": "function_call"}), **given}


def _restore_items(
    kept: Sequence[Mapping[str, Any]], calls: Sequence[ToolCall]
) -> list[dict[str, Any]]:
    """Restores the items of a reply in their original order, followed by calls without an item.

    A reasoning item is left out if the next item is left out, because the API rejects a reasoning
    item that is not followed by its original next item.
    """
    own = [item for item in kept if item.get("type") == "function_call"]
    ids = [wire.text(item.get("call_id")) for item in own]
    if len(own) == len(calls):
        ids = [call.id for call in calls]
    left = {call.id: call for call in calls}
    places = iter(ids)
    items: list[dict[str, Any]] = []
    reasoning: list[dict[str, Any]] = []
    for item in kept:
        if item.get("type") == "reasoning":
            reasoning.append(dict(item))
            continue
        if item.get("type") == "function_call":
            call = left.pop(next(places), None)
            found = _encode_call(call, item) if call else None
        else:
            found = dict(item)
        items += [*reasoning, found] if found else []
        reasoning.clear()
    return [*items, *map(_encode_call, left.values())]


def body(request: Request, stream: Mapping[str, Any] = wire.WHOLE) -> bytes:
    asked, params = split(wire.own_params(request))
    if asked is not None and may_think(request.model):
        has_summary = asks_for_summary(request.params) and SUMMARY not in request.refused
        form = {"effort": "none" if asked == "off" else asked}
        form |= {"summary": "auto"} if has_summary else {}
        params["reasoning"] = {**form, **wire.table(params.get("reasoning"))}
    if not stream:
        params.pop("stream_options", None)
    for key in ("max_completion_tokens", "max_tokens"):
        if key in params:
            params.setdefault("max_output_tokens", params.pop(key))
    in_tables = (("reasoning_effort", "reasoning", "effort"), ("verbosity", "text", "verbosity"))
    for key, table, name in in_tables:  # parameters of Chat Completions that this API nests
        if key in params:
            given = wire.table(request.params.get(table))
            params[table] = {**wire.table(params.get(table)), name: params.pop(key), **given}
    wanted = []
    if may_think(request.model):
        wanted.append("reasoning.encrypted_content")  # required for sending reasoning back
    if any(tool.entry and tool.entry.get("type") == SEARCH for tool in request.tools):
        wanted.append("web_search_call.action.sources")
    if INCLUDE in request.refused:
        params.pop(INCLUDE, None)
    elif wanted:
        own = params.get(INCLUDE, ())
        own = own if isinstance(own, (list, tuple)) else (own,)
        params[INCLUDE] = list(dict.fromkeys([*own, *wanted]))
    fields = {"model": request.model, "store": False, **params, **stream}
    if request.system.strip():
        fields["instructions"] = request.system
    if request.output is not None:
        form = {"type": "json_schema", **name_form(request.output)}
        fields["text"] = {**wire.table(params.get("text")), "format": form}
    past = () if request.tools else wire.list_past_tools(request)
    if past:
        fields["tool_choice"] = "none"
    if request.must_call:
        fields["tool_choice"] = {"type": "function", "name": request.must_call}
    tools = []
    for spec in request.tools or past:
        tool = wire.encode_function(spec)
        if spec.entry is None:  # if strict, the API would require every argument
            tool = {"type": "function", **tool["function"], "strict": False}
        tools.append(tool)
    return wire.write_body(fields, tools, encode_messages(request, encode)[0], key="input")


def parse(data: Mapping[str, Any]) -> Response:
    """Parses a whole reply. Raises ProviderError if it is invalid, failed or only a refusal."""
    items = wire.tables(data.get("output"), "output")
    if not isinstance(data.get("output"), list):
        raise missing_part("output", data)
    said = [read_message(item) for item in items if item.get("type") == "message"]
    content = BETWEEN.join(text for text, _ in said if text)
    status = wire.text(data.get("status"))
    if status in ("failed", "cancelled", "queued", "in_progress"):
        lacks = "contains only part of an answer" if content.strip() else "contains no answer"
        message = f"response {lacks} (status {status})"
        raise ProviderError("server", message, partial_text=content)
    uses = (item for item in items if item.get("type") == "function_call")
    calls = tuple(
        wire.call("responses", index, use.get("call_id"), use.get("name"), use.get("arguments"))
        for index, use in enumerate(uses)
    )
    stop_reason = "tool_calls" if calls else "stop"
    declined = next((reason for _, reason in said if reason), "")
    if status == "incomplete":
        details = wire.table(data.get("incomplete_details"))
        stop_reason = wire.text(details.get("reason")) or "incomplete"
        if stop_reason == "content_filter" and not content.strip():
            declined = f"a content filter has removed the answer ({stop_reason})"
        if stop_reason == "max_output_tokens":
            stop_reason = "length"  # as in Chat Completions
        else:
            calls = ()  # a call may be cut off
    if declined and not content.strip() and not calls:
        raise refusal(declined)
    if declined and content.strip():
        stop_reason, calls = "refusal", ()
    counts = data.get("usage")
    server_calls, sources, searches = server_tools.read_responses(items)
    usage = Usage(
        wire.tokens(counts, "input_tokens"),
        wire.tokens(counts, "output_tokens"),
        cached_tokens=wire.tokens(counts, "input_tokens_details", "cached_tokens"),
        cache_write_tokens=wire.tokens(counts, "input_tokens_details", "cache_write_tokens"),
        reasoning_tokens=wire.tokens(counts, "output_tokens_details", "reasoning_tokens"),
        searches=searches,
    )
    kept = _select_items_to_echo(items)
    return Response(
        content, calls, stop_reason, usage, {"responses": kept} if kept else {},
        reasoning=BETWEEN.join(filter(None, map(read_thought, items))),
        server_calls=server_calls, sources=sources,
    )  # fmt: skip


def _select_items_to_echo(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Selects the items of a reply to send back in the next request; empty if none is needed.

    The items are needed if any of them is complete reasoning, a server-side tool call, a message
    with citations or a `phase`, or of an unknown type: these must be sent back unchanged. Calls are
    kept without their arguments, which the conversation contains.
    """
    kept: list[dict[str, Any]] = []
    has_special = False
    for item in items:
        match item.get("type"):
            case "function_call":
                kept.append({key: value for key, value in item.items() if key != "arguments"})
            case "reasoning" if not (item.get("encrypted_content") or item.get("content")):
                pass
            case "message":
                content = item.get("content")
                parts = content if isinstance(content, list) else ()
                cites = any(part.get("annotations") for part in parts)
                has_special = has_special or cites or bool(item.get("phase"))
                if any(text.strip() for text in read_message(item)):
                    kept.append(dict(item))
            case str():
                kept.append(dict(item))
                has_special = True
    return kept if has_special else []


def read_message(item: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the text of a message item and the reason for a refusal; either may be empty."""
    content = item.get("content")
    if isinstance(content, str):
        return content, ""
    parts = wire.tables(content, "content")
    said = (wire.text(part.get("text")) for part in parts if part.get("type") == "output_text")
    declined = (wire.text(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    return "".join(said), "".join(declined).strip()


def read_thought(item: Mapping[str, Any]) -> str:
    """Returns the summary or text of a reasoning item; empty for other items."""
    if item.get("type") != "reasoning":
        return ""
    parts = wire.tables(item.get("summary"), "summary")
    parts = parts or wire.tables(item.get("content"), "content")
    return BETWEEN.join(filter(None, (wire.text(part.get("text")) for part in parts)))


class ResponsesAssembly(Assembly):
    """Collects the events of a streamed Responses API reply."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        super().__init__(on_delta)
        self._response: dict[str, Any] = {}
        self._items: dict[object, dict[str, Any]] = {}
        """Output index, or item id if there is no index → item."""
        self._whole: set[object] = set()
        """Keys of the finished items in `_items`."""
        self._shown: set[object] = set()
        """Keys of the items in `_items` whose pieces have been passed on."""
        self._calls: dict[object, int] = {}
        """Key of a tool call in `_items` → position among the calls."""
        self._last: dict[str, object] = {}
        """Delta kind → key of the last item with such a delta; None once a new part begins."""

    def end(self) -> None:
        """Ends the stream at `[DONE]`, which does not prove that the reply is complete."""
        self.has_ended = True

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds an event, or ignores an unknown event. Raises ProviderError if the reply has failed.

        An item that arrives whole, without deltas, is passed on as one delta.
        """
        key: object = data.get("output_index")
        item = wire.table(data.get("item"))
        if not isinstance(key, int):
            key = wire.text(data.get("item_id") or item.get("id"))
        match data.get("type", name):
            case "response.output_text.delta":
                self._show(key, "text", data.get("delta"))
            case "response.function_call_arguments.delta":
                self._show(key, "arguments", data.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._show(key, "reasoning", data.get("delta"))
            case "response.reasoning_summary_part.added" if "reasoning" in self._last:
                self._last["reasoning"] = None
            case "response.output_item.added":
                self._begin(key, item)
            case "response.output_item.done":
                self._begin(key, item)
                self._whole.add(key)
                if key not in self._shown:
                    said = read_message(item)[0] if item.get("type") == "message" else ""
                    self._show(key, "text", said)
                    self._show(key, "arguments", item.get("arguments"))
                    self._show(key, "reasoning", read_thought(item))
            case "response.completed" | "response.incomplete":
                self._response = wire.table(data.get("response"))
                self.is_complete = self.has_ended = True
            case "response.failed":
                response = wire.table(data.get("response"))
                if response.get("error"):
                    raise error_in_reply(response)
                raise missing_part("answer (status failed)", response)

    def _begin(self, key: object, entry: dict[str, Any]) -> None:
        self._items[key] = entry
        streaming.check_parts(len(self._items))
        if entry.get("type") == "function_call" and key not in self._calls:
            self._calls[key] = len(self._calls)
            self.show_call(self._calls[key], entry.get("name"))

    def _show(self, key: object, kind: DeltaKind, piece: object) -> None:
        if not isinstance(piece, str) or not piece:
            return
        self._shown.add(key)
        if kind == "arguments":
            if key in self._calls:
                self.show(piece, kind, self._calls[key])
            return
        if self._last.get(kind, key) != key:
            self.show(BETWEEN, kind)
        self._last[kind] = key
        self.show(piece, kind)

    def reply(self) -> dict[str, Any]:
        """Returns the equivalent unstreamed reply. Raises ProviderError if an item is cut off."""
        if self._response.get("output") or not self._items:
            return self._response
        if not self._items.keys() <= self._whole:
            raise missing_part("whole answer", self._response)
        return {**self._response, "output": [*self._items.values()]}


class Responses(HttpProvider):
    """A model server that speaks OpenAI's Responses API."""

    name = "responses"
    assembly = ResponsesAssembly
    body, parse = staticmethod(body), staticmethod(parse)


PROVIDER = Responses
