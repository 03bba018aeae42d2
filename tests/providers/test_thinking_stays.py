"""What a model thought goes back to its own server only (D-78)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, address_of, provider_of
from tests.providers.dialects import make_message
from tests.wire.replay import Replay

pytestmark = pytest.mark.req("D-78")

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

THOUGHT = "bound to this server"

REPLIES: dict[str, dict[str, Any]] = {
    "openai": {"choices": [{"finish_reason": "stop", "message": {
        "role": "assistant", "content": "Three.", "reasoning_content": THOUGHT,
    }}]},
    "anthropic": {
        "role": "assistant", "stop_reason": "end_turn",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"},
            {"type": "text", "text": "Three."},
        ],
    },
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
def server() -> Iterator[Replay]:
    with Replay({}) as replay:
        yield replay


@pytest.fixture
def agent(protocol: Protocol, server: Replay, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent whose model thinks, and has been asked once."""
    reply = {"status": 200, "body": REPLIES[protocol]}
    server.replies = {name: {"sequence": [reply] * 3} for name in ("here", "there")}
    move_to("here", protocol, server, monkeypatch)
    return Agent("a", f"{provider_of(protocol)}/m")


def move_to(place: str, protocol: str, server: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in address_of(protocol, server.url(place)).items():
        monkeypatch.setenv(variable, value)


def ask(agent: Agent, prompt: str, **options: Any) -> RunResult:
    result = axe_nb.run(agent, prompt, display=False, stream=False, **options)
    assert result.text == "Three."
    return result


def last_body(server: Replay, place: str = "here") -> dict[str, Any]:
    body: dict[str, Any] = server.log(place)[-1].body
    return body


@every_protocol
def test_a_saved_run_goes_on_with_it_and_a_fork_to_another_model_without(
    protocol: Protocol, agent: Agent, server: Replay, tmp_path: Path
) -> None:
    second = ask(agent, "Sure?", continue_from=ask(agent, "How many?"))
    second.save(tmp_path / "run.axe")
    loaded = axe_nb.load(tmp_path / "run.axe")
    ask(agent, "Really?", continue_from=loaded)
    assert str(last_body(server)).count(THOUGHT) == 2
    server.replies["here"]["sequence"] *= 2
    forked = loaded.fork("0/1", model=f"{provider_of(protocol)}/other", display=False)
    assert forked.text == "Three."
    assert THOUGHT not in str(last_body(server))
    assert last_body(server)["model"] == "other"


@pytest.mark.parametrize("protocol", ["anthropic", "responses"])
def test_what_looks_like_a_key_in_it_is_not_sent_back_in_part_by_a_saved_run(
    protocol: Protocol, agent: Agent, server: Replay, tmp_path: Path
) -> None:
    sealed = f"gAAAA-hf_{'x1' * 20}"
    name = "signature" if protocol == "anthropic" else "encrypted_content"
    items = [
        dict(item) for item in REPLIES[protocol]["content" if name == "signature" else "output"]
    ]
    items[0][name] = sealed
    body = {**REPLIES[protocol], ("content" if name == "signature" else "output"): items}
    server.replies["here"]["sequence"] = [{"status": 200, "body": body}] * 3
    first = ask(agent, "How many?")
    ask(agent, "Sure?", continue_from=first)
    assert sealed in str(last_body(server))
    first.save(tmp_path / "run.axe")
    ask(agent, "Sure?", continue_from=axe_nb.load(tmp_path / "run.axe"))
    assert "***" not in str(last_body(server))
    assert "Three." in str(last_body(server))
