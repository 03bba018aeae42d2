"""Base URLs as people write them, and the URLs that are asked (D-33)."""

from __future__ import annotations

import asyncio
import json

import pytest

import axe_nb
from axe_nb import Agent
from axe_nb.agents.provider_table import PROTOCOLS, PROVIDERS
from axe_nb.agents.user_config import Config
from axe_nb.commands import doctor
from axe_nb.engine.plan import make_server
from axe_nb.errors import ProviderError
from tests.providers.dialects import BY_NAME, KEY
from tests.providers.raw_server import always, raw_server, reply

VERSION = "api-version=2024-10-21-preview"
SECRET = "9f1c27aa53b04e6d8e21c7b0"

ROWS = [
    ("openai", "", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1/", "/v1/chat/completions", "/v1/models"),
    ("openai", "/v1/chat/completions", "/v1/chat/completions", "/v1/models"),
    ("openai", "/chat/completions", "/chat/completions", "/models"),
    ("openai", "/openai/v1", "/openai/v1/chat/completions", "/openai/v1/models"),
    ("openai", "/v1beta/openai/", "/v1beta/openai/chat/completions", "/v1beta/openai/models"),
    ("openai", "/api/paas/v4", "/api/paas/v4/chat/completions", "/api/paas/v4/models"),
    ("openai", "/inference", "/inference/chat/completions", "/inference/models"),
    ("openai", "/gate/way/chat/completions", "/gate/way/chat/completions", "/gate/way/models"),
    ("responses", "/v1/responses", "/v1/responses", "/v1/models"),
    ("responses", "/openai/v1/responses", "/openai/v1/responses", "/openai/v1/models"),
    ("responses", "/api/responses/", "/api/responses", "/api/models"),
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
    base, info = PROTOCOLS[protocol].locate(f"http://h:1{given}")
    assert base + info.path_of(BY_NAME[protocol].path) == f"http://h:1{chat}"
    assert base + info.path_of(info.models_path) == f"http://h:1{models}"


@pytest.mark.req("D-33")
@pytest.mark.parametrize(
    ("protocol", "given", "shown"),
    [
        ("openai", "http://h:1", "http://h:1/v1"),
        ("openai", "http://me:secret@h:1/v1beta/openai", "http://h:1/v1beta/openai"),
        ("anthropic", "http://h:1/anthropic", "http://h:1/anthropic/v1"),
        ("ollama", "http://h:1/", "http://h:1"),
        ("openai", "http://h:1/?api-version=2024-10-21-preview", f"http://h:1/v1?{VERSION}"),
        ("anthropic", f"http://h:1?{VERSION}", f"http://h:1/v1?{VERSION}"),
        ("openai", f"http://h:1?key={SECRET}&{VERSION}", f"http://h:1/v1?key=***&{VERSION}"),
        ("openai", f"http://h:1?x={SECRET}&empty&y=", "http://h:1/v1?x=***&empty&y="),
        ("ollama", "http://h:1?code=short-enough&subscription-key=0123456789",
         "http://h:1?code=***&subscription-key=***"),
    ],
)  # fmt: skip
def test_the_address_that_is_asked_is_shown(
    protocol: str, given: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AXE_{protocol.upper()}_BASE_URL", given)
    assert doctor.format_address(make_server(protocol, Config())) == shown


QUERIES = {
    "a version": (VERSION, VERSION),
    "several": (f"{VERSION}&key={SECRET}&empty&y=", f"{VERSION}&key={SECRET}&empty&y="),
    "escapes": ("x=a+b%2Fc/d?e", "x=a+b%2Fc/d?e"),
    "a slash at the end": ("x=1/", "x=1/"),
    "other letters": ("x=ä", "x=%C3%A4"),
}


@pytest.mark.parametrize(("given", "sent"), QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize(
    ("protocol", "path", "chat", "models"),
    [
        ("openai", "/v1/", "/v1/chat/completions?", "/v1/models?"),
        ("openai", "/d/m/chat/completions", "/d/m/chat/completions?", "/d/m/models?"),
        ("anthropic", "", "/v1/messages?", "/v1/models?limit=1000&"),
        ("ollama", "/", "/api/chat?", "/api/tags?"),
    ],
)
def test_every_request_has_the_query_of_the_base_url(
    protocol: str, path: str, chat: str, models: str, given: str, sent: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    body = BY_NAME[protocol].reply("hello", (), BY_NAME[protocol].done)
    listed = {"data": [{"id": "m"}], "models": [{"name": "m"}]}
    with raw_server(always(reply(json.dumps({**body, **listed}).encode()))) as server_:
        monkeypatch.setenv(f"AXE_{protocol.upper()}_BASE_URL", f"{server_.url}{path}?{given}")
        agent = Agent("a", f"{protocol}/m")
        assert axe_nb.run(agent, "hi").text == "hello"
        assert asyncio.run(doctor.list_models(make_server(protocol, Config()))) == ["m"]
        asked = [request.start.split(" ")[1] for request in server_.requests]
    assert asked == [chat + sent, models + sent]


def test_a_key_in_the_query_is_in_no_error_and_no_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    words = f"no such key: {SECRET} (?key={SECRET})".encode()
    refused = reply(words, "connection: close", status="403 Forbidden")
    with raw_server(always(refused)) as server_:
        url = f"{server_.url}?key={SECRET}"
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", url)
        results = [axe_nb.run(Agent("a", "openai/m"), "hi")]
        shown = repr(make_server("openai", Config()))
    results.append(axe_nb.run(Agent("a", "openai/m"), "hi"))  # nobody listens there now
    for result in results:
        assert isinstance(result.cause, ProviderError)
        shown += f"{result.error} {result.cause!r} {vars(result.cause)} {result.to_dict()}"
    assert SECRET not in shown + caplog.text
    assert "/v1/chat/completions?key=***" in caplog.text
    assert "connection refused" in str(results[1].error)
