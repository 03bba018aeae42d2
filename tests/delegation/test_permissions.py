"""What tools may do: modes, `[permissions]`, a person who is asked, and none of it by nesting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call, script
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import Decision
from axe_nb.tools.tool import Effect, Tool, ToolContext
from tests.delegation.approvals import Person, run_with, tools, uses
from tests.delegation.chains import by
from tests.delegation.copies import boss, offered, play, recorded, results, told, tool
from tests.engine.in_process import heard, said, stage, texts


def attempt(effect: Effect, option: Any = None, **fields: Any) -> RunResult:
    """A run without anybody to ask, whose agent tries the tool of that effect.

    `option` is a mode that the run is started with; None = that of the agent.
    """
    lead = boss({}, uses(effect), **fields)
    options = {"mode": option} if option else {}
    return stage(lead).play(tools=(*tools([]), *lead.tools), **options)


PLAN = "it is not allowed in plan mode; "

DENIALS: list[tuple[Effect, Any, dict[str, Any], str]] = [
    ("write", None, {}, "it needs approval, and no one can be prompted here; "
     'set mode = "auto" or permissions.write_it = "allow" in agent "lead"'),
    ("write", None, {"mode": "plan"},
     f'{PLAN}set mode = "ask" or mode = "auto" in agent "lead"'),
    ("read", None, {"permissions": {"read_it": "deny"}},
     'permissions.read_it is "deny" in agent "lead"; set it to "allow" or "ask"'),
    ("write", "plan", {}, f"{PLAN}start the run with --mode ask or --mode auto "
     '(in Python: mode="ask")'),
    ("write", "ask", {}, "it needs approval, and no one can be prompted here; "
     'set permissions.write_it = "allow" in agent "lead", '
     'or start the run with --mode auto (in Python: mode="auto")'),
]  # fmt: skip


@pytest.mark.parametrize(("effect", "option", "fields", "reason"), DENIALS)
@pytest.mark.req("D-19")
def test_a_denial_names_the_agent_and_the_key_or_option_to_change(
    effect: Effect, option: Any, fields: Any, reason: str
) -> None:
    denied = f"Error: permission denied for {effect}_it: {reason}"
    assert told(attempt(effect, option, **fields)) == denied


BOTH = {"file_ops": "allow", "file_ops_readonly": "deny"}


@pytest.mark.parametrize(
    ("name", "permissions", "key"),
    [
        ("run_command", {"terminal": "deny"}, "terminal"),
        ("write_file", {"file_ops": "deny"}, "file_ops"),
        ("grep", {"search_files": "deny"}, "search_files"),
        ("run_command", {"run_command": "deny", "terminal": "allow"}, "run_command"),
        ("write_file", {"file_ops": "allow", "read_file": "deny"}, ""),
        ("write_file", {"file_ops": "deny", "write_file": "allow"}, ""),
        ("list_dir", BOTH, "file_ops_readonly"),
        ("list_dir", dict(reversed(BOTH.items())), "file_ops_readonly"),
    ],
)
@pytest.mark.req("D-20", "D-19")
def test_a_rule_for_an_alias_or_toolset_is_one_for_the_tool_and_the_strictest_counts(
    name: str, permissions: Mapping[str, str], key: str
) -> None:
    """One for the tool itself comes first."""
    result = play({}, call(name), mine=(tool(name, "write"),), mode="auto", permissions=permissions)
    said = f'permissions.{key} is "deny"' if key else f"{name} was used"
    assert said in told(result)


@pytest.mark.parametrize("key", ["run_comand", "writefile", "nonsense"])
@pytest.mark.req("D-27", "D-20")
def test_a_permission_for_a_tool_that_there_is_not_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f'unknown tool "{key}" in agent "lead"'):
        attempt("read", permissions={key: "deny"})


@pytest.mark.req("O-32", "D-19", "D-44")
def test_in_plan_mode_only_harmless_tools_are_offered_and_others_denied() -> None:
    log: list[Request] = []
    asked = [uses("user"), uses("write"), by("spawn_agent", 1), by("delegate_task", 1)]
    result = play(
        {"lead": recorded(log, said(asked, "done"))},
        mine=tools([]),
        tools=("subagent", "spawn_agent", "delegate_task", "ask_user"),
        sub_agents=("helper",),
        mode="plan",
    )
    assert set(offered(log[0])) == {"read_it", "call_agent", "subagent", "ask_user"}
    assert [answer.is_error for answer in heard(result)] == [True] * 4
    assert all("it is not allowed in plan mode" in text for text in texts(result))
    assert result.children == ()
    assert result.tool_calls == 4


def write_once(then: Any = results) -> dict[str, Any]:
    return {"lead": said(call("write_it", path="a"), then)}


@pytest.mark.req("D-19", "D-48")
def test_a_yes_lets_the_call_run_and_a_no_does_not() -> None:
    used: list[str] = []
    person = Person(Decision("yes"), Decision("no"), Decision("no", "not this one"))
    calls = (uses("write"), uses("write"), uses("write"))
    result = run_with(person, boss({}, *calls), tools=tools(used))
    assert texts(result) == [
        "used",
        "Error: permission denied for write_it by the user",
        "Error: permission denied for write_it by the user: not this one",
    ]
    assert used == ["lead write"]
    question = person.questions[0]
    assert (question.agent, question.tool, question.run) == ("lead", "write_it", "0")


@pytest.mark.req("D-19", "D-48")
def test_always_is_for_this_tool_in_this_run() -> None:
    person = Person(Decision("always"), Decision("no"))
    other = tool("erase_it", "write")
    script = said(uses("write"), [uses("write"), call("erase_it")], results)
    result = run_with(person, boss({"lead": script}), tools=(*tools([]), other))
    assert texts(result) == ["used"]
    assert [a.is_error for a in heard(result, 1)] == [False, True]
    assert len(person.questions) == 2


@pytest.mark.req("D-48", "D-19")
def test_the_person_sees_what_would_change_and_edited_arguments_are_what_runs() -> None:
    seen: list[Mapping[str, Any]] = []

    async def write(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        seen.append(arguments)
        return "written"

    def preview(arguments: Mapping[str, Any], folder: Path) -> str:
        return f"+ {arguments['path']}"

    person = Person(Decision("edit", arguments={"path": "b"}))
    one = Tool("write_it", "Writes.", {}, write, "write", preview=preview)
    result = run_with(person, boss(write_once()), tools=(one,))
    assert seen == [{"path": "b"}]
    assert (person.questions[0].arguments, person.questions[0].detail) == ({"path": "a"}, "+ a")
    assert result.ok


@pytest.mark.req("D-48")
def test_the_clock_stands_still_while_a_person_thinks() -> None:
    person = Person(Decision("yes"), seconds=2.5)
    result = run_with(person, boss(write_once()), tools=tools([]), timeout=2)
    assert result.status == "completed"
    slow = Person(Decision("yes"), seconds=1)

    async def hang(ctx: ToolContext) -> str:
        await asyncio.sleep(20)
        return "never"

    late = run_with(slow, boss(write_once()), tools=[tool("write_it", "write", hang)], timeout=1)
    assert (late.status, late.error) == ("timeout", "timeout after 1s")
    assert late.duration_ms >= 1900


@pytest.mark.req("D-20", "D-48")
def test_a_model_can_ask_the_person() -> None:
    person = Person(Decision("text", "the blue one"))
    lead = boss({}, call("ask_user", question="Which one?"), tools=("ask_user",))
    result = run_with(person, lead)
    assert told(result) == "the blue one"
    assert person.questions[0].detail == "Which one?"
    silent = run_with(Person(Decision("text", " ")), lead)
    assert told(silent) == "(The user gave no answer.)"


@pytest.mark.req("D-19", "D-20")
def test_where_nobody_can_be_asked_the_model_hears_why() -> None:
    result = play({}, call("ask_user", question="Which one?"), tools=("ask_user",), mode="auto")
    [answer] = heard(result)
    assert answer.is_error
    assert answer.content.startswith(
        "Error: permission denied for ask_user: no one can be prompted"
    )
    blank = play({}, call("ask_user"), tools=("ask_user",))
    assert told(blank) == "Error: question cannot be empty"


def test_a_call_denied_as_no_one_can_be_asked_is_a_warning(project: Path) -> None:
    script("writer")(said([call("write_file", path="a.txt", content="x")] * 2, "Done."))
    agent = Agent(name="writer", model="script/writer", tools=("write_file",), mode="ask")
    result = axe_nb.run(agent, "Go")
    assert (result.status, Path("a.txt").exists()) == ("completed", False)
    (warning,) = result.warnings
    assert warning.startswith("write_file was denied: ")
    assert "no one can be prompted here; " in warning


@pytest.mark.req("D-20", "X-40")
def test_a_model_may_call_a_tool_by_its_alias(project: Any) -> None:
    (project / "a.txt").write_text("needle", "utf-8")
    calls = (
        call("search_files", pattern="needle"), call("list_directory"), call("terminal"),
        call("file_ops", path="a.txt"),
    )  # fmt: skip
    result = play({}, *calls, tools=("file_ops_readonly", "grep"))
    grep, listing, terminal, toolset = texts(result)
    assert "a.txt" in grep
    assert "a.txt" in listing
    assert terminal == 'Unknown tool: "terminal"', "what an agent has not, no alias gives it"
    assert toolset == 'Unknown tool: "file_ops"', "it stands for several"


HELPED = {"sub_agents": ("helper",)}
ALL = ("subagent", "spawn_agent", "delegate_task")


@pytest.mark.parametrize(
    ("fields", "offers"),
    [
        ({"tools": ("file_ops_readonly",)}, ["read_file", "list_dir", "find_files"]),
        ({"tools": ("file_ops", "search_files", "grep", "read_file")},
         ["read_file", "list_dir", "find_files", "write_file", "edit_file", "grep"]),
        ({}, []),
        ({"sub_agents_config": SubAgentsConfig(max_depth=2)}, []),
        ({**HELPED, "sub_agents_config": SubAgentsConfig(enabled=False)}, []),
        (HELPED, ["call_agent"]),
        ({**HELPED, "tools": ("call_agent", "subagent")}, ["call_agent", "subagent"]),
        ({"tools": ALL}, [*ALL]),
        ({**HELPED, "tools": (*ALL, "grep"), "sub_agents_config": SubAgentsConfig(enabled=False)},
         ["grep"]),
    ],
)  # fmt: skip
@pytest.mark.req("D-20", "D-44", "O-16", "O-32", "A-9.1", "A-9.2", "A-E2.1")
def test_toolsets_and_ways_to_delegate_are_there_where_they_are_asked_for(
    fields: dict[str, Any], offers: list[str]
) -> None:
    log: list[Request] = []
    play({"lead": recorded(log, said("done"))}, **fields)
    assert offered(log[0]) == offers


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("grpe", 'did you mean "grep"?'),
        ("file_op", 'did you mean "file_ops"?'),
        ("sub_agent", 'did you mean "subagent"?'),
        ("Shell", 'did you mean "run_command"?'),
        ("my_own_function", "decorate your own function with @axe_nb.tool"),
        ("qqq", "known tools: file_ops_readonly, file_ops, read_file, "),
        ("qqq", "in a notebook or in Python, decorate"),
        ("call_agent", "`sub_agents` offers call_agent"),
    ],
)
@pytest.mark.req("D-20", "D-27")
def test_a_tool_that_there_is_not_is_refused_before_a_word_is_sent(name: str, hint: str) -> None:
    log: list[Request] = []
    with pytest.raises(ConfigError) as caught:
        play({"lead": recorded(log, said("done"))}, tools=(name,))
    assert caught.value.message == f'unknown tool "{name}" in agent "lead"'
    assert hint in caught.value.hint
    assert log == []
