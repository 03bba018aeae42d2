"""Forks: their rules and mistakes, of runs that ended in any way or were kept anywhere."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, ProviderError, Request, RunResult, call, script, tool
from axe_nb.agents import trust
from axe_nb.recording.fork import make_point
from axe_nb.session.drive import NullView, drive
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.views.outline import as_text
from tests.engine.in_process import agent, ask, keeping, lead
from tests.forks.trees import counted_tree, fork, list_sources, play
from tests.providers.fuzz import places
from tests.recording.runs import interrupt


def writer(**fields: Any) -> Agent:
    return lead(call("write_file", path="x", content="y"), name="a").but(
        tools=("write_file",), **fields
    )


class Wordless:
    def __repr__(self) -> str:
        raise LookupError("no words")


MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no such run": ("0.9/1", {}, 'no run "0.9" in this tree; nearest: 0.'),
    "no such turn": ("0/7", {}, 'no turn "7" of lead; its turns are 0/1, 0/2, 0/3'),
    "after its answer": ("0/4", {}, "turn 0/3 of lead was the final answer: no turn follows it"),
    "no such call": (
        "0/1", {"results": {7: "x"}},
        'no call "7" in turn 0/1; its calls are 1 (note, ',
    ),
    "a call of another turn": ("0/1", {"results": {4: "x"}}, 'no call "4" in turn 0/1'),
    "no calls": ("0/3", {"results": {1: "x"}}, "turn 0/3 of lead made no calls"),
    "no dict": ("0/1", {"results": ["x"]}, "results takes a dict of results by call, not ['x']"),
    "no result": (
        "0/1", {"results": {1: b"x"}}, "the result of note: the tool's result is of type bytes",
    ),
    "two replies": ("0/1", {"results": {1: "x"}, "reply": "y"}, "results= keeps the reply"),
    "a prompt too late": ("0/1", {"results": {1: "x"}, "prompt": "y"}, "results= keeps the reply"),
    "no reply": ("0/1", {"reply": 3}, "reply takes text, calls or a Response, not 3"),
    "no prompt": ("0/1", {"system_prompt": 3}, "system_prompt takes a string, not 3"),
    "no option": ("0/1", {"sytem_prompt": "x"}, 'unknown option "sytem_prompt"'),
    "no place": (1.5, {}, "a place is a string such as 0.2/3 or the number of a turn, not float"),
    "a result without text": (
        "0/1", {"results": {1: Wordless()}}, "the result of note: LookupError: no words",
    ),
    "no such model of a child": ("0.2/1", {"model": "nomodel"}, "invalid model format"),
    "no such script": ("0.2/1", {"model": "script/none"}, "script not found: none"),
    "no such skill": ("0/1", {"skill": "no/such.md"}, "skill not found: no/such.md"),
    "no such tool": ("0/3", {"tools": ["nope"]}, 'unknown tool "nope" in agent "lead"'),
}  # fmt: skip


@pytest.mark.req("D-66")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_before_anything_is_sent(mistake: str) -> None:
    place, changes, message = MISTAKES[mistake]
    with counted_tree(None) as (run, counted):
        with pytest.raises(ConfigError) as error:
            fork(run, place, **changes)
        assert counted.take() == ([], [])
    assert error.value.message.startswith(message)
    assert "\n" not in error.value.message


@pytest.mark.req("D-66")
def test_neither_a_part_of_a_tree_nor_a_turn_whose_calls_were_not_run_is_forked() -> None:
    with counted_tree(None) as (run, _), pytest.raises(ConfigError) as error:
        fork(run.children[0], 2)
    assert error.value.hint == 'fork the root run with the whole place: .fork("0.2/2")'
    run = play(agent("m", lambda r: call("find_files", pattern="*"), tools=("find_files",)))
    assert run.status == "max_turns"
    with pytest.raises(ConfigError, match="were not run: agent exceeded maximum"):
        fork(run, f"0/{run.turns + 1}")


@pytest.mark.req("D-66")
@pytest.mark.parametrize("place", [None, "0", "0/3", "@0/3", 3])
def test_a_place_is_written_as_for_requests(place: Any) -> None:
    with counted_tree(None) as (run, counted):
        assert run_and_wait(run.afork(place, display=False)).origin == "0/3"
        assert counted.take()[0] == ["lead 3"]


@pytest.mark.req("D-66")
def test_results_are_what_tools_return_or_raise() -> None:
    with counted_tree(None) as (run, _):
        given = {"1": {"a": [1]}, 2: axe_nb.ToolError("no Rome"), 3: ValueError("no Oslo")}
        again = fork(run, "0/1", results=given)
    contents = [(one.content, one.is_error) for one in again.log[0].results]
    assert contents == [
        ('{"a": [1]}', False), ("Error: no Rome", True), ("Error: ValueError: no Oslo", True),
    ]  # fmt: skip


@pytest.mark.req("D-66", "D-53")
def test_agents_are_those_of_the_recording_and_a_difference_is_a_warning() -> None:
    with counted_tree(None) as (run, counted):
        axe_nb.define(session.agents["lead"].but(system_prompt="Changed.", sub_agents=()))
        session.forget("town")
        again = fork(run, "0.2/1", prompt="Task: Riga")
        assert counted.take()[0] == ["lead 2", "lead 3", "town 1", "town 2"]
    assert sorted(again.warnings) == [
        'agent "lead" has changed since (system_prompt, sub_agents); '
        "the fork uses the recorded one; %%axe lead --from …@0/1 takes yours there",
        'agent "town" no longer exists; the fork uses the recorded one',
    ]
    assert "Changed." not in again.text
    assert "You are a town." in again.text
    with counted_tree(None) as (run, _):
        axe_nb.define(session.agents["lead"].but(system_prompt="Changed.", sub_agents=()))
        request = RunRequest(agent="lead", fork=make_point(run, "0/1"))
        yours = drive(session.start(request), NullView())
    assert yours.ok
    assert "lead" not in str(yours.warnings)


@pytest.mark.req("D-66", "D-53")
def test_texts_of_files_are_those_of_the_recording(project: Path) -> None:
    Path("facts.md").write_text("Rome is old.")
    Path("axe/agents/reader.toml").write_text(
        'name = "reader"\nmodel = "script/reader"\nfiles = ["facts.md"]\n'
    )
    script("reader")(lambda request: request.system[-24:])
    run = play("reader")
    Path("facts.md").write_text("Rome is young.")
    again = fork(run)
    assert again.text == run.text
    assert "old" in again.text
    assert again.warnings == (
        'agent "reader" has changed since (files); the fork uses the recorded one; '
        "%%axe reader --from …@0/1 takes yours there",
    )
    run.save("run.axe")
    kept = fork(axe_nb.load("./run.axe"))
    assert kept.text == run.text
    assert kept.warnings == again.warnings


@pytest.mark.req("D-66", "D-81")
@pytest.mark.parametrize("harm", ["mode", "sandbox", "server"])
def test_a_saved_run_of_a_stranger_brings_no_rights(project: Path, harm: str) -> None:
    fields: dict[str, Any] = {
        "mode": {"mode": "auto", "tools": ("run_command",)},
        "sandbox": {"sandbox": "off"},
        "server": {"mcp_servers": {"x": {"command": ["touch", "harm"]}}},
    }[harm]
    axe_nb.define(agent("a", "x"))
    play("a").save("run.axe")
    header, _, text = Path("run.axe").read_text().partition("\n")
    forged = json.loads(text)
    for one in (forged["definitions"]["root"], forged["definitions"]["agents"]["a"]):
        one["values"].update(fields)
    Path("run.axe").write_text(f"{header}\n{json.dumps(forged)}")
    again = fork(axe_nb.load("./run.axe"))
    left_out = {"mode": 'mode = "auto", run_command', "sandbox": "sandbox", "server": "mcp_servers"}
    assert again.ok
    assert f"left out {left_out[harm]}; to trust it" in again.warnings[0]
    assert not Path("harm").exists()


@pytest.mark.req("D-66", "D-81")
def test_the_users_own_agent_of_a_saved_run_keeps_its_rights(project: Path) -> None:
    axe_nb.define(writer(mode="auto", sandbox="off"))
    play("a").raise_for_status().save("run.axe")
    Path("x").unlink()
    again = fork(axe_nb.load("./run.axe"), "0/1").raise_for_status()
    assert Path("x").read_text() == "y"
    assert again.files_modified == ("x",)
    assert fork(again, "0/2").files_modified == ("x",)


@pytest.mark.req("D-66", "D-64")
def test_what_is_taken_over_counts_in_the_result_and_is_not_paid_again() -> None:
    with counted_tree("openai") as (run, _):
        spent = {key: one.turns for key, one in session.spent.items()}
        again = fork(run, "0/3")
    assert again.total_usage == run.total_usage
    added = {key: one.turns - spent[key] for key, one in session.spent.items()}
    assert added == {("lead", "openai/lead"): 1, ("town", "openai/town"): 0}


@pytest.mark.req("D-66", "D-51")
def test_caps_count_what_is_sent() -> None:
    @tool(read_only=True)
    def look() -> str:
        return "seen"

    def model(request: Request) -> Any:
        return call("look") if request.turn < 4 else "end"

    run = play(agent("a", model, tools=(look,), limits={"max_requests": 2}))
    assert (run.status, run.turns) == ("error", 2)
    again = fork(run, "0/3")
    assert (again.status, again.text, again.turns) == ("completed", "end", 4)
    assert fork(run, "0/1").error == run.error


@pytest.mark.req("D-66", "D-19")
def test_calls_that_are_taken_over_need_no_approval(project: Path) -> None:
    run = play(writer(), mode="auto").raise_for_status()
    Path("x").unlink()
    again = fork(run, "0/2", mode="ask")
    assert again.text == run.text
    assert not Path("x").exists()
    denied = fork(run, "0/1", mode="ask")
    assert "permission denied" in denied.text
    assert not Path("x").exists()


@pytest.mark.req("D-66")
def test_changed_tools_are_those_of_the_run_at_the_place() -> None:
    with counted_tree(None) as (run, _):

        @tool(read_only=True)
        def weigh(what: str) -> str:
            return "3 kg"

        again = fork(run, "0.2/2", tools=[weigh], params={"temperature": 0.5})
    first, last = again.children[0].exchanges
    assert [one.name for one in first.tools] == ["note"]
    assert [one.name for one in last.tools] == ["weigh"]
    assert dict(last.params) == {"temperature": 0.5}
    assert dict(again.exchanges[1].params) == {}


@pytest.mark.req("D-66")
def test_the_form_of_the_answer_is_that_of_the_recording_and_may_be_changed() -> None:
    one = agent("a", lambda request: {"value": [1, 2]} if request.output else "text")
    run = play(one, output=list[int])
    assert run.data == [1, 2]
    assert fork(run, prompt="more").data == [1, 2]
    assert fork(play(one), output=list[int]).data == [1, 2]


@pytest.mark.req("D-66")
def test_the_tree_marks_what_was_taken_over() -> None:
    with counted_tree(None) as (run, _):
        again = fork(run, "0.2/2", reply="Rome is fine")
        fourth = fork(run, "0/2", prompt="Be quick")
    rows = [line.strip() for line in as_text(again).split("\n")]
    head = "✓ lead · script/lead · completed · fork of 0.2/2 (4 turns recorded) · 3 turns"
    assert any(row.startswith(head) for row in rows)
    rome, oslo = (row for row in rows if row.startswith("✓ town · "))
    assert "· recorded · " in oslo
    assert rome.startswith("✓ town · Rome is fine · forked here · ")
    assert any(row.startswith("✓ turn 2 · answers · given") for row in rows)
    assert "asked: Be quick" in as_text(fourth)


@pytest.mark.req("D-66")
def test_a_place_that_is_not_reached_is_a_warning() -> None:
    went: list[int] = []

    @tool(read_only=True)
    async def survey(ctx: axe_nb.ToolContext) -> str:
        went.append(1)
        return (await ctx.delegate("x", agent="w")).text if len(went) == 1 else "no"

    axe_nb.define(agent("w", "w"))
    run = play(lead(call("survey")).but(tools=(survey,)))
    again = fork(run, "0.1/1", reply="z")
    assert again.text == "no"
    assert again.warnings == (
        'tool "survey" was run again because it starts 0.1, on the way to 0.1/1',
        "the fork did not reach 0.1/1: the calls that lead there took a different path",
    )


@pytest.mark.req("D-66", "D-48")
def test_a_fork_is_recorded_in_a_cassette_and_replayed(tmp_path: Path) -> None:
    def record(mode: Any) -> tuple[str, list[str], dict[str, str]]:
        with axe_nb.cassette(tmp_path / "c.axe", mode):
            run = play(boss)
            asked.clear()
            again = fork(run, "0.2/1", prompt="Task: Riga")
        return again.text, [request.last for request in asked], list_sources(again)

    boss = lead(*(ask("town", name) for name in ("x", "Rome", "Oslo")))

    asked, town = keeping("town", lambda request: f"{request.last}!")
    axe_nb.define(town)
    text, live, sources = record("record")
    assert live == ["Task: Riga"]
    assert record("replay") == (text, [], sources)
    assert record("auto") == (text, [], sources)


@pytest.mark.req("D-66", "D-81")
def test_a_saved_run_has_the_trust_of_its_file(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    trust.trust_file().unlink()
    one = agent("a", "x", mode="auto", tools=("run_command",))
    play(one)
    kept = axe_nb.load(axe_nb.history()[0].id)
    assert fork(kept).warnings == ()
    kept.save("run.axe")
    Path("axe/agents/a.toml").write_text(one.to_toml())
    again = fork(axe_nb.load("./run.axe"))
    assert any('left out mode = "auto", run_command;' in warning for warning in again.warnings)


@pytest.mark.req("D-66", "D-53", "D-81")
def test_an_agent_of_a_saved_run_names_no_workdir_outside_that_of_its_root(project: Path) -> None:
    for folder in ("data", "docs"):
        Path(folder).mkdir()
    axe_nb.define(agent("w", "done", workdir="docs"))
    run = play(lead(ask("w", "x")).but(workdir="data"))
    assert run.children[0].ok
    run.save("run.axe")
    axe_nb.define(agent("w", "done", workdir="data"))
    with pytest.raises(axe_nb.ConfigError, match='workdir "docs" of agent "w" lies outside'):
        fork(axe_nb.load("./run.axe"), "0.1/1", reply="y")


@pytest.mark.req("D-66", "D-61")
def test_damaged_runs_are_errors_of_one_line_or_runs_of_their_own() -> None:
    values = [None, 0, -1, 1.5, "", "x", "0.x", "../..", [], {}, [1], {"schema": "f"}, True]
    chance = random.Random(1)
    with counted_tree(None) as (run, _):
        data = json.loads(json.dumps(fork(run, "0.2/2", reply="x").to_dict(full=True)))
        chosen = [
            place for place in places(data)
            if {"definitions", "id", "call_id", "exchanges", "messages"} & set(place)
        ]  # fmt: skip
        forked, messages = 0, list[str]()
        for _ in range(300):
            damaged = deepcopy(data)
            *way, last = chance.choice(chosen)
            reduce(lambda value, key: value[key], way, damaged)[last] = chance.choice(values)
            try:
                loaded = RunResult.from_dict(damaged)
                again = fork(loaded, chance.choice(["0/2", "0.2/2", "0.3/1"]), timeout=5)
            except axe_nb.AxeError as error:
                messages.append(str(error))
                continue
            forked += 1
            assert not again.error or "Error: " not in again.error, again.error
    assert forked > 20
    assert [message for message in messages if "\n" in message] == []


def make_note(ran: list[str]) -> Any:
    @tool(read_only=True)
    def note(what: str) -> str:
        ran.append(what)
        return f"noted {what}"

    return note


@pytest.mark.req("D-66")
def test_a_failed_request_is_tried_again_where_it_failed() -> None:
    failures = [ProviderError("server", "down", status=500)]
    ran: list[str] = []

    def then(request: Request) -> str:
        if failures:
            raise failures.pop()
        return f"after {request.last}"

    asked, one = keeping("m", call("note", what="x"), then, tools=(make_note(ran),))
    run = play(one)
    assert run.status == "error"
    again = fork(run, "0/2")
    assert (again.status, again.text) == ("completed", "after noted x")
    assert ([request.turn for request in asked], ran) == ([1, 2, 2], ["x"])
    assert again.retries == 0


@pytest.mark.req("D-66")
def test_an_error_elsewhere_is_what_it_was() -> None:
    def down(_: Request) -> str:
        raise ProviderError("server", "down", status=500)

    asked, one = keeping("w", down, retry={"max_retries": 1})
    axe_nb.define(one)
    run = play(lead(ask("w", "a")))
    assert len(asked) == 2
    again = fork(run, "0/1")
    assert len(asked) == 2, "the child is asked the same: its error, and its retry, are recorded"
    assert again.children[0].error == run.children[0].error
    assert again.text == run.text
    fork(again, "0.1/1")
    assert len(asked) == 4, "a fork there asks it again"


@pytest.mark.req("D-66", "D-10")
def test_a_run_that_timed_out_goes_on_with_a_new_deadline() -> None:
    slow = [5.0]

    asked: list[int] = []

    async def model(request: Request) -> Any:
        asked.append(request.turn)
        if request.turn == 1:
            return call("note", what="x")
        await asyncio.sleep(slow.pop() if slow else 0)
        return f"after {request.last}"

    run = play(agent("a", model, tools=(make_note([]),)), timeout=0.4)
    assert run.status == "timeout"
    assert fork(run).text == "after noted x"
    assert asked == [1, 2, 2]


@pytest.mark.req("D-66", "D-32")
def test_an_interrupted_run_goes_on_from_the_results_that_there_are() -> None:
    ran: list[str] = []

    @tool(read_only=True)
    async def wait() -> str:
        await asyncio.sleep(0.2)  # the other call has its result by then
        ran.append("wait")
        await asyncio.sleep(60 if ran.count("wait") == 1 else 0)
        return "waited"

    asked, one = keeping(
        "m", [call("note", what="x"), call("wait")],
        lambda r: " | ".join(result.content for result in r.results), tools=(make_note(ran), wait),
    )  # fmt: skip
    run = run_and_wait(interrupt(one, lambda: "wait" in ran and "x" in ran))
    assert run.status == "cancelled"
    on = fork(run, "0/2")
    assert on.text == "noted x | Error: interrupted before this call had a result."
    assert sorted(ran) == ["wait", "x"], "nothing before the place runs again"
    given = fork(run, "0/1", results={2: "never mind"})
    assert given.text == "noted x | never mind"
    missing = fork(run, "0/1", results={})
    assert missing.text == "noted x | waited", "what has no result is run"
    assert sorted(ran) == ["wait", "wait", "x"]
    assert [request.turn for request in asked] == [1, 2, 2, 2]
    anew = fork(run, "0/1")
    assert anew.ok
    assert sorted(ran) == ["wait", "wait", "wait", "x", "x"]


@pytest.mark.req("D-66")
@pytest.mark.parametrize(
    ("place", "changes"), [("0.1/2", {"reply": "short"}), ("0/1", {"results": {}}), ("0/1", {})]
)
def test_an_interrupted_child_goes_on_from_there(place: str, changes: dict[str, Any]) -> None:
    asked: list[str] = []
    ran: list[str] = []
    slow: list[int] = []

    async def worker(request: Request) -> Any:
        who = request.messages[0].content[-1]
        asked.append(f"{who} {request.turn}")
        if request.turn == 1:
            return call("pay", what=who)
        if who == "b":
            slow.append(1)
            await asyncio.sleep(60 if len(slow) == 1 else 0)
        return f"did {who}"

    @tool(read_only=True)
    def pay(what: str) -> str:
        ran.append(what)
        return f"paid {what}"

    axe_nb.define(agent("w", worker, tools=(pay,)))
    run = run_and_wait(interrupt(lead(ask("w", "a"), ask("w", "b")), lambda: bool(slow)))
    asked.clear()
    ran.clear()
    again = fork(run, place, **changes)
    assert again.text.endswith("did b")
    assert (asked, ran) == (["b 2"], [])


KEEPERS: dict[str, Callable[[RunResult], RunResult]] = {
    "save": lambda run: run.save("run.axe") or axe_nb.load("./run.axe"),  # type: ignore[func-returns-value]
    "pickle": lambda run: pickle.loads(pickle.dumps(run)),
    "copy": deepcopy,
    "from_dict": lambda run: RunResult.from_dict(run.to_dict(full=True)),
    "history": lambda run: axe_nb.load(axe_nb.history()[0].id),
}


@pytest.mark.req("D-66", "D-61")
@pytest.mark.parametrize("keep", KEEPERS)
def test_a_run_that_was_kept_is_forked_as_any_other_and_its_fork_too(
    keep: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    with counted_tree("openai") as (run, counted):
        kept = KEEPERS[keep](run)
        assert kept.definitions == run.definitions
        again = fork(kept, "0.2/2", system_prompt="You are Rome.")
        assert counted.take() == (["lead 2", "lead 3", "town 2"], ["file_report"])
        assert "You are Rome." in again.text
        assert again.warnings == ()
        kept = KEEPERS[keep](again)
        assert (kept, kept.origin) == (again, "0.2/2")
        assert list_sources(kept) == list_sources(again)
        fork(kept, "0.2/2")
        assert counted.take()[0][-1:] == ["town 2"]


@pytest.mark.req("D-66", "D-61")
def test_a_run_whose_process_died_is_forked_with_the_agents_of_now() -> None:
    with counted_tree(None) as (run, counted):
        again = fork(replace(run, definitions=None), "0/3")
        assert counted.take() == (["lead 3"], [])
    assert again.warnings == (
        "the agents of the forked run were not kept; the fork uses the current ones",
    )


@pytest.mark.req("D-66")
def test_what_an_earlier_fork_replaced_stays_replaced() -> None:
    with counted_tree(None) as (run, counted):
        first = fork(run, "0.2/1", prompt="Task: Riga", system_prompt="You are Riga.")
        counted.clear()
        second = fork(first, "0.2/2")
        assert counted.take() == (["town 2"], []), "its system prompt is that of the first fork"
        assert second.text == first.text
        assert second.children[0].prompt == "Task: Riga"
        third = fork(second, "0/3", system_prompt="You end.")
        assert counted.take() == (["lead 3"], [])
        assert "You are Riga." in third.text
        fourth = fork(third, "0.3/2", reply="Oslo?")
        assert "You are Riga." in fourth.text
        assert "You end." in fourth.text
        assert counted.take()[0] == ["lead 2", "lead 3"]


@pytest.mark.req("D-66")
def test_a_conversation_that_was_continued_keeps_its_beginning() -> None:
    _, one = keeping("m", lambda r: f"{len(r.messages)}")
    second = axe_nb.run(one, "second", continue_from=play(one), display=False)
    again = fork(second, "0/1", prompt="instead")
    assert [message.content for message in again.messages] == ["go", "1", "instead", "3"]
