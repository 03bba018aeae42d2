"""Lessons: the copy that students get, and their submissions run and marked."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import nbformat
import pytest

from axe_nb.cli import main
from axe_nb.testing.lesson import copy_folder, exercise_of, make_student_copy, merge

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SOLVED = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))

ADD = """\
def add(a, b):
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION"""

OPEN = """\
def add(a, b):
    # your code here
    raise NotImplementedError("your code here")"""


def make(*cells: tuple[str, str] | tuple[str, str, str]) -> Any:
    """A notebook of cells: id, source, tag."""
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(source, id=id, metadata={"tags": tags} if tags else {})
            for id, source, *tags in cells
        ]
    )


def sources(book: Any) -> dict[str, str]:
    return {cell.id: cell.source for cell in book.cells}


def lesson() -> Any:
    """A lesson with two exercises, a cell for teachers and a file that its cells read."""
    return make(
        ("read", "word = open('word.txt').read()"),
        ("secret", "answer = 5", "solution"),
        ("add", ADD),
        ("add-check", "assert add(2, 3) == 5, 'add the two numbers'", "exercise:add"),
        ("shout", "### BEGIN SOLUTION\nshouted = word.upper()\n### END SOLUTION"),
        ("shout-check", "assert shouted == 'HELLO', 'in capitals'", "exercise:shout"),
    )


def test_a_student_copy_has_neither_solutions_nor_outputs() -> None:
    book = lesson()
    magic = "%%axe_agent a\nmodel = 'script/a'\n# BEGIN SOLUTION\n[limits]\n# END SOLUTION"
    book.cells += make(("magic", magic)).cells
    for cell in book.cells:
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("stream", text="5\n")]
        cell.metadata["execution"] = {"shell.execute_reply": "2026-01-01"}
    copy = make_student_copy(book, "lesson.ipynb")
    placeholder = '# your code here\nraise NotImplementedError("your code here")'
    assert sources(copy) == {
        **{n: s for n, s in sources(book).items() if n not in ("secret", "add", "shout")},
        "add": OPEN,
        "shout": placeholder,
        "magic": "%%axe_agent a\nmodel = 'script/a'\n# your code here",
    }
    order = ["read", "add", "add-check", "shout", "shout-check", "magic"]
    assert [cell.id for cell in copy.cells] == order
    assert all((cell.execution_count, cell.outputs) == (None, []) for cell in copy.cells)
    assert [cell.metadata for cell in copy.cells] == [
        {},
        {"tags": ["raises-exception"]},
        {"tags": ["exercise:add", "raises-exception"]},
        {"tags": ["raises-exception"]},
        {"tags": ["exercise:shout", "raises-exception"]},
        {"tags": ["raises-exception"]},
    ]
    assert sources(book)["add"] == ADD  # the lesson itself is as it was


def test_the_cassette_comes_along(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbformat.write(lesson(), project / "first.ipynb")
    Path("first.axe").write_bytes(b"a recording")
    assert main(["lesson", "first.ipynb"]) == 0
    assert capsys.readouterr().out == "student/first.ipynb: 2 exercises, with first.axe\n"
    assert Path("student/first.axe").read_bytes() == b"a recording"
    assert sources(nbformat.read("student/first.ipynb", 4))["add"] == OPEN
    assert main(["lesson", "first.ipynb", "--to", "."]) == 2
    assert sources(nbformat.read("first.ipynb", 4))["add"] == ADD
    nbformat.write(make(("a", "1")), project / "plain.ipynb")
    assert main(["lesson", "plain.ipynb"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "student/plain.ipynb: 0 exercises",
        "to mark it, give each check cell a tag like exercise:NAME",
    ]


CHECK = ("b", "assert a", "exercise:b")
NO_MATCH = "### BEGIN SOLUTION and ### END SOLUTION do not match"
FAULTS = {
    "no end": ([("a", "### BEGIN SOLUTION\n1")], f"cell 1: {NO_MATCH}"),
    "nested": ([("a", "### BEGIN SOLUTION\n" * 2)], f"cell 1: {NO_MATCH}"),
    "a name twice": ([CHECK, ("c", "assert a", "exercise:b")], "cell 2: it cannot be a check"),
    "no name": ([("b", "assert a", "exercise:")], "cell 1: it cannot be a check"),
    "a magic": ([("b", "%%axe a", "exercise:b")], "cell 1: it cannot be a check"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lesson_with_a_mistake_is_refused_and_nothing_is_written(
    fault: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells, words = FAULTS[fault]
    nbformat.write(make(*cells), project / "l.ipynb")
    assert main(["lesson", "l.ipynb"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"error: l.ipynb, {words}"
    assert not Path("student").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["l.ipynb", "--check", "nowhere"], 'no such folder: "nowhere"'),
        (["l.ipynb", "--check", "empty"], 'no notebook found: "empty"'),
        (["plain.ipynb", "--check", "."], "plain.ipynb has no exercises"),
    ],
)
def test_what_cannot_be_marked_is_an_error(
    words: list[str], error: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nbformat.write(make(CHECK), project / "l.ipynb")
    nbformat.write(make(("a", "1")), project / "plain.ipynb")
    Path("empty").mkdir()
    assert main(["lesson", *words]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"error: {error}"


def test_submissions_are_marked_by_the_checks_of_the_lesson(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-teacher")
    nbformat.write(lesson(), project / "first.ipynb")
    Path("word.txt").write_text("hello")
    ada = lesson()
    ada.cells[2].source = (
        "import os\nassert 'ANTHROPIC_API_KEY' not in os.environ\n"
        "assert not os.path.exists('all')\n"
        "open('word.txt', 'w').write('spoilt')\n"
        "def add(a, b):\n    return a + b"
    )
    # her checks are gone or say something else: those of the lesson count
    ada.cells[3].source = "assert False"
    del ada.cells[5]
    bob = make_student_copy(lesson(), "lesson.ipynb")
    bob.cells[1].source = "def add(a, b):\n    return a * b\nraise OSError('full')"
    bob.cells[2].source = "print('all is well')"
    bob.cells[3].source = "import os\nos._exit(1)"
    Path("all/group").mkdir(parents=True)
    nbformat.write(ada, "all/group/ada.ipynb")
    nbformat.write(bob, "all/=bob.ipynb")
    Path("all/carl.ipynb").write_text("hello")
    assert main(["lesson", "first.ipynb", "--check", "all", "--csv", "marks.csv"]) == 0
    hint = "add the two numbers (first, cell 2 failed: OSError: full)"
    broken = "all/carl.ipynb is not a notebook: Notebook does not appear to be JSON: 'hello'"
    assert capsys.readouterr().out.splitlines() == [
        "submission  add          shout        passed",
        "=bob        failed       not reached  0 of 2",
        "carl        not reached  not reached  0 of 2",
        "group/ada   passed       passed       2 of 2",
        "",
        f"=bob, add: {hint}",
        "=bob, shout: the kernel died",
        f"carl, add: {broken}",
        f"carl, shout: {broken}",
        "",
        "3 submissions marked, 1 with all exercises passed",
    ]
    assert list(csv.reader(Path("marks.csv").read_text("utf-8").splitlines()))[1::2] == [
        # no formula in a spreadsheet
        ["'=bob", f"failed: {hint}", "not reached: the kernel died", "0"],
        ["group/ada", "passed", "passed", "2"],
    ]
    assert Path("word.txt").read_text() == "hello"  # each runs in a copy of the folder


def test_a_check_stands_where_the_submission_has_it_once() -> None:
    book = lesson()
    exercises = {"add": book.cells[3], "shout": book.cells[5]}
    submitted = make(("add-check", "pass"), ("add", "1"), ("own", "2"), ("x", "4"))
    submitted.cells.append(submitted.cells[0])
    submitted.cells[3]["id"] = {"odd": 1}
    merged = merge(submitted, exercises, "the end")
    assert [cell.id for cell in merged.cells] == [
        "add-check", "add", "own", {"odd": 1}, "shout-check",
    ]  # fmt: skip
    assert merged.cells[0].source == book.cells[3].source + "\nprint('the end')"


def test_a_run_sees_the_files_of_the_lesson_but_no_other_submission(project: Path) -> None:
    for name in ("first.ipynb", "first.axe", "data/a.csv", ".env", "all/ada.txt", "data/b.ipynb"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    copy_folder(Path("first.ipynb"), project / "all" / "copy", Path("all"))
    below = (project / "all" / "copy").rglob("*.*")
    assert {path.name for path in below} == {"first.axe", "a.csv"}


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_each_lesson_is_the_student_copy_of_its_solution(path: Path) -> None:
    # nbval runs the lesson, test_course.py its solution: these outputs are those of a run
    solved, open_ = nbformat.read(path, 4), nbformat.read(NOTEBOOKS / path.name, 4)
    copy = make_student_copy(solved, path.name)
    assert sources(copy) == sources(open_)
    assert [cell.metadata for cell in copy.cells] == [cell.metadata for cell in open_.cells]
    checks = [cell for cell in open_.cells if exercise_of(cell) is not None]
    assert checks
    for cell in checks:  # an exercise that nobody has begun fails, with a hint
        assert [output.output_type for output in cell.outputs] == ["error"]
        assert cell.outputs[0].evalue
    outputs = [one for cell in solved.cells if exercise_of(cell) for one in cell.outputs]
    assert "error" not in [output.output_type for output in outputs]
