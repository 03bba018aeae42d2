"""`[params] thinking` over each protocol, and the room for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, RunResult
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, address_of, provider_of
from tests.providers.dialects import make_message
from tests.wire.replay import Replay

THOUGHT = "One, two."

REPLIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "role": "assistant", "stop_reason": "end_turn",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"},
            {"type": "text", "text": "Three."},
        ],
    },
    "openai": {"choices": [{"finish_reason": "stop", "message": {
        "role": "assistant", "content": "Three.", "reasoning_content": THOUGHT,
    }}]},
    "responses": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": THOUGHT},
            make_message("Three."),
        ],
    },
    "ollama": {"message": {"content": "Three.", "thinking": THOUGHT}, "done": True},
}  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    scenarios = {name: {"status": 200, "body": body} for name, body in REPLIES.items()}
    with Replay(scenarios) as replay:
        for protocol in PROVIDERS.keys() & REPLIES.keys():
            monkeypatch.setenv(f"{protocol.upper()}_API_KEY", "sk-canary-0123456789")
            monkeypatch.setenv(f"AXE_{protocol.upper()}_BASE_URL", replay.url(protocol))
        yield replay


def send(server: Replay, model: str, **params: Any) -> dict[str, Any]:
    """The body that is sent, without what does not matter here."""
    say(Agent("a", model, params=params), "How many?")
    body: dict[str, Any] = server.log(model.partition("/")[0])[-1].body
    dull = ("model", "messages", "stream", "stream_options")
    return {key: value for key, value in body.items() if key not in dull}


SUMMARIZED, OMITTED = (
    {"type": "adaptive", "display": display} for display in ("summarized", "omitted")
)


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("claude-sonnet-5-5", "low", (128_000, SUMMARIZED, {"effort": "low"})),
        ("claude-sonnet-5-5", None, (128_000, SUMMARIZED)),
        ("claude-sonnet-5-5", "off", (128_000, {"type": "between_tools"})),
        ("claude-opus-5", "off", (128_000, {"type": "disabled"})),
        ("claude-opus-4-6", "high", (64_000, {"type": "adaptive"}, {"effort": "high"})),
        ("claude-opus-4-6", "off", (64_000,)),
        ("claude-opus-4-6", None, (64_000,)),
        ("claude-haiku-4-5", "medium", (64_000, {"type": "enabled", "budget_tokens": 8192})),
        ("claude-haiku-4-5", 5000, (64_000, {"type": "enabled", "budget_tokens": 5000})),
        ("unheard-of", "low", (32_000, {"type": "enabled", "budget_tokens": 2048})),
        ("unheard-of", "off", (4096, {"type": "disabled"})),
        ("unheard-of", None, (4096,)),
        ("claude-sonnet-5-5", OMITTED, (128_000, OMITTED)),
    ],
)  # fmt: skip
@pytest.mark.req("D-79")
def test_anthropic_is_asked_in_the_form_of_the_model(
    server: Replay, model: str, asked: Any, sent: tuple[Any, ...]
) -> None:
    params = {} if asked is None else {"thinking": asked}
    keys = ("max_tokens", "thinking", "output_config")
    assert send(server, f"anthropic/{model}", **params) == dict(zip(keys, sent, strict=False))


@pytest.mark.parametrize(
    ("model", "params", "sent"),
    [
        ("gpt-6.1-terra", {"thinking": "high"}, {"reasoning_effort": "high"}),
        ("gpt-6.1-terra", {"thinking": "off"}, {"reasoning_effort": "none"}),
        ("gpt-6.1-terra", {}, {}),
        ("gpt-6.1-terra", {"reasoning_effort": "xhigh"}, {"reasoning_effort": "xhigh"}),
        ("gpt-4.1", {"thinking": "off"}, {}),
        ("qwen4", {"thinking": "low"}, {"reasoning_effort": "low"}),
        ("glm", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "enabled"}}),
    ],
)
def test_chat_completions_is_asked_for_an_effort(
    server: Replay, model: str, params: dict[str, Any], sent: Mapping[str, Any]
) -> None:
    agent = Agent("a", f"openai/{model}", params=params)
    body = axe_nb.run(agent, "How many?", display=False).request(protocol="openai").body
    assert {k: v for k, v in body.items() if k in ("thinking", "reasoning_effort")} == sent


@pytest.mark.parametrize(("asked", "sent"), [("off", False), ("low", "low"), ("high", "high")])
def test_ollama_is_told_to_think(server: Replay, asked: str, sent: object) -> None:
    assert send(server, "ollama/qwen4", thinking=asked) == {"think": sent}


LEVELS = "off, low, medium, high"


@pytest.mark.parametrize(
    ("model", "asked", "told", "choices"),
    [
        ("anthropic/claude-opus-5-5", "off", '"off"', "low, medium, high"),
        ("anthropic/claude-sonnet-5-5", 5000, "a number of tokens (5000)", LEVELS),
        ("openai/gpt-4.1", "low", '"low"', "off"),
        ("ollama/qwen4", 2000, "a number of tokens (2000)", LEVELS),
    ],
)
def test_a_value_that_the_model_does_not_take_is_an_error_before_anything_is_sent(
    server: Replay, model: str, asked: object, told: str, choices: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        send(server, model, thinking=asked)
    name = model.partition("/")[2]
    assert caught.value.message == f'params.thinking: model "{name}" does not take {told}'
    assert caught.value.hint == f"choose one of: {choices}"
    assert not any(server.log(name) for name in REPLIES)


@pytest.mark.parametrize(("asked", "most", "tokens"), [("low", 1000, 1024), (5000, 5000, 5000)])
def test_thinking_without_room_is_an_error_before_anything_is_sent(
    server: Replay, asked: object, most: int, tokens: int
) -> None:
    with pytest.raises(ConfigError) as caught:
        send(server, "anthropic/claude-haiku-4-5", thinking=asked, max_tokens=most)
    told = f"{tokens} tokens are not between 1024 and the largest answer, {most}"
    assert caught.value.message == f"params.thinking: {told}"
    step = "change it, raise params.max_tokens, or set params.thinking to off"
    assert caught.value.hint == step
    assert not any(server.log(name) for name in REPLIES)


@pytest.fixture
def agent(protocol: Protocol, server: Replay, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent whose model thinks."""
    for variable, value in address_of(protocol, server.url(protocol)).items():
        monkeypatch.setenv(variable, value)
    return Agent("a", f"{provider_of(protocol)}/m")


def say(agent: Agent, prompt: str, **options: Any) -> RunResult:
    result = axe_nb.run(agent, prompt, display=False, **options)
    assert result.text == "Three."
    return result


@pytest.mark.req("D-78")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_saved_run_goes_on_with_it_and_a_fork_to_another_model_without(
    protocol: Protocol, agent: Agent, server: Replay, tmp_path: Path
) -> None:
    second = say(agent, "Sure?", continue_from=say(agent, "How many?"))
    second.save(tmp_path / "run.axe")
    loaded = axe_nb.load(tmp_path / "run.axe")
    say(agent, "Really?", continue_from=loaded)
    assert str(server.log(protocol)[-1].body).count(THOUGHT) == 2
    forked = loaded.fork("0/1", model=f"{provider_of(protocol)}/other", display=False)
    assert forked.text == "Three."
    last = server.log(protocol)[-1].body
    assert (last["model"], str(last).count(THOUGHT)) == ("other", 0)


@pytest.mark.req("D-78")
@pytest.mark.parametrize("protocol", ["anthropic", "responses"])
def test_what_looks_like_a_key_in_it_is_not_sent_back_in_part_by_a_saved_run(
    protocol: Protocol, agent: Agent, server: Replay, tmp_path: Path
) -> None:
    sealed = f"gAAAA-hf_{'x1' * 20}"
    name = "signature" if protocol == "anthropic" else "encrypted_content"
    body = copy.deepcopy(REPLIES[protocol])
    (body.get("content") or body["output"])[0][name] = sealed
    server.replies = {protocol: {"body": body}}
    first = say(agent, "How many?")
    say(agent, "Sure?", continue_from=first)
    first.save(tmp_path / "run.axe")
    say(agent, "Sure?", continue_from=axe_nb.load(tmp_path / "run.axe"))
    _, whole, masked = (str(asked.body) for asked in server.log(protocol))
    assert sealed in whole
    assert "***" not in masked
    assert "Three." in masked
