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
from tests.wire.replay import Asked, Replay

WRONG_KEY = "sk-wrong-0123456789abcdef"
Json = dict[str, Any]
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}


def nothing(body: Json) -> str:
    """What is wrong with a request: nothing."""
    return ""


def as_object(status: int, message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "code": status}}


def as_google(status: int, message: str) -> Any:
    word = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}[status]
    return [{"error": {"code": status, "message": message, "status": word}}]


def as_aws(status: int, message: str) -> Any:
    return {"Message": message}


def as_azure(status: int, message: str) -> Any:
    return {"error": {"code": str(status), "message": message}}


def as_litellm(status: int, message: str) -> Any:
    kind = "auth_error" if status == 401 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": "None", "code": str(status)}}


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
    refuses_key: tuple[int, str] = (401, "Invalid API key")
    error: Callable[[int, str], Any] = as_object
    """(status, message) → body."""
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
    "error": as_google,
    "find_fault": wants_signatures,
    "in_calls": {"extra_content": SIGNATURE},
}

VENDORS: Mapping[str, Vendor] = {
    "Azure OpenAI": Vendor(
        "/openai/v1/chat/completions", "DEPLOYMENT", "api-key", error=as_azure,
        refuses_key=(401, "Access denied due to invalid subscription key or wrong API endpoint."),
        in_replies={"prompt_filter_results": []},
        first_piece={"id": "", "object": "", "choices": [], "prompt_filter_results": []},
    ),
    "Vertex AI": Vendor(
        "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        "google/gemini-3.8-flash", **GOOGLE,
    ),
    "Amazon Bedrock": Vendor(
        "/openai/v1/chat/completions", "openai.gpt-oss-120b-1:0", error=as_aws,
        refuses_key=(403, "Authentication failed: Please make sure your API Key is valid."),
    ),
    "Gemini": Vendor(
        "/v1beta/openai/chat/completions", "gemini-3.8-flash",
        refuses_key=(400, "API key not valid. Please pass a valid API key."), **GOOGLE,
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
    "LiteLLM": Vendor("/v1/chat/completions", "MODEL", error=as_litellm),
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
        self.refused: list[Any] = []
        """What it did not accept."""
        self.answered: list[str] = []
        """The paths of the requests that it answered."""

    def refuse(self, status: int, message: str) -> Json:
        body = self.vendor.error(status, message)
        self.refused.append(body)
        return {"status": status, "body": json.dumps(body)}

    def reply_to(self, name: str, asked: Asked) -> Json:
        vendor, path = self.vendor, f"/{name}{asked.path}"
        if not vendor.accepts(asked.headers):
            return self.refuse(*vendor.refuses_key)
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
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": USAGE,
        **vendor.in_replies,
    }  # fmt: skip


def stream(vendor: Vendor, body: Json, message: Json) -> Iterator[str]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    if calls := message.get("tool_calls"):
        deltas.append({"tool_calls": [{"index": 0, **calls[0]}]})
    else:
        deltas += [{"content": message["content"][:2]}, {"content": message["content"][2:]}]
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    pieces = [vendor.first_piece] if vendor.first_piece else []
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        pieces.append({**common, "choices": [choice], **vendor.in_replies})
    end = {"index": 0, "delta": {}, "finish_reason": reason}
    pieces.append({**common, "choices": [end], **vendor.in_replies})
    if (body.get("stream_options") or {}).get("include_usage"):
        pieces.append({**common, "choices": [], "usage": USAGE})
    for piece in pieces:
        yield f"{vendor.before_pieces}data: {json.dumps(piece)}\n\n"
    yield "data: [DONE]\n\n"
