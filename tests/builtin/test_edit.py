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

posix = pytest.mark.skipif(os.name == "nt", reason="not run: modes and links are of POSIX")


def preview(name: str, workdir: Path, **arguments: Any) -> str:
    shown = tool(name).preview
    assert shown is not None
    return shown(arguments, workdir)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.req("D-20", "D-11")
def test_files_are_written_with_their_folders_and_the_difference_is_told(tmp_path: Path) -> None:
    file_log = FileLog()
    text = run(WRITE, tmp_path, file_log, path="a/b.txt", content="é\n")
    assert text == "Wrote a/b.txt (3 bytes)"
    assert (tmp_path / "a/b.txt").read_bytes() == "é\n".encode()
    assert (list(file_log.files_modified), list(file_log.files_read)) == (["a/b.txt"], [])
    assert run(WRITE, tmp_path, path="a/b.txt", content="é\ntwo\n") == (
        "Replaced a/b.txt (7 bytes)\n--- a/a/b.txt\n+++ b/a/b.txt\n@@ -1 +1,2 @@\n é\n+two"
    )
    file_log = FileLog()
    text = run(WRITE, tmp_path, file_log, path="a/b.txt", content="é\ntwo\n")
    assert text == "a/b.txt already has this content; nothing was changed"
    assert not file_log.files_modified
    run(WRITE, tmp_path, path="a.json", content={"a": [1, None]})
    assert (tmp_path / "a.json").read_text() == '{"a":[1,null]}'


@posix
def test_mode_line_ends_byte_order_mark_and_links_stay(tmp_path: Path) -> None:
    script, link = tmp_path / "run.sh", tmp_path / "link"
    script.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    script.chmod(0o754)
    link.symlink_to("run.sh")
    file_log = FileLog()
    run(WRITE, tmp_path, file_log, path="link", content="1\n2\n3\n")
    assert script.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert (link.is_symlink(), list(file_log.files_modified)) == (True, ["run.sh"])
    run(EDIT, tmp_path, path="run.sh", old_text="2\n3", new_text="two\nand\nthree")
    assert script.read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\nand\r\nthree\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o754
    before = os.umask(0o027)
    try:
        run(WRITE, tmp_path, path="new.txt", content="a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640


@posix
@pytest.mark.req("X-32", "X-38")
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
    assert text.startswith("File too large: a.txt; ")
    assert not file_log.files_modified
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.req("X-32")
def test_a_file_or_folder_that_may_not_be_written_is_told(unprivileged: Path) -> None:
    (unprivileged / "a.txt").touch(mode=0o444)
    (unprivileged / "shut").mkdir(mode=0o555)
    for path in ("a.txt", "shut/b.txt", "shut/c/d.txt"):
        text = failure(WRITE, unprivileged, path=path, content="x")
        assert text.startswith(f"Permission denied: {path}; ")
        assert text.endswith("or choose another path")
    assert (unprivileged / "a.txt").read_text() == ""


@pytest.mark.req("X-32", "X-38")
@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("docs", "x", "Path is a folder: docs"), (".", "x", "Path is a folder: ."),
        ("a.txt/b", "x", "Not a directory: a.txt/b"), ("b.txt", "a\ud800", "surrogates"),
        ("b.txt", "x" * 10_485_761, "Content too large"),
    ],
    ids=["folder", "workdir", "below a file", "half a character", "large"],
)  # fmt: skip
def test_what_cannot_be_written_is_told(tmp_path: Path, path: str, content: str, told: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.txt").touch()
    assert told in failure(WRITE, tmp_path, path=path, content=content)
    assert names(tmp_path) == ["a.txt", "docs"]


@pytest.mark.req("D-20", "X-38")
def test_one_occurrence_is_replaced_exactly_or_all_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    file_log = FileLog()
    text = run(EDIT, tmp_path, file_log, path="a.py", old_text="return 1", new_text="return 2")
    assert text == (
        "Edited a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n"
        "-    return 1\n+    return 2"
    )
    assert list(file_log.files_modified) == ["a.py"]
    (tmp_path / "a.txt").write_text("x\ny\nx\n")
    assert failure(EDIT, tmp_path, path="a.txt", old_text="x", new_text="z") == (
        "old_text occurs 2 times in a.txt (lines 1, 3). "
        "Include more surrounding lines, or set replace_all"
    )
    run(EDIT, tmp_path, path="a.txt", old_text="x", new_text="z", replace_all=True)
    assert (tmp_path / "a.txt").read_text() == "z\ny\nz\n"


@pytest.mark.req("X-32", "X-38")
@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("a.txt", "", "x", "old_text is empty"),
        ("a.txt", "two", "two", "nothing would change"),
        ("a.txt", "five", "x", "old_text is not in a.txt. Read the file again and copy the text"),
        ("a.txt", "     2\ttwo", "x", "without the line numbers that read_file adds"),
        ("a.bin", "one", "x", "Not UTF-8 text: a.bin cannot be edited safely"),
        ("latin.txt", "one", "x", "Not UTF-8 text: latin.txt cannot be edited safely"),
        ("b.bin", "one", "x", "File not found: b.bin; did you mean a.bin?"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(
    tmp_path: Path, name: str, old: str, new: str, told: str
) -> None:
    files = {"a.txt": b"one\n  two\n", "a.bin": b"one\0two", "latin.txt": b"caf\xe9 one"}
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    file_log = FileLog()
    assert told in failure(EDIT, tmp_path, file_log, path=name, old_text=old, new_text=new)
    assert {file: (tmp_path / file).read_bytes() for file in files} == files
    assert not file_log.files_modified


def test_edits_side_by_side_are_all_made(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"<{n}>\n" for n in range(20)))

    async def all_at_once() -> None:
        edits = ({"path": "a.txt", "old_text": f"<{n}>", "new_text": f"[{n}]"} for n in range(20))
        await asyncio.gather(*(answer(EDIT, tmp_path, edit) for edit in edits))

    asyncio.run(all_at_once())
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{n}]\n" for n in range(20))


def test_a_preview_is_the_difference_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert preview("edit_file", tmp_path, path="a.txt", old_text="one", new_text="two") == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two"
    )
    assert preview("write_file", tmp_path, path="a.txt", content="one\n") == "(no change)"
    assert preview("write_file", tmp_path, path="b/c.txt", content="") == "(new, empty)"
    assert preview("write_file", tmp_path, path="b/c.txt", content="x\n") == (
        "--- /dev/null\n+++ b/b/c.txt\n@@ -0,0 +1 @@\n+x"
    )
    told = preview("edit_file", tmp_path, path="a.txt", old_text="no", new_text="two")
    assert told.startswith("Error: old_text is not in a.txt.")
    assert preview("edit_file", tmp_path, pth=1).startswith("Error: wrong arguments: ")
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.req("D-48")
def test_a_result_cuts_a_long_difference_and_a_preview_has_every_changed_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 1000)
    text = run(WRITE, tmp_path, path="a.txt", content="b\n" * 1500)
    assert len(text) < 5000
    assert text.endswith("\n... (the rest of the diff is omitted)")
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(3000)))
    one = preview("edit_file", tmp_path, path="a.txt", old_text="line 1500\n", new_text="evil\n")
    assert one == "--- a/a.txt\n+++ b/a.txt\n@@ -1501,1 +1501,1 @@\n-line 1500\n+evil"
    every = {"path": "a.txt", "old_text": "line", "new_text": "row", "replace_all": True}
    lines = preview("edit_file", tmp_path, **every).splitlines()
    assert lines[3:] == [f"-line {i}" for i in range(3000)] + [f"+row {i}" for i in range(3000)]


@pytest.mark.req("D-83")
@pytest.mark.parametrize(("name", "data"), [(".env", b"KEY=1\n"), ("x.bin", b"\xff\x00")])
def test_a_file_whose_content_is_not_shown_does_not_look_like_a_new_one(
    name: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    assert preview("write_file", tmp_path, path=name, content="x") == (
        "(the file exists; its content is not shown, and is replaced)\n"
        f"--- a/{name}\n+++ b/{name}\n@@ -0,0 +1 @@\n+x"
    )


@pytest.mark.req("X-32")
def test_an_edit_that_would_make_a_file_huge_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 8_000_000)
    every = {"path": "a.txt", "old_text": "x", "new_text": "y" * 500, "replace_all": True}
    told = failure(EDIT, tmp_path, **every)
    assert told.startswith("a.txt would have more than 10485760 characters")
    assert "would have more than" in preview("edit_file", tmp_path, **every)
    assert (tmp_path / "a.txt").stat().st_size == 8_000_000
