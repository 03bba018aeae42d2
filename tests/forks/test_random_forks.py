"""Forks of random trees; `random_forks` can play more of them by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TREES = os.environ.get("AXE_FORKED_TREES", "20")


@pytest.mark.timeout(120)
@pytest.mark.req("D-66", "D-2")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
def test_forks_of_random_trees_keep_every_promise(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.forks.random_forks", "--trees", TREES, "--seed", "1"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root), "AXE_NB_HISTORY": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " completed" in done.stdout
    assert f"{TREES} trees, 0 broken promises" in done.stdout
