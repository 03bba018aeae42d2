"""Where else a run is shown: a terminal's IPython, and threads of a cell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.nb.kernels import Kernels

ECHO = '[[rule]]\ntext = "You said: {last}"\n'


@pytest.fixture
def echo(project: Path) -> Path:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "agents" / "echo.toml").write_text('name = "echo"\nmodel = "script/echo"\n')
    (project / "axe" / "scripts" / "echo.toml").write_text(ECHO)
    return project


def test_ipython_in_a_terminal_prints_the_text_twin_once(echo: Path, kernel_python: Path) -> None:
    (echo / "session.ipy").write_text(
        "%load_ext axe_nb\nget_ipython().run_cell('''%%axe echo\nhello''');\n"
    )
    done = subprocess.run(
        [kernel_python, "-m", "IPython", "--no-banner", "--colors=NoColor", "session.ipy"],
        capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "IPYTHONDIR": str(echo / "ipython")},
    )  # fmt: skip
    assert done.stdout.count("You said: hello") == 1, done.stdout + done.stderr
    assert "✓ echo · script/echo · completed · 1 turn" in done.stdout


def test_runs_in_threads_of_a_cell_are_each_shown(
    echo: Path, kernel_python: Path, kernels: Kernels
) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
import axe_nb
with ThreadPoolExecutor(3) as pool:
    texts = [r.text for r in pool.map(lambda n: axe_nb.run("echo", str(n)), range(3))]
"""
    cells = kernels.at(kernel_python, echo)
    shown = cells.run(code)
    assert sorted(o["data"]["text/plain"].split("\n")[0] for o in shown) == [
        "You said: 0", "You said: 1", "You said: 2",
    ]  # fmt: skip
    said = cells.run("print(texts)")
    assert said[0]["text"] == "['You said: 0', 'You said: 1', 'You said: 2']\n"
