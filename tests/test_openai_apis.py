"""OpenAI's two APIs: which one a model gets, and what a refusal by one says of the other (D-73)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult, tool
from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import provider_for
from axe_nb.views.html import twin
from axe_nb.views.outline import as_text
from tests.protocols import settings
from tests.providers.dialects import KEY
from tests.providers.openai_2026 import CITED, OWN, SOURCE, THOUGHTS, OpenAI, at_own_address

pytestmark = pytest.mark.req("D-73")


@tool
def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[OpenAI]:
    with at_own_address(monkeypatch) as running:
        yield running


def run(model: str, *, streams: bool = False, **fields: Any) -> RunResult:
    agent = Agent("a", f"openai/{model}", tools=(look,), **fields)
    return axe_nb.run(agent, "Look around.", display=False, stream=streams)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("model", ["gpt-5.6-sol", "gpt-6.1-terra", "gpt-6-pro", "gpt-5.6-codex"])
def test_a_model_that_reasons_uses_tools_at_openais_own_address(
    openai: OpenAI, model: str, streams: bool
) -> None:
    result = run(model, streams=streams, params={"max_tokens": 500})
    assert (result.status, result.text) == ("completed", "By Responses."), result.error
    assert result.tool_calls == 2
    assert openai.paths == ["/v1/responses"] * 2
    again = axe_nb.run(
        Agent("a", f"openai/{model}", tools=(look,)), "And now?", continue_from=result,
        display=False, stream=streams,
    )  # fmt: skip
    assert again.ok, again.error
    assert json.dumps(openai.requests[-1][1]).count("gAAAA") == 2, "its reasoning went back"


@pytest.mark.parametrize("model", ["gpt-6.1-terra", "gpt-6-pro"])
def test_a_refusal_by_chat_completions_says_which_key_to_set(openai: OpenAI, model: str) -> None:
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "chat"\n')
    result = run(model)
    assert result.status == "error"
    assert result.cause
    assert result.cause.hint == 'set api = "responses" under [providers.openai] in config.toml'
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "responses"\n')
    assert run(model).ok, "the step helps"


@pytest.mark.parametrize(
    ("url", "api", "model", "protocol"),
    [
        ("https://api.openai.com", "", "gpt-6", "responses"),
        ("https://eu.api.openai.com", "", "o4-mini", "responses"),
        ("https://api.openai.com", "", "ft:gpt-6:org::1", "responses"),
        ("https://api.openai.com", "", "gpt-4.1", "openai"),
        ("https://api.openai.com", "", "something-new", "openai"),
        ("https://api.openai.com", "", "gpt-5-chat-latest", "openai"),
        ("https://api.openai.com", "chat", "gpt-6", "openai"),
        ("https://api.openai.com", "responses", "gpt-4.1", "responses"),
        ("https://notapi.openai.com.example", "", "gpt-6", "openai"),
        ("http://localhost:8000", "", "gpt-6", "openai"),
        ("http://localhost:8000", "responses", "qwen3", "responses"),
        ("http://localhost:8000/v1/responses", "", "qwen3", "responses"),
        ("http://localhost:8000/v1/responses", "chat", "qwen3", "responses"),
        ("https://api.openai.com/v1/chat/completions", "responses", "gpt-6", "openai"),
    ],
)
def test_the_address_the_setting_and_the_model_decide_about_the_api(
    url: str, api: str, model: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AXE_OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    chosen = f'api = "{api}"\n' if api else ""
    settings(
        f'[providers.openai]\nbase_url = "{url}"\n{chosen}'
        f'[providers.mine]\nprotocol = "openai"\nbase_url = "{url}"\n{chosen}'
    )
    for name in ("openai", "mine"):
        assert provider_for(Config.load())(name, model).name == protocol


def test_a_recording_is_played_whatever_api_the_model_gets_today(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axe_nb.script("one")(lambda request: request.last if request.results else axe_nb.call(
        "look", at="a"
    ))  # fmt: skip
    agent = Agent("a", "openai/one", tools=(look,))
    for protocol in ("openai", "responses"):
        with axe_nb.script_server(protocol), axe_nb.cassette(f"{protocol}.axe", "record"):
            assert axe_nb.run(agent, "go", display=False).text == "seen a"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for protocol in ("openai", "responses"):
        for api in ("chat", "responses"):
            settings(f'[providers.openai]\napi = "{api}"\n')
            with axe_nb.cassette(f"{protocol}.axe", "replay"):
                played = axe_nb.run(agent, "go", display=False)
            assert played.text == "seen a", played.error
            assert played.request("0/1").protocol == protocol


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.req("D-32", "D-76")
def test_a_search_is_offered_kept_shown_and_sent_unchanged(openai: OpenAI, streams: bool) -> None:
    scout = Agent("scout", "openai/gpt-5.6-sol", mode="auto", tools=("web_search",))
    first = axe_nb.run(scout, "How high?", display=False, stream=streams)
    assert (first.text, first.error, first.warnings) == ("The tallest is the Burj.", None, ())
    again = axe_nb.run(scout, "Sure?", display=False, stream=streams, continue_from=first)
    assert (again.text, again.error) == ("By Responses.", None)
    assert openai.paths == ["/v1/responses"] * 2
    asked, later = (body for _, body in openai.requests)
    assert asked["tools"] == later["tools"] == [{"type": "web_search"}]
    assert asked["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert [item["type"] for item in later["input"]] == [
        "message", "reasoning", "web_search_call", "reasoning", "message", "message",
    ]  # fmt: skip
    assert later["input"][1:-1] == openai.said[0]
    assert [(one.title, one.url) for one in first.sources] == [
        ("Towers of the world", SOURCE), ("Heights", CITED),
    ]  # fmt: skip
    assert (first.usage.searches, first.tool_calls) == (1, 0)
    assert 'web_search "tallest tower" → 1 source' in as_text(first)
    html = twin(first)["text/html"]
    assert f'href="{SOURCE.replace("&", "&amp;")}"' in html
    assert f'href="{CITED}"' in html
    assert again.request().body == later


MODEL = "openai/gpt-6.1-terra"

THOUGHT = "\n\n".join(THOUGHTS)

each = pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])


def thinker(thinking: str | None = "low", **fields: Any) -> Agent:
    params = fields.pop("params", {}) | ({} if thinking is None else {"thinking": thinking})
    return Agent("a", **{"model": MODEL, "tools": (look,), **fields}, params=params)


def ask(agent: Agent, prompt: str = "How many?", **options: Any) -> RunResult:
    result = axe_nb.run(agent, prompt, display=False, **options)
    assert (result.text, result.error) == ("By Responses.", None)
    return result


def list_thoughts(result: RunResult) -> list[str]:
    return [one.response.reasoning for one in result.exchanges if one.response]


@each
@pytest.mark.parametrize(
    ("thinking", "sent"),
    [
        ("low", {"effort": "low", "summary": "auto"}),
        ("high", {"effort": "high", "summary": "auto"}),
        ("off", {"effort": "none"}),
        (None, None),
    ],
)
def test_an_effort_and_a_summary_are_asked_for(
    openai: OpenAI, streams: bool, thinking: str | None, sent: object
) -> None:
    result = ask(thinker(thinking), stream=streams)
    assert [path for path, _ in openai.requests] == ["/v1/responses"] * 2
    assert [body.get("reasoning") for _, body in openai.requests] == [sent, sent]
    assert not any("thinking" in body for _, body in openai.requests)
    thought = THOUGHT if thinking in ("low", "high") else ""
    assert list_thoughts(result) == [thought, thought]
    spent = 0 if thinking == "off" else 200
    assert result.usage.reasoning_tokens == spent
    assert result.request().body == openai.requests[-1][1]


def test_an_organization_that_gets_no_summaries_is_asked_without_one(openai: OpenAI) -> None:
    openai.is_verified = False
    ask(thinker(tools=()))
    first, second = (body["reasoning"] for _, body in openai.requests)
    assert (first, second) == ({"effort": "low", "summary": "auto"}, {"effort": "low"})


@pytest.mark.req("D-79")
@pytest.mark.parametrize(
    ("model", "thinking", "streams"),
    [
        ("gpt-6.1-terra", None, True),
        ("gpt-7-sol", None, True),
        ("gpt-6.1-terra", "off", False),
        ("gpt-4.1", None, False),
        ("new-model", None, False),
        ("new-model", "low", True),
    ],
)
def test_a_model_that_thinks_is_streamed_even_if_nobody_watches(
    openai: OpenAI, model: str, thinking: str | None, streams: bool
) -> None:
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "responses"\n')
    ask(thinker(thinking, model=f"openai/{model}", tools=()))
    assert [body.get("stream", False) for _, body in openai.requests] == [streams]
