"""Errors as people meet them: in a script, where Python itself prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import axe_nb


def test_an_uncaught_error_ends_with_its_next_step(project: Path) -> None:
    code = "import axe_nb; axe_nb.run('critik', 'x')"
    (project / "axe" / "agents" / "critic.toml").write_text(
        'name = "critic"\nmodel = "script/x"\n', "utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(axe_nb.__file__).parent.parent)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-2:] == [
        "axe_nb.errors.ConfigError: agent config not found: critik",
        'did you mean "critic"?',
    ]
