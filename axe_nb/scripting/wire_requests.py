"""Parses the request bodies of the four protocols to a `Request`.

Source: product.md "Providers"; seed 000 §3.2-3.4 (A-2.*, A-3.*, A-4.*).
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.messages import Message, Request, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.pictures.picture import Picture

Json: TypeAlias = dict[str, Any]

PARAMETERS = frozenset(
    {
        "access_programs", "background", "background_options", "context_management", "conversation",
        "image", "include", "input", "instructions", "max_output_tokens", "max_tool_calls",
        "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning",
        "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature",
        "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
    }
)  # fmt: skip
"""Parameters of the Responses API."""

PART_KEYS: Mapping[str, frozenset[str]] = {
    "input_text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "input_image": frozenset({"type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"}),
    "input_file": frozenset({
        "type", "file_data", "file_id", "file_url", "filename", "detail", "prompt_cache_breakpoint",
    }),
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}  # fmt: skip
"""Type of a part of a message or result → the keys that it may have."""

ITEM_KEYS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
    "function_call": frozenset({
        "type", "id", "call_id", "name", "arguments", "status", "namespace", "caller", "async",
    }),
    "function_call_output": frozenset({
        "type", "id", "call_id", "output", "status", "name", "namespace", "caller",
    }),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
}  # fmt: skip
"""Type of an input item → the keys that it may have."""

SERVER_ITEMS = frozenset(
    {
        "apply_patch_call", "code_interpreter_call", "compaction", "computer_call",
        "custom_tool_call", "custom_tool_call_output", "file_search_call", "image_generation_call",
        "local_shell_call", "mcp_approval_request", "mcp_call", "mcp_list_tools", "program",
        "shell_call", "tool_search_call", "web_search_call",
    }
)  # fmt: skip
"""Types of other items, of which only the type is looked at."""

TOOL_KEYS = frozenset(
    {
        "type", "name", "description", "parameters", "strict", "allowed_callers", "async",
        "defer_loading", "output_schema",
    }
)  # fmt: skip
"""Keys of a function among the tools of the Responses API."""


class Malformed(Exception):
    """A body that the real server would answer with status 400; the text says why."""


def read_anthropic(body: Json) -> Request:
    messages: list[Message] = []
    for entry in _read_messages(body):
        blocks = _read_blocks(entry.get("content"))
        texts = [_as_str(block.get("text")) for block in blocks if block.get("type") == "text"]
        pictures = _read_pictures(blocks)
        results = tuple(
            ToolResult(
                _as_str(block.get("tool_use_id")),
                _join_text(block.get("content")),
                bool(block.get("is_error")),
                pictures=_read_pictures(_read_blocks(block.get("content"))),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        )
        calls = tuple(
            ToolCall(
                _as_str(block.get("id")), _as_str(block.get("name")), _as_dict(block.get("input"))
            )
            for block in blocks
            if block.get("type") == "tool_use"
        )
        if results:
            messages.append(Message("tool", tool_results=results))
        if entry.get("role") == "assistant":
            messages.append(Message("assistant", "".join(texts), calls))
        elif pictures:
            messages.append(Message("user", "".join(texts), pictures=pictures))
        elif texts or not results:  # a client joins messages of the same role
            messages += [Message("user", text) for text in texts or [""]]
    tools = [
        _read_tool(entry.get("name"), entry.get("description"), entry.get("input_schema"))
        for entry in _as_dicts(body.get("tools"))
        if _as_dict(body.get("tool_choice")).get("type") != "none"
    ]
    return _make_request(body, messages, _join_text(body.get("system")), tools)


def read_chat(body: Json) -> Request:
    """Parses OpenAI's and Ollama's messages, with the system prompt and tool results among them."""
    messages: list[Message] = []
    system: list[str] = []
    for entry in _read_messages(body):
        text = _join_text(entry.get("content"))
        match entry.get("role"):
            case "system" | "developer":
                system.append(text)
            case "assistant":
                calls = tuple(_read_call(call) for call in _as_dicts(entry.get("tool_calls")))
                messages.append(Message("assistant", text, calls))
            case "tool":
                before = messages.pop().tool_results if _ends_in_results(messages) else ()
                result = ToolResult(_as_str(entry.get("tool_call_id")), text)
                messages.append(Message("tool", tool_results=(*before, result)))
            case _:
                parts = [*_read_blocks(entry.get("content")), *_list_images(entry)]
                messages.append(Message("user", text, pictures=_read_pictures(parts)))
    offered = [] if body.get("tool_choice") == "none" else _as_dicts(body.get("tools"))
    functions = [_as_dict(entry.get("function")) for entry in offered]
    tools = [
        _read_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions
    ]
    return _make_request(body, messages, "\n\n".join(system), tools)


def read_responses(body: Json) -> Request:
    """Parses the input items of the Responses API, as strictly as OpenAI does."""
    _check_keys(body, PARAMETERS, "")
    _check_keys(_as_dict(body.get("stream_options")), {"include_obfuscation"}, "stream_options.")
    if previous := body.get("previous_response_id"):
        raise Malformed(f"Previous response with id '{previous}' not found.")
    entries = body.get("input")
    if isinstance(entries, str):
        entries = [{"role": "user", "content": entries}]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("Invalid type for 'input': expected a string or an array of objects.")
    _check_items(entries)
    messages: list[Message] = []
    system = [_as_str(body.get("instructions"))]
    for entry in entries:
        last = messages[-1] if messages else Message("user")
        match entry.get("type", "message"):
            case "function_call_output":
                before = messages.pop().tool_results if last.role == "tool" else ()
                parts = _read_parts(entry.get("output"))
                text, pictures = _join_parts(parts), _read_pictures(parts)
                result = ToolResult(_as_str(entry["call_id"]), text, pictures=pictures)
                messages.append(Message("tool", tool_results=(*before, result)))
            case "function_call":
                call = _read_call({"id": entry.get("call_id"), "function": entry})
                _continue_answer(messages, "", (call,))
            case "message":
                parts = _read_parts(entry.get("content"))
                text = _join_parts(parts)
                match entry.get("role"):
                    case "assistant":
                        _continue_answer(messages, text, ())
                    case "user":
                        messages.append(Message("user", text, pictures=_read_pictures(parts)))
                    case _:
                        system.append(text)
    functions = [] if body.get("tool_choice") == "none" else _read_functions(body)
    tools = [
        _read_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions
    ]
    return _make_request(body, messages, "\n\n".join(filter(None, system)), tools)


def encrypt(id: str, summary: str) -> str:
    """Returns the encrypted content of a reasoning item that a script server sends."""
    return hashlib.sha256(f"{id} {summary}".encode("utf-8", "replace")).hexdigest()


def _check_keys(table: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise Malformed(f"Unknown parameter: '{place}{key}'.")


def _check_items(entries: Sequence[Json]) -> None:
    """Checks each item, and that calls, results and reasoning are complete.

    Raises:
        Malformed: the real server would reject them.
    """
    called: list[str] = []
    answered: set[str] = set()
    for number, entry in enumerate(entries):
        kind, place = _as_str(entry.get("type", "message")), f"input[{number}]."
        if kind in ITEM_KEYS:
            _check_keys(entry, ITEM_KEYS[kind], place)
        elif kind not in SERVER_ITEMS:
            raise Malformed(f"Invalid value: '{kind}' at {place}type.")
        match kind:
            case "message":
                _check_message(entry, place)
            case "function_call":
                called.append(_as_str(entry.get("call_id")))
            case "function_call_output":
                if (id := _as_str(entry.get("call_id"))) not in called:
                    raise Malformed(
                        f"No tool call found for function call output with call_id {id}."
                    )
                answered.add(id)
                _check_parts(entry.get("output"), "input_", f"{place}output")
            case "reasoning":
                _check_reasoning(entry, entries[number + 1] if number + 1 < len(entries) else {})
    if missing := [id for id in called if id not in answered]:
        raise Malformed(f"No tool output found for function call {missing[0]}.")


def _check_message(entry: Json, place: str) -> None:
    role = entry.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise Malformed(f"Invalid value: '{role}' at {place}role.")
    kinds = ("output_text", "refusal") if role == "assistant" else "input_"
    _check_parts(entry.get("content"), kinds, f"{place}content")


def _check_parts(content: Any, kinds: str | tuple[str, ...], place: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Malformed(f"Invalid type for '{place}': expected a string or an array.")
    for number, part in enumerate(content):
        kind = _as_str(_as_dict(part).get("type"))
        if kind not in PART_KEYS or not kind.startswith(kinds):
            raise Malformed(f"Invalid value: '{kind}' at {place}[{number}].type.")
        _check_keys(part, PART_KEYS[kind], f"{place}[{number}].")


def _check_reasoning(entry: Json, following: Json) -> None:
    id, summary = _as_str(entry.get("id")), _as_dicts(entry.get("summary"))
    is_next = following.get("type") in ("function_call", "message", "reasoning", *SERVER_ITEMS)
    if not is_next and following.get("role") != "assistant":
        raise Malformed(
            f"Item '{id}' of type 'reasoning' was provided without its required following item."
        )
    text = "".join(_as_str(part.get("text")) for part in summary)
    if not entry.get("encrypted_content"):
        raise Malformed(
            f"Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        )
    if entry["encrypted_content"] != encrypt(id, text):
        raise Malformed(f"The encrypted content for item {id} could not be verified.")


def _read_functions(body: Json) -> list[Json]:
    """Returns the functions among the tools.

    Raises:
        Malformed: one of them is none, or the one that must be called is missing.
    """
    functions = [tool for tool in _as_dicts(body.get("tools")) if tool.get("type") == "function"]
    for number, function in enumerate(functions):
        _check_keys(function, TOOL_KEYS, f"tools[{number}].")
        if not function.get("name"):
            raise Malformed(f"Missing required parameter: 'tools[{number}].name'.")
    choice = _as_dict(body.get("tool_choice"))
    names = [function["name"] for function in functions]
    if choice.get("type") == "function" and choice.get("name") not in names:
        raise Malformed("Tool choice 'function' not found in 'tools' parameter.")
    return functions


def _continue_answer(messages: list[Message], text: str, calls: tuple[ToolCall, ...]) -> None:
    """Adds a text or a call to the assistant's turn, or begins one."""
    if not messages or messages[-1].role != "assistant":
        messages.append(Message("assistant", text, calls))
        return
    last = messages.pop()
    joined = "\n\n".join(filter(None, (last.content, text)))
    messages.append(Message("assistant", joined, (*last.tool_calls, *calls)))


def _read_parts(content: Any) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _join_parts(parts: Iterable[Json]) -> str:
    kinds = ("input_text", "output_text")
    return "".join(_as_str(part.get("text")) for part in parts if part["type"] in kinds)


def _ends_in_results(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role == "tool"


def _read_call(call: Json) -> ToolCall:
    function = _as_dict(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Malformed("arguments of a tool call are not valid JSON") from None
    return ToolCall(_as_str(call.get("id")), _as_str(function.get("name")), _as_dict(arguments))


def _read_messages(body: Json) -> list[Json]:
    entries = body.get("messages")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("messages must be a list of objects")
    return entries


def _make_request(
    body: Json, messages: Sequence[Message], system: str, tools: Sequence[ToolSpec]
) -> Request:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise Malformed("model must be the name of a script")
    return Request(
        model, tuple(messages), system, tuple(tools), agent=model, output=_read_output(body)
    )


def _read_output(body: Json) -> Mapping[str, Any] | None:
    """Returns the schema of the answer, wherever a protocol has it; None if there is none."""
    openai = _as_dict(_as_dict(body.get("response_format")).get("json_schema"))
    responses = _as_dict(_as_dict(body.get("text")).get("format"))
    anthropic = _as_dict(_as_dict(body.get("output_config")).get("format"))
    named = openai.get("schema") or responses.get("schema") or anthropic.get("schema")
    return named or _as_dict(body.get("format")) or None


def _read_tool(name: Any, description: Any, schema: Any) -> ToolSpec:
    schema = _as_dict(schema)
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = {
        key: ToolParameter(
            _as_str(entry.get("type")),
            _as_str(entry.get("description")),
            key in required,
            {k: v for k, v in entry.items() if k not in ("type", "description")},
        )
        for key, entry in _as_dict(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    spec = ToolSpec(_as_str(name), _as_str(description), parameters)
    return spec if not schema or spec.input_schema() == schema else replace(spec, schema=schema)


def _read_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _as_dicts(content)


def _list_images(entry: Json) -> list[Json]:
    """Returns the pictures of a message as Ollama has them, each as a block."""
    images = entry.get("images")
    return [{"image": one} for one in images] if isinstance(images, list) else []


def _read_pictures(blocks: Sequence[Json]) -> tuple[Picture, ...]:
    """Returns the pictures among blocks, in the form of any protocol.

    Raises:
        Malformed: one of them is none.
    """
    return tuple(_decode(data) for block in blocks if (data := _find_data(block)) is not None)


def _find_data(block: Json) -> Any:
    """Returns the base64 text of a picture in any kind of block; None if the block has none."""
    match block:
        case {"type": "image" | "document", "source": {"data": data}} | {"image": data}:
            return data
        case (
            {"image_url": {"url": str(url)}}
            | {"file": {"file_data": str(url)}}
            | {"type": "input_image", "image_url": str(url)}
            | {"type": "input_file", "file_data": str(url)}
        ):
            return url.partition(",")[2]
    return None


def _decode(data: Any) -> Picture:
    try:
        return Picture(b64decode(_as_str(data), validate=True))
    except (ConfigError, ValueError) as error:
        raise Malformed(f"invalid picture: {error}") from None


def _join_text(content: Any) -> str:
    """Returns content as text, from either text or blocks."""
    return "".join(_as_str(b.get("text")) for b in _read_blocks(content) if b.get("type") == "text")


def _as_str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
