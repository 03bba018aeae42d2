"""`axe-nb start`: what it writes runs at once, what is there is kept, and JupyterLab is opened."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

import axe_nb
from axe_nb.agents.agent import scaffold
from axe_nb.cli import main
from axe_nb.testing.check import run_headless

AGENT = Path("axe/agents/greeter.toml")
HOST = Path("axe/agents/host.toml")
RULES = Path("axe/scripts/greeter.toml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, current; with retries as for everyone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AXE_NB_RETRIES")
    return tmp_path


def test_the_agent_is_the_scaffold_and_answers_without_a_key(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "--no-open"]) == 0
    written = capsys.readouterr().out.splitlines()
    assert written[:4] == [f"wrote {AGENT}", f"wrote {HOST}", f"wrote {RULES}", "wrote first.ipynb"]
    assert AGENT.read_text("utf-8") == scaffold("greeter", "script/greeter")
    assert axe_nb.run("greeter", "My name is Ada.").text == "Good morning, Ada!"
    assert "not a language model" in axe_nb.run("greeter", "hi").text


def test_every_cell_of_the_notebook_runs_and_shows_nothing_that_changes(folder: Path) -> None:
    main(["start", "--no-open"])
    path = folder / "first.ipynb"
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    run = run_headless(book, path, "live")
    cells = [cell for cell in run.book.cells if cell.cell_type == "code"]
    outputs = [[output.get("data", output) for output in cell.outputs] for cell in cells]
    assert run.stopped == ""
    assert not [one for shown in outputs for one in shown if one.get("output_type") == "error"]
    texts = ["".join(one.get("text/plain") or one["text"] for one in shown) for shown in outputs]
    assert texts[0] == ""
    guests = ("Ada", "Ben", "Cleo", "Dan", "Eva")
    assert texts[1].startswith("\n\n".join(f"Good morning, {name}!" for name in guests))
    assert texts[1].count("✓ greeter · Good morning, ") == len(guests)
    assert "1 retry (529)" in texts[1]
    assert texts[2].startswith("Good morning, Ada!")
    assert re.search(r"I am this file:.*model = .script/greeter", texts[3], re.DOTALL)
    assert "Good morning, Ada! completed ['Good morning, Fay!'" in texts[5]
    assert str(folder) not in str(outputs)


def test_what_is_there_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    AGENT.parent.mkdir(parents=True)
    for path in (AGENT, Path("first.ipynb")):
        path.write_text("mine", "utf-8")
    assert main(["start", "--no-open"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:4] == [f"kept {AGENT}", f"wrote {HOST}", f"wrote {RULES}", "kept first.ipynb"]
    assert AGENT.read_text("utf-8") == Path("first.ipynb").read_text("utf-8") == "mine"


LAB = """import pathlib, sys
pathlib.Path("opened").write_text(" ".join(sys.argv[1:]))
sys.exit(int(pathlib.Path("first.ipynb").exists()) * 3)
"""


def test_jupyterlab_is_opened_with_the_notebook_but_not_from_a_folder_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, text in {"lib": LAB, ".": "raise SystemExit('from here')"}.items():
        package = folder / place / "jupyterlab"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder / "lib"))
    assert main(["start"]) == 1, "it failed, and so does the command"
    assert (folder / "opened").read_text().startswith("first.ipynb")
