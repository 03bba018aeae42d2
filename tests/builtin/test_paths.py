"""Tools stay inside the workdir, however a path is written, wherever links lead, whoever races."""

from __future__ import annotations

import os
import socket
import threading
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.agents.prompt import brief
from axe_nb.builtin.paths import errors_for_model, locate, open_file
from axe_nb.paths import BY_DESCRIPTOR, hold_real_folder, replace_file
from axe_nb.tools.tool import FileLog, ToolError
from tests.calls import failure, run, tool

CORPUS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "paths.toml").read_text("utf-8")
)
ESCAPES = [(kind, path) for kind, listed in CORPUS.items() if kind != "harmless" for path in listed]
assert len(set(ESCAPES)) >= 60
SECRET = "the treasure is under the old oak"

posix = pytest.mark.skipif(os.name == "nt", reason="not run: links and pipes are of POSIX")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "sub").mkdir(parents=True)
    (outside / "folder").mkdir(parents=True)
    (tmp_path / "workside").mkdir()
    for secret in ("outside/secret.txt", "outside/folder/x.txt", "workside/secret.txt"):
        (tmp_path / secret).write_text(f"{SECRET}\n")
    (work / "inside.txt").write_text("inside\n")
    (work / "sub" / "deep.txt").write_text("deep\n")
    links: dict[str, str | Path] = {
        "out": outside, "out.txt": outside / "secret.txt", "up": "..", "root": "/",
        "sub/far": "../../outside", "chain": "chain2", "chain2": "out", "loop": "loop",
        "dangling": outside / "new.txt", "proc": "/proc/self/root", "cwd": "/proc/self/cwd",
        "again": "sub", "sub/home": "..",
    }  # fmt: skip
    for name, target in links.items():
        (work / name).symlink_to(target)
    os.mkfifo(work / "pipe")
    return work


def filled(path: str, work: Path) -> str:
    return path.replace("{work}", str(work)).replace("{outside}", str(work.parent / "outside"))


def calls(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "read_file", {"path": path}
    yield "list_dir", {"path": path}
    yield "find_files", {"pattern": "*", "path": path}
    yield "grep", {"pattern": "treasure|root|old", "path": path}
    yield "write_file", {"path": path, "content": "broken in"}
    yield "edit_file", {"path": path, "old_text": "treasure", "new_text": "gold"}


def everything(folder: Path) -> dict[str, str]:
    return {
        str(file): file.read_text()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


@posix
@pytest.mark.req("X-32", "X-33")
@pytest.mark.parametrize(("kind", "path"), ESCAPES)
def test_every_way_out_is_refused_by_every_tool(work: Path, kind: str, path: str) -> None:
    before = everything(work.parent)
    for name, arguments in calls(filled(path, work)):
        file_log = FileLog()
        text = failure(tool(name), work, file_log, **arguments)
        assert SECRET not in text
        assert "workdir" in text, "a refusal says why"
        assert not file_log.files_read
        assert not file_log.files_modified
    assert everything(work.parent) == before


@posix
@pytest.mark.parametrize("path", CORPUS["harmless"])
def test_what_only_looks_like_a_way_out_means_a_file_inside(work: Path, path: str) -> None:
    before = everything(work.parent / "outside")
    assert "File not found" in failure(tool("read_file"), work, path=filled(path, work))
    run(tool("write_file"), work, path=filled(path, work), content="inside")
    assert everything(work.parent / "outside") == before
    assert "inside" in everything(work).values()


@posix
@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("./sub//deep.txt", "sub/deep.txt"), ("missing/../inside.txt", "inside.txt"),
        ("{work}/inside.txt", "inside.txt"), ("again/deep.txt", "sub/deep.txt"),
        ("sub/home/inside.txt", "inside.txt"),
    ],
)  # fmt: skip
def test_ways_that_stay_inside_are_taken_and_noted_under_one_name(
    work: Path, path: str, meant: str
) -> None:
    file_log = FileLog()
    text = run(tool("read_file"), work, file_log, path=filled(path, work))
    assert text == f"     1\t{(work / meant).read_text().strip()}"
    assert list(file_log.files_read) == [meant]


@posix
def test_a_workdir_that_is_a_link_is_a_workdir(work: Path) -> None:
    link = work.parent / "link"
    link.symlink_to(work)
    found = brief(Agent("a", "script/a", workdir=str(link))).workdir
    assert found == work
    for path in ("inside.txt", f"{link}/inside.txt", f"{work}/inside.txt"):
        assert run(tool("read_file"), found, path=path) == "     1\tinside"
    assert "outside the workdir" in failure(tool("read_file"), found, path=f"{link}x")


@posix
@pytest.mark.req("X-35")
def test_a_link_in_the_place_of_the_workdir_is_not_followed(work: Path) -> None:
    for name, arguments in calls("x.txt"):
        assert "Working directory not found" in failure(tool(name), work / "no", **arguments)
    for moved in (work, work.parent):
        moved.rename(aside := moved.with_name("aside"))
        moved.symlink_to(aside / "outside" if moved == work else aside)
        for name, arguments in calls("secret.txt"):
            assert "was replaced by a link" in failure(tool(name), work, **arguments)
        with pytest.raises(OSError, match="Not a directory"), hold_real_folder(work):
            pass
        moved.unlink()
        aside.rename(moved)


@posix
@pytest.mark.req("X-33")
def test_pipes_and_sockets_are_refused_at_once(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("plug")
        for name in ("pipe", "plug"):
            for tool_name, arguments in calls(name):
                if tool_name not in ("list_dir", "find_files"):
                    assert "Not a regular file" in failure(tool(tool_name), work, **arguments)
    assert "pipe" in run(tool("list_dir"), work)
    assert run(tool("grep"), work, pattern="inside") == "inside.txt:1:inside"


@posix
def test_a_walk_does_not_follow_links(work: Path) -> None:
    found = run(tool("find_files"), work, pattern="**").splitlines()
    assert "sub/deep.txt" in found
    assert not [path for path in found if "secret" in path or path.startswith(("up/", "again/"))]
    assert SECRET not in run(tool("grep"), work, pattern="treasure")


@posix
@pytest.mark.skipif(not BY_DESCRIPTOR, reason="not run: needs folders by descriptor")
def test_a_folder_exchanged_for_a_link_is_never_followed(work: Path) -> None:
    """While one thread swaps a folder with a link to the outside, others read and write there."""
    folder, aside, link = work / "swap", work / "aside", work / "swap_link"
    folder.mkdir()
    (folder / "secret.txt").write_text("harmless\n")
    link.symlink_to(work.parent / "outside")
    before = everything(work.parent / "outside")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            folder.rename(aside)
            link.rename(folder)
            folder.rename(link)
            aside.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes = set()
    try:
        for i in range(400):
            with suppress(ToolError), errors_for_model("swap"):
                with os.fdopen(open_file(locate(work, "swap/secret.txt")), "rb") as file:
                    outcomes.add(file.read().decode())
                replace_file(locate(work, f"swap/new{i % 7}.txt").real, b"new")
    finally:
        done.set()
        swapping.join()
    assert everything(work.parent / "outside") == before
    assert "harmless\n" in outcomes
    assert SECRET + "\n" not in outcomes


@posix
def test_a_file_exchanged_between_look_and_use_is_noticed(work: Path) -> None:
    names = locate(work, "inside.txt")
    (work / "inside.txt").unlink()
    (work / "inside.txt").symlink_to(work.parent / "outside" / "secret.txt")
    with pytest.raises(ToolError, match="Not a regular file"):
        open_file(names)
