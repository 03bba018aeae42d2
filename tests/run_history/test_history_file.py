"""The history's file: kills, full disks, hostile contents, other versions, several processes."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, script
from axe_nb.recording.history_recorder import (
    find_writer,
    history_path,
)
from axe_nb.recording.history_store import Store
from tests.run_history.test_kept_runs import read_text

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


def start(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def run_echo(prompt: str = "Hello") -> RunResult:
    script("echo")(lambda request: f"You said: {request.last}")
    return axe_nb.run(Agent(name="echo", model="script/echo"), prompt)


def wait_for_parts(path: Path, number: int) -> None:
    """Waits until the file of another process holds so many parts of runs."""
    until = time.monotonic() + 20
    while count_parts(path) < number:
        assert time.monotonic() < until
        time.sleep(0.005)


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
    with start(KILLED) as process, ExitStack() as stack:
        stack.callback(process.kill)  # nothing else ends it
        assert process.stdout
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        wait_for_parts(kept, 10)  # all that happened before the tool that waits
        (row,) = axe_nb.history()
        assert row.status == "running"
        assert axe_nb.load(1).error == (
            "the run has not ended yet; what was answered so far is kept"
        )
    (row,) = axe_nb.history()
    assert (row.status, row.runs, row.turns) == ("cancelled", 3, 4)
    result = axe_nb.load(1)
    assert result.status == "cancelled"
    assert result.error == "the process ended during this run; what was answered by then is kept"
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
    processes = [start(code, name) for name in ("one", "two")]
    for process in processes:
        assert process.communicate()[1] == ""
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
        assert start(other).communicate() == ("", "")

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
        (lambda path: change_version(path, "5.0"), "its version is 5.0, expected .*update axe-nb"),
    ],
    ids=["random", "zeros", "another program's", "an older version", "a later version"],
)
def test_a_file_that_is_no_history_is_left_alone(
    make: Callable[[Path], object], why: str, kept: Path
) -> None:
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
    with pytest.raises(ConfigError, match=f"run 1 of the history cannot be read: .*{why}") as error:
        axe_nb.load(1)
    assert "\n" not in error.value.message
    assert [row.id for row in axe_nb.history()] == [1]


@pytest.mark.req("D-61")
def test_a_later_minor_version_is_used(kept: Path) -> None:
    run_echo("First")
    axe_nb.history()
    later = pack(read_text(kept, 1).replace("history 5.0\n{", 'history 5.7\n{"mood":"good",'))
    change_file(kept, f"UPDATE parts SET content = {later}; PRAGMA user_version = 4099")
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


@pytest.fixture
def small_disk(kept: Path) -> Iterator[None]:
    """The history's folder, on a disk of one megabyte."""
    if not sys.platform.startswith("linux") or os.geteuid():
        pytest.skip("only root has a disk of its own")
    folder = history_path().parent
    folder.mkdir(parents=True, exist_ok=True)
    disk = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(disk, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield
    finally:
        find_writer(history_path()).flush(5)
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_a_burst_of_runs_fills_is_told_in_the_run_that_it_hit() -> None:
    script("large")(lambda request: b64encode(os.urandom(60_000)).decode())
    results = [axe_nb.run(None, str(number), model="script/large") for number in range(30)]
    fine = [result.prompt for result in results if not problems(result)]
    assert 2 < len(fine) < 20
    assert {row.prompt for row in axe_nb.history()} >= set(fine)


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
