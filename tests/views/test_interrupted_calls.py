"""Calls that an interrupt or a timeout cut short: what ran had an effect, and the tree says so."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult, SubAgentsConfig, call, script
from axe_nb.engine.person import Decision, Question
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.views.html import twin
from axe_nb.views.outline import as_text
from axe_nb.views.transcript import Transcript

pytestmark = pytest.mark.req("D-8", "D-10")

RAN = "interrupted while it ran"


async def write(path: str) -> str:
    await asyncio.to_thread(Path(path).write_text, "paid")
    await asyncio.sleep(20)
    return "written"


def cut(timeout: float = 0.5, **fields: Any) -> RunResult:
    """The result of a run whose time is up while the first of its two calls runs."""
    script("lead")(lambda request: [call("write", path=f"{name}.txt") for name in "ab"])
    lead = Agent(
        "lead", "script/lead", tools=[axe_nb.tool(write, writes=True)], mode="auto", **fields
    )
    return axe_nb.run(lead, "go", timeout=timeout, display=False)


def test_a_call_that_was_cut_while_it_ran_is_not_called_not_run(project: Path) -> None:
    result = cut(sub_agents_config=SubAgentsConfig(parallel=False))
    assert (result.status, Path("a.txt").read_text()) == ("timeout", "paid")
    assert not Path("b.txt").exists()
    text = as_text(result)
    assert [line.strip() for line in text.splitlines()[-2:]] == [
        f'⊘ write · {{"path": "a.txt"}} · {RAN}', '– write · {"path": "b.txt"} · not run',
    ]  # fmt: skip
    assert "2 tool calls (1 interrupted, 1 not run)" in text
    assert RAN in twin(result)["text/html"]


def test_a_live_tree_says_so_too(project: Path) -> None:
    script("lead")(lambda request: call("write", path="a.txt"))
    lead = Agent("lead", "script/lead", tools=[axe_nb.tool(write, writes=True)], mode="auto")
    events: list[Any] = []
    handle = session.start(RunRequest(agent=lead, prompt="go", overrides=Overrides(timeout=0.5)))
    asyncio.run(handle.execute(events.append))
    transcript = Transcript()
    for event in events:
        transcript.apply(event, 0.0)
    assert transcript.root
    assert [call.state for turn in transcript.root.turns for call in turn.calls] == ["cancelled"]


def test_a_call_that_was_cut_while_it_waited_for_a_yes_did_not_run(project: Path) -> None:
    script("lead")(lambda request: call("write", path="a.txt"))
    lead = Agent("lead", "script/lead", tools=[axe_nb.tool(write, writes=True)], mode="ask")
    handle = session.start(RunRequest(agent=lead, prompt="go"))

    async def person(question: Question) -> Decision:
        handle.cancel()
        await asyncio.sleep(20)
        return Decision("yes")

    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(handle.execute(lambda event: None, person))
    assert time.monotonic() - began < 10
    assert handle.finished
    text = as_text(handle.finished)
    assert "1 tool call (1 not run)" in text
    assert RAN not in text
