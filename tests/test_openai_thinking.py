"""`[params] thinking` over OpenAI's Responses API, by a server that refuses what OpenAI refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.recording.history_recorder import find_writer, history_path
from axe_nb.views.html import twin
from tests.providers.openai_2026 import OWN, THOUGHTS, OpenAI, at_own_address, settings

MODEL = "openai/gpt-6.1-terra"

THOUGHT = "\n\n".join(THOUGHTS)

each = pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])


@axe_nb.tool
def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[OpenAI]:
    with at_own_address(monkeypatch) as running:
        yield running


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


@each
def test_it_is_a_fold_afterwards_and_kept_by_every_recording(
    openai: OpenAI, streams: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    with axe_nb.cassette(tmp_path / "c.axe", "record"):
        first = ask(thinker(), stream=streams)
    sent = len(openai.requests)
    with axe_nb.cassette(tmp_path / "c.axe", "replay"):
        played = ask(thinker(), stream=streams)
    assert len(openai.requests) == sent
    try:
        kept = axe_nb.load(axe_nb.history()[-1].id)
    finally:
        find_writer(history_path()).flush()
    first.save(tmp_path / "run.axe")
    saved = axe_nb.load(tmp_path / "run.axe")
    for one in (first, played, kept, saved):
        assert isinstance(one, RunResult)
        assert list_thoughts(one) == [THOUGHT, THOUGHT]
    html = twin(first)["text/html"]
    assert "First the &lt;b&gt;towns&lt;/b&gt;." in html
    assert html.count("thought</") == 2
    assert "towns" not in first.text


@each
@pytest.mark.req("D-79")
def test_an_answer_whose_room_thinking_has_used_up_says_so(openai: OpenAI, streams: bool) -> None:
    agent = thinker(tools=(), params={"max_tokens": 50})
    result = axe_nb.run(agent, "How many?", display=False, stream=streams)
    told = (
        "thinking used up the tokens of the answer (length); "
        "raise params.max_tokens, or lower params.thinking"
    )
    assert (result.text, result.warnings) == ("", (told,))
    assert openai.requests[0][1]["max_output_tokens"] == 50
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    result = axe_nb.run(agent, "How many?", display=False, stream=streams, output=schema)
    assert result.error == f"the answer is not complete: {told}"


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


@each
@pytest.mark.req("D-78")
def test_reasoning_goes_back_to_its_own_model_and_address_only(
    openai: OpenAI, streams: bool
) -> None:
    first = ask(thinker(), stream=streams)
    ask(thinker(), "Sure?", stream=streams, continue_from=first)
    assert str(openai.requests[-1][1]).count("gAAAA") == 2
    ask(thinker(model="openai/gpt-5.6-sol"), "Sure?", stream=streams, continue_from=first)
    assert "gAAAA" not in str(openai.requests[-1][1])
    settings(f'[providers.openai]\nbase_url = "{OWN.replace("api.", "eu.api.")}"\n')
    ask(thinker(), "Sure?", stream=streams, continue_from=first)
    assert "gAAAA" not in str(openai.requests[-1][1])
    settings(f'[providers.openai]\nbase_url = "{OWN}"\n')
    ask(thinker(), "Sure?", stream=streams, continue_from=first)
    assert str(openai.requests[-1][1]).count("gAAAA") == 2
