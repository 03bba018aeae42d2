"""Runs are kept, listed and loaded, also elsewhere; what they take in the file and in memory."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import (
    Agent,
    ConfigError,
    Request,
    Response,
    call,
    script,
    script_server,
)
from axe_nb.messages import Delta
from axe_nb.recording.history import delete_run
from axe_nb.recording.history_store import Store
from axe_nb.scripting.wire import Protocol
from axe_nb.session.session import session
from tests.engine.in_process import agent, ask, lead
from tests.protocols import PROTOCOLS, provider_of


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


def define_echo(text: str = "You said: {last}") -> None:
    script("echo")(lambda request: text.replace("{last}", request.last))
    axe_nb.define(Agent(name="echo", model="script/echo"))


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
    define_echo()
    for prompt in ("Über Rom, 50%", "Two"):
        axe_nb.run("echo", prompt)
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


def test_a_map_or_grid_is_one_row_that_opens(kept: Path) -> None:
    define_tree()
    define_echo()
    axe_nb.run("echo", "before")
    list(axe_nb.map("guide", ["Rome", "<b>Oslo", "Turin"], concurrency=1, display=False))
    axe_nb.grid(["echo", "lead"], "Say {{ input }}", inputs=["a"], display=False)
    axe_nb.run("echo", "after")
    last, grid, batch, first = rows = axe_nb.history()
    assert (last.prompt, first.prompt) == ("after", "before")
    assert (batch.kind, batch.prompt) == ("map", "map of 3, 1 not completed: Rome")
    assert (batch.agent, batch.model, batch.status) == ("guide", "script/guide", "error")
    assert (batch.runs, batch.turns) == (3, 2)
    assert (grid.kind, grid.agent, grid.prompt) == ("grid", "echo, lead", "grid of 2: Say a")
    assert (grid.status, grid.runs) == ("completed", 4), "the sub-agents count"
    assert prompts(str(batch.id)) == ["Turin", "<b>Oslo", "Rome"]
    assert prompts("oslo") == ["<b>Oslo"]
    assert prompts(status="error") == ["<b>Oslo", batch.prompt]
    html = rows._repr_html_()
    assert html.count("<details>") == 2
    assert "&lt;b&gt;Oslo" in html
    assert "<b>" not in html
    with pytest.raises(ConfigError, match=f"^{batch.id} is a map of the history") as refused:
        axe_nb.load(batch.id)
    assert refused.value.hint == (
        f'list its runs: %axe history {batch.id}, or axe_nb.history("{batch.id}")'
    )
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
    define_echo()
    list(axe_nb.map("echo", ["one", "two"], concurrency=1, display=False))
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
        ((), {"limit": "x"}, "limit takes a whole number from 1, not 'x'"),
        ((), {"limit": 0}, "limit takes a whole number from 1, not 0"),
        ((), {"limit": 10**30}, "limit takes a whole number from 1, not 1000"),
    ],
)
def test_a_wrong_word_status_date_or_limit_is_told(
    given: Any, named: Any, problem: str, kept: Path
) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}"):
        axe_nb.history(*given, **named)


@pytest.mark.req("D-69")
@pytest.mark.parametrize("id", [10**30, str(10**30), 2, -1])
def test_an_id_that_no_run_has_is_told_and_no_fault_of_the_file(id: Any, kept: Path) -> None:
    define_echo()
    axe_nb.run("echo", "One")
    with pytest.raises(ConfigError, match=r"^the history has no run with the id") as unknown:
        axe_nb.load(id)
    assert "axe_nb.history()" in unknown.value.hint


def test_a_deleted_run_leaves_nothing_in_the_file(kept: Path) -> None:
    define_echo()
    for prompt in ("One", "a private word", "Three"):
        axe_nb.run("echo", prompt)
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
    axe_nb.run("echo", "Four")
    assert axe_nb.history()[0].id == 4


def test_a_run_that_goes_on_is_neither_deleted_nor_removed(kept: Path) -> None:
    @script("echo")
    def echo(request: Request) -> str:
        (row,) = axe_nb.history()
        with pytest.raises(ConfigError, match=r"^run 1 of the history has not ended"):
            delete_run(row.id)
        with closing(Store(kept)) as store:
            store.prune(max_age=-10)
        return "still here"

    assert axe_nb.run(None, "go", model="script/echo").text == "still here"
    assert axe_nb.load(1).text == "still here"


def test_the_list_as_text_html_and_data_frame(kept: Path) -> None:
    assert repr(axe_nb.history()) == "no runs found in the history"
    define_echo()
    axe_nb.run("echo", "<script>alert(1)</script>")
    rows = axe_nb.history()
    head, line = repr(rows).splitlines()
    assert head.split() == [
        "id", "when", "agent", "model", "prompt", "status", "runs", "turns", "tokens", "cost",
        "seconds",
    ]  # fmt: skip
    assert line.startswith("1   20")
    html = rows._repr_html_()
    assert "<script>" not in html
    assert "<td style='text-align:left;white-space:nowrap'>echo</td>" in html
    assert "<th style='text-align:right;white-space:nowrap'>tokens</th>" in html
    assert "&lt;script&gt;" in html
    frame = rows.to_frame()
    assert list(frame.index) == [1]
    assert frame.loc[1, "agent"] == "echo"


@pytest.mark.parametrize("how", ["variable", "config", "test"])
def test_no_history_is_kept_if_turned_off(
    how: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("AXE_NB_HISTORY", "0")
    elif how == "config":
        monkeypatch.setattr(session, "keeps_history", False)
    else:
        monkeypatch.delenv("AXE_NB_HISTORY")
    define_echo()
    axe_nb.run("echo", "Hello")
    assert not kept.exists()
    assert len(axe_nb.history()) == 0


def test_only_runs_that_ask_a_model_are_kept_with_a_cassette(kept: Path, project: Path) -> None:
    define_echo()
    with axe_nb.cassette("echo.axe", "auto"):
        first = axe_nb.run("echo", "Compare")
    with axe_nb.cassette("echo.axe", "replay"):
        axe_nb.run("echo", "Compare")
        axe_nb.run("echo", "Not recorded")
    with axe_nb.cassette("echo.axe", "auto"):
        axe_nb.run("echo", "Compare")
    (row,) = axe_nb.history()
    assert axe_nb.load(row.id).to_dict(full=True) == first.to_dict(full=True)


def test_the_file_is_the_users_alone(kept: Path) -> None:
    define_echo()
    axe_nb.run("echo", "Hello")
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
    define_echo(odd)
    result = axe_nb.run("echo", odd)
    assert axe_nb.load(1).to_dict(full=True) == result.to_dict(full=True)


@pytest.mark.req("D-69")
def test_a_word_that_is_no_id_says_how_to_go_on(kept: Path) -> None:
    with pytest.raises(ConfigError, match='"seven" is not a run id') as wrong:
        axe_nb.load("seven")
    assert "./seven" in wrong.value.hint


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_keeps_its_own_runs(kept: Path) -> None:
    define_echo()
    axe_nb.run("echo", "Before")
    axe_nb.history()
    child = os.fork()
    if child == 0:
        try:
            axe_nb.run("echo", "In the child")
            os._exit(0 if len(axe_nb.history()) == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    axe_nb.run("echo", "After")
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
