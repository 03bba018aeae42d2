"""`web_search` over OpenAI's Responses API, by a server that refuses what OpenAI refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.engine.person import ApprovalRequest, Decision
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
