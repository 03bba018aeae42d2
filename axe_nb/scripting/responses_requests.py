"""Parses the request bodies of the Responses API to a `Request`, as strictly as OpenAI does.

Source: product.md "Providers"; D-73; the types of OpenAI's SDK.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from axe_nb.messages import Message, Request, ToolCall, ToolResult
from axe_nb.scripting.wire_requests import (
    Json,
    Malformed,
    as_dict,
    as_dicts,
    as_str,
    make_request,
    read_call,
    read_pictures,
    read_tool,
)

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


def read_responses(body: Json) -> Request:
    """Parses the input items, with calls, results and reasoning among them.

    Raises:
        Malformed: the real server would reject the body.
    """
    _check_keys(body, PARAMETERS, "")
    _check_keys(as_dict(body.get("stream_options")), {"include_obfuscation"}, "stream_options.")
    if previous := body.get("previous_response_id"):
        raise Malformed(f"Previous response with id '{previous}' not found.")
    entries = body.get("input")
    if isinstance(entries, str):
        entries = [{"role": "user", "content": entries}]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("Invalid type for 'input': expected a string or an array of objects.")
    _check_items(entries)
    messages: list[Message] = []
    system = [as_str(body.get("instructions"))]
    for entry in entries:
        last = messages[-1] if messages else Message("user")
        match entry.get("type", "message"):
            case "function_call_output":
                before = messages.pop().tool_results if last.role == "tool" else ()
                parts = _read_parts(entry.get("output"))
                text, pictures = _join_parts(parts), read_pictures(parts)
                result = ToolResult(as_str(entry["call_id"]), text, pictures=pictures)
                messages.append(Message("tool", tool_results=(*before, result)))
            case "function_call":
                call = read_call({"id": entry.get("call_id"), "function": entry})
                _continue_answer(messages, "", (call,))
            case "message":
                parts = _read_parts(entry.get("content"))
                text = _join_parts(parts)
                match entry.get("role"):
                    case "assistant":
                        _continue_answer(messages, text, ())
                    case "user":
                        messages.append(Message("user", text, pictures=read_pictures(parts)))
                    case _:
                        system.append(text)
    functions = [] if body.get("tool_choice") == "none" else _read_functions(body)
    tools = [read_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions]
    return make_request(body, messages, "\n\n".join(filter(None, system)), tools)


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
        kind, place = as_str(entry.get("type", "message")), f"input[{number}]."
        if kind in ITEM_KEYS:
            _check_keys(entry, ITEM_KEYS[kind], place)
        elif kind not in SERVER_ITEMS:
            raise Malformed(f"Invalid value: '{kind}' at {place}type.")
        match kind:
            case "message":
                _check_message(entry, place)
            case "function_call":
                called.append(as_str(entry.get("call_id")))
            case "function_call_output":
                if (id := as_str(entry.get("call_id"))) not in called:
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
        kind = as_str(as_dict(part).get("type"))
        if kind not in PART_KEYS or not kind.startswith(kinds):
            raise Malformed(f"Invalid value: '{kind}' at {place}[{number}].type.")
        _check_keys(part, PART_KEYS[kind], f"{place}[{number}].")


def _check_reasoning(entry: Json, following: Json) -> None:
    id, summary = as_str(entry.get("id")), as_dicts(entry.get("summary"))
    is_next = following.get("type") in ("function_call", "message", "reasoning", *SERVER_ITEMS)
    if not is_next and following.get("role") != "assistant":
        raise Malformed(
            f"Item '{id}' of type 'reasoning' was provided without its required following item."
        )
    text = "".join(as_str(part.get("text")) for part in summary)
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
    functions = [tool for tool in as_dicts(body.get("tools")) if tool.get("type") == "function"]
    for number, function in enumerate(functions):
        _check_keys(function, TOOL_KEYS, f"tools[{number}].")
        if not function.get("name"):
            raise Malformed(f"Missing required parameter: 'tools[{number}].name'.")
    choice = as_dict(body.get("tool_choice"))
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
    return "".join(as_str(part.get("text")) for part in parts if part["type"] in kinds)
