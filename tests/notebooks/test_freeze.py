"""Notebooks frozen and checked in kernels of their own, with the server off, and under pytest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import axe_nb
from axe_nb import script, script_server
from axe_nb.cli import main
from axe_nb.testing import check

GUIDE = """\
name = "guide"
model = "openai/guide"
system_prompt = "You know towns."
"""

CELLS = [
    "%load_ext axe_nb",
    "%%axe guide -o rome\nAbout Rome",
    "import time\nprint(rome.text)",
    "%%axe guide --raises error\nAbout nothing",
    "# NBVAL_IGNORE_OUTPUT\nimport socket\ntry:\n"
    "    socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))  # sends nothing\n"
    "except OSError as error:\n    print(error)",
]


@pytest.fixture
def lesson(project: Path) -> Path:
    """A notebook that has not run, in a project whose agent needs a server."""
    Path("axe/agents/guide.toml").write_text(GUIDE, "utf-8")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    path = project / "lesson.ipynb"
    nbformat.write(book, path)

    @script("guide")
    def guide(request):
        if "nothing" in request.last:
            raise RuntimeError("nothing is known")
        return f"{request.last}: fine"

    return path


@pytest.mark.req("D-68")
def test_a_frozen_notebook_is_its_own_test(
    lesson: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with script_server("openai") as server:
        code = main(["freeze", "lesson.ipynb"])
        assert (code, len(server.requests)) == (0, 2)
    assert capsys.readouterr().out.splitlines() == [
        "lesson.ipynb: frozen; exchanges in lesson.axe: 2 recorded, 0 replayed",
        "two more runs without network access gave the same outputs",
    ]
    book = nbformat.read(lesson, as_version=4)
    assert [cell.execution_count for cell in book.cells] == [1, 2, 3, 4, 5]
    assert book.cells[2].outputs[0].text == "About Rome: fine\n"
    assert book.cells[4].outputs[0].text.startswith("network access is blocked")
    check_under_pytest(lesson.parent)


def check_under_pytest(folder: Path) -> None:
    """With nbval, xdist and nbmake: a frozen notebook passes, a changed prompt is named."""
    stale = folder / "stale"
    stale.mkdir()
    for name in ("lesson.ipynb", "lesson.axe", "axe"):
        (shutil.copytree if name == "axe" else shutil.copy)(folder / name, stale / name)
    agent = stale / "axe" / "agents" / "guide.toml"
    agent.write_text(GUIDE.replace("know", "like"), "utf-8")
    own = ["-ptests.early", "-paxe_nb.testing.pytest_plugin"]
    nbval = ["-pnbval", "-pxdist", "-n2", "--dist=loadfile", "--nbval", "lesson.ipynb"]
    nbmake = ["-pnbmake.pytest_plugin", "--nbmake", "lesson.ipynb", "stale/lesson.ipynb"]
    told = "has no answer for agent guide at 0/1: its system prompt changed: "
    for words, *ends in ((nbval, "5 passed"), (nbmake, "1 failed, 1 passed", told)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *own, *words],
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
        assert all(end in done.stdout for end in ends), done.stdout + done.stderr


def test_a_missing_answer_is_a_problem_even_if_no_output_shows_it(
    lesson: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = "import axe_nb, time\nresult = axe_nb.run('guide', 'About Rome', display=False)"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(quiet)])
    nbformat.write(book, lesson)
    with script_server("openai"), axe_nb.cassette("lesson.axe", "record"):
        axe_nb.run("guide", "About Oslo")
    assert main(["check", "lesson.ipynb"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "lesson.ipynb: cassette lesson.axe has no answer for agent guide at 0/1: its prompt "
        'changed: "About Oslo" → "About Rome"; record it with: axe-nb freeze lesson.ipynb',
        "1 notebook checked, 1 problem",
    ]
    book.cells[0].source = quiet.replace("'About Rome'", "str(time.time())")
    nbformat.write(book, lesson)
    with script_server("openai"):
        assert main(["freeze", "lesson.ipynb"]) == 1
    line = capsys.readouterr().out
    assert line.startswith("lesson.ipynb: when it ran again, cassette lesson.axe has no answer for")
    assert line.endswith("nothing that varies, such as the time; the notebook was not changed\n")


WRITING = [
    "from pathlib import Path",
    "print(sorted(path.name for path in Path('out').glob('*')))",
    "Path('out').mkdir(exist_ok=True)\nPath('out/report.md').write_text('x')\n"
    "Path('notes.txt').write_text('x');",
]


def test_a_notebook_that_finds_files_of_its_last_run_is_not_frozen(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in WRITING])
    nbformat.write(book, project / "writes.ipynb")
    assert main(["freeze", "writes.ipynb"]) == 1
    [varies] = capsys.readouterr().out.splitlines()
    assert "writes.ipynb, cell 2: " in varies
    assert "remove in the first cell the files that a run leaves behind" in varies


def test_notebooks_are_found_in_folders(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.ipynb", "below/b.ipynb", "below/.ipynb_checkpoints/b.ipynb", "below/c.txt"):
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = [path.as_posix() for path in check.find_notebooks([".", "a.ipynb"])]
    assert found == ["a.ipynb", "below/b.ipynb"]
    assert main(["check", "none.ipynb"]) == 2
    assert capsys.readouterr().err.startswith('error: no notebook found: "none.ipynb"\n')


@pytest.mark.parametrize("event", ["socket.connect", "socket.sendto", "socket.getaddrinfo"])
def test_a_closed_network_leaves_the_own_machine_and_no_other(event: str) -> None:
    def ask(host: str) -> None:
        is_name = event == "socket.getaddrinfo"
        check.refuse_network(event, (host, 80) if is_name else (None, (host, 80)))

    for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", ""):
        ask(host)
    check.refuse_network("socket.connect", (None, "/run/a.sock"))
    for host in ("192.0.2.1", "example.org", "fe80::1%eth0"):
        with pytest.raises(ConnectionRefusedError, match=re.escape(host)):
            ask(host)


CODE = {
    "cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": [],
    "source": "1",
}  # fmt: skip


BOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CODE]}
CHANGES: list[dict[str, Any]] = [
    {"cells": {}}, {"cells": "ab"}, {"cells": None}, {"metadata": 5}, {"nbformat": 99},
    {"nbformat": 3, "nbformat_minor": 0, "worksheets": 5},
]  # fmt: skip
CHANGES_OF_THE_CELL: list[dict[str, Any]] = [
    {"source": 5}, {"source": None}, {"source": "\ud800"}, {"metadata": {"tags": 5}},
    {"metadata": {"tags": [{}]}}, {"outputs": {}}, {"outputs": [{}]},
    {"outputs": [{"output_type": "odd"}]}, {"outputs": [{"output_type": "error"}]},
    {"outputs": [{"output_type": "stream", "name": "stdout", "text": 5}]},
]  # fmt: skip
ODD: list[str | bytes] = [
    "", "hello", b"\xff\xfe\x00", "null", "[]", "[" * 100_000 + "]" * 100_000,
    '{"cells": [], "metadata": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001,
    *(json.dumps(BOOK | changes) for changes in CHANGES),
    *(json.dumps(BOOK | {"cells": [CODE | changes]}) for changes in CHANGES_OF_THE_CELL),
]  # fmt: skip


@pytest.mark.req("D-68")
@pytest.mark.parametrize("command", ["check", "freeze"])
def test_a_file_that_is_no_notebook_is_refused_in_two_lines(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in ODD:
        data = content if isinstance(content, bytes) else content.encode()
        Path("odd.ipynb").write_bytes(data)
        assert main([command, "odd.ipynb"]) == 2, content[:100]
        shown = capsys.readouterr()
        first, second = shown.err.splitlines()
        assert first.startswith("error: odd.ipynb is not a notebook: "), content[:100]
        assert (shown.out, len(first) < 300) == ("", True), content[:100]
        assert second == "open the notebook in Jupyter and save it, or repair the file"
        assert Path("odd.ipynb").read_bytes() == data
