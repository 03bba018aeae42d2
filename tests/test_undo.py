"""What the file tools of a run changed is put back, and what cannot be put back is listed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, ToolCall, builtin, call, script
from axe_nb.agents.user_config import state_dir
from axe_nb.tools import kept_files
from axe_nb.tools.tool import FileLog, Guard
from tests.calls import context

pytestmark = pytest.mark.req("D-84")

POSIX = pytest.mark.skipif(os.name == "nt", reason="not run: links and modes are of POSIX")


def write(path: str, content: str) -> ToolCall:
    return call("write_file", path=path, content=content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


Do: TypeAlias = Callable[..., RunResult]


@pytest.fixture
def do(folder: Path) -> Do:
    """Runs an agent that makes the given calls, one in each turn."""

    def run(*calls: ToolCall, tools: Any = ("file_ops",), **options: Any) -> RunResult:
        left = list(calls)

        @script("writer")
        def writer(request: Request) -> Any:
            return left.pop(0) if left else "done"

        agent = Agent(name="writer", model="script/writer", tools=list(tools), mode="auto")
        return axe_nb.run(agent, "Write", **{"workdir": str(folder), **options})

    return run


def test_changed_files_are_put_back(do: Do, folder: Path) -> None:
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


def test_a_file_changed_since_is_left(do: Do, folder: Path) -> None:
    (folder / "a.txt").write_text("old")
    result = do(write("a.txt", "new"), write("b.txt", "b"))
    (folder / "a.txt").write_text("mine")
    (folder / "b.txt").write_text("mine too")
    undone = result.undo()
    assert undone.conflicts == ("a.txt", "b.txt")
    assert "something else has changed them" in repr(undone)
    assert (folder / "a.txt").read_text() == "mine"
    assert (folder / "b.txt").read_text() == "mine too"
    assert result.undo(force=True).conflicts == ()
    assert (folder / "a.txt").read_text() == "old"
    assert not (folder / "b.txt").exists()


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


def test_what_cannot_be_undone_is_said(do: Do, folder: Path) -> None:
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
    assert "not undone: possible changes by other tools: stir (2 calls)" in shown
    assert "look" not in shown
    assert "read_file" not in shown


@POSIX
def test_a_link_that_leads_elsewhere_is_not_followed(do: Do, folder: Path, tmp_path: Path) -> None:
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


def test_a_difference_is_harmless_and_bounded(do: Do, folder: Path) -> None:
    (folder / "a.txt").write_text("\x1b[2Jold <b>\n" + "line\n" * 100_000)
    (folder / "b.bin").write_bytes(b"\0\1\2")
    result = do(write("a.txt", "new\x1b]0;title\x07"), write("b.bin", "text"))
    undone = result.undo()
    assert "\x1b" not in repr(undone)
    assert "\x1b" not in undone.diff
    assert len(undone.diff) < 30_000
    assert (folder / "a.txt").read_text().startswith("\x1b[2Jold <b>\n")
    assert (folder / "b.bin").read_bytes() == b"\0\1\2"


@pytest.mark.parametrize("undo_id", ["../../work", "a/b", "", "0" * 16 + "-" + "0" * 8])
def test_an_id_from_a_foreign_file_reaches_no_other_folder(undo_id: str) -> None:
    result = RunResult(status="completed", text="", agent="", model="", undo_id=undo_id)
    assert result.undo().restored == ()


def test_a_fork_undoes_what_it_changed_itself(do: Do, folder: Path) -> None:
    (folder / "a.txt").write_text("old")
    first = do(write("a.txt", "new"))
    fork = first.fork("0/2", reply=write("b.txt", "b"))
    undone = fork.undo()
    assert (undone.restored, undone.removed) == ((), ("b.txt",))
    assert "changes by the forked run; undo that run as well" in repr(undone)
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


def test_tools_cannot_read_what_was_kept(do: Do, tmp_path: Path) -> None:
    do(write("a.txt", "x"))
    index = next((state_dir() / "undo").rglob("index")).relative_to(tmp_path)
    look = call("read_file", path=index.as_posix())
    result = do(look, workdir=str(tmp_path))
    assert result.log[0].results[0].is_denied
