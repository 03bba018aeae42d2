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
from axe_nb.session.session import session
from tests.protocols import PROTOCOLS, provider_of
from tests.providers import sdk


@pytest.fixture(autouse=True)
def echo(project: Path) -> list[Request]:
    """The requests to `script/echo`, which says what it was asked."""
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


def test_no_agent_has_no_tools_and_no_files_unless_they_are_named(echo: list[Request]) -> None:
    Path("notes.md").write_text("x", "utf-8")
    axe_nb.run(model="script/echo", prompt="a")
    axe_nb.run(None, "b", model_all="script/echo", tools=["grep"], params={"temperature": 0.5})
    plain, with_tool = echo
    assert (plain.system, plain.tools, plain.agent) == ("", (), "")
    assert [tool.name for tool in with_tool.tools] == ["grep"]
    assert with_tool.params == {"temperature": 0.5}


def test_the_default_model_of_the_session_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session.defaults, "model", "script/echo")
    assert axe_nb.run(None, "hi").text == "Heard: hi"


def test_an_empty_name_is_not_the_same_as_no_agent() -> None:
    with pytest.raises(ConfigError, match=r'^invalid agent name ""'):
        axe_nb.run("", "hello", model="script/echo")


def test_neither_agent_nor_model_is_an_error_with_the_next_step() -> None:
    with pytest.raises(ConfigError, match="neither an agent nor a model is named") as caught:
        axe_nb.run(None, "hello")
    assert "model=" in caught.value.hint
    lead = axe_nb.run(Agent(name="lead", model="script/echo"), "x")
    with pytest.raises(ConfigError, match="neither"):
        axe_nb.run(None, "go on", continue_from=lead)
    with pytest.raises(ConfigError, match='no agent in this run has the variable "a"'):
        axe_nb.run(None, "x", model="script/echo", vars={"a": 1})


@pytest.mark.parametrize("prompt", ["What is this", "Translate: hello/bye"])
def test_a_prompt_in_the_place_of_the_agent_is_explained(prompt: str) -> None:
    with pytest.raises(ConfigError) as caught:
        axe_nb.run(prompt, model="script/echo")
    assert "to ask the model without an agent, give the prompt as -p TEXT" in caught.value.hint
    with pytest.raises(ConfigError) as caught:
        axe_nb.run(prompt, "x")
    assert "without an agent" not in caught.value.hint


def test_people_see_the_model_where_an_agent_would_be(echo: list[Request]) -> None:
    result = axe_nb.run(None, "hi", model="script/echo")
    assert repr(result).startswith("RunResult(script/echo, completed, 1 turn")
    assert repr(result.request()).startswith("SentRequest(script/echo, 0/1")
    with pytest.raises(axe_nb.ExpectationError) as caught:
        axe_nb.expect(result, "text ~ /never/")
    assert "script/echo" in caught.value.place
    failed = axe_nb.run(None, "hi", model="script/echo", timeout=0.000001)
    assert failed.place == "in model script/echo, turn 1"


def test_a_run_without_an_agent_is_recorded_saved_and_played(
    echo: list[Request], tmp_path: Path
) -> None:
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


def test_a_tool_asks_a_model_without_an_agent_as_its_child() -> None:
    @axe_nb.tool
    def second_opinion(question: str) -> str:
        """Asks another model."""
        return axe_nb.run(None, question, model="script/echo").text

    @axe_nb.script("asks")
    def asks(request: Request) -> object:
        if request.turn == 1:
            return [axe_nb.ToolCall("1", "second_opinion", {"question": "why?"})]
        return request.last

    boss = Agent(name="boss", model="script/asks", tools=[second_opinion], mode="auto")
    result = axe_nb.run(boss, "go")
    assert [(child.agent, child.text) for child in result.children] == [("", "Heard: why?")]
    axe_nb.expect(result, "depth <= 1; status == completed")


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    return code, *capsys.readouterr()


def test_the_command_asks_a_model_without_an_agent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    asked = run_command(capsys, "run", "-m", "script/echo", "-p", "hello")
    assert asked == (0, "Heard: hello\n", "")
    code, out, _ = run_command(capsys, "run", "-m", "script/echo", "-p", "hello", "--dry-run")
    assert (code, "--- System Prompt ---\n(none)" in out) == (0, True)
    code, _, err = run_command(capsys, "run", "-m", "script/echo", "hello there")
    assert (code, "give the prompt as -p TEXT" in err) == (2, True)
    code, _, err = run_command(capsys, "run", "-p", "hello")
    assert (code, "required: AGENT, or -m for a model without an agent" in err) == (2, True)
    Path("axe/agents/poet.toml").write_text(
        'name = "poet"\nmodel = "script/echo"\nsystem_prompt = "In {{ a }}, {{ b }}."\n'
        '[vars]\na = "prose"\nb = "short"\n',
        "utf-8",
    )
    words = (
        "run",
        "poet",
        "--var",
        "a=rhyme and = signs",
        "--var",
        "b={{ a }}",
        "--dry-run",
        "-p",
        "x",
    )
    assert "\nIn rhyme and = signs, {{ a }}.\n" in run_command(capsys, *words)[1]
    code, _, err = run_command(capsys, "run", "poet", "--var", "a-b=1", "-p", "x")
    assert (code, "takes NAME=VALUE, as in language=French" in err) == (2, True)
