"""`a.diff(b)` of runs that really ran: however they ended, whatever they are made of."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, given

import axe_nb
from axe_nb import Agent, ConfigError, ProviderError, Request, RunResult, Usage, call, script
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.results import Turn
from tests.diffs.trees import CHILDREN, MUTATIONS, TURNS, Mutator, make_tree, renumber
from tests.pictures.samples import FIRST, SECOND
from tests.random_results import results
from tests.views.runs import ask, done, turn

pytestmark = pytest.mark.req("E-9")

SECRET = "sk-canary-0123456789abcdef0123"

SETTINGS: dict[str, Any] = {"answer": "fine", "fails": False, "towns": ("Rome", "Bonn", "Oslo")}


@axe_nb.tool(read_only=True)
def look_up(town: str) -> str:
    """Looks a town up."""
    return f"{town} is old"


@pytest.fixture
def settings(project: Path) -> dict[str, Any]:
    """What the models answer; a lead asks a guide for each town, and each guide looks it up."""
    chosen = dict(SETTINGS)

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            return [call("call_agent", agent="guide", task=town) for town in chosen["towns"]]
        return f"{len(request.results)} towns"

    @script("guide")
    def guide(request: Request) -> Any:
        if request.turn == 1:
            return call("look_up", town=request.messages[0].content.removeprefix("Task: "))
        if chosen["fails"] and "Bonn" in request.messages[0].content:
            raise ProviderError("server", "down")
        return f"{request.last}, {chosen['answer']}"

    axe_nb.define(Agent("guide", "script/guide", system_prompt="You know it.", tools=(look_up,)))
    axe_nb.define(Agent("lead", "script/lead", sub_agents=("guide",)))
    return chosen


def told(a: RunResult, b: RunResult) -> list[tuple[str, str | None]]:
    return [(change.kind, change.place or change.other) for change in a.diff(b).changes]


def test_a_run_does_not_differ_from_itself_run_again(settings: dict[str, Any]) -> None:
    tree = make_tree()
    assert (len(tree.log), len(tree.children), len(list(tree.walk()))) == (TURNS, CHILDREN, 11)
    for a, b in (
        (axe_nb.run("lead", "go"), axe_nb.run("lead", "go")),
        (tree, renumber(tree, ids="other")),
    ):
        diff = a.diff(b)
        assert (diff.changes, diff.first, diff.same_path) == ((), None, True)
        assert repr(diff) == "RunDiff(no differences)"
        assert str(diff).startswith("= lead: no differences\n")


def test_a_child_less_does_not_shift_the_others(settings: dict[str, Any]) -> None:
    whole = axe_nb.run("lead", "go")
    settings["towns"] = ("Rome", "Oslo")
    diff = whole.diff(axe_nb.run("lead", "go"))
    gone, answer = diff.changes
    assert (gone.kind, gone.place, gone.call, gone.after) == ("call", "0/1", 2, None)
    assert gone.before == 'call_agent {"agent": "guide", "task": "Bonn"}'
    assert (answer.kind, answer.before, answer.after) == ("answer", "3 towns", "2 towns")
    assert (diff.first, diff.same_path) == ("0/1", False)


def test_what_follows_from_a_change_in_the_same_step_is_told_once(settings: dict[str, Any]) -> None:
    first = axe_nb.run("lead", "go")
    settings["answer"] = "dull"
    second = axe_nb.run("lead", "go")
    assert told(first, second) == [("answer", f"0.{n}/2") for n in (1, 2, 3)]
    assert first.diff(second).same_path
    settings["answer"], settings["towns"] = "fine", ("Rome", "Köln", "Oslo")
    third = axe_nb.run("lead", "go")
    assert told(first, third) == [
        ("arguments", "0/1"), ("arguments", "0.2/1"), ("result", "0.2/1"), ("answer", "0.2/2"),
    ]  # fmt: skip


def test_an_agent_that_changed_is_told_in_each_of_its_runs(settings: dict[str, Any]) -> None:
    first = axe_nb.run("lead", "go")
    change = first.diff(axe_nb.run("lead", "go", model="script/guide")).changes[0]
    assert (change.kind, change.before, change.after) == ("model", "script/lead", "script/guide")
    changed = Agent(
        "guide", "script/guide", system_prompt="You guess it.", tools=(look_up, "list_dir"),
        params={"temperature": 1},
    )  # fmt: skip
    axe_nb.define(changed)
    changes = first.diff(axe_nb.run("lead", "go")).changes
    kinds = [("system prompt", "0.1/1"), ("params", "0.1/1"), ("tools", "0.1/1")]
    assert [(c.kind, c.place) for c in changes[:3]] == kinds
    assert (len(changes), changes[1].after, changes[2].before) == (9, "temperature: 1", "")
    assert str(changes[2].after).startswith("list_dir: ")


def test_a_failed_run_differs_where_it_failed(settings: dict[str, Any]) -> None:
    whole = axe_nb.run("lead", "go")
    settings["fails"] = True
    failed = axe_nb.run("lead", "go")
    assert told(whole, failed) == [("answer", "0.2/2"), ("status", "0.2/2")]
    [_, status] = whole.diff(failed).changes
    assert (status.before, status.after) == ("completed", "error: server: down")
    assert whole.diff(failed).same_path


@dataclass
class Town:
    name: str
    age: float


def test_loaded_and_replayed_runs_do_not_differ(
    settings: dict[str, Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    settings["answer"] = f"the key is {SECRET}"
    with axe_nb.cassette("a.axe", "record"):
        first = axe_nb.run("lead", f"go with {SECRET}")
    with axe_nb.cassette("a.axe", "replay"):
        again = axe_nb.run("lead", f"go with {SECRET}")
    first.save("run.axe")
    loaded = axe_nb.load("run.axe")
    assert SECRET not in loaded.prompt
    for other in (again, loaded, pickle.loads(pickle.dumps(first))):
        assert told(first, other) == told(other, first) == []


def test_data_is_compared_as_json_whatever_its_type(settings: dict[str, Any]) -> None:
    script("towns")(lambda request: '{"name": "Rome", "age": 2700}')
    first = axe_nb.run(Agent("towns", "script/towns"), "go", output=Town)
    assert isinstance(first.data, Town)
    first.save("towns.axe")
    assert told(first, axe_nb.load("towns.axe")) == []
    script("towns")(lambda request: '{"name": "Bonn", "age": 2700}')
    [change] = first.diff(axe_nb.run(Agent("towns", "script/towns"), "go", output=Town)).changes
    assert (change.kind, change.place) == ("data", "0/1")
    assert change.before == '{\n  "age": 2700.0,\n  "name": "Rome"\n}'


def test_a_continued_run_differs_in_the_conversation_before_it(settings: dict[str, Any]) -> None:
    once = axe_nb.run("guide", "Rome")
    fresh, more = (axe_nb.run("guide", "Bonn", continue_from=r) for r in (None, once))
    change = next(change for change in fresh.diff(more).changes if change.kind == "conversation")
    assert (change.place, change.before) == ("0/1", "")
    assert str(change.after).splitlines() == [
        "user: Rome", "assistant: ", 'look_up {"town": "Rome"}', "tool: Rome is old",
        "assistant: Rome is old, fine",
    ]  # fmt: skip
    assert told(more, axe_nb.run("guide", "Bonn", continue_from=once)) == []


def test_a_result_that_comes_from_no_run_is_told_beside_the_run_that_is_gone(
    settings: dict[str, Any],
) -> None:
    run = axe_nb.run("lead", "go")
    fork = run.fork("0/1", results={2: "Bonn is closed"}, display=False)
    assert told(run, fork) == told(fork, run) == [("run", "0/1"), ("result", "0/1")]
    change = run.diff(fork).changes[1]
    texts = ("Bonn is old, fine", "Bonn is closed")
    assert (change.call, (change.before, change.after)) == (2, texts)


def test_agents_that_have_nothing_in_common_are_compared_all_the_same(
    settings: dict[str, Any],
) -> None:
    lead, guide = axe_nb.run("lead", "go"), axe_nb.run("guide", "Rome")
    diff = lead.diff(guide)
    assert {"agent", "model", "turn", "prompt"} <= {change.kind for change in diff.changes}
    assert (diff.first, diff.same_path) == ("0/1", False)
    assert str(diff).startswith("≠ lead → guide: ")
    alone = axe_nb.run(None, "Rome", model="script/guide")
    assert not alone.diff(guide).same_path


def test_the_path_is_agents_tools_and_their_order() -> None:
    def path(*turns: Turn, agent: str = "a", **fields: Any) -> RunResult:
        return done(agent=agent, log=turns, **fields)

    read, grep = ToolCall("r", "read_file", {"path": "x"}), ToolCall("g", "grep", {})
    other = replace(read, id="other", arguments={"path": "y"})
    both = path(turn(1, read, grep), turn(2, text="done"))
    child, asks = done(agent="helper", call_id="c"), turn(1, ask("c", "helper", "x"))
    asked = path(asks, children=(child,))
    same = [
        (both, path(turn(1, other, grep, text="said"), turn(2, text="else"))),
        (asked, path(asks, children=(replace(child, text="else"),))),
    ]
    different = [
        (both, path(turn(1, grep, read))),
        (both, path(turn(1, read), turn(2, grep))),
        (both, path(turn(1, read, grep), turn(2, read))),
        (both, path(turn(1, read, replace(grep, name="grep2")))),
        (both, path(turn(1, read, grep), agent="b")),
        (asked, path(asks, children=(replace(child, agent="scout"),))),
        (asked, path(asks)),
    ]
    for a, b in same:
        assert a.diff(b).same_path
    for a, b in different:
        assert not a.diff(b).same_path


def test_the_texts_of_a_change_are_those_that_differ() -> None:
    old = ToolCall("c", "search", {"query": "old", "limit": 5, "in": ["a"]})
    new = replace(old, arguments={"in": ["a"], "query": "new", "limit": 6})
    [change] = done(log=(turn(1, old),)).diff(done(log=(turn(1, new),))).changes
    assert (change.tool, change.call) == ("search", 1)
    assert (change.before, change.after) == ("query: old\nlimit: 5", "query: new\nlimit: 6")
    same = replace(old, arguments={"limit": 5, "query": "old", "in": ["a"]}, id="else")
    assert told(done(log=(turn(1, old),)), done(log=(turn(1, same),))) == []
    raw = replace(old, arguments={}, raw='{"query": ')
    [change] = done(log=(turn(1, old),)).diff(done(log=(turn(1, raw),))).changes
    assert (change.kind, change.after) == ("arguments", '{"query": ')


def test_a_call_that_a_person_edited_or_denied_differs() -> None:
    read = ToolCall("c", "read_file", {"path": "a"})

    def run(**fields: Any) -> RunResult:
        result = ToolResult("c", "text", name="read_file", **fields)
        return done(log=(Turn(1, "", (read,), (result,), "", Usage()),))

    [change] = run().diff(run(edited={"path": "b"})).changes
    assert (change.kind, change.before, change.after) == ("arguments", "path: a", "path: b")
    [change] = run().diff(run(is_error=True, is_denied=True)).changes
    assert (change.kind, change.before, change.after) == ("result", "worked: text", "denied: text")
    [change] = run(pictures=(FIRST,)).diff(run(pictures=(FIRST, SECOND))).changes
    assert (change.kind, change.before) == ("pictures", "")
    assert str(change.after).startswith("64×48 PNG, ")
    [change] = run().diff(done(log=(Turn(1, "", (read,), (), "", Usage()),))).changes
    assert (change.kind, change.after) == ("result", None)


@pytest.mark.parametrize("other", [None, "0.2", 3, {}])
def test_something_that_is_not_a_run_is_one_line(other: Any) -> None:
    with pytest.raises(ConfigError) as error:
        done().diff(other)
    [line, hint] = error.value.lines()
    kind = type(other).__name__
    assert line == f"diff compares two run results, not {kind}"
    assert hint == "use a.diff(b), where axe_nb.run or axe_nb.load returned both"


@hypothesis.settings(
    max_examples=25, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(results(2), results(2))
def test_any_two_results_can_be_compared_and_shown(a: RunResult, b: RunResult) -> None:
    assert told(a, a) == []
    diff = a.diff(b)
    assert (diff.first is None) == (not diff.changes)
    data, _ = diff._repr_mimebundle_()
    assert "".join(data.values()).encode()
    assert told(b, a) or not diff.changes


def test_a_change_that_is_printed_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    calls = [ToolCall("c", SECRET, {"key": value}) for value in ("a", SECRET)]
    diff = done(log=(turn(1, calls[0]),)).diff(done(log=(turn(1, calls[1]),)))
    assert repr(diff.changes) == "(Change(arguments of *** at 0/1),)"
    assert SECRET not in repr(diff.pair)


def test_odd_values_are_compared_without_failing() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    odd = ({1: "x", "a": 2}, {"x": math.nan}, {"x": deep}, {"x": b"\0"}, {"\ud83d": "\udc00"})
    for value in odd:
        run = done(log=(turn(1, ToolCall("c", "odd", value)),))
        assert told(run, run) == []
        assert told(run, done(log=(turn(1, ToolCall("c", "odd", {})),))) == [("arguments", "0/1")]


@pytest.fixture(scope="module")
def tree() -> RunResult:
    return make_tree()


@pytest.mark.parametrize("seed", range(60))
def test_one_mutation_is_one_change_of_its_kind_at_its_place(tree: RunResult, seed: int) -> None:
    mutation = Mutator(tree, seed).mutate([*MUTATIONS][seed % len(MUTATIONS)])
    kind, place, other = mutation.change
    for a, b, wanted in (
        (tree, mutation.tree, (kind, place, other)),
        (mutation.tree, tree, (kind, other, place)),
    ):
        diff = a.diff(b)
        assert [(c.kind, c.place, c.other) for c in diff.changes] == [wanted]
        assert diff.first == (wanted[1] or wanted[2])
