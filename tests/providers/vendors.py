"""Servers of the vendors of docs/providers.md, as far as their documentation and trackers tell.

Each enforces what it asks of a request: path, key, model, fields. What it refuses, and what it adds
to its replies, is its own; nobody here has a key to compare them with the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.providers.dialects import BY_NAME, KEY
from tests.providers.streams import chunk, sse
from tests.wire.replay import Asked, Replay

Json = dict[str, Any]
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}


def nothing(body: Json) -> str:
    """What is wrong with a request: nothing."""
    return ""


def wants_signatures(body: Json) -> str:
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    if all(call.get("extra_content") == SIGNATURE for call in calls):
        return ""
    return "Function call is missing a thought_signature in functionCall parts."


def groq_refuses(body: Json) -> str:
    unknown = {"logprobs", "logit_bias", "top_logprobs"} & body.keys()
    named = any("name" in message for message in body["messages"])
    return "unsupported" if unknown or named or body.get("n", 1) != 1 else ""


def lm_studio_refuses(body: Json) -> str:
    is_word = isinstance(body.get("tool_choice", ""), str)
    return "" if is_word else "Invalid tool_choice type: 'object'."


@dataclass(frozen=True)
class Vendor:
    """A vendor's server."""

    path: str
    """That of requests to its models."""
    model: str
    """The name of its model in requests; empty if it takes any."""
    key_header: str = "authorization"
    needs_key: bool = True
    find_fault: Callable[[Json], str] = nothing
    """body of a request → what is wrong with it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Other headers that a request must have."""
    in_replies: Mapping[str, Any] = field(default_factory=dict)
    """What it adds to a reply and to the pieces of a stream."""
    in_calls: Mapping[str, Any] = field(default_factory=dict)
    """What it adds to calls."""
    before_pieces: str = ""
    """Lines before each piece of a stream."""
    first_piece: Json | None = None

    def accepts(self, headers: Mapping[str, str]) -> bool:
        if not self.needs_key:
            return "authorization" not in headers
        if self.key_header != "authorization":
            return headers.get(self.key_header) == KEY and "authorization" not in headers
        return headers.get("authorization") == f"Bearer {KEY}"


GOOGLE = {
    "find_fault": wants_signatures,
    "in_calls": {"extra_content": SIGNATURE},
}

VENDORS: Mapping[str, Vendor] = {
    "Azure OpenAI": Vendor(
        "/openai/v1/chat/completions", "DEPLOYMENT", "api-key",
        in_replies={"prompt_filter_results": []},
        first_piece={"id": "", "object": "", "choices": [], "prompt_filter_results": []},
    ),
    "Vertex AI": Vendor(
        "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        "google/gemini-3.8-flash", **GOOGLE,
    ),
    "Amazon Bedrock": Vendor(
        "/openai/v1/chat/completions", "openai.gpt-oss-120b-1:0",
    ),
    "Gemini": Vendor(
        "/v1beta/openai/chat/completions", "gemini-3.8-flash", **GOOGLE,
    ),
    "Groq": Vendor(
        "/openai/v1/chat/completions", "llama-3.3-70b-versatile", find_fault=groq_refuses,
        in_replies={"x_groq": {"id": "req_1"}},
    ),
    "OpenRouter": Vendor(
        "/api/v1/chat/completions", "anthropic/claude-sonnet-5.5",
        headers={"http-referer": "https://example.org", "x-title": "My notebooks"},
        in_replies={"provider": "Anthropic"}, before_pieces=": OPENROUTER PROCESSING\n\n",
    ),
    "LM Studio": Vendor(
        "/v1/chat/completions", "qwen2.5-7b-instruct", needs_key=False,
        find_fault=lm_studio_refuses, in_replies={"stats": {}},
    ),
    "vLLM": Vendor(
        "/v1/chat/completions", "Qwen/Qwen2.5-7B-Instruct", needs_key=False,
        in_replies={"prompt_logprobs": None, "kv_transfer_params": None},
    ),
    "llama.cpp": Vendor(
        "/v1/chat/completions", "", needs_key=False, in_replies={"timings": {"prompt_n": 5}},
    ),
    "LiteLLM": Vendor("/v1/chat/completions", "MODEL"),
}  # fmt: skip
"""Heading of docs/providers.md → its server."""


def reply_to(vendor: Vendor, body: Json) -> Json:
    """The message: a call if there are tools and none was called yet, else text."""
    message: Json = {"role": "assistant", "content": "hello"}
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        arguments = json.dumps({"agent": "helper", "task": "look"})
        function = {"name": "call_agent", "arguments": arguments}
        call = {"id": "call_1", "type": "function", "function": function, **vendor.in_calls}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    elif body["messages"][-1]["role"] == "tool":
        message["content"] = "looked"
    elif body.get("response_format"):
        message["content"] = '{"n": 3}'
    return message


class VendorServer(Replay):
    """One vendor's server, on loopback."""

    def __init__(self, vendor: Vendor) -> None:
        super().__init__({})
        self.vendor = vendor
        self.refused: list[str] = []
        """What it did not accept."""
        self.answered: list[str] = []
        """The paths of the requests that it answered."""

    def refuse(self, status: int, message: str) -> Json:
        self.refused.append(message)
        return {"status": status, "body": {"error": {"message": message}}}

    def reply_to(self, name: str, asked: Asked) -> Json:
        vendor, path = self.vendor, f"/{name}{asked.path}"
        if not vendor.accepts(asked.headers):
            return self.refuse(401, "Invalid API key")
        if path.endswith("/responses"):
            self.answered.append(path)
            return {"body": BY_NAME["responses"].reply("hello", (), "stop")}
        if path != vendor.path:
            return self.refuse(404, f"no such path: {path}")
        body = asked.body
        if vendor.model not in ("", body["model"]):
            return self.refuse(404, f"no model {body['model']}")
        if missing := vendor.headers.items() - asked.headers.items():
            return self.refuse(400, f"missing: {missing}")
        if fault := vendor.find_fault(body):
            return self.refuse(400, fault)
        self.answered.append(path)
        message = reply_to(vendor, body)
        if not body.get("stream"):
            return {"body": whole(vendor, body, message)}
        events = "".join(stream(vendor, body, message))
        return {"body": events, "headers": {"content-type": "text/event-stream"}}


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def whole(vendor: Vendor, body: Json, message: Json) -> Json:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"model": body["model"], "choices": [choice], "usage": USAGE, **vendor.in_replies}


def stream(vendor: Vendor, body: Json, message: Json) -> Iterator[str]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    if calls := message.get("tool_calls"):
        deltas.append({"tool_calls": [{"index": 0, **calls[0]}]})
    else:
        deltas += [{"content": message["content"][:2]}, {"content": message["content"][2:]}]
    pieces = [vendor.first_piece] if vendor.first_piece else []
    pieces += [{**chunk(delta), **vendor.in_replies} for delta in deltas]
    pieces.append({**chunk(finish_reason="tool_calls" if calls else "stop"), **vendor.in_replies})
    if (body.get("stream_options") or {}).get("include_usage"):
        pieces.append({"choices": [], "usage": USAGE})
    for piece in (*pieces, "[DONE]"):
        yield vendor.before_pieces + sse(piece).decode()
