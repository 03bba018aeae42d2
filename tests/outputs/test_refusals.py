"""Servers that refuse a form, a schema or a forced call, in their own words; replies cut short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

import axe_nb
from axe_nb import Agent, script
from axe_nb.cli import main
from axe_nb.errors import ProviderError
from axe_nb.messages import Response
from tests.outputs.test_runs import GOOD, SCHEMA, bodies, connect, said
from tests.wire.replay import Replay

ANSWER = said("openai", "", ("c1", "give_answer", {"name": "Ulm", "people": 3}))


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay({}) as replay:
        yield replay


def refuse(message: str, status: int = 400) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message}}}


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Failed to parse grammar", 500),
        ("Failed to initialize samplers: failed to parse grammar", 400),
        ("invalid JSON schema in format", 500),
        ("The provided JSON schema contains features not supported by xgrammar.", 400),
        ("guided_json is not supported", 400),
        ("json mode cannot be combined with tool/function calling", 400),
        ("Function calling with a response mime type: 'application/json' is unsupported", 400),
        ("GenerateContentRequest.generation_config.response_schema: should be non-empty", 400),
        ('Invalid JSON payload received. Unknown name "response_format": Cannot find field.', 400),
        ("Unsupported JSON schema fields: {'pattern'}", 422),
        ("No endpoints found that support the requested structured outputs", 404),
    ],
)
def test_a_refusal_in_a_servers_own_words_leads_to_the_tool(
    message: str, status: int, server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = connect(monkeypatch, "openai", server, refuse(message, status), ANSWER)
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert (result.data, len(bodies(server))) == ({"name": "Ulm", "people": 3}, 2)


def test_a_server_that_cannot_be_made_to_call_is_only_offered_the_tool(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = refuse("response_format is not supported")
    second = refuse("the model does not support this tool_choice in thinking mode")
    agent = connect(monkeypatch, "openai", server, first, second, ANSWER)
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert result.data == {"name": "Ulm", "people": 3}
    assert ["tool_choice" in body for body in bodies(server)] == [False, True, False]
    assert result.request().body == bodies(server)[2]


OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
"""A form that Anthropic takes in a tool only."""


@pytest.mark.req("D-65")
def test_a_model_that_thinks_by_default_is_only_offered_the_tool(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = refuse("Thinking may not be enabled when tool_choice forces tool use.")
    answer = said("anthropic", "", ("c1", "give_answer", {"Ulm": 3}))
    agent = connect(monkeypatch, "anthropic", server, refusal, answer)
    result = axe_nb.run(agent, "hi", output=OPEN)
    assert result.data == {"Ulm": 3}
    assert ["tool_choice" in body for body in bodies(server)] == [True, False]
    assert result.request().body == bodies(server)[1]


@pytest.mark.req("D-65")
@pytest.mark.parametrize(
    ("params", "is_forced"),
    [
        ({}, True),
        ({"reasoning_effort": "none"}, True),
        ({"thinking": {"type": "disabled"}}, True),
        ({"reasoning": {"effort": "none", "summary": "auto"}}, True),
        ({"reasoning": {"enabled": False, "exclude": True}}, True),
        ({"reasoning_effort": "low"}, False),
        ({"thinking": {"type": "enabled"}}, False),
        ({"reasoning": {"effort": "low", "enabled": True}}, False),
        ({"reasoning": {"max_tokens": 2000}}, False),
        ({"enable_thinking": True}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, False),
    ],
)
def test_where_the_model_is_told_to_think_the_tool_is_never_forced(
    params: dict[str, Any], is_forced: bool, server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = refuse("response_format is not supported"), ANSWER
    agent = connect(monkeypatch, "openai", server, *replies).but(params=params)
    assert axe_nb.run(agent, "hi", output=SCHEMA).data == {"name": "Ulm", "people": 3}
    assert ("tool_choice" in bodies(server)[1]) is is_forced


def test_a_server_that_refuses_both_is_an_error_of_one_line(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [refuse("response_format is not supported"), refuse("tools are not supported")]
    agent = connect(monkeypatch, "openai", server, *replies, said("openai", GOOD))
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert "tools are not supported" in (result.error or "")
    assert "\n" not in (result.error or "")
    assert isinstance(result.cause, ProviderError)
    assert "structured output from this model needs a tool" in result.cause.hint
    assert axe_nb.run(agent, "hi", output=SCHEMA).ok, "the form is tried again"


def test_a_replay_in_another_order_has_the_requests_that_were_sent(
    server: Replay, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    refusal = refuse("response_format is not supported")
    agent = connect(monkeypatch, "openai", server, refusal, ANSWER)
    with axe_nb.cassette("c.axe", "record"):
        for prompt in ("one", "two"):
            axe_nb.run(agent, prompt, output=SCHEMA)
    with axe_nb.cassette("c.axe", "replay"):
        two, one = (axe_nb.run(agent, prompt, output=SCHEMA) for prompt in ("two", "one"))
    assert [one.request().body, two.request().body] == bodies(server)[1:]


def test_a_closing_turn_that_is_cut_says_so(
    server: Replay, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    cut = said("ollama", '{"name": "U')
    cut["body"]["done_reason"] = "length"
    agent = connect(monkeypatch, "ollama", server, said("ollama", "Ulm."), cut)
    result = axe_nb.run(agent.but(tools=("list_dir",)), "hi", output=SCHEMA)
    assert "raise params.max_tokens" in (result.error or "")


def test_a_cut_that_left_valid_data_is_a_warning(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = said("openai", GOOD)
    reply["body"]["choices"][0]["finish_reason"] = "length"
    result = axe_nb.run(connect(monkeypatch, "openai", server, reply), "hi", output=SCHEMA)
    assert result.ok
    assert "raise params.max_tokens" in "".join(result.warnings)


def test_an_empty_repair_keeps_the_text_before(project: Path) -> None:
    script("m")(lambda request: "no JSON" if request.turn == 1 else " ")
    result = axe_nb.run(Agent("a", "script/m"), "hi", output=SCHEMA)
    assert (result.status, result.text) == ("error", "no JSON")
    assert "it is empty" in (result.error or "")


def test_words_of_an_earlier_turn_are_not_the_answer(project: Path) -> None:
    early = Response(GOOD, (axe_nb.call("list_dir", path="."),))
    replies = iter([early, " ", '{"name": "Bonn", "people": 1}'])
    script("m")(lambda request: next(replies))
    agent = Agent("a", "script/m", tools=("list_dir",))
    assert axe_nb.run(agent, "hi", output=SCHEMA).data == {"name": "Bonn", "people": 1}


def test_the_result_of_a_model_of_pydantic_is_saved_as_json(project: Path) -> None:
    class Town(pydantic.BaseModel):
        name: str
        people: int

    script("m")(lambda request: GOOD)
    result = axe_nb.run(Agent("a", "script/m"), "hi", output=Town)
    assert result.data == Town(name="Ulm", people=3)
    assert result.to_dict()["data"] == {"name": "Ulm", "people": 3}
    result.save("r.axe")
    assert axe_nb.load("r.axe").data == {"name": "Ulm", "people": 3}


def test_a_preview_has_the_form_of_the_answer(
    server: Replay,
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    piped: Any,
) -> None:
    connect(monkeypatch, "openai", server, said("openai", GOOD))
    text = 'name = "t"\nmodel = "openai/m"\n[output]\ntype = "object"\n'
    (project / "axe" / "agents" / "t.toml").write_text(text)
    assert main(["run", "t", "-p", "hi", "--dry-run", "--full"]) == 0
    assert '"response_format"' in capsys.readouterr().out


def test_a_server_that_ignores_the_form_in_silence_is_offered_a_tool_in_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Third-party servers of Anthropic's protocol take `output_config`, and do nothing with it."""
    said = {"content": [{"type": "text", "text": "There are three."}], "stop_reason": "end_turn"}
    call = {"type": "tool_use", "id": "t", "name": "give_answer", "input": {"n": 3}}
    called = {"content": [call], "stop_reason": "tool_use"}
    replies = [{"status": 200, "body": {"role": "assistant", **one}} for one in (said, called)]
    with Replay({"x": {"sequence": replies}}) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("AXE_ANTHROPIC_BASE_URL", server.url("x"))
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        result = axe_nb.run(Agent("a", "anthropic/local"), "How many?", output=schema)
        assert (result.data, result.error) == ({"n": 3}, None)
        first, second = (one.body for one in server.log("x"))
    assert "output_config" in first
    assert "output_config" not in second
    assert second["tool_choice"] == {"type": "tool", "name": "give_answer"}
