"""Servers that config.toml names: `[providers.groq] protocol = "openai"` and `groq/llama-4`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import provider_for
from axe_nb.errors import ConfigError
from tests.protocols import settings
from tests.providers.dialects import BY_NAME, KEY, ask
from tests.wire.replay import Replay

HELLO = {"status": 200, "body": BY_NAME["openai"].reply("hello", (), "stop")}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for info in PROVIDERS.values():
        monkeypatch.delenv(info.key_variable or "UNUSED", raising=False)
        monkeypatch.delenv(info.url_variable, raising=False)


@pytest.fixture
def server() -> Iterator[Replay]:
    replies = {
        "groq": HELLO,
        "own": HELLO,
        "models": {"status": 200, "body": {"data": [{"id": "llama-4"}]}},
        "refused": {"status": 401, "body": {"error": {"message": "no"}}},
        "silence": {"network": "silence"},
    }
    with Replay(replies) as replay:
        yield replay


def groq(server: Replay, reply: str = "groq", more: str = "") -> None:
    settings(
        f'[providers.groq]\nprotocol = "openai"\nbase_url = "{server.url(reply)}/v1"\n'
        f'api_key_env = "MY_GROQ_KEY"\n{more}\n[providers.openai]\nbase_url = "{server.url("own")}"'
    )


@pytest.mark.req("B-3", "D-33")
def test_servers_of_one_protocol_work_side_by_side(
    server: Replay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server)
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    assert axe_nb.run(Agent(name="a", model="groq/llama-4"), "hi").text == "hello"
    assert axe_nb.run(Agent(name="b", model="openai/gpt-5"), "hi").text == "hello"
    [at_groq], [at_openai] = server.log("groq"), server.log("own")
    assert (at_groq.path, at_groq.body["model"]) == ("/v1/chat/completions", "llama-4")
    assert at_groq.headers["authorization"] == f"Bearer {KEY}"
    assert at_openai.headers["authorization"] == "Bearer another-key"


@pytest.mark.req("D-22", "A-X3", "B-3")
def test_a_key_that_an_endpoint_names_and_nobody_set_is_missing(server: Replay) -> None:
    groq(server)
    with pytest.raises(ConfigError) as raised:
        provider_for(Config.load())("groq", "")
    assert str(raised.value) == (
        'no API key for provider "groq": set MY_GROQ_KEY, or api_key under [providers.groq] in '
        "$XDG_CONFIG_HOME/axe/config.toml"
    )
    assert raised.value.exit_code == 3


def test_an_endpoints_own_headers_are_sent_with_the_key_put_in(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server, more='headers = { "Api-Key" = "{key}", Authorization = "none", x-team = "7" }')
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    asyncio.run(provider_for(Config.load())("groq", "").send(ask()))
    headers = server.log("groq")[0].headers
    assert (headers["api-key"], headers["authorization"], headers["x-team"]) == (KEY, "none", "7")


KNOWN = "must be anthropic, openai or ollama"


@pytest.mark.parametrize(
    ("protocol", "key", "told"),
    [
        ("opnai", "", f'providers.x.protocol {KNOWN}, not "opnai"'),
        ("script", "", f'providers.x.protocol {KNOWN}, not "script"'),
        ("openai", "read_timeout = -1", "providers.x.read_timeout must be non-neg"),
        ("openai", "headers = 3", "providers.x.headers must be a table of strings"),
        ("openai", 'headers = {a = "é"}', "providers.x.headers.a contains char"),
        ("openai", 'headers = {Content-Length = "0"}',
         "providers.x.headers.Content-Length is set by axe_nb: remove it"),
        ("openai", 'headers = {"a:b" = ""}', "providers.x.headers must have names"),
        ("openai", 'api = "response"', 'providers.x.api must be responses or chat, not "response"'),
        ("ollama", 'api = "chat"', 'providers.x.api needs protocol = "openai"'),
        ("openai", 'base_ulr = "http://h"', 'unknown key "providers.x.base_ulr" (line 3)'),
    ],
)  # fmt: skip
@pytest.mark.req("D-27")
def test_a_mistake_in_an_endpoints_table_is_told(protocol: str, key: str, told: str) -> None:
    settings(f'[providers.x]\nprotocol = "{protocol}"\n{key}')
    with pytest.raises(ConfigError) as raised:
        Config.load()
    assert str(raised.value).startswith(f"failed to parse config file: {told}")
    assert raised.value.hint == ('did you mean "base_url"?' if "ulr" in key else "")
    line = "" if "(line" in told else f", line {3 if key else 2}"
    assert raised.value.place == f"in $XDG_CONFIG_HOME/axe/config.toml{line}"
