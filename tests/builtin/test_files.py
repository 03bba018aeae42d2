"""read_file and list_dir."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axe_nb.builtin.files import MAX_FILE
from axe_nb.tools.tool import FileLog
from tests.calls import failure, run, tool

READ, LIST = tool("read_file"), tool("list_dir")


@pytest.mark.req("D-20")
def test_lines_come_with_their_numbers_from_any_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\n\nfour ü\n".encode())
    file_log = FileLog()
    text = run(READ, tmp_path, file_log, path="a.txt")
    assert text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour ü"
    assert list(file_log.files_read) == ["a.txt"]
    text = run(READ, tmp_path, path="a.txt", offset="2", limit=1)
    assert text == "     2\ttwo\n(lines 2-2 of 4; continue with offset 3)"
    problem = failure(READ, tmp_path, path="a.txt", offset=5)
    assert problem == "offset 5 is beyond the end of a.txt, which has 4 lines"
    (tmp_path / "empty").touch()
    assert run(READ, tmp_path, path="empty") == "(empty file)"


def test_long_files_and_lines_are_cut_where_they_can_be_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"{'é' * 100}{n}\n" for n in range(5000)))
    text = run(READ, tmp_path, path="long.txt")
    assert len(text.encode()) <= 65_536
    last = len(text.splitlines()) - 1
    assert text.endswith(f"\n(lines 1-{last} of 5000; continue with offset {last + 1})")
    (tmp_path / "wide.txt").write_text("x" * 5000 + "\nend\n")
    text = run(READ, tmp_path, path="wide.txt")
    assert "x" * 2000 + "... (line cut: 5000 characters)\n     2\tend" in text


def test_bytes_that_are_no_text_are_marked_or_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert run(READ, tmp_path, path="latin.txt") == "     1\tcaf\ufffd"
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0")
    file_log = FileLog()
    assert "Binary file: image.png" in failure(READ, tmp_path, file_log, path="image.png")
    assert not file_log.files_read


@pytest.mark.req("X-32", "X-33", "X-37", "X-38")
@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        ("read_file", "conf/confg.yaml", "File not found: conf/confg.yaml; did you mean config."
            "yaml? use list_dir or find_files to see what exists"),
        ("read_file", "nonexistent.txt",
            "File not found: nonexistent.txt; use list_dir or find_files to see what exists"),
        ("read_file", "no/such/folder.txt", "File not found: no/such"),
        ("list_dir", "no", "File not found: no; "),
        ("read_file", "conf", "Path is a folder: conf. Use list_dir to list it"),
        ("list_dir", "a.txt", "Not a folder: a.txt. Use read_file to read it"),
        ("read_file", "a.txt/b", "Not a directory: a.txt/b; "),
        ("read_file", "x" * 300, "File name too long: x"),
        ("read_file", "x/" * 3000, "Path is too long: "),
        ("read_file", "big.log", "File too large: big.log has more than 10485760 bytes."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_listed_is_told_with_the_next_step(
    tmp_path: Path, name: str, path: str, told: str
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").touch()
    (tmp_path / "a.txt").write_text("a")
    if path == "big.log":
        (tmp_path / path).write_bytes(b"x" * (MAX_FILE + 1))
    assert failure(tool(name), tmp_path, path=path).startswith(told)


@pytest.mark.req("X-32", "X-33")
def test_a_file_that_may_not_be_read_is_told(unprivileged: Path) -> None:
    (unprivileged / "secret").mkdir(mode=0o000)
    (unprivileged / "mine.txt").touch(mode=0o000)
    assert failure(READ, unprivileged, path="mine.txt").startswith("Permission denied: mine.txt; ")
    assert failure(LIST, unprivileged, path="secret").startswith("Permission denied: secret; ")


def test_a_folder_is_listed_with_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("four")
    (tmp_path / "src").mkdir()
    (tmp_path / "a\nb").touch()
    if os.name != "nt":
        (tmp_path / "c").symlink_to("b.txt")
    assert run(LIST, tmp_path) == 'src/\n"a\\nb" (0 bytes)\nb.txt (4 bytes)\nc (link)'
    assert run(LIST, tmp_path, path="src") == "(empty folder)"


def test_a_listing_stays_the_same_while_a_notebook_is_recorded(tmp_path: Path) -> None:
    for name in ("lesson.ipynb", "lesson.axe"):
        (tmp_path / name).write_text("{}")
    listed = run(LIST, tmp_path)
    for name in ("lesson.ipynb", "lesson.axe"):
        (tmp_path / name).write_text("longer")
    for folder in (".git", ".ipynb_checkpoints"):
        (tmp_path / folder).mkdir()
    assert run(LIST, tmp_path) == listed == "lesson.axe\nlesson.ipynb"


def test_a_long_listing_is_cut_folders_first_and_a_huge_one_looked_at_in_part(
    tmp_path: Path,
) -> None:
    for n in range(520):
        (tmp_path / f"{n:05}").touch()
    (tmp_path / "z").mkdir()
    lines = run(LIST, tmp_path).splitlines()
    assert lines[:2] == ["z/", "00000 (0 bytes)"]
    assert lines[500:] == ["(the first 500 of 521; use find_files to search by name)"]
    for n in range(520, 10_002):
        (tmp_path / f"{n:05}").touch()
    lines = run(LIST, tmp_path).splitlines()
    assert lines[500:] == ["(the first 500 of more than 10000; use find_files to search by name)"]
