"""OpenAI's two APIs: which one a model gets, and what a refusal by one says of the other (D-73)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult, cli, tool
from axe_nb.agents.config import Config
from axe_nb.engine.make_provider import make, server
from axe_nb.errors import ConfigError
from axe_nb.providers import listing
from tests.providers.dialects import BY_NAME, KEY
from tests.providers.openai_2026 import OWN, OpenAI, at_own_address, settings
from tests.wire.replay import Replay

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
    assert json.dumps(openai.asked[-1][1]).count("gAAAA") == 2, "its reasoning went back"


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-4o-mini", "something-new"])
def test_other_models_are_asked_over_chat_completions_there(openai: OpenAI, model: str) -> None:
    assert run(model).text == "By Chat Completions."
    assert openai.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize("model", ["gpt-6.1-terra", "gpt-6-pro"])
def test_a_refusal_by_chat_completions_says_which_key_to_set(openai: OpenAI, model: str) -> None:
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "chat"\n')
    result = run(model)
    assert result.status == "error"
    assert result.cause
    assert result.cause.hint == 'set api = "responses" under [providers.openai] in config.toml'
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "responses"\n')
    assert run(model).ok, "the step helps"


@pytest.mark.parametrize("params", [{}, {"reasoning_effort": "none"}, {"thinking": "off"}])
def test_the_next_step_is_none_that_the_server_refuses_too(
    openai: OpenAI, params: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chat Completions names `reasoning_effort`, whether it was set or not, and even as `none`."""
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", openai.url)
    result = run("gpt-6.1-terra", params=params)
    assert openai.paths == ["/v1/chat/completions"]
    assert result.cause
    assert result.cause.hint == 'set api = "responses" under [providers.openai] in config.toml'
    monkeypatch.delenv("AXE_OPENAI_BASE_URL")
    assert run("gpt-6.1-terra", params=params).ok, "over the Responses API"


def test_a_refusal_by_the_responses_api_says_so_too(openai: OpenAI) -> None:
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "responses"\n')
    result = run("gpt-4o-search-preview")
    assert result.cause
    assert result.cause.hint == 'set api = "chat" under [providers.openai] in config.toml'
    settings(f'[providers.openai]\nbase_url = "{OWN}"\napi = "chat"\n')
    assert run("gpt-4o-search-preview").ok


def test_agents_of_one_tree_may_use_both(openai: OpenAI) -> None:
    axe_nb.define(Agent("small", "openai/gpt-4.1"))
    result = axe_nb.run(Agent("lead", "openai/gpt-6", sub_agents=("small",)), "go", display=False)
    assert (result.text, result.children[0].text) == ("By Responses.", "By Chat Completions.")
    assert openai.paths == ["/v1/responses", "/v1/chat/completions", "/v1/responses"]


@pytest.mark.parametrize(
    ("url", "api", "model", "protocol"),
    [
        ("https://api.openai.com", "", "gpt-6", "responses"),
        ("https://api.openai.com/v1/", "", "gpt-5-mini", "responses"),
        ("https://eu.api.openai.com", "", "o4-mini", "responses"),
        ("https://api.openai.com", "", "ft:gpt-6:org::1", "responses"),
        ("https://api.openai.com", "", "gpt-10", "responses"),
        ("https://api.openai.com", "", "gpt-4.1", "openai"),
        ("https://api.openai.com", "", "gpt-5-chat-latest", "openai"),
        ("https://api.openai.com", "", "new-model", "openai"),
        ("https://api.openai.com", "chat", "gpt-6", "openai"),
        ("https://api.openai.com", "responses", "gpt-4.1", "responses"),
        ("https://notapi.openai.com.example", "", "gpt-6", "openai"),
        ("https://api.openai.com.example", "", "gpt-6", "openai"),
        ("http://localhost:8000", "", "gpt-6", "openai"),
        ("http://localhost:8000", "responses", "qwen3", "responses"),
        ("http://localhost:8000/v1/responses", "", "qwen3", "responses"),
        ("http://localhost:8000/v1/responses?v=1", "", "qwen3", "responses"),
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
        assert make(name, Config.load(), model=model).name == protocol


@pytest.mark.parametrize("url", ["http://[::1", "http://", "nonsense"])
def test_a_wrong_address_is_an_error_of_the_settings(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", url)
    with pytest.raises(ConfigError, match="base URL of provider"):
        axe_nb.run(Agent("a", "openai/gpt-6"), "hi", display=False)


def test_the_variable_of_the_address_means_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("AXE_OPENAI_BASE_URL", raising=False)
    assert make("openai", Config.load(), model="gpt-6").name == "responses"
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", "http://localhost:1234/v1")
    assert make("openai", Config.load(), model="gpt-6").name == "openai"
    monkeypatch.setenv("AXE_OPENAI_BASE_URL", "http://localhost:1234/v1/responses")
    assert make("openai", Config.load(), model="gpt-6").name == "responses"


@pytest.mark.parametrize(
    ("given", "asked", "models"),
    [
        ("/v1/responses", "/v1/responses", "/v1/models"),
        ("/responses", "/responses", "/models"),
        ("/openai/v1/responses", "/openai/v1/responses", "/openai/v1/models"),
        ("/api/responses/", "/api/responses", "/api/models"),
    ],
)
def test_a_whole_address_is_used_as_it_is(
    given: str, asked: str, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {**BY_NAME["responses"].reply("hello", (), "stop"), "data": [{"id": "m"}]}
    with Replay({"x": {"status": 200, "body": body}}) as replay:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", f"{replay.root}/x{given}")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert axe_nb.run(Agent("a", "openai/m"), "hi", display=False).text == "hello"
        assert asyncio.run(listing.models(server("openai", Config()))) == ("m",)
        assert [one.path for one in replay.log("x")] == [asked, models]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({"error": {"message": "This model is only supported in chat/completions"}},
         'set api = "chat" under [providers.mine] in config.toml'),
        ({"error": {"message": "Item with id 'rs_1' not found. Items are not persisted."}},
         "check the model name, and base_url under [providers.mine] in config.toml"),
        ({"error": {"message": "The model `m` does not exist"}},
         "check the model name, and base_url under [providers.mine] in config.toml"),
    ],
)  # fmt: skip
def test_a_server_without_the_api_is_told_from_one_without_the_model(
    body: dict[str, Any], hint: str
) -> None:
    with Replay({"x": {"status": 404, "body": body}}) as replay:
        settings(
            f'[providers.mine]\nprotocol = "openai"\napi = "responses"\n'
            f'base_url = "{replay.url("x")}"\n'
        )
        result = axe_nb.run(Agent("a", "mine/m"), "hi", display=False)
    assert result.cause
    assert result.cause.hint == hint


def test_where_a_whole_address_decides_the_step_is_about_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = {"detail": "Not Found: use /v1/chat/completions"}
    with Replay({"x": {"status": 404, "body": refusal}}) as replay:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", f"{replay.url('x')}/v1/responses")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        result = axe_nb.run(Agent("a", "openai/m"), "hi", display=False)
    assert result.cause
    assert result.cause.hint == "remove /responses from AXE_OPENAI_BASE_URL in the environment"


@pytest.mark.req("D-27")
@pytest.mark.parametrize(
    ("table", "told", "line"),
    [
        ('[providers.x]\nprotocol = "openai"\napi = "response"',
         'providers.x.api must be responses or chat, not "response"', 3),
        ('[providers.x]\nprotocol = "ollama"\napi = "chat"',
         'providers.x.api needs protocol = "openai"', 3),
        ('[providers.anthropic]\napi = "responses"',
         'providers.anthropic.api needs protocol = "openai"', 2),
        ('[providers.openai]\napi = 7', "providers.openai.api must be a string", 2),
    ],
)  # fmt: skip
def test_a_mistake_in_the_key_is_told_with_its_line(table: str, told: str, line: int) -> None:
    settings(table)
    with pytest.raises(ConfigError) as raised:
        Config.load()
    assert told in str(raised.value)
    assert raised.value.place == f"in $XDG_CONFIG_HOME/axe/config.toml, line {line}"


def test_a_dry_run_shows_the_body_of_the_api_that_would_be_asked(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    piped: object,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("AXE_OPENAI_BASE_URL", raising=False)
    for model, key in (("gpt-6", "input"), ("gpt-4.1", "messages")):
        words = ["run", "-m", f"openai/{model}", "-p", "hi", "--dry-run", "--full"]
        assert cli.main(words) == 0
        head, _, body = capsys.readouterr().out.partition(" bytes):\n")
        assert head.rpartition("body (")[2].startswith("responses" if key == "input" else "openai")
        assert key in json.loads(body)


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
