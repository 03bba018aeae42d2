"""Which models a server has, asked over real sockets of servers that are right, ill and hostile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from axe_nb.agents.config import Config
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.engine.make_provider import server
from axe_nb.errors import ProviderError
from axe_nb.providers import listing
from axe_nb.scripting.wire import Protocol
from tests.providers.dialects import KEY
from tests.wire.replay import Replay

PROTOCOLS: tuple[Protocol, ...] = ("anthropic", "openai", "ollama")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROTOCOLS:
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)


def names(provider: str) -> tuple[str, ...]:
    return asyncio.run(listing.models(server(provider, Config.load())))


def failure(provider: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        names(provider)
    return caught.value


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """reply -> the server that gives it to every provider."""
    running: list[Replay] = []

    def serve(**reply: Any) -> Replay:
        running.append(Replay({"x": reply}).__enter__())
        for provider in PROTOCOLS:
            monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", running[-1].url("x"))
        return running[-1]

    yield serve
    for one in running:
        one.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("provider", "path", "header"),
    [
        ("anthropic", "/v1/models?limit=1000", ("x-api-key", KEY)),
        ("openai", "/models", ("authorization", f"Bearer {KEY}")),
        ("ollama", "/api/tags", ("authorization", f"Bearer {KEY}")),
    ],
)
def test_each_protocol_is_asked_in_its_own_way(
    replies: Any, provider: str, path: str, header: tuple[str, str]
) -> None:
    asked = replies(body={"data": [{"id": "a"}], "models": [{"name": "a"}]})
    assert names(provider) == ("a",)
    [request] = asked.log("x")
    assert request.path == path
    assert request.raw == b""
    assert "content-type" not in request.headers
    assert request.headers[header[0]] == header[1]


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_failures_have_their_category(replies: Any, provider: str) -> None:
    for status, category in ((401, "auth"), (404, "bad_request"), (429, "rate_limit")):
        replies(status=status, body={"error": {"message": f"no: {KEY}"}})
        error = failure(provider)
        assert error.category == category
        assert KEY not in repr(error)
    replies(body="<html>hello</html>", headers={"content-type": "text/html"})
    assert failure(provider).category == "server"


def test_names_are_made_harmless_and_bounded(replies: Any) -> None:
    replies(
        body={
            "data": [
                {"id": "a\x1b[31m\nb"}, {"id": "x" * 500}, {"id": 7}, {"id": ""}, {"id": None}, {},
                {"id": f"model-{KEY}"},
            ]
        }
    )  # fmt: skip
    found = names("openai")
    assert "a�[31m b" in found
    assert "x" * 119 + "…" in found
    assert "***" in found
    assert all(name.isprintable() and len(name) <= 120 for name in found)


def test_a_server_that_says_nothing_is_given_up_soon(
    replies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies(network="silence")
    began = time.monotonic()
    error = failure("openai")
    assert error.category == "timeout"
    assert str(error).endswith("within 3s")
    assert time.monotonic() - began < 30


def test_a_model_is_there_by_its_name_or_as_the_latest() -> None:
    assert listing.has("llama3.2", ("llama3.2:latest", "qwen3:8b"))
    assert listing.has("qwen3:8b", ("qwen3:8b",))
    assert not listing.has("qwen3", ("qwen3:8b",))


@pytest.mark.parametrize(
    ("provider", "model", "known", "told"),
    [
        ("openai", "gpt-5-mnii", ("gpt-5", "gpt-5-mini"), 'did you mean "gpt-5-mini"?'),
        ("openai", "zzz", ("a", "b"), "it has a, b"),
        ("openai", "zzz", tuple("abcdefg"), "it has a, b, c, d, e and 2 more"),
        ("openai", "zzz", (), ""),
        ("ollama", "zzz", ("qwen3:8b",), "`ollama pull zzz`"),
        ("ollama", "a; rm -rf x", (), "`ollama pull 'a; rm -rf x'`"),
    ],
)  # fmt: skip
def test_the_next_step_names_the_nearest_model_or_how_to_get_it(
    provider: str, model: str, known: tuple[str, ...], told: str
) -> None:
    assert listing.advice(PROVIDERS[provider], model, known) == told
