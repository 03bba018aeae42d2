"""`web_search` over OpenAI's Responses API, by a server that refuses what OpenAI refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.recording.history_recorder import find_writer, history_path
from axe_nb.session.overrides import Overrides
from axe_nb.session.session import Session
from axe_nb.views.html import twin
from axe_nb.views.outline import as_text
from tests.engine.in_process import ask_session
from tests.providers.openai_2026 import CITED, SOURCE, OpenAI, at_own_address

pytestmark = pytest.mark.req("D-76")

MODEL = "openai/gpt-5.6-sol"

ENTRY = {"type": "web_search"}

SOURCES = "web_search_call.action.sources"


each = pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])


@axe_nb.tool
def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[OpenAI]:
    with at_own_address(monkeypatch) as running:
        yield running


def scout(**fields: Any) -> Agent:
    given = {"model": MODEL, "mode": "auto", "tools": ("web_search",), **fields}
    return Agent("scout", **given)


def run(
    agent: Agent,
    prompt: str = "How high?",
    answers: list[Decision] | None = None,
    *,
    session: Session | None = None,
    streams: bool = True,
    asked: list[ApprovalRequest] | None = None,
    continue_from: RunResult | None = None,
    **options: Any,
) -> RunResult:
    left = list(answers or ())

    async def person(question: Any) -> Decision:
        if asked is not None:
            asked.append(question)
        return left.pop(0)

    work = ask_session(
        session or Session(), agent.but(stream=streams), prompt, Overrides(**options),
        ask_person=person if answers is not None else None, streams=streams,
        continue_from=continue_from,
    )  # fmt: skip
    return asyncio.run(work)


@each
@pytest.mark.req("D-32", "D-73")
def test_a_search_is_offered_kept_shown_and_sent_back_unchanged(
    openai: OpenAI, streams: bool
) -> None:
    first = run(scout(), streams=streams)
    assert (first.text, first.error, first.warnings) == ("The tallest is the Burj.", None, ())
    again = run(scout(), "Sure?", streams=streams, continue_from=first)
    assert (again.text, again.error) == ("By Responses.", None)
    assert openai.paths == ["/v1/responses"] * 2
    asked, later = (body for _, body in openai.requests)
    assert asked["tools"] == later["tools"] == [ENTRY]
    assert asked["include"] == ["reasoning.encrypted_content", SOURCES]
    assert [item["type"] for item in later["input"]] == [
        "message", "reasoning", "web_search_call", "reasoning", "message", "message",
    ]  # fmt: skip
    assert later["input"][1:-1] == openai.said[0]
    assert [(one.title, one.url) for one in first.sources] == [
        ("Towers of the world", SOURCE), ("Heights", CITED),
    ]  # fmt: skip
    (call,) = first.log[0].server_calls
    assert (call.name, call.arguments, call.error) == ("web_search", {"query": "tallest tower"}, "")
    assert [one.url for one in call.sources] == [SOURCE]
    assert (first.usage.searches, first.tool_calls) == (1, 0)
    assert 'web_search · "tallest tower" → 1 source' in as_text(first)
    html = twin(first)["text/html"]
    assert f'href="{SOURCE.replace("&", "&amp;")}"' in html
    assert f'href="{CITED}"' in html
    assert again.request().body == later


@each
@pytest.mark.req("D-60", "D-66")
def test_cassettes_files_history_and_forks_keep_all_of_it(
    openai: OpenAI, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    agent = scout(tools=("web_search", "look"))
    axe_nb.define(agent)
    with axe_nb.cassette("a.axe", "record"):
        first = axe_nb.run("scout", "How high?", display=False, stream=streams)
    with axe_nb.cassette("a.axe", "replay"):
        played = axe_nb.run("scout", "How high?", display=False, stream=streams)
    assert len(openai.requests) == 2
    first.save("run.axe")
    try:
        kept = axe_nb.load(axe_nb.history()[-1].id)
    finally:
        find_writer(history_path()).flush()
    for one in (played, kept, axe_nb.load("run.axe")):
        assert isinstance(one, RunResult)
        assert (one.log, one.sources) == (first.log, first.sources)
        assert one.messages == first.messages
    assert RunResult.from_dict(json.loads(json.dumps(first.to_dict(full=True)))) == first
    forked = first.fork("0/2", prompt="Sure?", display=False)
    assert (forked.text, forked.error) == ("By Responses.", None)
    assert forked.log[0].server_calls == first.log[0].server_calls
    assert openai.requests[-1][1]["input"][1:5] == [
        {**item, "arguments": '{"at":"a"}'} if item["type"] == "function_call" else item
        for item in openai.said[0]
    ]
