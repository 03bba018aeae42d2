"""Events folded into a tree, and the text twin of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent, ProviderError, Request, Response, Usage, call
from axe_nb.events import (
    Event,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.scripting.rules import functions
from axe_nb.views.html import twin
from axe_nb.views.outline import Outline, as_lines, as_text
from axe_nb.views.transcript import Node, Transcript
from tests.engine.in_process import Stage, agent, ask, lead, stage
from tests.views.runs import ask as delegate
from tests.views.runs import done, turn


@pytest.fixture(autouse=True)
def no_functions() -> Iterator[None]:
    functions.clear()
    yield
    functions.clear()


def folded(events: list[Event]) -> Node:
    """The tree that the events make, one second apart."""
    transcript = Transcript()
    for second, event in enumerate(events):
        transcript.apply(event, float(second))
    return transcript.whole


def slow(name: str, seconds: float, text: str = "late") -> Agent:
    async def model(_: Request) -> str:
        await asyncio.sleep(seconds)
        return text

    return agent(name, model)


def three() -> Stage:
    """A lead with three children at once: one fine, one that fails, one too slow."""
    return stage(
        lead(
            ask("reader", "List every TOML key that the loader accepts"),
            ask("ghost"),
            ask("sleeper", "Wait"),
            then="There are **27** keys.",
            timeout=0.5,
        ),
        agent("reader", "27 keys"),
        slow("sleeper", 5),
    )


TEXT = """\
There are **27** keys.

✓ lead · script/lead · completed · 2 turns · 2 sub-agents (1 failed: 1 timeout) · \
1 tool call (1 failed) · N tokens · 1 warning
! warning:
  sub-agent "ghost" cannot be called: agent config not found: ghost; create it with \
`axe-nb agents init ghost`, in a notebook `%axe init ghost`; register an Agent in a variable \
with axe_nb.define(agent)
  ✓ reader · 27 keys · N tokens
    task: List every TOML key that the loader accepts
  ✗ ghost work → Error: sub-agent "ghost" failed - failed to load agent "ghost": agent config not \
found: ghost. You may retry or proceed without this result. · failed
    arguments: {"agent": "ghost", "task": "work"}
  ◷ sleeper · timeout after 0.5s · retry %%axe --from r@0.3/1
    task: Wait"""


@pytest.mark.req("A-D5", "D-14")
def test_the_text_twin_has_the_answer_first_and_then_the_tree(project: Path) -> None:
    text = as_text(three().play(), name="r")
    assert re.sub(r"[\d,]+ tokens", "N tokens", text) == TEXT


def endless(request: Request) -> Any:
    return call("call_agent", agent="reader", task=f"again {request.turn}")


def refused(_: Request) -> str:
    raise ProviderError("overloaded", "Overloaded", hint="try again later")


SHAPES: dict[str, Any] = {
    "three children": three,
    "one by one": lambda: stage(
        lead(ask("reader", "a"), ask("reader", "b"), parallel=False), agent("reader", "27 keys")
    ),
    "no end": lambda: stage(
        agent("lead", endless, sub_agents=("reader",)), agent("reader", "27 keys")
    ),
    "a cut reply": lambda: stage(agent("lead", lambda _: Response("so f", (), "length"))),
    "a failing server": lambda: stage(lead(ask("reader")), agent("reader", refused)),
    "a failing root": lambda: stage(agent("lead", refused)),
    "unknown tool": lambda: stage(lead(call("rm", path="/"), then="I see.")),
    "a subagent and its summary": lambda: stage(
        agent(
            "lead",
            lambda r: (
                call("subagent", label="scout", task_prompt="look")
                if r.turn == 1 and "look" not in r.last
                else "summed up"
            ),
            tools=("subagent",),
        )
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_folding_the_events_gives_what_the_result_gives(shape: str, project: Path) -> None:
    made: Stage = SHAPES[shape]()
    result = made.play()
    live = "\n".join(as_lines(Outline(folded(made.events), "r")))
    assert live == as_text(result, name="r")


def test_a_cancelled_run_keeps_what_was_finished(project: Path) -> None:
    made = stage(
        lead(ask("reader"), ask("sleeper")), agent("reader", "27 keys"), slow("sleeper", 5)
    )

    async def stop_when_one_has_ended() -> None:
        running = asyncio.create_task(made.ask())
        known = (ToolFinished, TurnStarted)
        while sum(isinstance(e, known) for e in made.events) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(stop_when_one_has_ended())
    result = made.session.last
    assert result
    text = as_text(result, name="r")
    assert "\n".join(as_lines(Outline(folded(made.events), "r"))) == text
    assert "⊘ lead · script/lead · cancelled · 1 turn" in text
    assert "  ✓ reader · 27 keys · 3 tokens\n    task: work\n" in text
    assert "  ⊘ sleeper · work · cancelled" in text


def test_the_seconds_that_spawn_agent_tells_its_model_are_masked_where_they_are_quoted() -> None:
    own = "It took 3 tool calls, 1.2s; 3.5s."
    spawned = ToolCall("c", "spawn_agent", {"task": "look"})
    log = (turn(1, spawned, text=own, results=["3 tool calls, 1.2s\n\nIt took 3.5s."]), LAST)
    text = as_text(done(text=own, log=log))
    assert text.startswith("It took 3 tool calls, …s; 3.5s.\n")
    assert "3 tool calls, …s\n" in text
    assert "It took 3.5s." in text


LAST = turn(2, text="ok")


POINTER = re.compile(r"… ([\d,]+) more characters?: (\S+)")


def test_a_long_text_is_cut_with_a_pointer_to_the_rest(project: Path) -> None:
    long = "x" * 3000
    made = stage(lead(ask("reader", long), then="y" * 30_000), agent("reader", "z" * 3000))
    result = made.play()
    found = POINTER.findall(as_text(result, name="r"))
    whole = [eval(path, {"r": result}) for _, path in found]
    assert whole == [result.text, f"Task: {long}", result.children[0].text]
    left = [int(count.replace(",", "")) for count, _ in found]
    assert all(0 < size < len(text) for size, text in zip(left, whole, strict=True))


def test_a_long_run_points_to_what_its_calls_gave_back_and_quotes_the_rest() -> None:
    log = [
        turn(n, ToolCall(f"c{n}", "read_file", {"path": "a"}), results=["fine " * 400])
        for n in range(1, 41)
    ]
    log[3] = replace(log[3], results=(ToolResult("c4", "Error: gone", is_error=True),))
    shown = as_text(done(log=(*log, LAST)))
    assert "fine fine" not in shown
    assert len(shown) < 4000
    assert "  ✗ read_file a → Error: gone · failed" in shown


@pytest.mark.req("D-31")
def test_warnings_stand_right_under_the_summary() -> None:
    many = tuple(f"context file {n} left out" for n in range(7))
    lines = as_text(done(warnings=many), name="r").split("\n")
    assert lines[2] == "✓ lead · script/x · completed · 7 warnings"
    assert lines[3] == "! warning: context file 0 left out"
    assert lines[8] == "! warning: 2 more warnings: r.warnings"
    assert len(lines) == 9


@pytest.mark.req("D-34", "O-12", "X-22")
def test_a_childs_metadata_and_files_are_shown() -> None:
    child = done(
        agent="scout", id="0.1", call_id="c", text="ok", task="look", prompt="look",
        metadata={
            "task_id": "0.1", "depth": "1", "token_estimate": "9", "subagent_label": "scout",
            "completion_status": "complete", "duration_ms": "17",
        },
        files_read=("a.md", "b.md"), files_modified=("c.md",),
    )  # fmt: skip
    asked = ToolCall("c", "subagent", {"label": "scout", "task_prompt": "look"})
    text = as_text(done(log=(turn(1, asked, results=["ok"]), LAST), children=(child,)))
    assert "noted: subagent_label scout · completion_status complete\n" in text
    assert "read: a.md, b.md\n" in text
    assert "changed: c.md\n" in text


PEEK = (ToolCall("p", "peek"),)
ASK = (ToolCall("c", "call_agent", {"agent": "child", "task": "x"}),)


def opened(run: str, parent: str = "", call_id: str = "") -> list[Event]:
    return [
        RunStarted(run, parent, call_id, f"agent{run}", "script/x", run.count("."), "x", "x"),
        TurnStarted(run, 1, 1, 0),
    ]


@pytest.mark.req("D-17", "D-15")
def test_nothing_runs_on_below_a_run_that_has_ended() -> None:
    root = folded(
        [
            *opened("0"),
            TurnFinished("0", 1, "", ASK, "calls", Usage(), True),
            ToolStarted("0", ASK[0]),
            *opened("0.1", "0", "c"),
            TurnFinished("0.1", 1, "", PEEK, "calls", Usage(), True),
            ToolStarted("0.1", PEEK[0]),
            TurnStarted("0", 2, 3, 1),
            TurnFinished("0", 2, "So far.", (), "end", Usage(), True, closing=True),
            RunFinished("0", done(status="max_turns", text="So far.")),
        ]
    )
    calls = [call for run in (root, *root.below()) for turn in run.turns for call in turn.calls]
    assert "running" not in {call.state for call in calls}
    [_, child] = [root, *root.below()]
    assert (child.state, child.turns[0].calls[0].state) == ("cancelled", "cancelled")
    assert child.times.ended == root.times.ended


@pytest.mark.req("D-56")
@pytest.mark.parametrize("is_denied", [True, False])
def test_a_denied_or_failed_call_of_a_child_that_went_on_is_seen_without_a_click(
    is_denied: bool,
) -> None:
    refused = ToolResult("w", "Error: cannot", is_error=True, is_denied=is_denied)
    write = turn(1, ToolCall("w", "write_file", {"path": "a"}))
    log = (replace(write, results=(refused,)), LAST)
    child = done(agent="scout", id="0.1", call_id="c", log=log)
    asked = turn(1, delegate("c", "scout", "x"), results=["ok"])
    page = twin(done(log=(asked, LAST), children=(child,)))["text/html"]
    assert ("1 denied" if is_denied else "1 failed") in page
    before, _, _ = page.partition(">write_file")
    assert before.count("<details open") == 3, "root, child and call"
