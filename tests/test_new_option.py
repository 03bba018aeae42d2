"""A new option in a copy of the package, made as docs/architecture.md says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"

ROW = """\
    Option(("--system-prompt",), "system_prompt", "another system prompt", "TEXT"),
"""

FIELD = "    system_prompt: str | None = None\n"

KEYWORD = "    system_prompt: str | None\n"

USE = """
import asyncio, axe_nb
from IPython.core.interactiveshell import InteractiveShell

print("from", axe_nb.__file__)

@axe_nb.script("system")
def system(request):
    return f"told: {request.system}"

async def last_of(events):
    return [event async for event in events][-1].result

axe_nb.define(axe_nb.Agent(name="a", model="script/system", system_prompt="Be long."))
options = {"system_prompt": "Be brief.", "display": False}
print("default", axe_nb.run("a", "x", display=False).text)
print("run", axe_nb.run("a", "x", **options).text)
print("arun", asyncio.run(axe_nb.arun("a", "x", **options)).text)
del options["display"]
print("stream", asyncio.run(last_of(axe_nb.stream("a", "x", **options))).text)

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "axe_nb")
cell = shell.run_cell_magic("axe", "a -q --system-prompt 'Be brief.'", "x")
line = shell.run_line_magic("axe", "run a x -q --system-prompt 'Be brief.'")
print("cell", cell.text)
print("line", line.text)
shell.Completer.use_jedi = False
with __import__("IPython.core.completer").core.completer.provisionalcompleter():
    print("tab", *(c.text for c in shell.Completer.completions("%%axe a --sy", 12)))
"""


def add(file: Path, before: str, more: str, after: str = "") -> None:
    """Puts more text before the first `before` that stands behind `after`."""
    head, mark, text = file.read_text("utf-8").partition(after)
    start, found, rest = text.partition(before)
    assert found, before
    file.write_text(head + mark + start + more + found + rest, "utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of a copy of the project with a new option."""
    top = tmp_path / "copy"
    for folder in ("axe_nb", "docs"):
        shutil.copytree(
            ROOT / folder,
            top / folder,
            ignore=shutil.ignore_patterns("__pycache__", "*.png", "*.svg"),
        )
    commands, session = (top / "axe_nb" / name for name in ("commands", "session"))
    add(commands / "options.py", '    Option(("--skill",)', ROW, after="\nOPTIONS: ")
    add(session / "overrides.py", "    skill: ", KEYWORD, after="class RunOptions")
    add(session / "overrides.py", "    skill: ", FIELD, after="class Overrides")
    return top


def python(copy: Path, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=os.environ | {"PYTHONPATH": str(copy)}, cwd=folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_says_what_this_test_does() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    assert (
        "A new option: one row in `OPTIONS` of `commands/options.py`, and a field of the row's "
        "keyword in `Overrides` and in `RunOptions` of `session/overrides.py`"
    ) in page
    assert "`python docs/make_reference.py` writes the page" in page
    assert "An option with the name of a key of agent files replaces that key" in page


def test_one_row_and_its_field_are_an_option_everywhere(copy: Path, project: Path) -> None:
    said = python(copy, project, "-c", USE).splitlines()
    assert said[0] == f"from {copy / 'axe_nb' / '__init__.py'}"
    told = dict(line.split(" ", 1) for line in said[1:] if line.count(" "))
    assert told["default"] == "told: Be long."
    for face in ("run", "arun", "stream", "cell", "line"):
        assert told[face] == "told: Be brief.", face
    assert told["tab"] == "--system-prompt"


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not there")
def test_the_type_checker_knows_the_keyword(copy: Path, tmp_path: Path) -> None:
    use = tmp_path / "use.py"
    use.write_text('import axe_nb\naxe_nb.run("a", "x", system_prompt="Be brief.")\n')
    cache = f"--cache-dir={tmp_path / 'cache'}"  # of the first run, for the second
    ours = ("--follow-imports=silent", "--no-site-packages", "--ignore-missing-imports")
    words = ("-m", "mypy", *ours, cache, str(use))
    assert "Success" in python(copy, copy, *words)
    add(copy / "axe_nb" / "session" / "overrides.py", KEYWORD, "    # ", after="class RunOptions")
    with pytest.raises(AssertionError):
        python(copy, copy, *words)
