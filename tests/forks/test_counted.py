"""Exactly what depends on the change of a fork is asked and run again, wherever it is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, Response, RunResult, ToolContext, call, script_server, tool
from axe_nb.recording.fork import make_point
from axe_nb.scripting.wire import Protocol
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from tests.engine.in_process import agent, ask, keeping, lead
from tests.forks.trees import counted_tree, fork, list_sources, play
from tests.protocols import PROTOCOLS

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

CASES: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "root, first turn": (
        "0/1", {"prompt": "Compare well"},
        ["lead 1", "lead 2", "lead 3"], ["file_report", "note start"],
    ),
    "root, middle turn": (
        "0/2", {"prompt": "Be quick"}, ["lead 2", "lead 3"], ["file_report"],
    ),
    "root, last turn": ("0/3", {"system_prompt": "You end."}, ["lead 3"], []),
    "child, first turn": (
        "0.2/1", {"prompt": "Task: Riga"},
        ["lead 2", "lead 3", "town 1", "town 2"], ["file_report", "note Riga"],
    ),
    "child, last turn": (
        "0.2/2", {"system_prompt": "You are Rome."},
        ["lead 2", "lead 3", "town 2"], ["file_report"],
    ),
    "child, last turn, the same answer": ("0.3/2", {}, ["town 2"], []),
    "child, a given reply": (
        "0.2/2", {"reply": "Rome is fine"}, ["lead 2", "lead 3"], ["file_report"],
    ),
}  # fmt: skip


@every_protocol
@pytest.mark.parametrize("case", CASES)
@pytest.mark.req("D-66", "D-59")
def test_a_fork_asks_only_what_depends_on_its_change(protocol: Protocol, case: str) -> None:
    place, changes, asked, ran = CASES[case]
    with counted_tree(protocol) as (run, counted):
        fork = run.fork(place, display=False, **changes)
        assert counted.take() == (asked, ran)
    assert fork.ok
    assert fork.warnings == ()
    assert fork.origin == place
    live = [at for at, source in list_sources(fork).items() if not source]
    assert len(live) == len(asked)
    assert list_sources(fork).keys() == list_sources(run).keys()
    assert (fork.text != run.text) is bool(changes)
    if "reply" in changes:
        assert list_sources(fork)[place] == "given"
        assert (fork.children[0].text, fork.children[0].log[1].usage.total) == ("Rome is fine", 0)


@every_protocol
@pytest.mark.req("D-66")
def test_results_are_exchanged_and_the_turn_that_asked_for_them_stays(protocol: Protocol) -> None:
    with counted_tree(protocol) as (run, counted):
        rome = run.log[0].calls[1].id
        fork = run.fork("0/1", results={rome: "Rome is closed", 3: "Oslo too"}, display=False)
        assert counted.take() == (["lead 2", "lead 3"], ["file_report"])
    assert [result.content for result in fork.log[0].results] == [
        "noted start", "Rome is closed", "Oslo too",
    ]  # fmt: skip
    assert [result.note for result in fork.log[0].results] == ["", "given", "given"]
    assert fork.children == ()
    assert "Rome is closed" in fork.text
    assert list_sources(fork) == {"0/1": "recorded", "0/2": "", "0/3": ""}


@every_protocol
@pytest.mark.req("D-66")
def test_the_calls_of_a_given_reply_are_made(protocol: Protocol) -> None:
    with counted_tree(protocol) as (run, counted):
        calls = (call("note", what="this"), call("call_agent", agent="town", task="Oslo"))
        fork = run.fork("0/1", reply=Response("Only this.", calls), display=False)
        assert counted.take() == (["lead 2", "lead 3"], ["file_report", "note this"])
    assert [child.id for child in fork.children] == ["0.2"]
    assert fork.children[0].text == run.children[1].text, "it was asked the same, elsewhere"
    assert fork.log[0].text == "Only this."


@every_protocol
@pytest.mark.req("D-66")
def test_another_provider_takes_over_at_the_place(protocol: Protocol) -> None:
    other: Protocol = "openai" if protocol != "openai" else "anthropic"
    with counted_tree(protocol) as (run, counted), script_server(other) as second:
        fork = run.fork("0/2", model=f"{other}/lead", display=False)
        assert (len(second.requests), len(counted.server.requests)) == (2, 0)  # type: ignore[union-attr]
    assert (fork.ok, fork.model, fork.text) == (True, f"{other}/lead", run.text)


@every_protocol
@pytest.mark.req("D-66", "D-32", "D-24")
def test_a_run_that_streamed_is_forked_with_its_reasoning(protocol: Protocol) -> None:
    with counted_tree(protocol) as (_, counted):
        run = run_and_wait(watch(RunRequest(agent="lead", prompt="Compare")))
        counted.clear()
        for place in ("0/1", "0/2", "0/3", "0.2/1", "0.2/2"):
            point = make_point(run, place)
            fork = run_and_wait(watch(RunRequest(agent=None, fork=point)))
            assert counted.server
            assert counted.server.requests[0] == run.request(place).body
            assert counted.server.requests[0]["stream"]
            assert fork.text == run.text
            counted.clear()


async def watch(request: RunRequest) -> RunResult:
    """The result of a run whose replies are shown as they arrive."""
    handle = session.start(request)
    async for _ in handle.events():
        pass
    return handle.result()


def define_boss(tasks: Callable[[str], str], **fields: Any) -> tuple[Agent, list[str]]:
    """A boss who gives its workers the tasks that the function makes of its system prompt.

    Returns it, and the tasks that the workers were asked.
    """
    asked: list[str] = []

    def boss(request: Request) -> Any:
        calls = [ask("w", task) for task in tasks(request.system)]
        return calls if request.turn == 1 else request.last

    def worker(request: Request) -> str:
        asked.append(request.last.removeprefix("Task: "))
        return f"{request.last.removeprefix('Task: ')}#{len(asked)}"

    axe_nb.define(agent("w", worker))
    return agent("boss", boss, sub_agents=("w",), system_prompt="abc", **fields), asked


@pytest.mark.req("D-66")
@pytest.mark.parametrize(
    ("tasks", "live"),
    [("abc", ""), ("bc", ""), ("xabc", "x"), ("cba", ""), ("aab", "a"), ("xyz", "xyz")],
)
@pytest.mark.parametrize("parallel", [True, False])
def test_children_asked_the_same_are_what_they_were(tasks: str, live: str, parallel: bool) -> None:
    boss, asked = define_boss(lambda system: system, sub_agents_config={"parallel": parallel})
    run = play(boss)
    asked.clear()
    again = fork(run, "0/1", system_prompt=tasks)
    assert sorted(asked) == sorted(live)
    assert [child.text[0] for child in again.children] == list(tasks)
    assert [child.id for child in again.children] == [f"0.{n + 1}" for n in range(len(tasks))]
    kept = sum(source == "recorded" for source in list_sources(again).values())
    assert kept == len(tasks) - len(live)


@pytest.mark.req("D-66", "D-57")
def test_the_tree_below_a_child_moves_with_it() -> None:
    def boss(request: Request) -> Any:
        calls = [ask(name, "x") for name in request.system.split()]
        return calls if request.turn == 1 else request.last

    asked_mid, mid = keeping("mid", ask("leaf", "y"), lambda r: r.last, sub_agents=("leaf",))
    asked_leaf, leaf = keeping("leaf", "leaf!")
    axe_nb.define(mid)
    axe_nb.define(leaf)
    run = play(agent("boss", boss, sub_agents=("mid", "leaf"), system_prompt="mid"))
    again = fork(run, "0/1", system_prompt="leaf mid")
    assert (len(asked_mid), len(asked_leaf)) == (2, 2), "only the new one is asked"
    assert [one.id for one in again.walk()] == ["0", "0.1", "0.2", "0.2.1"]
    assert again.children[1].children[0].metadata["task_id"] == "0.2.1"
    assert list_sources(again)["0.2.1/1"] == "recorded"


@pytest.mark.req("D-66", "D-57")
def test_a_tool_of_the_user_runs_again_only_where_one_of_its_children_is_forked() -> None:
    ran: list[str] = []

    @tool(read_only=True)
    async def survey(ctx: ToolContext, what: str) -> str:
        """Asks two."""
        ran.append(what)
        one = await ctx.delegate(f"{what} one", agent="w", key="one")
        two = await ctx.delegate(f"{what} two", agent="w", key="two")
        return f"{one.text}, {two.text}"

    asked, worker = keeping("w", lambda request: f"{request.last}!")
    axe_nb.define(worker)
    boss = lead(call("survey", what="a"), call("survey", what="b"), then="")
    run = play(boss.but(tools=(survey,)))
    ran.clear()
    asked.clear()
    again = fork(run, "0.1-two/1", reply="new")
    assert (ran, asked) == (["a"], [])
    assert again.text == "Task: a one!, new\nTask: b one!, Task: b two!"
    assert again.warnings == (
        'tool "survey" was run again because it starts 0.1-two, on the way to 0.1-two/1',
    )
    assert [one.id for one in again.walk()] == [one.id for one in run.walk()]


@pytest.mark.req("D-66", "D-59")
@pytest.mark.parametrize("how", ["subagent", "spawn_agent", "delegate_task"])
def test_every_way_to_delegate_is_forked_in_its_children(how: str) -> None:
    arguments: dict[str, Any] = {
        "subagent": {"label": "x", "task_prompt": "look"},
        "spawn_agent": {"task": "look"},
        "delegate_task": {"plan": "p", "subtasks": [{"task": "look"}, {"task": "look too"}]},
    }[how]
    asked: list[tuple[str, int]] = []

    def model(request: Request) -> Any:
        first = str(request.messages[0].content)
        asked.append((first[:4], request.turn))
        if first == "go":
            return call(how, **arguments) if request.turn == 1 else request.last
        return f"{request.turn}: {request.system[-4:]}"

    run = play(agent("boss", model, tools=(how,)))
    assert run.ok
    asked.clear()
    last = len(run.children[0].log)
    again = fork(run, f"0.1/{last}", reply="found")
    assert asked == [("go", 2)]
    assert "found" in again.text
    assert [one.id for one in again.walk()] == [one.id for one in run.walk()]


@pytest.mark.req("D-66", "D-59")
def test_a_fork_without_a_change_is_the_same_tree_at_every_place() -> None:
    with counted_tree(None) as (run, counted):
        for one in run.walk():
            for turn in one.log:
                again = fork(run, f"{one.id}/{turn.number}")
                asked, ran = counted.take()
                assert asked == [f"{one.agent} {n}" for n in range(turn.number, one.turns + 1)]
                calls = [call for later in one.log[turn.number - 1 :] for call in later.calls]
                assert len(ran) == sum(call.name != "call_agent" for call in calls)
                assert [(o.id, o.text, o.messages) for o in again.walk()] == [
                    (o.id, o.text, o.messages) for o in run.walk()
                ]  # fmt: skip


@pytest.mark.req("D-66", "D-60")
def test_secrets_make_a_run_no_other(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-value-123456")
    boss, asked = define_boss(lambda _: ["key sk-very-secret-value-123456"])  # type: ignore[arg-type,return-value]
    axe_nb.define(boss)
    run = play("boss")
    run.save(tmp_path / "run.axe")
    assert "very-secret" not in (tmp_path / "run.axe").read_text()
    asked.clear()
    again = fork(axe_nb.load(tmp_path / "run.axe"), "0/1")
    assert asked == []
    assert again.ok


@pytest.mark.parametrize("prefix", ["", "Task: "])
@pytest.mark.parametrize("context", ["", "It is the 3rd."])
def test_a_prompt_for_a_child_is_its_new_task(context: str, prefix: str) -> None:
    arguments = {"agent": "child", "task": "Task", **({"context": context} if context else {})}
    axe_nb.define(agent("child", lambda request: f"did {request.last}"))
    first = play(lead(call("call_agent", **arguments), then="done"))
    forked = fork(first, "0.1/1", prompt=f"{prefix}another task")
    had, now = first.children[0].prompt, forked.children[0].prompt
    assert had.startswith("Task: Task")
    assert now == had.replace("Task: Task", "Task: another task")
    assert forked.children[0].task == "another task"
    assert fork(first, "0/1", prompt="other").prompt == "other"
