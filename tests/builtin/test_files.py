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
def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\n\nfour ü\n".encode())
    file_log = FileLog()
    text = run(READ, tmp_path, file_log, path="a.txt")
    assert text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour ü"
    assert list(file_log.files_read) == ["a.txt"]


@pytest.mark.req("D-20")
def test_offset_and_limit_choose_lines_and_say_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    text = run(READ, tmp_path, path="a.txt", offset=3, limit=2)
    assert text == "     3\tline 3\n     4\tline 4\n(lines 3-4 of 10; continue with offset 5)"
    assert run(READ, tmp_path, path="a.txt", offset="9") == "     9\tline 9\n    10\tline 10"
    assert run(READ, tmp_path, path="a.txt", offset=0, limit=1).startswith("     1\tline 1\n")
    problem = failure(READ, tmp_path, path="a.txt", offset=11)
    assert problem == "offset 11 is beyond the end of a.txt, which has 10 lines"


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert run(READ, tmp_path, path="a.txt") == "(empty file)"


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
def test_a_missing_file_names_those_near_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").touch()
    assert failure(READ, tmp_path, path="conf/confg.yaml") == (
        "File not found: conf/confg.yaml; did you mean config.yaml? "
        "use list_dir or find_files to see what exists"
    )
    assert failure(READ, tmp_path, path="nonexistent.txt") == (
        "File not found: nonexistent.txt; use list_dir or find_files to see what exists"
    )
    assert failure(READ, tmp_path, path="no/such/folder.txt").startswith("File not found: no/such")
    assert failure(LIST, tmp_path, path="no").startswith("File not found: no; ")


@pytest.mark.req("X-32", "X-38")
def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.txt").write_text("a")
    assert failure(READ, tmp_path, path="docs") == (
        "Path is a folder: docs. Use list_dir to list it"
    )
    assert failure(LIST, tmp_path, path="a.txt") == (
        "Not a folder: a.txt. Use read_file to read it"
    )
    assert "A parent of this path is not a folder: a.txt/b" in failure(
        READ, tmp_path, path="a.txt/b"
    )


@pytest.mark.req("X-33")
def test_a_file_too_large_is_refused_with_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "big.log").open("wb") as file:
        file.write(b"x" * 10_000)
        file.truncate(MAX_FILE + 1)
        file.seek(10_000)
        file.write(b"y" * (MAX_FILE + 1 - 10_000))
    text = failure(READ, tmp_path, path="big.log")
    assert text.startswith("File too large: big.log has more than 10485760 bytes.")


@pytest.mark.req("X-32", "X-33")
def test_a_file_that_may_not_be_read_is_told(unprivileged: Path) -> None:
    (unprivileged / "secret").mkdir(mode=0o000)
    (unprivileged / "mine.txt").touch(mode=0o000)
    assert failure(READ, unprivileged, path="mine.txt") == (
        "Permission denied: mine.txt; choose another path"
    )
    assert failure(LIST, unprivileged, path="secret").startswith("Permission denied: secret; ")


def test_a_folder_is_listed_with_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("four")
    (tmp_path / "src").mkdir()
    (tmp_path / "a\nb").touch()
    if os.name != "nt":
        (tmp_path / "c").symlink_to("b.txt")
    assert run(LIST, tmp_path) == 'src/\n"a\\nb" (0 bytes)\nb.txt (4 bytes)\nc (link)'
    assert run(LIST, tmp_path, path="src") == "(empty folder)"


def test_a_long_listing_is_cut(tmp_path: Path) -> None:
    for n in range(520):
        (tmp_path / f"{n:04}").touch()
    lines = run(LIST, tmp_path).splitlines()
    assert lines[499:] == [
        "0499 (0 bytes)",
        "(the first 500 of 520; use find_files to search by name)",
    ]


def test_a_huge_folder_is_listed_in_part(tmp_path: Path) -> None:
    for n in range(10_002):
        (tmp_path / f"{n:05}").touch()
    lines = run(LIST, tmp_path).splitlines()
    assert lines[500:] == ["(the first 500 of more than 10000; use find_files to search by name)"]
    assert lines[:500] == sorted(lines[:500])


def test_folders_come_first_in_a_long_listing(tmp_path: Path) -> None:
    for n in range(600):
        (tmp_path / f"{n:04}").touch()
    (tmp_path / "z").mkdir()
    assert run(LIST, tmp_path).startswith("z/\n0000 (0 bytes)\n")


def test_a_name_that_is_too_long_is_told(tmp_path: Path) -> None:
    assert failure(READ, tmp_path, path="x" * 300).startswith("Path is too long: x")
    assert failure(READ, tmp_path, path="x/" * 3000).startswith("Path is too long: ")
