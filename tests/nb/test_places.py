"""Where else a run is shown: a terminal's IPython."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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
