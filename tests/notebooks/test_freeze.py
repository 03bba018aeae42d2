"""Notebooks frozen and checked in kernels of their own, with the server off, and under pytest.

Below: what counts as a difference between two runs of a notebook, and the words for it.
"""

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
from axe_nb.agents.user_config import config_path
from axe_nb.cli import main
from axe_nb.testing import check
from axe_nb.testing.check import find_problems, normalize

GUIDE = """\
name = "guide"
model = "openai/guide"
system_prompt = "You know towns."
"""

MINE = '[providers.mine]\nprotocol = "openai"\napi_key = "k"\nbase_url = "{}/v1"'

CELLS = [
    "%load_ext axe_nb",
    "%%axe guide -o rome\nAbout Rome",
    "import time\nprint(rome.text)",
    "%%axe guide --raises error\nAbout nothing",
    "# NBVAL_IGNORE_OUTPUT\nimport socket\ntry:\n"
    "    socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))  # sends nothing\n"
    "except OSError as error:\n    print(error)",
    '%%axe_agent local\nmodel = "mine/guide"',
    "%%axe local\nAbout Riga",
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
    settings = config_path()
    settings.parent.mkdir(parents=True, exist_ok=True)
    with script_server("openai") as server:
        settings.write_text(MINE.format(server.base_url), "utf-8")
        code = main(["freeze", "lesson.ipynb"])
        assert (code, len(server.requests)) == (0, 3)
    settings.unlink()  # as on a machine that only replays
    assert capsys.readouterr().out.splitlines() == [
        "lesson.ipynb: frozen; exchanges in lesson.axe: 3 recorded, 0 replayed",
        "two more runs without network access gave the same outputs",
        "to replay them in Jupyter, add to its first cell: %axe cassette lesson.axe",
    ]
    book = nbformat.read(lesson, as_version=4)
    assert [cell.execution_count for cell in book.cells] == [1, 2, 3, 4, 5, 6, 7]
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
    for words, *ends in ((nbval, "7 passed"), (nbmake, "1 failed, 1 passed", told)):
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


def test_a_notebook_that_finds_files_of_its_last_run_is_not_frozen_and_one_that_hangs_is_stopped(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in WRITING])
    nbformat.write(book, project / "writes.ipynb")
    assert main(["freeze", "writes.ipynb"]) == 1
    [varies] = capsys.readouterr().out.splitlines()
    assert "writes.ipynb, cell 2: " in varies
    assert "remove in the first cell the files that a run leaves behind" in varies
    book.cells[0].source = "while True:\n    pass"
    nbformat.write(book, project / "slow.ipynb")
    assert main(["check", "slow.ipynb", "--timeout", "0.5"]) == 1
    assert "slow.ipynb, cell 1: it did not finish within 0.5 s" in capsys.readouterr().out


def test_notebooks_are_found_in_folders(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.ipynb", "below/b.ipynb", "below/.ipynb_checkpoints/b.ipynb", "below/c.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
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


v4 = nbformat.v4


def make(*outputs: Any, source: str = "run()", number: int | None = 1) -> Any:
    cell = v4.new_code_cell(source, outputs=list(outputs), execution_count=number)
    return v4.new_notebook(cells=[cell])


def show(text: str, html: str = "", **metadata: Any) -> Any:
    data = {"text/plain": text} | ({"text/html": html} if html else {})
    return v4.new_output("display_data", data, metadata=metadata)


def fail(name: str, text: str, *trace: str) -> Any:
    return v4.new_output("error", ename=name, evalue=text, traceback=list(trace))


def say(text: str, name: str = "stdout") -> Any:
    return v4.new_output("stream", name=name, text=text)


def problems(saved: Any, ran: Any) -> list[str]:
    return [f"{one.cell}: {one.what}" for one in find_problems(saved, ran)]


@pytest.mark.parametrize(
    ("saved", "ran"),
    [
        (make(show("a", id=1)), make(show("a", id=2))),
        (make(say("a\n"), say("b\n")), make(say("a\nb\n"))),
        (make(say("a"), say("!", "stderr")), make(say("!", "stderr"), say("a"))),
        (make(show("a")), make(number=None)),
        (make(show("a"), source="# NBVAL_IGNORE_OUTPUT\nx"), make(source="# NBVAL_IGNORE_OUTPUT")),
        (
            make(fail("E", "e", "at 1"), source="# NBVAL_RAISES_EXCEPTION"),
            make(fail("E", "e", "at 2"), source="# NBVAL_RAISES_EXCEPTION"),
        ),
        (
            make(v4.new_output("display_data", {"text/plain": "a", "image/png": "1"})),
            make(v4.new_output("display_data", {"text/plain": "a", "image/png": "2"})),
        ),
    ],
    ids=["metadata", "streams", "order of streams", "not run", "ignored", "trace", "picture"],
)
def test_outputs_that_count_as_equal(saved: Any, ran: Any) -> None:
    assert problems(saved, ran) == []


@pytest.mark.parametrize(
    ("saved", "ran", "what"),
    [
        (make(show("a\nb")), make(show("a\nc")), 'its output changed in line 2: "b" → "c"'),
        (make(show("a", "<b>")), make(show("b", "<i>")), 'its output changed: "a" → "b"'),
        (make(show("a", "<b>")), make(show("a", "<i>")),
         'its output as HTML changed: "<b>" → "<i>"'),
        (make(say("a")), make(), 'its printed text changed: "a" → nothing'),
        (make(), make(show("a")),
         'its output changed: nothing → "a"; no output is saved: axe-nb freeze saves it'),
        (make(), make(fail("KeyError", "'a'\nb", "long", "trace")), "KeyError: 'a'"),
        (make(), make(fail("E", "e", "E: e", "in agent a", "do it")), "E: e; in agent a; do it"),
        (make(v4.new_output("display_data", {"application/json": [1]})),
         make(v4.new_output("display_data", {"application/json": [2]})),
         'its application/json changed: "[1]" → "[2]"'),
    ],
)  # fmt: skip
def test_a_difference_is_told_in_one_line(saved: Any, ran: Any, what: str) -> None:
    assert problems(saved, ran) == [f"1: {what}"]


def test_after_a_failure_only_misses_are_listed() -> None:
    outputs = [
        fail("CassetteMiss", "cassette a.axe has no answer"), fail("NameError", "no x"),
        show("other"), fail("CassetteMiss", "nor for this"),
    ]  # fmt: skip
    saved, ran = make(), make()
    saved.cells = [make().cells[0] for _ in outputs]
    ran.cells = [make(one, number=at).cells[0] for at, one in enumerate(outputs, 1)]
    assert problems(saved, ran) == ["1: cassette a.axe has no answer", "4: nor for this"]


def test_a_frozen_notebook_has_nothing_that_varies_and_keeps_the_rest() -> None:
    book = make(source="# NBVAL_RAISES_EXCEPTION", number=7)
    book.metadata.update(kernelspec={"name": "mine", "display_name": "Mine"}, widgets={"state": {}})
    book.cells[0].metadata.update(tags=["a"], execution={"iopub.status.idle": "12:00"})
    first = make(show("a", seconds=1, same=True), fail("E", "e", "at /tmp/1"))
    second = make(show("a", seconds=2, same=True), fail("E", "e", "at /tmp/2"))
    frozen = normalize(book, first, second)
    cell = frozen.cells[0]
    assert (cell.execution_count, cell.source) == (1, "# NBVAL_RAISES_EXCEPTION")
    assert cell.metadata == {"tags": ["a"]}
    assert frozen.metadata == {"kernelspec": {"name": "mine", "display_name": "Mine"}}
    assert cell.outputs[0].metadata == {"same": True}
    assert cell.outputs[1].traceback == ["E: e"]
    nbformat.validate(frozen)
