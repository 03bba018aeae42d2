"""Random trees stopped at random moments; `random_trees` can play more of them by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TREES = os.environ.get("AXE_TREES", "300")


@pytest.mark.timeout(240)
@pytest.mark.req("D-2", "D-8", "D-57", "D-58")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
def test_random_trees_keep_every_promise_wherever_they_are_stopped(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.engine.random_trees",
         "--trees", TREES, "--seed", "1"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{TREES} trees, " in done.stdout
    assert " 0 broken promises" in done.stdout
    assert "Traceback" not in done.stderr
    assert "never retrieved" not in done.stderr
