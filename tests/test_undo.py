"""What the file tools of a run changed is put back, and what cannot be put back is listed."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, ToolCall, call, script
from axe_nb.agents.config import state_dir
from axe_nb.builtin import table as builtin
from axe_nb.recording.history import delete_run
from axe_nb.recording.modes import TEST_VARIABLES
from axe_nb.recording.recorder import find_writer, history_path
from axe_nb.tools import kept_files
from axe_nb.tools.tool import FileLog, Guard
from tests.calls import context, run

pytestmark = pytest.mark.req("D-84")

POSIX = pytest.mark.skipif(os.name == "nt", reason="not run: links and modes are of POSIX")


def write(path: str, content: str) -> ToolCall:
    return call("write_file", path=path, content=content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def do(folder: Path) -> Callable[..., RunResult]:
    """Runs an agent that makes the given calls, one in each turn."""

    def run(*calls: ToolCall, tools: Any = ("file_ops",), **options: Any) -> RunResult:
        left = list(calls)

        @script("writer")
        def writer(request: Request) -> Any:
            return left.pop(0) if left else "done"

        agent = Agent(name="writer", model="script/writer", tools=list(tools), mode="auto")
        return axe_nb.run(agent, "Write", **{"workdir": str(folder), **options})

    return run


def test_changed_files_are_put_back_and_new_ones_removed(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    edit = call("edit_file", path="a.txt", old_text="two", new_text="three")
    result = do(edit, write("sub/new.txt", "new\n"), write("a.txt", "all new\n"))
    assert (folder / "sub/new.txt").exists()
    undone = result.undo()
    assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert not (folder / "sub/new.txt").exists()
    assert (undone.restored, undone.removed, undone.conflicts) == (("a.txt",), ("sub/new.txt",), ())
    assert "\n-all new" in undone.diff
    assert "\n+two" in undone.diff
    assert "\n-new" in undone.diff
    assert "restored a.txt" in repr(undone)
    again = result.undo()
    assert (again.restored, again.removed) == ((), ())
    assert "nothing to undo" in repr(again)


def test_a_dry_undo_shows_the_same_difference_and_changes_nothing(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("old\n")
    result = do(write("a.txt", "new\n"), write("deep/er/b.txt", "b"))
    dry = result.undo(dry=True)
    assert (folder / "a.txt").read_text() == "new\n"
    assert (folder / "deep/er/b.txt").exists()
    assert "would restore a.txt" in repr(dry)
    assert result.undo().diff == dry.diff


def test_a_file_changed_since_the_run_is_left_unless_forced(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("old")
    result = do(write("a.txt", "new"), write("b.txt", "b"))
    (folder / "a.txt").write_text("mine")
    (folder / "b.txt").write_text("mine too")
    undone = result.undo()
    assert undone.conflicts == ("a.txt", "b.txt")
    assert "changed since the run" in repr(undone)
    assert (folder / "a.txt").read_text() == "mine"
    assert (folder / "b.txt").read_text() == "mine too"
    assert result.undo(force=True).conflicts == ()
    assert (folder / "a.txt").read_text() == "old"
    assert not (folder / "b.txt").exists()


def test_a_change_that_someone_else_made_during_the_run_is_a_conflict(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("old")

    @axe_nb.tool(name="meddle")
    def meddle() -> str:
        """Change the file as a person would."""
        (folder / "a.txt").write_text("a person's")
        return "ok"

    calls = (write("a.txt", "new"), call("meddle"), write("a.txt", "newer"))
    result = do(*calls, tools=("file_ops", "meddle"))
    undone = result.undo()
    assert undone.conflicts == ("a.txt",)
    assert (folder / "a.txt").read_text() == "newer"


@POSIX
def test_a_deleted_file_is_made_anew_with_its_mode_and_folders(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/run.sh").write_text("old")
    (folder / "bin/run.sh").chmod(0o750)
    result = do(write("bin/run.sh", "new"))
    (folder / "bin/run.sh").unlink()
    (folder / "bin").rmdir()
    assert result.undo(dry=True).restored == ("bin/run.sh",)
    assert not (folder / "bin").exists()
    result.undo()
    assert (folder / "bin/run.sh").read_text() == "old"
    assert stat.S_IMODE((folder / "bin/run.sh").stat().st_mode) == 0o750


def test_what_children_wrote_is_undone_with_their_root(folder: Path) -> None:
    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            return write("a.txt", "new")
        return "done" if request.turn > 2 else call("call_agent", agent="worker", task="write")

    @script("worker")
    def worker(request: Request) -> Any:
        return "done" if request.turn > 1 else write("a.txt", "new")

    (folder / "sub").mkdir()
    for path in ("a.txt", "sub/a.txt"):
        (folder / path).write_text("old")
    common: dict[str, Any] = {"tools": ["write_file"], "mode": "auto"}
    below = str(folder / "sub")
    axe_nb.define(Agent(name="worker", model="script/worker", workdir=below, **common))
    root = Agent(name="lead", model="script/lead", sub_agents=["worker"], **common)
    result = axe_nb.run(root, "Go", workdir=str(folder))
    assert (folder / "sub/a.txt").read_text() == "new"
    with pytest.raises(axe_nb.ConfigError, match=r"0\.2 is a part of a run"):
        result.children[0].undo()
    assert result.undo().restored == ("a.txt", "sub/a.txt")
    assert (folder / "sub/a.txt").read_text() == "old"


def test_saved_and_pickled_results_can_be_undone_as_well(
    do: Callable[..., RunResult], folder: Path, tmp_path: Path
) -> None:
    (folder / "a.txt").write_text("old")
    result = do(write("a.txt", "new"))
    result.save(tmp_path / "run.txt")
    loaded = axe_nb.load(tmp_path / "run.txt")
    assert loaded == result
    assert pickle.loads(pickle.dumps(result)).undo(dry=True).restored == ("a.txt",)
    loaded.undo()
    assert (folder / "a.txt").read_text() == "old"


def test_a_run_of_the_history_can_be_undone_by_its_id(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    (folder / "a.txt").write_text("old")
    do(write("a.txt", "new"))
    axe_nb.load(1).undo()
    find_writer(history_path()).flush()
    assert (folder / "a.txt").read_text() == "old"


def test_each_run_of_a_map_is_undone_alone(folder: Path) -> None:
    @script("namer")
    def namer(request: Request) -> Any:
        return "done" if request.turn > 1 else write(f"{request.last}.txt", "new")

    agent = Agent(name="namer", model="script/namer", tools=["write_file"], mode="auto")
    first, second = axe_nb.map(agent, ["a", "b"], workdir=str(folder))
    assert first.undo().removed == ("a.txt",)
    assert not (folder / "a.txt").exists()
    assert (folder / "b.txt").exists()
    assert second.undo().removed == ("b.txt",)


def test_two_runs_in_one_folder_are_undone_in_reverse_order(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("zero")
    first, second = do(write("a.txt", "one")), do(write("a.txt", "two"))
    assert first.undo().conflicts == ("a.txt",)
    assert second.undo().restored == ("a.txt",)
    assert first.undo().restored == ("a.txt",)
    assert (folder / "a.txt").read_text() == "zero"


def test_runs_side_by_side_keep_their_files_apart(folder: Path) -> None:
    @script("both")
    def both(request: Request) -> Any:
        name = request.messages[-1].content if request.turn == 1 else ""
        return write(f"{name}.txt", "new") if name else "done"

    agent = Agent(name="both", model="script/both", tools=["write_file"], mode="auto")
    results: dict[str, RunResult] = {}

    def run(name: str) -> None:
        results[name] = axe_nb.run(agent, name, workdir=str(folder), display=False)

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results["c"].undo().removed == ("c.txt",)
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt", "d.txt"]


def test_what_cannot_be_undone_is_said(do: Callable[..., RunResult], folder: Path) -> None:
    @axe_nb.tool(name="look", read_only=True)
    def look() -> str:
        """Look at something."""
        return "seen"

    @axe_nb.tool(name="stir", writes=True)
    def stir() -> str:
        """Change something."""
        return "stirred"

    tools = ("file_ops", "run_command", "look", "stir")
    calls = [call("stir"), call("look"), call("stir"), call("read_file", path="a.txt")]
    (folder / "a.txt").write_text("old")
    result = do(*calls, call("run_command", command="true"), write("a.txt", "n"), tools=tools)
    shown = repr(result.undo())
    assert "not undone: what other tools may have changed: stir (2 calls)" in shown
    assert "look" not in shown
    assert "read_file" not in shown


def test_a_run_that_changed_no_files_says_so(do: Callable[..., RunResult]) -> None:
    assert "nothing to undo" in repr(do().undo())


@POSIX
def test_a_link_that_leads_elsewhere_by_now_is_not_followed(
    do: Callable[..., RunResult], folder: Path, tmp_path: Path
) -> None:
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("old")
    result = do(write("a.txt", "new"), write("sub/b.txt", "new"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("new")
    (other / "a.txt").write_text("new")
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to(other / "a.txt")
    (folder / "sub").rename(folder / "sub2")
    (folder / "sub").symlink_to(other)
    undone = result.undo(force=True)
    assert undone.restored == ()
    assert [path.read_text() for path in other.iterdir()] == ["new", "new"]
    assert repr(undone).count("through a link") == 2


@POSIX
def test_a_link_inside_the_workdir_is_not_followed_either(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("old")
    result = do(write("a.txt", "new"))
    (folder / "a.txt").rename(folder / "b.txt")
    (folder / "a.txt").symlink_to("b.txt")
    assert "a.txt: a link has taken its place" in repr(result.undo(force=True))
    assert (folder / "b.txt").read_text() == "new"


@POSIX
def test_the_kept_files_are_readable_by_their_owner_alone(
    do: Callable[..., RunResult], folder: Path
) -> None:
    (folder / "a.txt").write_text("old")
    do(write("a.txt", "new"))
    made = list((state_dir() / "undo").rglob("*"))
    assert len(made) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700, 0o600}


def test_a_file_too_large_to_be_kept_is_one_warning(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "MAX_RUN", 5000)
    (folder / "big.bin").write_bytes(b"\0" * 6000)
    (folder / "small.txt").write_text("old")
    result = do(write("big.bin", "new"), write("small.txt", "new"), write("big.bin", "newer"))
    (warning,) = result.warnings
    assert warning.startswith("big.bin cannot be undone: its old content was not kept")
    undone = result.undo(force=True)
    assert undone.restored == ("small.txt",)
    assert "big.bin: its old content was not kept" in repr(undone)
    assert (folder / "big.bin").read_text() == "newer"


def test_a_sparse_file_of_a_terabyte_costs_neither_time_nor_memory(
    do: Callable[..., RunResult], folder: Path
) -> None:
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(10**12)
    (warning,) = do(write("huge.bin", "new")).warnings
    assert warning.startswith("huge.bin cannot be undone")


@POSIX
def test_a_state_folder_that_cannot_be_written_stops_no_write(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    (folder / "a.txt").write_text("old")
    assert do(write("a.txt", "old too")).warnings == ()  # in a test
    with monkeypatch.context() as patch:
        patch.setenv("AXE_NB_HISTORY", "0")
        for name in TEST_VARIABLES:
            patch.delenv(name, raising=False)
        result = do(write("a.txt", "new"), write("b.txt", "new"))
    assert (folder / "a.txt").read_text() == "new"
    (warning,) = [one for one in result.warnings if "undone" in one]
    assert warning.startswith("a.txt, b.txt cannot be undone: their old content was not kept")
    assert "were not kept" in repr(result.undo())


def test_many_files_are_kept_and_removed(do: Callable[..., RunResult], folder: Path) -> None:
    tool = builtin.SOURCE.find("write_file")
    assert tool is not None
    result = do(write("first.txt", "x"))
    kept = kept_files.KeptFiles()
    for number in range(300):
        run(tool, folder, FileLog(kept=kept), path=f"{number}.txt", content="x")
    undone = RunResult(status="completed", text="", agent="", model="", undo_id=kept.id).undo()
    assert len(undone.removed) == 300
    assert len(repr(undone)) < 30_000
    assert [path.name for path in folder.iterdir()] == ["first.txt"]
    assert result.undo().removed == ("first.txt",)


def test_the_oldest_runs_give_way(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = do(write("first.txt", "x"))
    monkeypatch.setattr(kept_files, "MAX_ALL", 0)
    last = do(write("last.txt", "x"))
    assert len(list((state_dir() / "undo").iterdir())) == 1
    assert "were not kept, or no longer are" in repr(first.undo())
    assert (folder / "first.txt").exists()
    assert last.undo().removed == ("last.txt",)


def test_a_difference_is_harmless_and_bounded(do: Callable[..., RunResult], folder: Path) -> None:
    (folder / "a.txt").write_text("\x1b[2Jold <b>\n" + "line\n" * 100_000)
    (folder / "b.bin").write_bytes(b"\0\1\2")
    result = do(write("a.txt", "new\x1b]0;title\x07"), write("b.bin", "text"))
    undone = result.undo()
    assert "\x1b" not in repr(undone)
    assert "\x1b" not in undone.diff
    assert len(undone.diff) < 30_000
    shown: Any = undone
    assert "<b>" not in shown._repr_html_()
    assert (folder / "a.txt").read_text().startswith("\x1b[2Jold <b>\n")
    assert (folder / "b.bin").read_bytes() == b"\0\1\2"


def test_a_secret_in_a_file_is_restored_but_not_shown(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("the key is s3cr3t-0123456789\n")
    monkeypatch.setenv("MY_API_KEY", "s3cr3t-0123456789")
    undone = do(write("a.txt", "new")).undo()
    assert "s3cr3t" not in undone.diff
    assert "s3cr3t" in (folder / "a.txt").read_text()


def test_tools_cannot_read_what_was_kept(do: Callable[..., RunResult], tmp_path: Path) -> None:
    do(write("a.txt", "x"))
    index = next((state_dir() / "undo").rglob("index")).relative_to(tmp_path)
    look = call("read_file", path=index.as_posix())
    result = do(look, workdir=str(tmp_path))
    assert result.log[0].results[0].is_denied


@pytest.mark.parametrize("undo_id", ["../../work", "a/b", "", "0" * 16 + "-" + "0" * 8])
def test_an_id_from_a_foreign_file_reaches_no_other_folder(undo_id: str) -> None:
    result = RunResult(status="completed", text="", agent="", model="", undo_id=undo_id)
    assert result.undo().restored == ()


@pytest.mark.parametrize("damage", [b"{", b"[]\n", b'{"root": 1}\n', b"\xff\xfe\n"])
def test_a_damaged_index_is_told(damage: bytes, do: Callable[..., RunResult], folder: Path) -> None:
    result = do(write("a.txt", "x"))
    index = next((state_dir() / "undo").rglob("index"))
    index.write_bytes(damage + index.read_bytes())
    with pytest.raises(axe_nb.ConfigError, match="kept files of this run cannot be read"):
        result.undo()


def test_a_damaged_content_is_not_written(do: Callable[..., RunResult], folder: Path) -> None:
    (folder / "a.txt").write_text("old")
    result = do(write("a.txt", "new"))
    [kept] = {*(state_dir() / "undo").glob("*/*")} - {*(state_dir() / "undo").glob("*/index")}
    kept.write_bytes(b"odd")
    assert "a.txt: its kept content is damaged" in repr(result.undo())
    assert (folder / "a.txt").read_text() == "new"


def test_a_run_whose_process_died_while_it_wrote_a_line_can_be_undone(
    do: Callable[..., RunResult], folder: Path
) -> None:
    result = do(write("a.txt", "x"))
    index = next((state_dir() / "undo").rglob("index"))
    assert json.loads(index.read_text())["path"] == "a.txt"
    with index.open("ab") as file:
        file.write(b'{"root": "/ho')
    assert result.undo().removed == ("a.txt",)


DIES = """
import os, axe_nb

@axe_nb.script("writer")
def writer(request):
    if request.turn == 1:
        return axe_nb.call("write_file", path="a.txt", content="new")
    axe_nb.history()  # waits until the history has what happened so far
    os._exit(7)

agent = axe_nb.Agent(name="writer", model="script/writer", tools=["write_file"], mode="auto")
axe_nb.run(agent, "Write", display=False)
"""


def test_a_run_whose_process_died_can_be_undone_by_its_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    (folder / "a.txt").write_text("old")
    died = subprocess.run([sys.executable, "-c", DIES], cwd=folder, check=False)
    assert died.returncode == 7
    assert (folder / "a.txt").read_text() == "new"
    loaded = axe_nb.load(1)
    assert loaded.status == "cancelled"
    assert loaded.undo().restored == ("a.txt",)
    assert (folder / "a.txt").read_text() == "old"


def test_a_run_deleted_from_the_history_leaves_no_kept_files(
    do: Callable[..., RunResult], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    (folder / "a.txt").write_text("old")
    do(write("a.txt", "new"))
    assert list((state_dir() / "undo").iterdir())
    assert len(axe_nb.history()) == 1
    delete_run(1)
    assert not list((state_dir() / "undo").iterdir())
    find_writer(history_path()).flush()


@POSIX
def test_a_full_disk_loses_the_file_that_did_not_fit_alone(
    do: Callable[..., RunResult], folder: Path
) -> None:
    import resource

    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text(name * (1000 if name == "b.txt" else 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # no file may grow beyond it
    try:
        result = do(*(write(name, "new") for name in ("a.txt", "b.txt", "c.txt")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.files_modified == ("a.txt", "b.txt", "c.txt")
    undone = result.undo()
    assert undone.restored == ("a.txt", "c.txt")
    assert (folder / "c.txt").read_text() == "c.txt"


def test_a_fork_undoes_what_it_changed_itself(do: Callable[..., RunResult], folder: Path) -> None:
    (folder / "a.txt").write_text("old")
    first = do(write("a.txt", "new"))
    fork = first.fork("0/2", reply=write("b.txt", "b"))
    undone = fork.undo()
    assert (undone.restored, undone.removed) == ((), ("b.txt",))
    assert "what the forked run had changed before; undo that run as well" in repr(undone)
    assert first.undo().restored == ("a.txt",)


def test_a_protected_file_is_restored_without_being_shown(folder: Path) -> None:
    (folder / ".env").write_text("PASSWORD=abc\n")
    kept = kept_files.KeptFiles()
    tool = builtin.SOURCE.find("write_file")
    assert tool is not None
    guard = Guard(floor="ask", reason="asked", path=".env")
    ctx = replace(context(folder, FileLog(kept=kept)), guard=guard)
    asyncio.run(tool.fn(ctx, {"path": ".env", "content": "PASSWORD=def\n"}))  # type: ignore[arg-type]
    undone = RunResult(status="completed", text="", agent="", model="", undo_id=kept.id).undo()
    assert undone.restored == (".env",)
    assert undone.diff == ""
    (folder / ".env").unlink()
    result = RunResult(status="completed", text="", agent="", model="", undo_id=kept.id)
    assert result.undo(dry=True).diff == ""
    assert result.undo().diff == ""
    assert (folder / ".env").read_text() == "PASSWORD=abc\n"
