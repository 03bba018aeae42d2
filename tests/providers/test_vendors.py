"""Each block of docs/providers.md against a loopback server in that vendor's dialect.

The block is read from the page; only the host of its base_url is replaced. The agent's file has the
line `model = "…"` of the same section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent
from axe_nb.agents.user_config import Config, config_path
from tests.providers.dialects import KEY
from tests.providers.vendors import VENDORS, VendorServer
from tests.wire.replay import Asked, Replay

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
