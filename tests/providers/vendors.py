"""Servers of the vendors of docs/providers.md, as far as their documentation and trackers tell.

Each enforces what it asks of a request: path, key, model, fields. What it refuses, and what it adds
to its replies, is its own; nobody here has a key to compare them with the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

KEY = "sk-canary-0123456789abcdef"
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
    listed: str = "{model}"
    """A model's name in the list of models; empty if there is no list."""
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
        "google/gemini-3.8-flash", listed="", **GOOGLE,
    ),
    "Amazon Bedrock": Vendor(
        "/openai/v1/chat/completions", "openai.gpt-oss-120b-1:0", error=as_aws, listed="",
        refuses_key=(403, "Authentication failed: Please make sure your API Key is valid."),
    ),
    "Gemini": Vendor(
        "/v1beta/openai/chat/completions", "gemini-3.8-flash", listed="models/{model}",
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


class VendorServer(ThreadingHTTPServer):
    """One vendor's server, on loopback."""

    daemon_threads = True

    def __init__(self, vendor: Vendor) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.vendor = vendor
        self.refused: list[Any] = []
        """What it did not accept."""
        self.answered: list[str] = []
        """The paths of the requests that it answered."""
        self.fault: tuple[int, str] | None = None
        """(status, body) of its answer to all requests, with a status of 200 a stream; None = it
        has none."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> VendorServer:
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: VendorServer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, message: str) -> None:
        body = self.server.vendor.error(status, message)
        self.server.refused.append(body)
        self._send(status, json.dumps(body).encode())

    def _is_let_in(self) -> bool:
        vendor = self.server.vendor
        headers = {name.lower(): value for name, value in self.headers.items()}
        if vendor.accepts(headers):
            return True
        self._refuse(*vendor.refuses_key)
        return False

    def do_GET(self) -> None:
        vendor = self.server.vendor
        if not self._is_let_in():
            return
        if not vendor.listed or self.path != vendor.path.replace("/chat/completions", "/models"):
            self._refuse(404, "no such path")
            return
        names = [vendor.listed.format(model=vendor.model or "tiny.gguf")]
        listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        self._send(200, json.dumps(listed).encode())

    def do_POST(self) -> None:
        vendor = self.server.vendor
        body: Json = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self._is_let_in():
            return
        if fault := self.server.fault:
            kind = "text/event-stream" if fault[0] == 200 else "application/json"
            self._send(fault[0], fault[1].encode(), kind)
            return
        if self.path.endswith("/responses"):
            self._answer_in_responses(body)
            return
        if self.path != vendor.path:
            self._refuse(404, f"no such path: {self.path}")
        elif vendor.model not in ("", body["model"]):
            self._refuse(404, f"no model {body['model']}")
        elif missing := [n for n, value in vendor.headers.items() if self.headers.get(n) != value]:
            self._refuse(400, f"missing: {missing}")
        elif fault := vendor.find_fault(body):
            self._refuse(400, fault)
        else:
            self.server.answered.append(self.path)
            message = reply_to(vendor, body)
            if body.get("stream"):
                self._send(
                    200, "".join(stream(vendor, body, message)).encode(), "text/event-stream"
                )
            else:
                self._send(200, json.dumps(whole(vendor, body, message)).encode())

    def _answer_in_responses(self, body: Json) -> None:
        text = {"type": "output_text", "text": "hello", "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        reply = {
            "id": "resp_1", "object": "response", "status": "completed", "model": body["model"],
            "output": [{**message, "content": [text]}], "error": None, "incomplete_details": None,
            "usage": {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
        }  # fmt: skip
        self.server.answered.append(self.path)
        self._send(200, json.dumps(reply).encode())


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
