"""Runs are kept, listed and loaded, whatever becomes of their processes, file and disk."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, Response, RunResult, call, script, script_server
from axe_nb.messages import Delta
from axe_nb.recording.history_recorder import find_writer, history_path
from axe_nb.recording.history_store import Store
from axe_nb.scripting.wire import Protocol
from axe_nb.session.session import session
from axe_nb.views.history import History, delete_run
from axe_nb.views.table import MOST_ROWS
from tests.engine.in_process import agent, ask, lead
from tests.protocols import PROTOCOLS, provider_of
from tests.recording.runs import start
from tests.waiting import eventually


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of a history that runs of this test are written to."""
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    path = history_path()
    yield path
    find_writer(path).close()


def read_text(path: Path, run: int) -> str:
    """The text of the rows of a run."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT content FROM parts WHERE run = ?", (run,))
        return "\n".join(zlib.decompress(content).decode() for (content,) in found)


def define_tree() -> None:
    """A lead that asks two guides, of which one fails."""

    def guide(request: Request) -> str:
        if "Oslo" in request.last:
            raise axe_nb.ProviderError("server", "out of order")
        return "Rome: a fine town 🏛"

    axe_nb.define(lead(ask("guide", "Rome"), ask("guide", "Oslo")).but(system_prompt="You lead."))
    axe_nb.define(agent("guide", guide))


def run_echo(prompt: str = "Hello", text: str = "You said: {last}") -> RunResult:
    script("echo")(lambda request: text.replace("{last}", request.last))
    axe_nb.define(Agent(name="echo", model="script/echo"))
    return axe_nb.run("echo", prompt)


def test_a_tree_is_listed_with_its_counts_and_loaded_as_it_was(kept: Path) -> None:
    define_tree()
    result = axe_nb.run("lead", "Compare\nthese towns")
    assert [child.status for child in result.children] == ["completed", "error"]
    (row,) = axe_nb.history()
    assert (row.id, row.agent, row.model) == (1, "lead", "script/lead")
    assert (row.prompt, row.status) == ("Compare", "completed")
    assert (row.runs, row.turns, row.tokens) == (3, 3, result.total_usage.total)
    assert row.seconds == result.duration_ms / 1000
    assert result.warnings == ()
    assert axe_nb.load(1).to_dict(full=True) == result.to_dict(full=True)
    assert axe_nb.load("1") == result


def prompts(*words: str, **options: Any) -> list[str]:
    return [row.prompt for row in axe_nb.history(*words, **options)]


def test_a_run_is_found_by_words_status_date_and_number(kept: Path) -> None:
    define_tree()
    for prompt in ("Über Rom, 50%", "Two"):
        run_echo(prompt)
    axe_nb.run("lead", "Rom again")
    axe_nb.run("guide", "Oslo")
    assert prompts() == ["Oslo", "Rom again", "Two", "Über Rom, 50%"]
    assert prompts("echo") == ["Two", "Über Rom, 50%"]
    assert prompts("rom ÜBER") == prompts("50%") == ["Über Rom, 50%"]
    assert prompts("script/lead") == ["Rom again"]
    assert prompts("Bergen") == []
    assert prompts(status="error") == ["Oslo"]
    assert prompts("rom", status="completed", limit=1) == ["Rom again"]
    assert prompts(status="running") == []
    with closing(sqlite3.connect(kept)) as connection, connection:
        connection.execute("UPDATE runs SET started = started - 86400 * 10 WHERE id = 1")
    assert prompts(since="yesterday") == prompts()[:3]
    assert prompts(since=date.today() - timedelta(days=30)) == prompts()
    assert prompts(since=f"{date.today() - timedelta(days=30)}T12:00") == prompts()
    assert prompts("two", since=datetime.now() + timedelta(hours=1)) == []
    assert prompts(until="today") == prompts()
    long_ago = date.today() - timedelta(days=10)
    assert prompts(until="yesterday") == prompts(until=long_ago) == ["Über Rom, 50%"]
    assert prompts(until=f"{long_ago}T00:00") == prompts(until=long_ago - timedelta(days=1)) == []


def test_a_run_has_its_project_whose_name_finds_it(
    kept: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_echo("here")
    for made, name in (("harbour/notes", "notes"), ("harbour/.git/HEAD", "harbour")):
        (project / made).mkdir(parents=True)
        monkeypatch.chdir(project / "harbour/notes")
        list(axe_nb.map("echo", ["go"], display=False))
        assert prompts(name) == ["map of 1: go"]
        assert repr(axe_nb.history()).splitlines()[1].endswith(f" {name}")
    assert ">folder</th>" in axe_nb.history()._repr_html_()


def test_a_map_or_grid_is_one_row_that_opens(kept: Path) -> None:
    define_tree()
    run_echo("before")
    list(axe_nb.map("guide", ["Rome", "<b>Oslo", "Turin"], concurrency=1, display=False))
    judge = agent("judge", '{"score": 1, "reason": "ok"}')
    axe_nb.grid(["echo", "lead"], "Say {{ input }}", inputs=["a"], judge=judge, display=False)
    run_echo("after")
    last, grid, batch, first = rows = axe_nb.history()
    assert (last.prompt, first.prompt) == ("after", "before")
    assert (batch.kind, batch.prompt) == ("map", "map of 3, 1 not completed: Rome")
    assert (batch.agent, batch.model, batch.status) == ("guide", "script/guide", "error")
    assert (batch.runs, batch.turns) == (3, 2)
    assert grid.prompt == "grid of 4, the judge's included: Say a"
    assert (grid.kind, grid.agent) == ("grid", "echo, lead, judge")
    assert (grid.status, grid.runs) == ("completed", 6), "the sub-agents count"
    assert prompts(str(batch.id)) == ["Turin", "<b>Oslo", "Rome"]
    assert prompts("oslo") == prompts(status="error") == [batch.prompt], "one of its runs matches"
    assert prompts(f"{batch.id} oslo") == ["<b>Oslo"]
    html = rows._repr_html_()
    for opened in ("map of 3, 1 not completed: Rome</summary><div", "after</summary>"):
        assert f"<details><summary>{opened}" in html
    assert "✗</span> error" in html
    assert "&lt;b&gt;Oslo" in html
    assert "<b>Oslo" not in html
    with pytest.raises(ConfigError, match=f"^{batch.id} is a map in the history") as refused:
        axe_nb.load(batch.id)
    how = f'%axe history {batch.id}, or axe_nb.history("{batch.id}")'
    assert refused.value.hint == f"list its runs: {how}"
    assert not list(kept.parent.glob("*.lock"))
    delete_run(batch.id)
    assert prompts() == ["after", grid.prompt, "before"]
    assert prompts("oslo") == []


def test_a_map_whose_process_dies_is_cancelled(kept: Path) -> None:
    code = """
import axe_nb, os
@axe_nb.script("echo")
def echo(request):
    if request.last == "die":
        axe_nb.history()  # writes what has ended
        os._exit(1)
    return request.last
agent = axe_nb.Agent("echo", "script/echo")
list(axe_nb.map(agent, ["one", "die"], concurrency=1, display=False))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
    (row,) = axe_nb.history()
    assert (row.kind, row.status, row.prompt) == ("map", "cancelled", "map of 1: one")
    assert [(one.prompt, one.status) for one in axe_nb.history(str(row.id))] == [
        ("die", "cancelled"), ("one", "completed"),
    ]  # fmt: skip


def test_a_map_goes_with_the_last_of_its_runs(kept: Path) -> None:
    list(axe_nb.map(agent("echo", "x"), ["one", "two"], concurrency=1, display=False))
    assert [row.id for row in axe_nb.history("1")] == [3, 2]
    with closing(Store(kept, writes=True)) as store:
        newest = next(store.list_rows(within=1)).bytes
        store.prune(max_size=newest)
        assert [row.id for row in (*store.list_rows(), *store.list_rows(within=1))] == [1, 3]
        store.prune(max_size=0)
        assert [row.id for row in store.list_rows()] == [1], "its runs have gone before"
        store.prune(max_size=-1)
        assert list(store.list_rows()) == []


@pytest.mark.parametrize(
    ("given", "named", "problem"),
    [
        ((5,), {}, "history takes words, not 5"),
        ((), {"status": "failed"}, "status takes one of completed, max_turns, .*, not 'failed'"),
        ((), {"since": "gestern"}, "since takes a date, not 'gestern'"),
        ((), {"since": 5}, "since takes a date, not 5"),
        ((), {"until": "now"}, "until takes a date, not 'now'"),
        ((), {"limit": "x"}, "limit takes a whole number from 1, not 'x'"),
        ((), {"limit": 0}, "limit takes a whole number from 1, not 0"),
        ((), {"limit": 10**30}, "limit takes a whole number from 1, not 1000"),
    ],
)
def test_a_wrong_search_is_told(given: Any, named: Any, problem: str, kept: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}"):
        axe_nb.history(*given, **named)


@pytest.mark.req("D-69")
@pytest.mark.parametrize("id", [10**30, str(10**30), 2, -1, "seven"])
def test_an_id_that_no_run_has_is_told_and_no_fault_of_the_file(id: Any, kept: Path) -> None:
    run_echo("One")
    told, hint = "the history has no run with the id", "axe_nb.history()"
    if id == "seven":
        told, hint = '"seven" is not a run id', "./seven"
    with pytest.raises(ConfigError, match=told) as unknown:
        axe_nb.load(id)
    assert hint in unknown.value.hint


def test_a_deleted_run_leaves_nothing_in_the_file(kept: Path) -> None:
    for prompt in ("One", "a private word", "Three"):
        run_echo(prompt)
    axe_nb.history()

    def find_word() -> list[str]:
        files = sorted(kept.parent.glob(f"{kept.name}*"))
        return [file.name for file in files if b"a private word" in file.read_bytes()]

    assert find_word()
    delete_run(2)
    assert find_word() == []
    assert [(row.id, row.prompt) for row in axe_nb.history()] == [(3, "Three"), (1, "One")]
    assert [axe_nb.load(number).text for number in (1, 3)] == ["You said: One", "You said: Three"]
    for look in (axe_nb.load, delete_run):
        with pytest.raises(ConfigError, match=r"^the history has no run with the id 2"):
            look(2)
    run_echo("Four")
    assert axe_nb.history()[0].id == 4


def test_a_run_that_goes_on_is_neither_deleted_nor_removed(kept: Path) -> None:
    @script("echo")
    def echo(request: Request) -> str:
        (row,) = axe_nb.history()
        with pytest.raises(ConfigError, match=r"^run 1 in the history has not ended"):
            delete_run(row.id)
        with closing(Store(kept)) as store:
            store.prune(max_age=-10)
        return "still here"

    assert axe_nb.run(None, "go", model="script/echo").text == "still here"
    assert axe_nb.load(1).text == "still here"


def test_the_list_as_text_html_and_data_frame(kept: Path) -> None:
    assert repr(axe_nb.history()) == "no runs found in the history"
    run_echo("<script>alert(1)</script>")
    rows = axe_nb.history()
    head, line = repr(rows).splitlines()
    names = "id when agent model prompt status runs turns tokens cost seconds folder"
    assert head.split() == names.split()
    assert line.startswith("1   20")
    html = rows._repr_html_()
    assert "<script>" not in html
    assert re.search("<td style='text-align:left;[^>]*;white-space:nowrap'>echo</td>", html)
    assert re.search("<th style='text-align:right;[^>]*>tokens</th>", html)
    assert "&lt;script&gt;" in html
    frame = rows.to_frame()
    assert list(frame.index) == [1]
    assert frame.loc[1, "agent"] == "echo"
    assert axe_nb.load(frame.index[0]).agent == "echo", "a number of numpy"
    axe_nb.replay(frame.index[0])


def test_the_page_leaves_out_empty_columns_and_says_how_to_see_the_other_rows(kept: Path) -> None:
    script("echo")(lambda request: "hi")
    list(axe_nb.map(None, ["a", "b"], model="script/echo", display=False))
    heads = re.findall(r"<th [^>]*>(\w*)</th>", axe_nb.history()._repr_html_())
    assert heads[:7] == ["id", "when", "status", "agent", "prompt", "tokens", "seconds"]
    assert heads[7:] == ["id", "status", "prompt", "tokens", "seconds"], "of the map's runs"
    many = History(axe_nb.history().data * (MOST_ROWS + 2))
    for page in (repr(many), many._repr_html_()):
        assert "… 2 more rows: .to_frame() has all rows" in page


@pytest.mark.parametrize("how", ["variable", "config", "test"])
def test_history_can_be_turned_off(how: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "variable":
        monkeypatch.setenv("AXE_NB_HISTORY", "0")
    elif how == "config":
        monkeypatch.setattr(session, "keeps_history", False)
    else:
        monkeypatch.delenv("AXE_NB_HISTORY")
    run_echo("Hello")
    assert not kept.exists()
    assert len(axe_nb.history()) == 0


def test_only_runs_that_ask_a_model_are_kept_with_a_cassette(kept: Path, project: Path) -> None:
    with axe_nb.cassette("echo.axe", "auto"):
        first = run_echo("Compare")
    with axe_nb.cassette("echo.axe", "replay"):
        run_echo("Compare")
        run_echo("Not recorded")
    with axe_nb.cassette("echo.axe", "auto"):
        run_echo("Compare")
    (row,) = axe_nb.history()
    assert axe_nb.load(row.id).to_dict(full=True) == first.to_dict(full=True)


def test_the_file_is_the_users_alone(kept: Path) -> None:
    run_echo("Hello")
    axe_nb.history()
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.req("D-60")
def test_no_secret_reaches_the_file(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"MY_API_KEY": 'kQ/7"\\é-0123456789', "DB_PASSWORD": "hunter2hunter2xyz"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    both = "\n".join(secrets.values())

    @axe_nb.tool
    def look(what: str) -> str:
        return both

    @script("teller")
    def teller(request: Request) -> Any:
        if request.turn == 1:
            return Response(both, (call("look", what=both, Cookie="a=b-cookie"),))
        return both

    name = secrets["DB_PASSWORD"]
    axe_nb.define(Agent(name, "script/teller", system_prompt=both, tools=("look",)))
    result = axe_nb.run(name, both)
    assert secrets["MY_API_KEY"] in result.text
    axe_nb.history()
    content = b"".join(path.read_bytes() for path in kept.parent.iterdir())
    plain = read_text(kept, 1)
    assert "look" in plain
    for text in ("hunter2", "kQ/7", "0123456789", "b-cookie"):
        assert text.encode() not in content
        assert text not in plain
    loaded = axe_nb.load(1)
    assert loaded.text == "***\n***"
    assert loaded.tool_calls == 1


def test_texts_of_every_kind_are_kept(kept: Path) -> None:
    odd = 'half \ud83d, null \0, line \u2028, {"a": NaN}, \\\\\\\\ and 🏛'
    result = run_echo(odd, odd)
    assert axe_nb.load(1).to_dict(full=True) == result.to_dict(full=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_keeps_its_own_runs(kept: Path) -> None:
    run_echo("Before")
    axe_nb.history()
    child = os.fork()
    if child == 0:
        try:
            run_echo("In the child")
            os._exit(0 if len(axe_nb.history()) == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run_echo("After")
    assert [row.prompt for row in axe_nb.history()] == ["After", "In the child", "Before"]
    with sqlite3.connect(kept) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_model_thought_is_kept(protocol: Protocol, kept: Path, tmp_path: Path) -> None:
    @script("thinker")
    def thinker(request: Request) -> Iterator[object]:
        yield Delta("I count the towns.", "reasoning")
        yield "Three."

    one = Agent("a", f"{provider_of(protocol)}/thinker")
    with script_server(protocol), axe_nb.cassette(tmp_path / "c.axe", mode="record"):
        ran = axe_nb.run(one, "How many?", display=False)
    with axe_nb.cassette(tmp_path / "c.axe", mode="replay"):
        again = axe_nb.run(one, "How many?", display=False)
    ran.save(tmp_path / "r.axe")
    for result in (ran, again, axe_nb.load(tmp_path / "r.axe"), axe_nb.load(1)):
        [response] = [one.response for one in result.exchanges]
        assert response is not None
        assert response.reasoning == "I count the towns."


NOT_WRITTEN = "history cannot be written: "

NOW, LATER = "axe_nb history 5.0\n", "axe_nb history 6.0\n"

KILLED = """
import axe_nb, os, threading
from axe_nb import Agent, Response, Usage, call, script

@axe_nb.tool
def wait(what: str) -> str:
    if what == "end":
        return "it ended"
    os.write(1, b"waiting\\n")
    threading.Event().wait()

@script("lead")
def lead(request):
    if request.turn == 1:
        calls = call("call_agent", agent="guide", task="one"), call("wait", what="end")
        return Response("First.", calls, "tool_use", Usage(10, 2))
    return Response("Second.", (call("call_agent", agent="waiter", task="two"),), "x", Usage(20, 3))

script("guide")(lambda request: "A guide said so.")
script("waiter")(lambda request: Response("I wait.", (call("wait", what="ever"),), "", Usage(5, 1)))
for name in ("guide", "waiter"):
    axe_nb.define(Agent(name=name, model=f"script/{name}", tools=("wait",)))
axe_nb.define(
    Agent(name="lead", model="script/lead", tools=("wait",), sub_agents=("guide", "waiter"))
)
axe_nb.run("lead", "Go")
"""


def count_parts(path: Path) -> int:
    try:
        with closing(Store(path)) as store:
            return len(store.list_parts(1)) if store.has_tables else 0
    except sqlite3.OperationalError:  # the file is not there yet, or about to be made
        return 0


def problems(result: RunResult) -> list[str]:
    assert result.ok
    return [warning for warning in result.warnings if warning.startswith(NOT_WRITTEN)]


def test_a_killed_process_loses_nothing_that_was_answered(kept: Path) -> None:
    with start(KILLED) as process:
        assert process.stdout
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        assert eventually(lambda: count_parts(kept) >= 10, 20), "before the tool that waits"
        (row,) = axe_nb.history()
        assert row.status == "running"
        assert axe_nb.load(1).error == (
            "the run has not ended yet; answers received so far are kept"
        )
    (row,) = axe_nb.history()
    assert (row.status, row.runs, row.turns) == ("cancelled", 3, 4)
    result = axe_nb.load(1)
    assert result.status == "cancelled"
    assert result.error == "the process ended during this run; answers received by then are kept"
    assert [(m.role, m.content) for m in result.messages] == [
        ("user", "Go"), ("assistant", "First."), ("tool", ""), ("assistant", "Second."),
    ]  # fmt: skip
    assert [one.content for one in result.messages[2].tool_results] == [
        "A guide said so.", "it ended",
    ]  # fmt: skip
    guide, waiter = result.children
    assert (guide.id, guide.status, guide.text) == ("0.1", "completed", "A guide said so.")
    assert (waiter.id, waiter.status, waiter.text) == ("0.3", "cancelled", "I wait.")
    assert [len(one.exchanges) for one in result.walk()] == [2, 1, 1]
    assert row.tokens == result.total_usage.total >= 41
    assert not list(kept.parent.glob("*.lock"))


def test_two_processes_write_at_once(kept: Path) -> None:
    code = (
        "import axe_nb, sys\n"
        "axe_nb.script('echo')(lambda request: request.last)\n"
        "for n in range(10):\n"
        "    result = axe_nb.run(axe_nb.Agent(name='echo', model='script/echo'), sys.argv[1])\n"
        "    assert not result.warnings, result.warnings"
    )
    with start(code, "one") as one, start(code, "two") as two:
        assert [process.communicate()[1] for process in (one, two)] == ["", ""]
    rows = axe_nb.history()
    assert sorted(row.prompt for row in rows) == ["one"] * 10 + ["two"] * 10
    assert {axe_nb.load(row.id).text == row.prompt for row in rows} == {True}


@pytest.mark.parametrize("what", ["the file", "the folder"])
def test_a_deleted_history_is_begun_anew(what: str, kept: Path, tmp_path: Path) -> None:
    run_echo("first")
    assert [row.prompt for row in axe_nb.history()] == ["first"]
    if what == "the folder":
        kept.parent.rename(tmp_path / "elsewhere")
    else:
        kept.unlink()
    assert problems(run_echo("second")) == []
    assert [row.prompt for row in axe_nb.history()] == ["second"]


def test_a_run_that_goes_on_while_its_history_is_deleted_is_mixed_into_no_other(kept: Path) -> None:
    other = (
        "import axe_nb\n"
        "axe_nb.script('echo')(lambda request: request.last)\n"
        "axe_nb.run(axe_nb.Agent(name='echo', model='script/echo'), 'other')"
    )

    def begin_anew() -> None:
        for file in kept.parent.glob("runs.*"):
            file.unlink()
        with start(other) as process:
            assert process.communicate() == ("", "")

    run_filler(begin_anew)
    run_echo("second")
    assert [row.prompt for row in axe_nb.history()] == ["second", "other"]
    assert [axe_nb.load(number).text for number in (1, 2)] == ["other", "You said: second"]


def test_an_unwritable_place_costs_one_warning(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.parent.parent.mkdir(parents=True)
    kept.parent.write_text("a file in the place of the folder")
    for _ in range(2):
        (problem,) = problems(run_echo())
        assert "Not a directory" in problem or "File exists" in problem
        assert problem.endswith("AXE_NB_HISTORY=0 turns the history off")
    monkeypatch.setenv("AXE_NB_HISTORY", "0")
    assert run_echo().warnings == ()


def change_file(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def change_version(path: Path, version: str) -> None:
    run_echo()
    axe_nb.history()
    find_writer(path).close()
    major, _, minor = version.partition(".")
    change_file(path, f"PRAGMA user_version = {int(major) * 1000 + int(minor)}")


@pytest.mark.req("D-61")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(os.urandom(5000)), "not a database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(5000)), "malformed|not a data"),
        (lambda path: change_file(path, "CREATE TABLE runs (id)"), "another program's database"),
        (lambda path: change_version(path, "1.1"), "its version is 1.1, expected .*delete it"),
        (lambda path: change_version(path, "6.0"), "its version is 6.0, expected .*update axe-nb"),
    ],
    ids=["random", "zeros", "another program's", "an older version", "a later version"],
)
def test_a_file_that_is_no_history_is_left_alone(make: Any, why: str, kept: Path) -> None:
    kept.parent.mkdir(parents=True)
    make(kept)
    content = kept.read_bytes()
    with pytest.raises(ConfigError) as refused:
        axe_nb.history()
    assert re.search(why, f"{refused.value.message} {refused.value.hint}")
    run_echo()
    find_writer(kept).flush()
    (problem,) = problems(run_echo())  # at the latest
    assert re.search(why, problem)
    assert kept.read_bytes() == content


def pack(text: str) -> str:
    """A row with a text, in SQL."""
    return f"x'{zlib.compress(text.encode()).hex()}'"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE parts SET content = 'text'", "damaged"),
        (f"UPDATE parts SET content = {pack('[]')}", "does not begin with `axe_nb h"),
        (f"UPDATE parts SET content = {pack(LATER + '{}')}", "its version is 6.0"),
        ("DELETE FROM parts", "is missing"),
    ],
)
def test_a_damaged_run_is_an_error_that_names_it(change: str, why: str, kept: Path) -> None:
    run_echo()
    axe_nb.history()
    change_file(kept, change)
    with pytest.raises(ConfigError, match=f"run 1 in the history cannot be read: .*{why}") as error:
        axe_nb.load(1)
    assert "\n" not in error.value.message
    assert [row.id for row in axe_nb.history()] == [1]


def test_a_row_with_a_value_of_a_wrong_type_hides_no_other(kept: Path) -> None:
    odd = ("started = 'soon'", "started = 1e300", "tokens = 'x'", "status = 'odd'", "model = NULL")
    for number, wrong in enumerate(odd, 1):
        run_echo()
        axe_nb.history()
        change_file(kept, f"UPDATE runs SET {wrong} WHERE id = {number}")
    run_echo("Whole")
    assert prompts() == ["Whole"]
    assert "Whole" in axe_nb.history()._repr_html_()


@pytest.mark.req("D-61")
def test_a_later_minor_version_is_used(kept: Path) -> None:
    run_echo("First")
    axe_nb.history()
    later = pack(read_text(kept, 1).replace("history 5.0\n{", 'history 5.7\n{"mood":"good",'))
    change_file(kept, f"UPDATE parts SET content = {later}; PRAGMA user_version = 5099")
    change_file(kept, "ALTER TABLE runs ADD COLUMN mood REAL")
    find_writer(kept).flush()
    assert problems(run_echo("Second")) == []
    assert [row.prompt for row in axe_nb.history()] == ["Second", "First"]
    assert axe_nb.load(1).text == "You said: First"


@pytest.fixture
def full_disk(kept: Path) -> Iterator[Callable[[], None]]:
    """A disk on which no file can grow beyond 120 kB until it is freed by a call.

    Two of them, the history and its journal, hold less than a run of `run_filler`.
    """
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    run_echo("First")
    axe_nb.history()
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, hard))
    yield free
    free()


def run_filler(at_the_end: Callable[[], object]) -> RunResult:
    """A run with more text than a full disk takes."""

    @axe_nb.tool
    def fill(what: str) -> str:
        find_writer(history_path()).flush(5)  # what happened so far is written, or not
        return b64encode(os.urandom(60_000)).decode()  # as large when it is compressed

    @script("filler")
    def filler(request: Request) -> object:
        if request.turn < 6:
            return axe_nb.call("fill", what="")
        at_the_end()
        return "done"

    return axe_nb.run(Agent(name="filler", model="script/filler", tools=("fill",)), "Fill it")


def test_a_full_disk_costs_one_warning(full_disk: Callable[[], None]) -> None:
    (problem,) = problems(run_filler(lambda: None))
    assert "full" in problem or "disk I/O error" in problem
    find_writer(history_path()).flush(5)
    full_disk()
    assert problems(run_echo("Last")) == []
    assert [(row.prompt, row.status) for row in axe_nb.history()] == [
        ("Last", "completed"), ("Fill it", "cancelled"), ("First", "completed"),
    ]  # fmt: skip


def test_a_disk_that_is_freed_in_time_costs_nothing(full_disk: Callable[[], None]) -> None:
    result = run_filler(full_disk)
    assert problems(result) == []
    assert axe_nb.load(2).to_dict(full=True) == result.to_dict(full=True)


def test_runs_that_are_too_old_or_too_large_are_removed(kept: Path) -> None:
    for number in range(6):
        run_echo(f"Run {number}")
    axe_nb.history()
    with closing(Store(kept, writes=True)) as store:
        store._connection.execute("UPDATE runs SET started = started - 100 WHERE id <= 2")
        size = sum(row.bytes for row in list(store.list_rows())[:2])
        store.prune(max_age=50)
        assert [row.id for row in store.list_rows()] == [6, 5, 4, 3]
        assert store.list_parts(1) == []
        store.prune(max_size=size)
        assert [row.id for row in store.list_rows()] == [6, 5]
        store.prune(max_size=0)
        assert list(store.list_rows()) == []
