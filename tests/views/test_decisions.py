"""Questions to the person, what was decided, and calls that were cut short, as the tree has it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult, call, script
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import ApprovalRequest, Decision, Question
from axe_nb.events import PersonAsked
from axe_nb.secrets import remember
from axe_nb.session.overrides import Overrides
from axe_nb.session.prompts import MOST, describe
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.tools.tool import Tool, ToolContext
from axe_nb.views.html import format_question, twin
from axe_nb.views.outline import as_text
from tests.delegation.approvals import Person
from tests.delegation.copies import said
from tests.engine.in_process import agent, ask_session, stage


async def echo(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    return f"ran {arguments['line']}"


ECHO = Tool("echo", "Echo.", {}, echo, "write")


def run(person: Person | None) -> RunResult:
    lead = agent("lead", said(call("echo", line="models"), "done"), tools=("echo",))
    overrides, own = Overrides(tools=(ECHO, "echo")), stage(lead).session
    ask_person = person.ask_person if person else None
    return asyncio.run(ask_session(own, lead, "go", overrides, ask_person=ask_person))


@pytest.mark.req("D-48")
def test_the_tree_shows_the_call_that_ran_and_marks_it_as_edited() -> None:
    result = run(Person(Decision("edit", arguments={"line": "persons"})))
    text = as_text(result)
    assert "(edited by you) persons" in text
    assert "models" not in text
    assert "(edited by you)" in twin(result)["text/html"]
    [done] = result.log[0].results
    assert done.edited == {"line": "persons"}
    assert result.log[0].calls[0].arguments == {"line": "models"}, "the conversation is the model's"


@pytest.mark.req("D-56", "D-19")
def test_a_denied_call_is_visible_in_its_row_and_in_the_line_of_the_root() -> None:
    text = as_text(run(None))
    assert "1 tool call (1 denied)" in text
    assert "failed" not in text.split("\n\n")[0]
    assert "1 denied" in twin(run(Person(Decision("no"))))["text/html"]
    assert "denied" not in as_text(run(Person(Decision("yes"))))


DENIED = "1 sub-agent · 1 tool call (1 denied)"


@pytest.mark.req("D-56")
@pytest.mark.parametrize(
    ("ask", "decision", "told"),
    [
        ("deny", Decision("no"), DENIED),
        ("person", Decision("no"), DENIED),
        ("person", Decision("yes"), "✓ child · done · you allowed 1 call"),
        ("person", Decision("edit", arguments={"line": "y"}), "✓ child · done · you edited 1 call"),
    ],
)
def test_what_a_child_was_denied_or_allowed_is_told(ask: Any, decision: Any, told: str) -> None:
    child = agent("child", said(call("echo", line="x"), "done"), tools=("echo",))
    asks = said(call("call_agent", agent="child", task="go"), "done")
    config = SubAgentsConfig(ask=ask)
    lead = agent("lead", asks, sub_agents=("child",), sub_agents_config=config)
    own, person = stage(lead, child).session, Person(decision)
    tools = Overrides(tools=(ECHO,))
    result = asyncio.run(ask_session(own, lead, "go", tools, ask_person=person.ask_person))
    assert [q.run for q in person.questions] == (["0.1"] if ask == "person" else [])
    assert told in as_text(result)


DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-calm\n+storm"
EDIT = ApprovalRequest("0.1", "writer", "edit_file", {"path": "x"}, DIFF, call_id="a")


@pytest.mark.req("D-48", "D-56")
def test_the_event_tells_the_question_its_diff_and_its_letters() -> None:
    asked = describe(EDIT)
    assert asked.words == "may it call edit_file on x?"
    assert [letter for letter, _ in asked.choices] == ["y", "a", "e", "n", "s"]
    assert asked.prompt.endswith("[s]top: ")
    assert asked.arguments == '{"path": "x"}'
    html = format_question(asked)
    assert re.findall(r"class='(\S*)'>([^<]+)", html) == [
        ("axe-nb-place", "x, line 1"), ("axe-nb-gone", "-calm"), ("axe-nb-new", "+storm")
    ]  # fmt: skip
    assert re.findall("<button [^>]*value='(.)'>", html) == ["y", "a", "e", "n", "s"]


@pytest.mark.req("D-48")
def test_what_needs_a_whole_word_or_has_a_secret_has_no_button_for_it() -> None:
    def shell(command: str, **fields: Any) -> PersonAsked:
        return describe(ApprovalRequest("0", "w", "shell", {"command": command}, **fields))

    assert "y" not in dict(shell("a\n" * 60, whole="command").choices)
    remember("hunter2-hunter2-hunter2")
    secret = shell("hunter2-hunter2-hunter2")
    assert "hunter2-hunter2" not in repr(secret)
    assert secret.choices == ()
    long = describe(ApprovalRequest("0", "w", "f", {"x": "y" * 99_999}, "z" * 99_999))
    assert max(map(len, (long.text, long.diff, long.arguments))) < MOST + 100  # and the mark
    assert "\n  : " not in long.text, "a page wraps lines itself"


RAN = "interrupted while it ran"


async def write(path: str) -> str:
    await asyncio.to_thread(Path(path).write_text, "paid")
    await asyncio.sleep(20)
    return "written"


def writer(files: str, **fields: Any) -> Agent:
    """An agent that writes each of the files in a call of its own, in its first turn."""
    script("lead")(lambda request: [call("write", path=f"{name}.txt") for name in files])
    tools = [axe_nb.tool(write, writes=True)]
    return Agent("lead", "script/lead", tools=tools, **{"mode": "auto", **fields})


@pytest.mark.req("D-8", "D-10")
def test_a_call_that_was_cut_while_it_ran_is_not_called_not_run(project: Path) -> None:
    one_by_one = writer("ab", sub_agents_config=SubAgentsConfig(parallel=False))
    result = axe_nb.run(one_by_one, "go", timeout=0.5, display=False)
    assert (result.status, Path("a.txt").read_text()) == ("timeout", "paid")
    assert not Path("b.txt").exists()
    text = as_text(result)
    assert [line.strip() for line in text.splitlines()[-2:]] == [
        f"⊘ write a.txt · {RAN}", "– write b.txt · not run",
    ]  # fmt: skip
    assert "2 tool calls (1 interrupted, 1 not run)" in text
    assert RAN in twin(result)["text/html"]


@pytest.mark.req("D-8", "D-10")
def test_a_call_that_was_cut_while_it_waited_for_a_yes_did_not_run(project: Path) -> None:
    handle = session.start(RunRequest(agent=writer("a", mode="ask"), prompt="go"))

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
