"""A model is asked without an agent: from Python and the command, over each protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, cli
from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.providers import sdk


@pytest.fixture(autouse=True)
def echo(project: Path) -> list[Request]:
    requests: list[Request] = []

    @axe_nb.script("echo")
    def answer(request: Request) -> str:
        requests.append(request)
        return f"Heard: {request.last}"

    return requests


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_prompt_is_all_that_is_sent(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        first = axe_nb.run(None, "one", model=f"{provider_of(protocol)}/echo")
        second = axe_nb.run(None, "two", continue_from=first)
    assert (first.text, second.text) == ("Heard: one", "Heard: two")
    assert (first.agent, second.agent, second.model) == ("", "", f"{provider_of(protocol)}/echo")
    bodies: list[Any] = json.loads(json.dumps(server.requests))
    for body in bodies:
        sdk.takes(protocol, body)
        assert not {"system", "instructions", "tools"} & body.keys()
    key = "input" if protocol == "responses" else "messages"
    assert [message["role"] for message in bodies[0][key]] == ["user"]
    assert [message["role"] for message in bodies[1][key]] == ["user", "assistant", "user"]


def test_neither_agent_nor_model_is_an_error_with_the_next_step() -> None:
    with pytest.raises(ConfigError, match="neither an agent nor a model is given") as caught:
        axe_nb.run(None, "hello")
    assert "model=" in caught.value.hint
    lead = axe_nb.run(Agent(name="lead", model="script/echo"), "x")
    with pytest.raises(ConfigError, match="neither"):
        axe_nb.run(None, "go on", continue_from=lead)
    with pytest.raises(ConfigError, match='no agent in this run has the variable "a"'):
        axe_nb.run(None, "x", model="script/echo", vars={"a": 1})


def test_a_run_without_agent_is_recorded_and_played(echo: list[Request], tmp_path: Path) -> None:
    with axe_nb.cassette(tmp_path / "c.txt", "auto"):
        first = axe_nb.run(None, "one", model="script/echo")
    with axe_nb.cassette(tmp_path / "c.txt", "replay"):
        assert axe_nb.run(None, "one", model="script/echo").text == first.text
        miss = axe_nb.run(None, "other", model="script/echo")
    assert len(echo) == 1
    assert "has no answer for model script/echo at 0/1: " in (miss.error or "")
    first.save(tmp_path / "r.txt")
    assert axe_nb.load(tmp_path / "r.txt") == first
    assert RunResult.from_dict(first.to_dict(full=True)) == first


def test_the_command_asks_a_model_without_an_agent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    Path("axe/agents/poet.toml").write_text(
        'name = "poet"\nmodel = "script/echo"\nsystem_prompt = "In {{ a }}, {{ b }}."\n'
        '[vars]\na = "prose"\nb = "short"\n',
        "utf-8",
    )
    for words, code, told in (
        (["-m", "script/echo", "-p", "hello"], 0, "Heard: hello\n"),
        (["-m", "script/echo", "-p", "hello", "--dry-run"], 0, "--- System Prompt ---\n(none)"),
        (["-m", "script/echo", "hello there"], 2, "alone, omit AGENT: -p TEXT"),
        (["None", "-m", "script/echo", "-p", "x"], 2, "found: None\nto ask the model alone, omit"),
        (["-p", "hello"], 2, "required: AGENT, or -m for a model without an agent"),
        (["poet", "--dry-run", "--var", "b={{a}}", "--var", "a=rhyme and = signs"], 0,
         "\nIn rhyme and = signs, {{a}}.\n"),
        (["poet", "--var", "a-b=1", "-p", "x"], 2, "takes NAME=VALUE, as in language=French"),
    ):  # fmt: skip
        assert cli.main(["run", *words]) == code
        assert told in "".join(capsys.readouterr())
