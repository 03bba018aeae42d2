"""write_file, edit_file, and the difference they would make."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from axe_nb.tools.tool import FileLog
from tests.calls import answer, failure, run, tool

WRITE, EDIT = tool("write_file"), tool("edit_file")


def preview(name: str, arguments: dict[str, Any], workdir: Path) -> str:
    shown = tool(name).preview
    assert shown is not None
    return shown(arguments, workdir)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.req("D-20")
def test_a_new_file_is_written_with_its_folders(tmp_path: Path) -> None:
    file_log = FileLog()
    text = run(WRITE, tmp_path, file_log, path="a/b/c.txt", content="é\n")
    assert text == "Wrote a/b/c.txt (3 bytes)"
    assert (tmp_path / "a/b/c.txt").read_bytes() == "é\n".encode()
    assert list(file_log.files_modified) == ["a/b/c.txt"]
    assert not file_log.files_read


def test_an_existing_file_is_replaced_and_the_difference_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = run(WRITE, tmp_path, path="a.txt", content="one\nthree\n")
    assert text == (
        "Replaced a.txt (10 bytes)\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    )
    file_log = FileLog()
    text = run(WRITE, tmp_path, file_log, path="a.txt", content="one\nthree\n")
    assert text == "a.txt already has this content; nothing was changed"
    assert not file_log.files_modified


@pytest.mark.skipif(os.name == "nt", reason="not run: modes are of POSIX")
def test_mode_line_ends_and_byte_order_mark_stay(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    script.chmod(0o754)
    run(WRITE, tmp_path, path="run.sh", content="1\n2\n3\n")
    assert script.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    run(EDIT, tmp_path, path="run.sh", old_text="2\n3", new_text="two\nand\nthree")
    assert script.read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\nand\r\nthree\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o754


@pytest.mark.skipif(os.name == "nt", reason="not run: modes are of POSIX")
def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(WRITE, tmp_path, path="a.txt", content="a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="not run: links need rights there")
def test_a_link_inside_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    file_log = FileLog()
    run(WRITE, tmp_path, file_log, path="link.txt", content="new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    assert list(file_log.files_modified) == ["real.txt"]


@pytest.mark.req("X-32", "X-38")
@pytest.mark.skipif(os.name == "nt", reason="not run: limits of a process are of POSIX")
def test_a_disk_without_space_leaves_the_old_file_whole(tmp_path: Path) -> None:
    import resource

    (tmp_path / "a.txt").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # no file may grow beyond it
    try:
        file_log = FileLog()
        text = failure(WRITE, tmp_path, file_log, path="a.txt", content="x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert text == (
        "No space left to write: a.txt; nothing was changed; free some space, or write less"
    )
    assert not file_log.files_modified
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.req("X-32")
def test_a_file_or_folder_that_may_not_be_written_is_told(unprivileged: Path) -> None:
    (unprivileged / "a.txt").touch(mode=0o444)
    (unprivileged / "shut").mkdir(mode=0o555)
    for path in ("a.txt", "shut/b.txt", "shut/c/d.txt"):
        text = failure(WRITE, unprivileged, path=path, content="x")
        assert text == f"Permission denied: {path}; choose another path"
    assert (unprivileged / "a.txt").read_text() == ""


@pytest.mark.req("X-32", "X-38")
def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.txt").touch()
    assert "Path is a folder: docs" in failure(WRITE, tmp_path, path="docs", content="x")
    assert "Path is a folder: ." in failure(WRITE, tmp_path, path=".", content="x")
    assert "A parent of this path is not a folder" in failure(
        WRITE, tmp_path, path="a.txt/b", content="x"
    )
    assert "half a character" in failure(WRITE, tmp_path, path="b.txt", content="a\ud800")
    assert "Content too large" in failure(WRITE, tmp_path, path="b.txt", content="x" * 10_485_761)
    assert names(tmp_path) == ["a.txt", "docs"]


@pytest.mark.req("D-11")
def test_content_that_is_no_text_is_written_as_json(tmp_path: Path) -> None:
    run(WRITE, tmp_path, path="a.json", content={"a": [1, None]})
    assert (tmp_path / "a.json").read_text() == '{"a":[1,null]}'


@pytest.mark.req("D-20")
def test_one_occurrence_is_replaced_exactly(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    file_log = FileLog()
    text = run(EDIT, tmp_path, file_log, path="a.py", old_text="return 1", new_text="return 2")
    assert text == (
        "Edited a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n"
        "-    return 1\n+    return 2"
    )
    assert (tmp_path / "a.py").read_text() == "def f():\n    return 2\n"
    assert list(file_log.files_modified) == ["a.py"]


@pytest.mark.req("D-20", "X-38")
def test_several_occurrences_need_replace_all(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\ny\nx\n")
    assert failure(EDIT, tmp_path, path="a.txt", old_text="x", new_text="z") == (
        "old_text occurs 2 times in a.txt (lines 1, 3). "
        "Include more surrounding lines, or set replace_all"
    )
    run(EDIT, tmp_path, path="a.txt", old_text="x", new_text="z", replace_all=True)
    assert (tmp_path / "a.txt").read_text() == "z\ny\nz\n"


@pytest.mark.req("X-38")
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "x", "old_text is empty"),
        ("two", "two", "nothing would change"),
        ("five", "x", "old_text is not in a.txt. Read the file again and copy the text exactly"),
        (
            "    two\nfive",
            "x",
            "but line 2 matches its first line: compare spaces and the next lines",
        ),
        ("     2\ttwo", "x", "Leave out the line numbers that read_file adds"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(tmp_path: Path, old: str, new: str, told: str) -> None:
    (tmp_path / "a.txt").write_text("one\n  two\nthree\n")
    file_log = FileLog()
    assert told in failure(EDIT, tmp_path, file_log, path="a.txt", old_text=old, new_text=new)
    assert (tmp_path / "a.txt").read_text() == "one\n  two\nthree\n"
    assert not file_log.files_modified


@pytest.mark.req("X-32")
def test_what_is_no_text_or_not_there_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"one\0two")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 one")
    for name in ("a.bin", "latin.txt"):
        text = failure(EDIT, tmp_path, path=name, old_text="one", new_text="x")
        assert text == f"Not UTF-8 text: {name} cannot be edited safely"
    text = failure(EDIT, tmp_path, path="b.bin", old_text="one", new_text="x")
    assert text.startswith("File not found: b.bin; did you mean a.bin?")


def test_edits_side_by_side_are_all_made(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"<{n}>\n" for n in range(20)))

    async def all_at_once() -> None:
        edits = ({"path": "a.txt", "old_text": f"<{n}>", "new_text": f"[{n}]"} for n in range(20))
        await asyncio.gather(*(answer(EDIT, tmp_path, edit) for edit in edits))

    asyncio.run(all_at_once())
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{n}]\n" for n in range(20))


def test_a_preview_is_the_difference_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = {"path": "a.txt", "old_text": "one", "new_text": "two"}
    assert preview("edit_file", edit, tmp_path) == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two"
    )
    new = {"path": "b/c.txt", "content": "x\n"}
    assert preview("write_file", {**new, "path": "c.txt"}, tmp_path) == (
        "--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+x"
    )
    assert preview("edit_file", {**edit, "old_text": "no"}, tmp_path) == (
        "Error: old_text is not in a.txt. Read the file again and copy the text exactly"
    )
    assert preview("edit_file", {"pth": 1}, tmp_path).startswith("Error: wrong arguments: ")
    assert names(tmp_path) == ["a.txt"]


def test_a_preview_of_a_file_in_a_new_folder_makes_no_folder(tmp_path: Path) -> None:
    new = {"path": "b/c.txt", "content": "x\n"}
    assert preview("write_file", new, tmp_path) == "--- /dev/null\n+++ b/b/c.txt\n@@ -0,0 +1 @@\n+x"
    assert names(tmp_path) == []


def test_long_differences_are_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 1000)
    text = run(WRITE, tmp_path, path="a.txt", content="b\n" * 1500)
    assert len(text) < 5000
    assert text.endswith("\n... (the rest of the diff is omitted)")
    text = run(WRITE, tmp_path, path="a.txt", content="c\n" * 3000)
    assert "@@ -1,1500 +1,3000 @@" in text


@pytest.mark.req("D-48")
def test_the_preview_of_a_long_file_has_every_changed_line(tmp_path: Path) -> None:
    lines = [f"line {i}\n" for i in range(3000)]
    (tmp_path / "a.txt").write_text("".join(lines))
    edit = {"path": "a.txt", "old_text": "line 1500\n", "new_text": "evil\n"}
    one = preview("edit_file", edit, tmp_path)
    assert one == "--- a/a.txt\n+++ b/a.txt\n@@ -1501,1 +1501,1 @@\n-line 1500\n+evil"
    edit = {"path": "a.txt", "old_text": "line", "new_text": "row", "replace_all": True}
    every = preview("edit_file", edit, tmp_path).splitlines()
    assert every[3:] == [f"-line {i}" for i in range(3000)] + [f"+row {i}" for i in range(3000)]
    assert preview("write_file", {"path": "a.txt", "content": "".join(lines)}, tmp_path) == ""


@pytest.mark.req("D-83")
@pytest.mark.parametrize(("name", "data"), [(".env", b"KEY=1\n"), ("x.bin", b"\xff\x00")])
def test_a_file_whose_content_is_not_shown_does_not_look_like_a_new_one(
    name: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    assert preview("write_file", {"path": name, "content": "x"}, tmp_path) == (
        "(the file exists; its content is not shown, and is replaced)\n"
        f"--- a/{name}\n+++ b/{name}\n@@ -0,0 +1 @@\n+x"
    )
    if name == "x.bin":  # the other one needs approval
        assert run(WRITE, tmp_path, path=name, content="x") == "Replaced x.bin (1 bytes)"


@pytest.mark.req("X-32")
def test_an_edit_that_would_make_a_file_huge_is_refused_before_it_takes_memory(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("x" * 8_000_000)
    new = "y" * 500
    told = failure(EDIT, tmp_path, path="a.txt", old_text="x", new_text=new, replace_all=True)
    assert told.startswith("a.txt would have more than 10485760 characters")
    shown = preview(
        "edit_file",
        {"path": "a.txt", "old_text": "x", "new_text": new, "replace_all": True},
        tmp_path,
    )
    assert "would have more than" in shown
    assert (tmp_path / "a.txt").stat().st_size == 8_000_000
