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
from tests.protocols import settings
from tests.providers.dialects import BY_NAME, KEY
from tests.providers.streams import Answer, write_stream, write_whole
from tests.wire.replay import Asked, Replay

Json = dict[str, Any]
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}


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
    path: str
    """That of requests to its models."""
    model: str
    """The name of its model in requests; empty if it takes any."""
    key_header: str = "authorization"
    """Empty if it needs no key."""
    find_fault: Callable[[Json], str] = lambda body: ""
    """body of a request → what is wrong with it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Other headers that a request must have."""
    signs_calls: bool = False

    def accepts(self, headers: Mapping[str, str]) -> bool:
        keys = {"authorization": f"Bearer {KEY}", "api-key": KEY}
        given = {name: headers[name] for name in keys if name in headers}
        return given == {name: keys[name] for name in keys if name == self.key_header}


OPENAI = "/openai/v1/chat/completions"
CHAT = "/v1/chat/completions"

VENDORS: Mapping[str, Vendor] = {
    "Azure OpenAI": Vendor(OPENAI, "DEPLOYMENT", "api-key"),
    "Vertex AI": Vendor(
        "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        "google/gemini-3.8-flash", find_fault=wants_signatures, signs_calls=True,
    ),
    "Amazon Bedrock": Vendor(OPENAI, "openai.gpt-oss-120b-1:0"),
    "Gemini": Vendor(
        "/v1beta/openai/chat/completions", "gemini-3.8-flash",
        find_fault=wants_signatures, signs_calls=True,
    ),
    "Groq": Vendor(OPENAI, "llama-3.3-70b-versatile", find_fault=groq_refuses),
    "OpenRouter": Vendor(
        "/api/v1/chat/completions", "anthropic/claude-sonnet-5.5",
        headers={"http-referer": "https://example.org", "x-title": "My notebooks"},
    ),
    "LM Studio": Vendor(CHAT, "qwen2.5-7b-instruct", "", find_fault=lm_studio_refuses),
    "vLLM": Vendor(CHAT, "Qwen/Qwen2.5-7B-Instruct", ""),
    "llama.cpp": Vendor(CHAT, "", ""),
    "LiteLLM": Vendor(CHAT, "MODEL"),
}  # fmt: skip
"""Heading of docs/providers.md → its server."""


class VendorServer(Replay):
    def __init__(self, vendor: Vendor) -> None:
        super().__init__({})
        self.vendor = vendor
        self.refused: list[str] = []
        self.answered: list[str] = []

    def find_fault(self, path: str, asked: Asked) -> str:
        vendor, body = self.vendor, asked.body
        if not vendor.accepts(asked.headers):
            return "Invalid API key"
        if path.endswith("/responses"):
            return ""
        if path != vendor.path or vendor.model not in ("", body["model"]):
            return f"not found: {path}, {body['model']}"
        missing = vendor.headers.items() - asked.headers.items()
        return f"missing: {missing}" if missing else vendor.find_fault(body)

    def reply_to(self, name: str, asked: Asked) -> Json:
        path, body = f"/{name}{asked.path}", asked.body
        if fault := self.find_fault(path, asked):
            self.refused.append(fault)
            return {"status": 400, "body": {"error": {"message": fault}}}
        self.answered.append(path)
        if path.endswith("/responses"):
            return {"body": BY_NAME["responses"].reply("hello", (), "stop")}
        text = '{"n": 3}' if body.get("response_format") else "hello"
        if body["messages"][-1]["role"] == "tool":
            text = "looked"
        answer = Answer(text=[text[:2], text[2:]])
        if body.get("tools") and text != "looked":
            arguments = json.dumps({"agent": "helper", "task": "look"})
            answer = Answer(calls=[("call_1", "call_agent", [arguments])], stop="tool_calls")
        streams = body.get("stream")
        said = json.dumps(write_whole("openai", answer))
        said = write_stream("openai", answer).decode() if streams else said
        if self.vendor.signs_calls:
            signed = f'"id": "call_1", "extra_content": {json.dumps(SIGNATURE)}'
            said = said.replace('"id": "call_1"', signed)
        return {"body": said, "headers": {"content-type": "text/event-stream"} if streams else {}}


pytestmark = pytest.mark.req("B-3")

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
BLOCK = re.compile(r"^```toml\n(# config\.toml\n.*?)^```$", re.MULTILINE | re.DOTALL)
HOST = re.compile(r'(?<=base_url = ")https?://[^/"]+')

each_vendor = pytest.mark.parametrize("heading", VENDORS)


@pytest.fixture
def server(
    heading: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[VendorServer]:
    """A vendor's server and two agents, set up as the page says, with the key or its command."""
    with VendorServer(VENDORS[heading]) as running:
        set_up(heading, running, project, tmp_path, monkeypatch)
        yield running


def set_up(
    heading: str, server: VendorServer, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    [block] = BLOCK.findall(SECTIONS[heading])
    settings(HOST.sub(server.root, block))
    [line] = re.findall(r'`(model = "[^"]+")`', SECTIONS[heading])
    for name, sub_agents in (("lead", '["helper"]'), ("helper", "[]")):
        file = project / "axe" / "agents" / f"{name}.toml"
        file.write_text(f'name = "{name}"\n{line}\nsub_agents = {sub_agents}\n', "utf-8")
    found = Agent.from_file("lead").model
    info = Config.load().provider(found.partition("/")[0])
    if VENDORS[heading].key_header and "key_command" not in block:
        assert info.key_variable in SECTIONS[heading], "the page does not say which variable to set"
        monkeypatch.setenv(info.key_variable, KEY)
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$*" = "auth print-access-token" ] && echo {KEY}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def test_every_block_with_a_model_has_a_server_here() -> None:
    headings = {name for name, text in SECTIONS.items() if BLOCK.search(text)}
    others = {"A server of your own", "Keys that expire", "Proxies and certificates"}
    assert headings == VENDORS.keys() | others


@each_vendor
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_the_block_of_a_vendor_delegates_and_answers(
    heading: str, server: VendorServer, stream: bool
) -> None:
    result = axe_nb.run("lead", "hi", stream=stream)
    assert (result.text, result.status, server.refused) == ("looked", "completed", []), result.cause
    assert [(child.agent, child.text) for child in result.children] == [("helper", "hello")]
    assert server.answered == [VENDORS[heading].path] * 3
    assert result.total_usage.input_tokens == 15


@each_vendor
def test_structured_output_comes_from_the_block_of_a_vendor(server: VendorServer) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = axe_nb.run("helper", "hi", output=form)
    assert (result.data, server.refused) == ({"n": 3}, [])


@pytest.mark.parametrize("heading", ["Azure OpenAI"])
def test_azures_block_works_over_responses_too(server: VendorServer) -> None:
    with config_path().open("a") as file:
        file.write('api = "responses"\n')
    result = axe_nb.run("helper", "hi", stream=False)
    assert (result.text, server.refused) == ("hello", []), result.cause
    assert server.answered == ["/openai/v1/responses"]
