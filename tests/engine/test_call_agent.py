"""call_agent: what the model is told of it, what a child gets, what comes back, what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent, ProviderError, Request, Response, Usage, call
from axe_nb.delegation import call_agent
from axe_nb.tools.tool import ToolContext
from tests.engine.in_process import (
    agent,
    ask,
    exit_code,
    failed,
    heard,
    keeping,
    lead,
    play,
    said,
    texts,
    tool,
)


@pytest.mark.req("A-D3", "A-6.1", "A-6.2", "A-6.3a", "A-6.3b", "A-6.3c", "A-6.3d", "P-2", "A-D7",
                 "A-6.4")  # fmt: skip
def test_an_agent_with_sub_agents_is_offered_call_agent() -> None:
    sent, boss = keeping("boss", sub_agents=("test-runner", "lint checker"))
    play(boss)
    [offered] = sent[0].tools
    assert offered.name == "call_agent"
    assert offered.description == (
        "Delegate a task to a sub-agent. The sub-agent runs independently with its own context "
        "and returns only its final result. Available agents: test-runner, lint checker"
    )
    assert offered.input_schema() == {
        "type": "object",
        "properties": {
            "agent": {
                "type": "string",
                "description": "Name of the sub-agent to invoke "
                "(must be one of: test-runner, lint checker)",
                "enum": ["test-runner", "lint checker"],
            },
            "task": {"type": "string", "description": "What you need the sub-agent to do"},
            "context": {
                "type": "string",
                "description": "Additional context from your conversation to pass along",
            },
        },
        "required": ["agent", "task"],
    }
    assert list(call_agent.tool(()).parameters) == ["agent", "task", "context"]


@pytest.mark.req("D-71")
def test_the_model_is_told_what_each_sub_agent_is_for() -> None:
    sent, boss = keeping("boss", sub_agents=("tester", "linter", "plain", "gone"))
    tester = agent("tester", "ok", description="Runs the tests\nof one folder")
    linter = agent("linter", "ok", description="Finds " + "mistakes " * 100)
    play(boss, tester, linter, agent("plain", "ok"))
    [offered] = sent[0].tools
    names, *lines = offered.description.split("\n")
    assert names.endswith("Available agents: tester, linter, plain, gone")
    assert lines[0] == "- tester: Runs the tests of one folder"
    assert lines[1].startswith("- linter: Finds mistakes mistakes")
    assert len(lines[1]) <= len("- linter: ") + 300
    assert len(lines) == 2
    assert offered.input_schema()["properties"]["agent"]["enum"] == [
        "tester", "linter", "plain", "gone",
    ]  # fmt: skip


@pytest.mark.req("A-7.3-11", "A-E3.4", "A-E3.5", "D-12", "P-1", "P-3")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Task: count the files"),
        ({"context": ""}, "Task: count the files"),
        ({"context": " \n"}, "Task: count the files"),
        ({"context": None}, "Task: count the files"),
        ({"context": "in src/"}, "Task: count the files\n\nContext:\nin src/"),
        ({"context": {"n": 1}}, 'Task: count the files\n\nContext:\n{"n":1}'),
    ],
)
def test_a_child_is_told_its_task_and_the_context(arguments: dict[str, Any], told: str) -> None:
    sent, child = keeping("child")
    result = play(lead(ask("child", "count the files", **arguments)), child)
    assert [(m.role, m.content) for m in sent[0].messages] == [("user", told)]
    assert result.children[0].task == "count the files"
    assert result.children[0].prompt == told


@pytest.mark.req("A-D4", "A-7.3-8", "A-7.3-12", "D-4", "P-3")
def test_a_child_has_everything_of_its_own_and_nothing_of_its_parents(project: Path) -> None:
    for name in ("parent", "child"):
        (project / name).mkdir()
        (project / name / "note.txt").write_text(f"note of {name}")
        (project / f"{name}.md").write_text(f"skill of {name}")
    boss = lead(ask("child", context="CONTEXT"))
    boss = Agent(**{
        **vars(boss), "system_prompt": "prompt of parent", "skill": str(project / "parent.md"),
        "files": ("*.txt",), "workdir": str(project / "parent"),
        "params": {"temperature": 0.9, "max_tokens": 1},
    })  # fmt: skip
    sent, child = keeping(
        "child", system_prompt="prompt of child", skill=str(project / "child.md"),
        files=("*.txt",), workdir=str(project / "child"), params={"temperature": 0.1},
    )  # fmt: skip
    play(boss, child)
    [request] = sent
    assert request.system == (
        "prompt of child"
        "\n\n---\n\n## Skill\n\nskill of child"
        "\n\n---\n\n## Context Files\n\n### note.txt\n```txt\nnote of child\n```"
    )
    assert (request.model, request.params) == ("child", {"temperature": 0.1})
    assert [m.content for m in request.messages] == ["Task: work\n\nContext:\nCONTEXT"]
    assert not request.tools
    assert "parent" not in str(request)


@pytest.mark.req("A-D5", "A-7.3-15", "D-6", "P-4")
def test_the_parent_hears_the_final_text_and_nothing_else() -> None:
    async def peek(_: ToolContext) -> str:
        return "SECRET FILE"

    first = Response("SECRET THOUGHT", (call("peek"),), "x", Usage(987, 654))
    second = Response("the result", (), "stop", Usage(321, 0))
    child = agent("child", said(first, second), tools=("peek",))
    sent, boss = keeping("boss", ask("child"), "end", sub_agents=("child",))
    result = play(boss, child, tools=(tool("peek", peek),))
    [told] = sent[1].messages[-1].tool_results
    [asked] = sent[1].messages[1].tool_calls
    assert (told.call_id, told.content, told.is_error) == (asked.id, "the result", False)
    assert not [word for word in ("SECRET", "987", "654", "321") if word in str(sent[1])]
    assert result.children[0].tool_calls == 1
    assert result.tool_calls == 1, "the calls of a child are its own"


@pytest.mark.req("A-7.3-6", "A-7.3-7", "A-7.3-10", "A-E7.1", "A-E7.2", "A-E7.3", "A-E2.4",
                 "A-13.2", "A-13.3", "D-7", "A-XN")  # fmt: skip
@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("", 'failed to load agent "child": agent config not found: child. You may retry'),
        ("gpt", 'invalid model for agent "child": invalid model format "gpt": expected '
         "provider/model-name. You may retry"),
        ("/gpt", 'invalid model for agent "child": invalid model format "/gpt": empty provider.'),
        ("openai/", 'invalid model for agent "child": invalid model format "openai/": empty model '
         "name. You"),
        ("openai/gpt", 'no API key for provider "openai": set OPENAI_API_KEY, or api_key under '),
        ("acme/gpt", 'unsupported provider "acme": supported providers are anthropic, '),
        ("script/nothing of that name", "script not found: nothing of that name"),
    ],
)  # fmt: skip
def test_a_child_that_cannot_be_made_is_a_fault_of_the_call_only(
    model: str, why: str, project: Path
) -> None:
    children = [Agent("child", model)] if model else []
    result = play(lead(ask("child"), then="alone"), *children)
    [answer] = heard(result)
    assert answer.is_error
    assert answer.content.startswith(f'Error: sub-agent "child" failed - {why}')
    assert (result.text, exit_code(result)) == ("alone", 0)


PASSING = ("auth", "rate_limit", "server", "overloaded", "bad_request", "timeout")


@pytest.mark.req("A-7.1", "A-7.4", "A-13.1", "A-13.2", "A-13.3", "A-13.4", "A-E7.4", "A-E7.5",
                 "P-8", "P-9", "D-7", "A-C3")  # fmt: skip
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        *((ProviderError(one, "a reason"), f"{one}: a reason") for one in PASSING),
        (ZeroDivisionError("in the model"), "ZeroDivisionError: in the model"),
    ],
)
def test_a_childs_failing_model_is_told_to_the_parent_and_not_tried_again(
    fault: Exception, why: str
) -> None:
    def fail(_: Request) -> str:
        raise fault

    sent, child = keeping("child", fail)
    result = play(lead(ask("child"), then="without"), child)
    [answer] = heard(result)
    assert answer.is_error
    assert why in answer.content
    if isinstance(fault, ProviderError):
        assert answer.content == failed("child", why)
    assert len(sent) == 1
    assert (result.status, result.text, exit_code(result)) == ("completed", "without", 0)
    assert result.children[0].status == "error"


@pytest.mark.req("A-C4", "D-25", "D-53")
def test_agent_files_are_read_anew_for_every_root_and_once_for_its_tree(project: Path) -> None:
    sent, _ = keeping("helper")

    def write(version: int) -> None:
        text = f'name = "helper"\nmodel = "script/helper"\nsystem_prompt = "version {version}"'
        (project / "axe/agents/helper.toml").write_text(text)

    def model(request: Request) -> Any:
        if request.turn > 2:
            return "end"
        write(request.turn)
        return ask("helper")

    write(0)
    boss = agent("boss", model, sub_agents=("helper",))
    play(boss)
    play(boss)
    assert [request.system for request in sent] == [
        "version 0", "version 0", "version 2", "version 2",
    ]  # fmt: skip


@pytest.mark.req("A-E2.3")
def test_a_name_may_stand_there_twice() -> None:
    boss = lead(ask("child"), ask("child"))
    boss = Agent(**{**vars(boss), "sub_agents": ("child", "child")})
    assert texts(play(boss, agent("child", "hi"))) == ["hi", "hi"]
