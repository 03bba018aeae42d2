"""find_files and grep."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from axe_nb.agents.globs import matches, parse_glob
from axe_nb.builtin import search
from axe_nb.tools.tool import FileLog, ToolError
from tests.calls import answer, failure, run, tool

FIND, GREP = tool("find_files"), tool("grep")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "README.md": "# About\nSee config.\n",
        "src/app.py": "import os\n\n\ndef main():\n    return os.sep\n",
        "src/config.yaml": "port: 8080\n",
        "src/deep/util.py": "def helper(): pass\n",
        "src/deep/data.bin": "def main\0",
        ".git/config": "port: 1\n",
        "node_modules/x/index.py": "def main(): pass\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.req("D-20")
@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", ["src/app.py", "src/deep/util.py"]), ("src/*.py", ".", ["src/app.py"]),
        ("src/**/*.py", ".", ["src/app.py", "src/deep/util.py"]),
        ("**/deep/*", ".", ["src/deep/data.bin", "src/deep/util.py"]),
        ("deep/*.py", "src", ["src/deep/util.py"]), ("conf[ia]g.*", ".", ["src/config.yaml"]),
        ("config", ".git", [".git/config"]), ("./src/a??.py", ".", ["src/app.py"]),
        ("app.py", "src/app.py", ["src/app.py"]), ("*.rs", ".", ["No files found for *.rs in ."]),
    ],
)  # fmt: skip
def test_files_are_found_by_name(tree: Path, pattern: str, path: str, found: list[str]) -> None:
    assert run(FIND, tree, pattern=pattern, path=path) == "\n".join(found)


@pytest.mark.req("D-42", "X-34", "X-38")
@pytest.mark.parametrize("pattern", ["", " ", "src/[ab", "../*", "/etc/*", "*.{py,md}", "x" * 1001])
def test_a_bad_glob_is_an_error_that_says_what_to_write(tree: Path, pattern: str) -> None:
    assert failure(FIND, tree, pattern=pattern).startswith("invalid glob pattern")
    if pattern.strip():
        assert failure(GREP, tree, pattern="x", glob=pattern).startswith("invalid glob pattern")


def test_many_files_and_many_and_long_matches_are_cut(tmp_path: Path) -> None:
    for n in range(510):
        (tmp_path / f"{n:03}.txt").touch()
    lines = run(FIND, tmp_path, pattern="*.txt").splitlines()
    assert lines[499:] == ["499.txt", "(only the first 500; use a narrower pattern)"]
    (tmp_path / "000.txt").write_text(("x" * 1000 + "\n") * 300)
    lines = run(GREP, tmp_path, pattern="x").splitlines()
    assert lines[0] == f"000.txt:1:{'x' * 300}..."
    assert lines[200:] == ["(only the first 200 matches; use a narrower pattern)"]


def test_hostile_globs_are_quick() -> None:
    started = time.process_time()
    pattern = parse_glob("/".join(["**", "*a*a*a*a*a*a*b"] * 60)[:1000])
    assert not matches(("a" * 200,) * 60, pattern)
    assert time.process_time() - started < 2


@pytest.mark.req("D-20", "X-34")
def test_matching_lines_come_with_path_and_number(tree: Path) -> None:
    file_log = FileLog()
    text = run(GREP, tree, file_log, pattern=r"def \w+\(")
    assert text == "src/app.py:4:def main():\nsrc/deep/util.py:1:def helper(): pass"
    assert list(file_log.files_read) == ["src/app.py", "src/deep/util.py"]
    assert run(GREP, tree, pattern="config|port", glob="*.yaml") == "src/config.yaml:1:port: 8080"
    assert run(GREP, tree, pattern="zebra") == "No matches found for zebra in ."
    (tree / "a.txt").write_text("1\nx\n3\n4\n5\nx\nx\n8\n")
    assert run(GREP, tree, pattern="^x$", path="a.txt", context=1).splitlines() == [
        "a.txt-1-1", "a.txt:2:x", "a.txt-3-3", "--",
        "a.txt-5-5", "a.txt:6:x", "a.txt:7:x", "a.txt-8-8",
    ]  # fmt: skip


@pytest.mark.req("X-34", "X-38")
@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[a", "*", "(?P<x", "x" * 1001, "(" * 900])
def test_a_bad_expression_is_an_error_that_says_why(tree: Path, pattern: str) -> None:
    assert failure(GREP, tree, pattern=pattern).startswith("invalid regular expression")


@pytest.mark.req("X-34", "X-38")
@pytest.mark.parametrize(
    "pattern",
    [
        r"^(.)(?:(?R)|.?)\1$", r"(a(?1)?b)", r"(?<x>a(?&x)?b)", "(a(?P>x))(?P<x>b)", "(?+1)(a)",
        "(?x)(a(?R )?b)", "(?x)(?<x>a(?& x)?b)", "(?<x>a(?P&x)?b)", "(?x)(?<x>a(?P >x)?b)",
        "(?x)(a(?- 1)?b)", "(?x)(a(?1 # )\n)?b)",
    ],
)  # fmt: skip
def test_an_expression_that_calls_itself_is_refused(tree: Path, pattern: str) -> None:
    """Matching it would take a gigabyte on a line of a megabyte."""
    told = failure(GREP, tree, pattern=pattern)
    assert "it calls a group again. Write the part out instead" in told


@pytest.mark.req("X-34", "X-38")
def test_a_named_file_that_cannot_be_searched_is_an_error(tree: Path) -> None:
    (tree / "a.txt").write_text("f(?R) and (?1)\n")
    assert run(GREP, tree, pattern=r"\(\?R\) and \(\?1\)", path="a.txt").startswith("a.txt:1:")
    (tree / "big.log").write_bytes(b"x\n" * 5_300_000)
    assert "File too large: big.log" in failure(GREP, tree, pattern="x", path="big.log")
    assert "Binary file" in failure(GREP, tree, pattern="def", path="src/deep/data.bin")
    assert "File not found: no.txt" in failure(GREP, tree, pattern="x", path="no.txt")
    assert "pattern is empty" in failure(GREP, tree, pattern="")
    assert run(GREP, tree, pattern="8080").splitlines() == [
        "src/config.yaml:1:port: 8080",
        "(1 files or folders could not be read)",
    ]


@pytest.mark.req("X-34")
def test_what_may_not_be_read_is_an_error_only_where_it_was_named(unprivileged: Path) -> None:
    (unprivileged / "mine.txt").touch(mode=0o000)
    (unprivileged / "shut").mkdir(mode=0o000)
    (unprivileged / "open.txt").write_text("x\n")
    told = failure(GREP, unprivileged, pattern="x", path="mine.txt")
    assert "Permission denied: mine.txt" in told
    assert run(GREP, unprivileged, pattern="x").splitlines() == [
        "open.txt:1:x",
        "(2 files or folders could not be read)",
    ]


@pytest.mark.parametrize(
    "pattern", [r"^\s*$", r"(?<!y)x$", r"\Ax", r"x\Z", r"^(?!y)x", r"[^q]++$", r"x(?=$)", r"\w*+$"]
)
def test_a_line_is_matched_as_if_it_stood_alone(tmp_path: Path, pattern: str) -> None:
    lines = ["y", "x", "", "xq", "yx"]
    (tmp_path / "a.txt").write_bytes("\r\n".join(lines).encode())
    alone = [f"a.txt:{n}:{line}" for n, line in enumerate(lines, 1) if re.search(pattern, line)]
    assert run(GREP, tmp_path, pattern=pattern).splitlines() == alone


@pytest.mark.parametrize(
    "pattern", [r"(a|aa)+$", r"(.*?,){30}P", r"(.+)\1+\1+$", r"(a|a|a)*b", r"(a?){60}a{60}(a|aa)+c"]
)
def test_a_hostile_expression_stops_nothing_but_itself(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_SECONDS", 0.5)
    hostile = "a" * 60 + ",!\n" + "1," * 60 + "\n" + "ab" * 3000 + "c\n"
    (tmp_path / "a.txt").write_text(hostile * 3)

    async def beside() -> tuple[Any, float]:
        gaps, last = [0.0], time.monotonic()
        task = asyncio.create_task(answer(GREP, tmp_path, {"pattern": pattern}))
        while not task.done():
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
        return (await asyncio.gather(task, return_exceptions=True))[0], max(gaps)

    outcome, gap = asyncio.run(beside())
    assert isinstance(outcome, str | ToolError)
    if isinstance(outcome, ToolError):
        assert str(outcome).startswith("the search stopped after 10 s without a match. Use a ")
    assert gap < 2, "the loop went on meanwhile"


def test_what_was_found_before_the_time_was_up_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_SECONDS", 1.0)
    (tmp_path / "a.txt").write_text("ac\n" + "a" * 60 + "b\n")
    assert run(GREP, tmp_path, pattern="(a|aa)+c|^(a|aa)+$").splitlines() == [
        "a.txt:1:ac",
        "(stopped after 10 s; choose a smaller folder to see the rest)",
    ]
