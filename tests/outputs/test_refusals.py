"""Servers that refuse a form, a schema or a forced call, in their own words; replies cut short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, script
from axe_nb.errors import ProviderError
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


def test_a_server_that_ignores_the_form_in_silence_is_offered_a_tool_in_the_next_request(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Third-party servers of Anthropic's protocol take `output_config`, and do nothing with it."""
    called = said("anthropic", "", ("t", "give_answer", {"name": "Ulm", "people": 3}))
    replies = said("anthropic", "It is Ulm."), called
    result = axe_nb.run(connect(monkeypatch, "anthropic", server, *replies), "hi", output=SCHEMA)
    assert (result.data, result.error) == ({"name": "Ulm", "people": 3}, None)
    first, second = bodies(server)
    assert ("output_config" in first, "output_config" in second) == (True, False)
    assert second["tool_choice"] == {"type": "tool", "name": "give_answer"}
