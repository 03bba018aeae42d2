"""Each block of docs/providers.md against a loopback server in that vendor's dialect.

The block is read from the page; only the host of its base_url is replaced. The agent's file has the
line `model = "…"` of the same section. A server enforces what its vendor's documentation and
tracker tell of a request: path, key, model, fields; nobody here has a key to compare it with the
real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent
from axe_nb.agents.user_config import Config, config_path
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


pytestmark = pytest.mark.req("B-3")

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
BLOCK = re.compile(r"^```toml\n(# config\.toml\n.*?)^```$", re.MULTILINE | re.DOTALL)
HOST = re.compile(r'(?<=base_url = ")https?://[^/"]+')

each_vendor = pytest.mark.parametrize("heading", VENDORS)


@pytest.fixture
def server(heading: str) -> Iterator[VendorServer]:
    with VendorServer(VENDORS[heading]) as running:
        yield running


@pytest.fixture
def model(
    heading: str,
    server: VendorServer,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The model of the page, set up as the page says, with the key or its command."""
    [block] = BLOCK.findall(SECTIONS[heading])
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(HOST.sub(server.root, block), "utf-8")
    [line] = re.findall(r'`(model = "[^"]+")`', SECTIONS[heading])
    for name, sub_agents in (("lead", '["helper"]'), ("helper", "[]")):
        file = project / "axe" / "agents" / f"{name}.toml"
        file.write_text(f'name = "{name}"\n{line}\nsub_agents = {sub_agents}\n', "utf-8")
    found = Agent.from_file("lead").model
    info = Config.load().provider(found.partition("/")[0])
    if VENDORS[heading].needs_key and "key_command" not in block:
        assert info.key_variable in SECTIONS[heading], "the page does not say which variable to set"
        monkeypatch.setenv(info.key_variable, KEY)
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$*" = "auth print-access-token" ] && echo {KEY}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return found


def test_every_block_with_a_model_has_a_server_here() -> None:
    headings = {name for name, text in SECTIONS.items() if BLOCK.search(text)}
    others = {"A server of your own", "Keys that expire", "Proxies and certificates"}
    assert headings == VENDORS.keys() | others


@each_vendor
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_the_block_of_a_vendor_delegates_and_answers(
    heading: str, model: str, server: VendorServer, stream: bool
) -> None:
    result = axe_nb.run("lead", "hi", stream=stream)
    assert (result.text, result.status, server.refused) == ("looked", "completed", []), result.cause
    assert [(child.agent, child.text) for child in result.children] == [("helper", "hello")]
    assert server.answered == [VENDORS[heading].path] * 3
    assert result.total_usage.input_tokens == 15


@each_vendor
def test_structured_output_comes_from_the_block_of_a_vendor(
    heading: str, model: str, server: VendorServer
) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = axe_nb.run("helper", "hi", output=form)
    assert (result.data, server.refused) == ({"n": 3}, [])


@pytest.mark.parametrize("heading", ["Azure OpenAI"])
def test_azures_block_works_over_responses_too(
    heading: str, model: str, server: VendorServer
) -> None:
    with config_path().open("a") as file:
        file.write('api = "responses"\n')
    result = axe_nb.run("helper", "hi", stream=False)
    assert (result.text, server.refused) == ("hello", []), result.cause
    assert server.answered == ["/openai/v1/responses"]


REFUSAL = "Anthropic expects the `tools=` param to be passed in when messages contain tool calls"


class Gateway(Replay):
    """Its model calls the first tool once, then answers with data that does not fit, then fits."""

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        super().reply_to(name, asked)
        body = asked.body
        has_calls = any("tool_calls" in message for message in body["messages"])
        if has_calls and not body.get("tools"):
            error = {"message": REFUSAL, "type": "invalid_request_error"}
            return {"status": 400, "body": {"error": error}}
        message: dict[str, Any] = {"role": "assistant", "content": '{"n": "many"}'}
        if body.get("tool_choice") == "none":
            message["content"] = '{"n": 3}'
        elif not has_calls:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": "{}"}
            call = {"id": "c", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"body": {"choices": [{"finish_reason": "stop", "message": message}]}}


@axe_nb.tool
def look() -> str:
    """Looks at the map."""
    return "a map"


def test_a_repair_keeps_the_tools_and_forbids_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = Agent("a", "openai/anthropic/claude-sonnet-5-5", tools=[look], output=schema)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Gateway({"x": {}}) as gateway:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", gateway.url("x"))
        result = axe_nb.run(agent, "How many?", display=False)
        bodies = [asked.body for asked in gateway.log("x")]
    assert (result.data, result.error) == ({"n": 3}, None)
    first, second, repair = bodies
    assert repair["tools"] == first["tools"] == second["tools"]
    assert [body.get("tool_choice") for body in bodies] == [None, None, "none"]
