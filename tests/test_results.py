"""A result as data: dict, file, pickle; what is refused, and what a file never holds."""

from __future__ import annotations

import json
import os
import pickle
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import axe_nb
from axe_nb import Agent, ConfigError, ProviderError, RunResult
from axe_nb.agents.data_files import IN_PAGE
from axe_nb.messages import CallTraits, Message, ToolCall, ToolResult, Usage
from axe_nb.results import Turn
from tests.random_results import facts, results

OFTEN = settings(
    max_examples=25, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def a_result(**changes: Any) -> RunResult:
    made = RunResult(
        status="completed", text="It is sunny.\nAnd warm.", agent="lead", model="script/lead",
        turns=2, tool_calls=1, usage=Usage(30, 12, cached_tokens=5),
        messages=(
            Message("user", "Weather?"),
            Message("assistant", "", (ToolCall("1", "look", {"city": "Ulm"}),), echo={"x": [{}]}),
            Message("tool", tool_results=(ToolResult("1", "sun", name="look"),)),
        ),
        log=(
            Turn(
                1, "", (ToolCall("1", "look", {"city": "Ulm"}, traits=CallTraits(delegates=True)),),
                (ToolResult("1", "sun", note="n", is_denied=True, edited={"city": "Bonn"}),),
                "tool_use", Usage(10, 4),
            ),
        ),
        metadata={"task_id": "0"}, warnings=("careful",), files_read=("a.txt",),
    )  # fmt: skip
    return replace(made, **changes)


def through_dict(result: RunResult) -> RunResult:
    return RunResult.from_dict(json.loads(json.dumps(result.to_dict(full=True))))


@pytest.mark.req("D-61")
@OFTEN
@given(result=results())
def test_a_result_is_the_same_after_dict_pickle_and_file(result: RunResult, tmp_path: Path) -> None:
    result.save(tmp_path / "r.axe")
    for again in (
        through_dict(result),
        pickle.loads(pickle.dumps(result)),
        axe_nb.load(tmp_path / "r.axe"),
    ):
        assert again == result
        assert facts(again) == facts(result)


ELSEWHERE = """
import axe_nb, pickle, sys
axe_nb.script("lead")(lambda request: "else")
result = pickle.load(sys.stdin.buffer)
print(result.request().place, repr(result.diff(result)), result.fork(1).text)
"""


def test_a_result_has_all_its_methods_in_a_process_that_has_run_nothing() -> None:
    axe_nb.script("lead")(lambda request: "done")
    data = pickle.dumps(axe_nb.run(Agent("lead", "script/lead"), "go"))
    told = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=data, capture_output=True, timeout=60
    )
    assert told.stdout.decode() == "0/1 RunDiff(no differences) else\n", told.stderr.decode()


def test_a_file_begins_with_its_header_and_reads_well(tmp_path: Path) -> None:
    result = a_result(messages=(), log=(), warnings=("\u202ebidi\x7f", "\udc80"))
    result.save(tmp_path / "r.axe")
    header, _, text = (tmp_path / "r.axe").read_text("utf-8").partition("\n")
    assert header == "axe_nb run 2.0"
    assert {
        ' "status": "completed",',
        '   "And warm."',
        r'  "\u202ebidi\u007f",',
        r'  "\udc80"',
    } < {*text.splitlines()}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_a_new_file_is_the_users_alone_and_an_old_one_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "r.axe"
    a_result().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    a_result(text="new").save(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert axe_nb.load(str(path)).text == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.axe"]


def check_error(error: ConfigError, *parts: str) -> None:
    assert "\n" not in error.message
    assert len(error.message) < 1000
    assert [part for part in parts if part not in error.message] == []


VALID = '{"status": "completed", "text": "x", "agent": "a", "model": "m"'


@pytest.mark.req("D-61")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "does not begin with `axe_nb run 2.0`"),
        ("axe_nb cassette 1.0\n{}", "a `cassette` file, not a `run` file"),
        ("axe_nb run 3.0\n{}", "its version is 3.0, expected 2.x"),
        ("<!doctype html>\n<p>axe_nb run 2.0", "the page contains no run"),
        (f"<!DOCTYPE html>{IN_PAGE[0]}axe_nb grid 3.0\n</script>", "not a `run` file"),
        (f"<!DOCTYPE html>{IN_PAGE[0]}axe_nb run 2.0\n{{", "not valid JSON: "),
        ("axe_nb run 2.0\n", "not valid JSON: Expecting value at line 2, column 1"),
        ("axe_nb run 2.0\n{\n\n'", "at line 4, column 1"),
        ("axe_nb run 2.0\n{}", '"status" is missing'),
        ("axe_nb run 2.0\n" + '{"a":' * 100_000, "nested too deeply"),
        (f"axe_nb run 2.0\n{VALID}, " + '"children": [{' * 100_000, "nested too deeply"),
        (f'axe_nb run 2.0\n{VALID}, "turns": {"9" * 5000}}}', "Exceeds the limit"),
        (f'axe_nb run 2.0\n{VALID}, "turns": 1e999}}', '"turns" must be an integer, not inf'),
        (f'axe_nb run 2.0\n{VALID}, "turns": true}}', '"turns" must be an integer, not True'),
        (f'axe_nb run 2.0\n{VALID}, "text": {{"|": 3}}}}', '"|" must be a list of strings'),
        (f'axe_nb run 2.0\n{VALID}, "status": "odd"}}', 'must be one of "completed", "max_turns"'),
        (f'axe_nb run 2.0\n{VALID}, "cause": {{"type": "OSError"}}}}', '"cause.type" must be'),
        (f'axe_nb run 2.0\n{VALID}, "messages": [{{"role": "system"}}]}}', '"messages[0].role"'),
        (f'axe_nb run 2.0\n{VALID}, "messages": [{{"role": "user", "echo": []}}]}}', "an object"),
        (f'axe_nb run 2.0\n{VALID}, "children": [{{}}]}}', '"children[0].status" is missing'),
        (
            f'axe_nb run 2.0\n{VALID}, "exchanges": [{{"turn": 1, "system": {{"digest": "0"}}}}]}}',
            'a part is missing: "exchanges[0].system"',
        ),
    ],
)
def test_a_file_that_is_not_a_saved_result_is_an_error_with_the_place(
    content: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.axe").write_text(content, "utf-8")
    with pytest.raises(ConfigError) as caught:
        axe_nb.load(tmp_path / "bad.axe")
    check_error(caught.value, f"cannot read {tmp_path}", "bad.axe", problem)


def mutations(text: str, number: int) -> Iterator[str]:
    """The text with parts that are cut out, repeated, exchanged or replaced."""
    chance = random.Random(7)
    odd = ["null", "[]", "{}", '"x"', "-1", "1e999", "NaN", "true", "\udc80", "\0", '"|"', "}", ","]
    for _ in range(number):
        start, end = sorted(chance.choices(range(len(text) + 1), k=2))
        end = min(end, start + chance.choice([1, 5, 40]))
        yield (
            text[:start] + chance.choice(["", text[start:end] * 2, chance.choice(odd)]) + text[end:]
        )


def test_a_damaged_file_gives_a_result_or_the_error(tmp_path: Path) -> None:
    path = tmp_path / "r.axe"
    child = a_result(id="0.1", cause=ProviderError("server", "no", status=500))
    a_result(children=(child,)).save(path)
    outcomes = set()
    for text in mutations(path.read_text("utf-8"), 300):
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            loaded = axe_nb.load(path)
        except ConfigError as error:
            check_error(error, str(path))
            outcomes.add("error")
        else:
            assert through_dict(loaded) == loaded
            outcomes.add(repr(loaded) and "result")
    assert outcomes == {"error", "result"}


def test_a_front_end_without_ipython_shows_a_result_as_its_tree() -> None:
    """A notebook such as marimo asks a cell's value itself, and has no magics."""
    calls = [axe_nb.call("call_agent", agent="egg", task="Hatch")]
    axe_nb.script("egg")(lambda request: 1 / 0)
    axe_nb.script("bird")(lambda request: "# <b>Done" if request.turn > 1 else calls)
    axe_nb.define(Agent("egg", "script/egg"))
    result = axe_nb.run(Agent("bird", "script/bird", sub_agents=["egg"]), "hello")
    for text in result._repr_mimebundle_(include=None, exclude=None).values():
        assert 'result.fork("0.1/1")' in text
        assert "%%" not in text
    page = result._repr_mimebundle_()["text/html"]
    assert ',bold)">&lt;b&gt;Done</h1>' in page


def test_tab_on_a_result_offers_what_people_use() -> None:
    result = RunResult(status="completed", text="hi", agent="a", model="script/x")
    offered = set(dir(result))
    assert {"text", "data", "children", "total_cost", "fork", "diff", "undo", "walk"} <= offered
    assert not {"exchanges", "undo_id", "definitions", "log", "metadata", "to_json"} & offered
    assert sum(not name.startswith("_") for name in offered) <= 27
    assert (result.exchanges, result.id) == ((), "0")
    agent = Agent("a", "script/x")
    assert {"but", "save", "tools"} <= set(dir(agent)) - {"own_tools"} == set(dir(agent))
