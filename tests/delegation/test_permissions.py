"""What tools may do: modes, `[permissions]`, a person who is asked, and none of it by nesting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, Response, RunResult, call, script
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import Decision
from axe_nb.messages import ToolCall
from axe_nb.session.overrides import Overrides
from axe_nb.tools.tool import Effect, Tool, ToolContext
from tests.delegation.approvals import Person, tools, uses
from tests.delegation.chains import by
from tests.delegation.copies import boss, offered, play, recorded, results, said, told, tool
from tests.engine.in_process import ask_session, heard, stage, texts


def attempt(effect: Effect, **fields: Any) -> RunResult:
    """A run without anybody to ask, whose agent tries the tool of that effect."""
    return play({}, uses(effect), mine=tools([]), **fields)


ALONE = {
    "plan": {"read": True, "user": False, "write": False},
    "ask": {"read": True, "user": True, "write": False},
    "auto": {"read": True, "user": True, "write": True},
}
"""Mode → effect → whether the tool may be used where nobody can be asked (D-19)."""


@pytest.mark.req("D-19")
def test_a_denial_names_the_agent_and_the_key_to_change() -> None:
    assert told(attempt("write")) == (
        "Error: permission denied for write_it: "
        "it needs approval, and no one can be prompted here; "
        'set mode = "auto" or permissions.write_it = "allow" in agent "lead"'
    )
    assert told(attempt("write", mode="plan")) == (
        "Error: permission denied for write_it: it is not allowed in plan mode; "
        'set mode = "ask" or mode = "auto" in agent "lead"'
    )
    assert told(attempt("read", permissions={"read_it": "deny"})) == (
        "Error: permission denied for read_it: "
        'permissions.read_it is "deny" in agent "lead"; set it to "allow" or "ask"'
    )


@pytest.mark.req("D-19")
def test_a_denial_by_an_option_names_the_option_and_not_the_file() -> None:
    run = attempt_with(uses("write"), mode="plan")
    assert told(run).endswith(
        "it is not allowed in plan mode; start the run with --mode ask or --mode auto "
        '(in Python: mode="ask")'
    )
    run = attempt_with(uses("write"), mode="ask")
    assert told(run).endswith(
        'set permissions.write_it = "allow" in agent "lead", '
        'or start the run with --mode auto (in Python: mode="auto")'
    )


def attempt_with(
    one: ToolCall, parts: Mapping[str, Any] | None = None, mode: Any = "ask", **fields: Any
) -> RunResult:
    """As `attempt`, with the mode as an option of the run."""
    lead = boss(parts or {}, one, **fields)
    return stage(lead).play(tools=(*tools([]), *lead.tools), mode=mode)


@pytest.mark.parametrize(
    ("mode", "written", "effect", "allowed"),
    [
        ("ask", "allow", "write", True),
        ("ask", "deny", "user", False),
        ("ask", "ask", "read", False),
        ("auto", "deny", "write", False),
        ("auto", "ask", "write", False),
        ("plan", "allow", "write", False),
        ("plan", "deny", "read", False),
    ],
)
@pytest.mark.req("D-19", "O-36")
def test_a_written_permission_counts_over_the_mode_but_plan_stays_plan(
    mode: Any, written: str, effect: Effect, allowed: bool
) -> None:
    result = attempt(effect, mode=mode, permissions={f"{effect}_it": written})
    assert (told(result) == "used") is allowed


@pytest.mark.parametrize(
    ("permissions", "key"),
    [
        ({"terminal": "deny"}, "permissions.terminal"),
        ({"file_ops": "deny"}, ""),
        ({"search_files": "deny"}, ""),
        ({"run_command": "deny", "terminal": "allow"}, "permissions.run_command"),
    ],
)
@pytest.mark.req("D-20", "D-19")
def test_permissions_may_be_written_for_aliases_and_toolsets(
    permissions: Mapping[str, str], key: str
) -> None:
    """A rule for an alias is a rule for the tool; one for the tool itself comes first."""
    named = {"terminal": "run_command", "file_ops": "write_file", "search_files": "grep"}
    name = named[next(iter(permissions), "")] if not key else "run_command"

    async def pretend(ctx: ToolContext) -> str:
        return "used"

    stand_in = Tool(name, "A stand-in.", {}, lambda ctx, _: pretend(ctx), "write")
    result = play({}, call(name), mine=(stand_in,), mode="auto", permissions=permissions)
    assert f'{key or "permissions." + next(iter(permissions))} is "deny"' in told(result)


@pytest.mark.req("D-20")
def test_of_several_rules_for_a_tool_the_strictest_counts_unless_one_has_its_name() -> None:
    stand_in = (Tool("write_file", "A stand-in.", {}, lambda ctx, _: pretend(), "write"),)

    async def pretend() -> str:
        return "used"

    def outcome(**permissions: str) -> str:
        one = play({}, call("write_file"), mine=stand_in, mode="auto", permissions=permissions)
        return told(one)

    assert outcome(file_ops="allow", read_file="deny") == "used"
    assert "denied" in outcome(file_ops="deny")
    assert outcome(file_ops="deny", write_file="allow") == "used"
    both = {"file_ops": "allow", "file_ops_readonly": "deny"}
    for permissions in (both, dict(reversed(both.items()))):
        one = play({}, call("list_dir"), tools=("list_dir",), permissions=permissions)
        assert 'permissions.file_ops_readonly is "deny"' in told(one)


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


def asking(
    person: Person, lead: Agent, mine: Sequence[Tool] = (), timeout: float = 20.0
) -> RunResult:
    """The agent's run, with a person at hand."""
    made = stage(lead)
    overrides = Overrides(tools=(*mine, *lead.tools), timeout=timeout)
    return asyncio.run(
        ask_session(
            made.session, lead, "go", overrides, made.events.append, ask_person=person.ask_person
        )
    )


def write_once(then: Any = results) -> dict[str, Any]:
    return {"lead": said(call("write_it", path="a"), then)}


@pytest.mark.req("D-19", "D-48")
def test_a_yes_lets_the_call_run_and_a_no_does_not() -> None:
    used: list[str] = []
    person = Person(Decision("yes"), Decision("no"), Decision("no", "not this one"))
    calls = (uses("write"), uses("write"), uses("write"))
    result = asking(person, boss({}, *calls), tools(used))
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
    result = asking(person, boss({"lead": script}), (*tools([]), other))
    assert texts(result) == ["used"]
    assert [a.is_error for a in heard(result, 1)] == [False, True]
    assert len(person.questions) == 2


@pytest.mark.req("D-48")
def test_edited_arguments_are_what_runs() -> None:
    seen: list[Mapping[str, Any]] = []

    async def write(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        seen.append(arguments)
        return "written"

    person = Person(Decision("edit", arguments={"path": "b"}))
    lead = boss(write_once())
    result = asking(person, lead, (Tool("write_it", "Writes.", {}, write, "write"),))
    assert seen == [{"path": "b"}]
    assert person.questions[0].arguments == {"path": "a"}
    assert result.ok


@pytest.mark.req("D-48", "D-19")
def test_the_person_sees_what_would_change() -> None:
    async def write(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        return "written"

    one = Tool(
        "write_it", "Writes.", {}, write, "write", preview=lambda a, folder: f"+ {a['path']}"
    )
    person = Person(Decision("yes"))
    asking(person, boss(write_once()), (one,))
    assert person.questions[0].detail == "+ a"


@pytest.mark.req("D-48", "D-2")
def test_stop_ends_the_run_as_cancelled() -> None:
    used: list[str] = []
    result = asking(Person(Decision("stop")), boss(write_once("never said")), tools(used))
    assert (result.status, result.error) == ("cancelled", "stopped by the user at a prompt")
    assert used == []
    assert result.turns == 1


@pytest.mark.req("D-48")
def test_the_clock_stands_still_while_a_person_thinks() -> None:
    person = Person(Decision("yes"), seconds=2.5)
    result = asking(person, boss(write_once()), tools([]), timeout=2)
    assert result.status == "completed"
    slow = Person(Decision("yes"), seconds=1)

    async def hang(ctx: ToolContext) -> str:
        await asyncio.sleep(20)
        return "never"

    late = asking(slow, boss(write_once()), (tool("write_it", "write", hang),), timeout=1)
    assert (late.status, late.error) == ("timeout", "timeout after 1s")
    assert late.duration_ms >= 1900


@pytest.mark.req("D-20", "D-48")
def test_a_model_can_ask_the_person() -> None:
    person = Person(Decision("text", "the blue one"))
    lead = boss({}, call("ask_user", question="Which one?"), tools=("ask_user",))
    result = asking(person, lead)
    assert told(result) == "the blue one"
    assert person.questions[0].detail == "Which one?"
    silent = asking(Person(Decision("text", " ")), lead)
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
    @script("writer")
    def writer(request: Request) -> Any:
        if request.turn == 1:
            written = {"path": "a.txt", "content": "x"}
            return Response("", (call("write_file", **written), call("write_file", **written)))
        return "Done."

    agent = Agent(name="writer", model="script/writer", tools=("write_file",), mode="ask")
    result = axe_nb.run(agent, "Go")
    assert (result.status, Path("a.txt").exists()) == ("completed", False)
    (warning,) = result.warnings
    assert warning.startswith("write_file was denied: ")
    assert "no one can be prompted here; " in warning


def names(**fields: Any) -> list[str]:
    """Names of the tools that an agent is told of."""
    log: list[Request] = []
    play({"lead": recorded(log, said("done"))}, **fields)
    return offered(log[0])


@pytest.mark.req("D-20")
def test_toolsets_and_aliases_stand_for_their_tools() -> None:
    assert names(tools=("file_ops_readonly",)) == ["read_file", "list_dir", "find_files"]
    assert names(tools=("file_ops", "search_files", "grep", "read_file")) == [
        "read_file", "list_dir", "find_files", "write_file", "edit_file", "grep",
    ]  # fmt: skip


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


@pytest.mark.req("D-44", "O-16", "O-32")
def test_each_way_to_delegate_is_there_where_it_is_asked_for() -> None:
    assert names() == []
    assert names(sub_agents=("helper",)) == ["call_agent"]
    assert names(sub_agents=("helper",), tools=("call_agent", "subagent")) == [
        "call_agent",
        "subagent",
    ]
    assert names(tools=("subagent", "spawn_agent", "delegate_task")) == [
        "subagent",
        "spawn_agent",
        "delegate_task",
    ]
    off = SubAgentsConfig(enabled=False)
    every = ("subagent", "spawn_agent", "delegate_task", "grep")
    assert names(sub_agents=("helper",), tools=every, sub_agents_config=off) == ["grep"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("grpe", 'did you mean "grep"?'),
        ("file_op", 'did you mean "file_ops"?'),
        ("sub_agent", 'did you mean "subagent"?'),
        ("my_own_function", "decorate your own function with @axe_nb.tool"),
        ("bash", 'did you mean "run_command"?'),
        ("Shell", 'did you mean "run_command"?'),
        ("web_fetch", 'did you mean "fetch"?'),
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
