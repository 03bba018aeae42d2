"""A result as data: dict, file, pickle; what is refused, and what a file never holds."""

from __future__ import annotations

import json
import os
import pickle
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings

import axe_nb
from axe_nb import Agent, ConfigError, ProviderError, RunResult, call
from axe_nb.agents.data_files import MAX_BYTES, format_data, parse_data, read_data, write_data
from axe_nb.conversion.records import from_json, to_json
from axe_nb.messages import (
    CallTraits,
    Message,
    ToolCall,
    ToolParameter,
    ToolResult,
    ToolSpec,
    Usage,
)
from axe_nb.results import Status, Turn
from axe_nb.views import html
from tests.random_results import JSON, facts, results

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


def through_pickle(result: RunResult) -> RunResult:
    return pickle.loads(pickle.dumps(result))  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------- lossless


@pytest.mark.req("D-61")
@OFTEN
@given(results())
def test_any_result_is_the_same_after_its_dict_and_its_pickle(result: RunResult) -> None:
    for again in (through_dict(result), through_pickle(result)):
        assert again == result
        assert facts(again) == facts(result)


@OFTEN
@given(result=results())
def test_any_result_without_secrets_is_the_same_after_a_file(
    result: RunResult, tmp_path: Path
) -> None:
    result.save(tmp_path / "r.axe")
    again = axe_nb.load(tmp_path / "r.axe")
    assert again == result
    assert facts(again) == facts(result)


@pytest.mark.parametrize("status", get_args(Status))
def test_every_status_is_kept(status: Status) -> None:
    child = a_result(status=status, error="no", id="0.1")
    assert through_dict(a_result(children=(child, child))).children == (child, child)


def test_a_real_run_is_kept_with_its_children(tmp_path: Path) -> None:
    @axe_nb.script("lead")
    def lead(request: axe_nb.Request) -> Any:
        return call("call_agent", agent="help", task="x") if request.turn == 1 else "done\nall"

    @axe_nb.script("help")
    def help(request: axe_nb.Request) -> str:
        raise ProviderError("server", "broken", status=500)

    axe_nb.define(Agent("help", "script/help"))
    result = axe_nb.run(Agent("lead", "script/lead", sub_agents=["help"]), "go")
    assert isinstance(result.children[0].cause, ProviderError)
    result.save(tmp_path / "run.axe")
    for again in (through_dict(result), through_pickle(result), axe_nb.load(tmp_path / "run.axe")):
        assert again == result
        assert facts(again) == facts(result)
        assert again.to_json() == result.to_json()
        assert again.to_dict() == result.to_dict()


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


def test_an_error_of_a_kind_of_its_own_is_kept_as_the_nearest_public_one() -> None:
    class Special(ConfigError):
        pass

    again = through_dict(a_result(cause=Special("wrong", hint="fix it"))).cause
    assert type(again) is ConfigError
    assert (again.message, again.hint) == ("wrong", "fix it")


def test_data_in_the_repr_is_json_without_backslashes() -> None:
    made = RunResult(status="completed", text='{"a": "b"}', agent="a", model="m", data={"a": "b"})
    assert repr(made) == 'RunResult(a, completed, 0 turns: {"a": "b"})'
    made = RunResult(status="completed", text='say "b"', agent="a", model="m")
    assert repr(made) == 'RunResult(a, completed, 0 turns: "say \\"b\\"")'


def test_defaults_are_left_out() -> None:
    result = RunResult(status="completed", text="x", agent="a", model="m")
    assert result.to_dict(full=True) == {
        "status": "completed", "text": "x", "agent": "a", "model": "m",
    }  # fmt: skip
    spec = ToolSpec("t", "d", {"a": ToolParameter("string")})
    data = {"name": "t", "description": "d", "parameters": {"a": {"type": "string"}}}
    assert to_json(spec) == data
    assert from_json(ToolSpec, data) == spec


def test_what_json_cannot_hold_becomes_a_list_or_a_text() -> None:
    given = {"pair": (1, 2), "path": Path("a"), 3: float("inf")}
    [kept] = through_dict(a_result(messages=(Message("user", echo=given),))).messages
    assert kept.echo == {"pair": [1, 2], "path": "a", "3": float("inf")}
    nan = through_dict(a_result(messages=(Message("user", echo={"n": float("nan")}),)))
    assert str(nan.messages[0].echo["n"]) == "nan"


def test_a_dict_shares_nothing_with_its_result() -> None:
    result = a_result()
    data = result.to_dict(full=True)
    again = RunResult.from_dict(data)
    data["messages"][1]["echo"]["x"].append(1)
    assert again == result == a_result()


@dataclass(frozen=True)
class Piece:
    data: bytes
    parts: tuple[bytes, ...] = ()
    size: float = 0
    inner: Piece | None = None
    named: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize("data", [b"", b"text", "é".encode(), b"\xff\x00\xc3", bytes(range(256))])
def test_bytes_are_kept_as_text_with_halves_for_what_is_not_utf_8(data: bytes) -> None:
    piece = Piece(data, (data, b"x"), 1.5, Piece(b"inner"))
    kept = parse_data(format_data(to_json(piece)))
    assert from_json(Piece, kept) == piece
    assert to_json(Piece(b"text")) == {"data": "text"}


# ---------------------------------------------------------------------------------------- files


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


@OFTEN
@given(JSON)
def test_the_text_of_any_data_is_the_data(data: Any) -> None:
    text = format_data(data)
    assert parse_data(text) == data
    text.encode()


def test_one_changed_line_changes_one_line_of_the_file() -> None:
    text = [f"line {number}" for number in range(40)]
    before = format_data({"text": "\n".join(text)}).splitlines()
    text[7] = "changed"
    after = format_data({"text": "\n".join(text)}).splitlines()
    assert len([1 for one, other in zip(before, after, strict=True) if one != other]) == 1


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


def a_folder(path: Path) -> None:
    path.mkdir()


def a_missing_folder(path: Path) -> Path:
    return path / "x" / "r.axe"


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> Path:
    return Path("/dev/null")


def a_read_only_folder(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o500)
    return path / "r.axe"


def a_folder_of_the_system(path: Path) -> Path:
    if not Path("/proc/self").exists():
        pytest.skip("no /proc")
    return Path("/proc/r.axe")


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_nul(path: Path) -> Path:
    return path.with_name("a\0b")


@pytest.mark.skipif(os.name == "nt", reason="pipes, links and rights of POSIX")
@pytest.mark.parametrize(
    "place",
    [
        a_folder,
        a_missing_folder,
        a_pipe,
        a_device,
        a_read_only_folder,
        a_folder_of_the_system,
        a_loop,
        a_nul,
    ],
)
def test_a_place_that_cannot_hold_the_file_is_an_error_of_one_line(
    place: Callable[[Path], Path | None], tmp_path: Path
) -> None:
    if place is a_read_only_folder and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    path = place(tmp_path / "odd") or tmp_path / "odd"
    before = list(tmp_path.rglob("*"))
    for act in (a_result().save, axe_nb.load):
        with pytest.raises(ConfigError) as caught:
            act(path)
        check_error(caught.value, str(path).replace("\0", "\ufffd"))
    assert list(tmp_path.rglob("*")) == before


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
        ("{}", "does not begin with `axe_nb run 2.0`"),
        ("axe_nb run x\n{}", "does not begin with"),
        ("axe_nb cassette 1.0\n{}", "a `cassette` file, not a `run` file"),
        ("axe_nb run 3.0\n{}", "its version is 3.0, expected 2.x"),
        ("axe_nb run 1.1\n{}", "its version is 1.1, expected 2.x"),
        ("axe_nb run 2.0\n", "not valid JSON: Expecting value at line 2, column 1"),
        ("axe_nb run 2.0\n{\n\n'", "at line 4, column 1"),
        ("axe_nb run 2.0\n[]", "the data must be an object, not a list"),
        ("axe_nb run 2.0\n{}", '"status" is missing'),
        ("axe_nb run 2.0\n" + '{"a":' * 100_000, "nested too deeply"),
        (f"axe_nb run 2.0\n{VALID}, " + '"children": [{' * 100_000, "nested too deeply"),
        (f'axe_nb run 2.0\n{VALID}, "turns": {"9" * 5000}}}', "Exceeds the limit"),
        (f'axe_nb run 2.0\n{VALID}, "turns": {"9" * 4000}}}', '"turns" must be an integer'),
        (
            f'axe_nb run 2.0\n{VALID}, "turns": 1e999}}',
            '"turns" must be an integer, not an unsupported float',
        ),
        (f'axe_nb run 2.0\n{VALID}, "turns": true}}', '"turns" must be an integer, not true'),
        (f'axe_nb run 2.0\n{VALID}, "text": {{"|": 3}}}}', '"|" must be a list of strings'),
        (f'axe_nb run 2.0\n{VALID}, "error": 3}}', '"error" must be a string, not 3'),
        (f'axe_nb run 2.0\n{VALID}, "status": "odd"}}', 'must be one of "completed", "max_turns"'),
        (f'axe_nb run 2.0\n{VALID}, "cause": {{"type": "OSError"}}}}', '"cause.type" must be'),
        (f'axe_nb run 2.0\n{VALID}, "cause": {{"type": "RunError"}}}}', '"cause.message" is miss'),
        (f'axe_nb run 2.0\n{VALID}, "messages": [{{"role": "system"}}]}}', '"messages[0].role"'),
        (f'axe_nb run 2.0\n{VALID}, "messages": [{{"role": "user", "echo": []}}]}}', "an object"),
        (f'axe_nb run 2.0\n{VALID}, "metadata": {{"a": 1}}}}', '"metadata.a" must be a string'),
        (f'axe_nb run 2.0\n{VALID}, "children": [{{}}]}}', '"children[0].status" is missing'),
        (f'axe_nb run 2.0\n{VALID}, "times": "run 0+9"}}', '"times" must be a list'),
        (f'axe_nb run 2.0\n{VALID}, "by_digest": 3}}', '"by_digest" must be an object'),
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


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"tools": "as system"}, '"exchanges[0].tools" must be a list'),
        ({"by_digest": object()}, '"exchanges[0].system" must be a string'),
    ],
)
def test_a_part_of_a_saved_run_has_its_own_type(
    damage: dict[str, Any], problem: str, project: Path
) -> None:
    axe_nb.script("s")(lambda request: "answer")
    agent = Agent("a", "script/s", system_prompt="S" * 400)
    data = axe_nb.run(agent, "x", display=False).to_dict(full=True)
    exchange = data["exchanges"][0]
    if "tools" in damage:
        exchange["tools"] = exchange["system"]
    else:
        data["by_digest"][exchange["system"]["digest"]] = damage["by_digest"]
    with pytest.raises(ConfigError) as caught:
        RunResult.from_dict(data)
    assert problem in caught.value.message


def test_bytes_that_are_not_text_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.axe"
    path.write_bytes(b"axe_nb run 2.0\n\xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 15"):
        axe_nb.load(path)
    with path.open("r+b") as file:
        file.truncate(2 * MAX_BYTES)  # sparse
    with pytest.raises(ConfigError, match="larger than 100000000 bytes"):
        axe_nb.load(path)


@pytest.mark.req("D-61")
def test_a_newer_minor_version_is_read_without_what_it_has_more(tmp_path: Path) -> None:
    path = tmp_path / "r.axe"
    path.write_text(f'\ufeffaxe_nb run 2.7\r\n{VALID}, "mood": {{"a": 1}}}}', "utf-8")
    assert axe_nb.load(path) == RunResult(status="completed", text="x", agent="a", model="m")


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


@pytest.mark.req("D-69")
@pytest.mark.parametrize("saved", [3, "3"])
def test_a_number_is_an_id_of_the_history(saved: Any) -> None:
    with pytest.raises(ConfigError, match="the history has no run with the id 3") as caught:
        axe_nb.load(saved)
    assert caught.value.hint == "list them: %axe history, or axe_nb.history()"


@pytest.mark.req("D-69")
def test_a_bare_name_is_no_path_either() -> None:
    with pytest.raises(ConfigError, match='"survey" is not a run id of the history') as caught:
        axe_nb.load("survey")
    assert caught.value.hint == "run ids are numbers; to load a file with this name, write ./survey"


def test_a_result_that_cannot_be_kept_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.axe"
    a_result().save(path)
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    for echo in ({"deep": deep}, {"number": 10**5000}):
        with pytest.raises(ConfigError) as caught:
            a_result(messages=(Message("user", echo=echo),)).save(path)
        check_error(caught.value)
    assert axe_nb.load(path) == a_result()


def test_a_file_of_another_kind_has_its_own_header(tmp_path: Path) -> None:
    write_data(tmp_path / "c.axe", "cassette", {"a": ["b\nc", {"|": 1}]})
    assert read_data(tmp_path / "c.axe", "cassette", dict) == {"a": ["b\nc", {"|": 1}]}
    with pytest.raises(ConfigError, match="it is a `cassette` file, not a `run` file"):
        axe_nb.load(tmp_path / "c.axe")


def test_a_front_end_without_ipython_shows_a_result_as_its_tree() -> None:
    """A notebook such as marimo asks a cell's value itself."""
    axe_nb.script("parrot")(lambda request: f"<b>{request.last}</b>")
    result = axe_nb.run(Agent("bird", "script/parrot"), "hello")
    shown = result._repr_mimebundle_(include=None, exclude=None)
    assert shown == html.twin(result)
    assert "<details" in shown["text/html"]
    assert "<b>hello" not in shown["text/html"]
