"""Base URLs as people write them, and the URLs that are asked (D-33)."""

from __future__ import annotations

import asyncio

import pytest

from axe_nb.agents.config import Config
from axe_nb.make_provider import make, server
from axe_nb.provider_table import PROVIDERS
from axe_nb.providers import listing
from tests.providers.dialects import BY_NAME, KEY, ask
from tests.wire.replay import Replay

ROWS = [
    ("openai", "", "/v1/chat/completions", "/v1/models"),
    ("openai", "/", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1/", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1/chat/completions", "/v1/chat/completions", "/v1/models"),
    ("openai", "/chat/completions", "/chat/completions", "/models"),
    ("openai", "/openai/v1", "/openai/v1/chat/completions", "/openai/v1/models"),
    ("openai", "/v1beta/openai/", "/v1beta/openai/chat/completions", "/v1beta/openai/models"),
    ("openai", "/api/paas/v4", "/api/paas/v4/chat/completions", "/api/paas/v4/models"),
    ("openai", "/inference", "/inference/chat/completions", "/inference/models"),
    ("openai", "/v10", "/v10/chat/completions", "/v10/models"),
    ("openai", "/gate/way/chat/completions", "/gate/way/chat/completions", "/gate/way/models"),
    ("anthropic", "", "/v1/messages", "/v1/models?limit=1000"),
    ("anthropic", "/v1", "/v1/messages", "/v1/models?limit=1000"),
    ("anthropic", "/anthropic", "/anthropic/v1/messages", "/anthropic/v1/models?limit=1000"),
    ("anthropic", "/anthropic/v1/", "/anthropic/v1/messages", "/anthropic/v1/models?limit=1000"),
    ("anthropic", "/a/v1/messages", "/a/v1/messages", "/a/v1/models?limit=1000"),
    ("anthropic", "/own/messages", "/own/messages", "/own/models?limit=1000"),
    ("ollama", "", "/api/chat", "/api/tags"),
    ("ollama", "/v1", "/api/chat", "/api/tags"),
    ("ollama", "/ollama", "/ollama/api/chat", "/ollama/api/tags"),
    ("ollama", "/ollama/api/chat", "/ollama/api/chat", "/ollama/api/tags"),
]  # fmt: skip
"""(protocol, path of the base URL, path of a request, path of the listing)"""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for info in PROVIDERS.values():
        if info.key_variable:
            monkeypatch.setenv(info.key_variable, KEY)


@pytest.mark.req("D-33", "B-3")
@pytest.mark.parametrize(("protocol", "given", "chat", "models"), ROWS)
def test_a_base_url_leads_to_the_address_that_its_protocol_has(
    protocol: str, given: str, chat: str, models: str
) -> None:
    base, info = PROVIDERS[protocol].locate(f"http://h:1{given}")
    path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}
    assert base + info.path_of(path[protocol]) == f"http://h:1{chat}"
    assert base + info.path_of(info.models_path) == f"http://h:1{models}"


@pytest.mark.req("D-33")
@pytest.mark.parametrize(
    ("protocol", "given", "chat", "models"),
    [
        ("openai", "/x/v1", "/v1/chat/completions", "/v1/models"),
        ("openai", "/x", "/chat/completions", "/models"),
        ("openai", "/x/chat/completions", "/chat/completions", "/models"),
        ("anthropic", "/x", "/v1/messages", "/v1/models?limit=1000"),
        ("anthropic", "/x/messages", "/messages", "/models?limit=1000"),
        ("ollama", "/x/api/chat", "/api/chat", "/api/tags"),
    ],
)
def test_requests_and_listings_are_sent_there(
    protocol: str, given: str, chat: str, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = BY_NAME[protocol].reply("hello", (), BY_NAME[protocol].done)
    listed = {"data": [{"id": "m"}], "models": [{"name": "m"}]}
    with Replay({"x": {"status": 200, "body": {**body, **listed}}}) as replay:
        monkeypatch.setenv(f"AXE_{protocol.upper()}_BASE_URL", replay.root + given)
        assert asyncio.run(make(protocol, Config()).send(ask())).content == "hello"
        assert asyncio.run(listing.models(server(protocol, Config()))) == ("m",)
        assert [asked.path for asked in replay.log("x")] == [chat, models]


@pytest.mark.req("D-33")
@pytest.mark.parametrize(
    ("protocol", "given", "shown"),
    [
        ("openai", "http://h:1", "http://h:1/v1"),
        ("openai", "http://me:secret@h:1/v1beta/openai", "http://h:1/v1beta/openai"),
        ("anthropic", "http://h:1/anthropic", "http://h:1/anthropic/v1"),
        ("ollama", "http://h:1/", "http://h:1"),
    ],
)
def test_the_address_that_is_asked_is_shown(
    protocol: str, given: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AXE_{protocol.upper()}_BASE_URL", given)
    assert listing.address(server(protocol, Config())) == shown
