"""The commands of a checkout on a machine with nothing but Python."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bootstrap

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["tests/bootstrap.py", "tests/__main__.py"])
def test_a_script_that_runs_first_needs_the_standard_library_only(script: str) -> None:
    tree = ast.parse((ROOT / script).read_text("utf-8"))
    froms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    packages = {name.partition(".")[0] for name in froms | names}
    assert packages <= sys.stdlib_module_names | {"tests"}


@pytest.mark.timeout(120)
def test_the_first_command_ends_with_what_the_exercises_ask_and_no_traceback() -> None:
    code = "import runpy; found = runpy.run_path('notebooks/__main__.py', run_name='x')\n"
    code += "assert found['run'](found['FIRST'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "5 sub-agents" in done.stdout
    assert done.stdout.count("exercise, left to you: ") == 3
    assert "its 2 exercises are left to you" in done.stdout
    assert "Traceback" not in done.stdout


def test_no_file_of_ours_names_the_host_of_a_registry() -> None:
    for file in (bootstrap.LOCK, bootstrap.LOCK.with_name("package.json")):
        assert "npmjs" not in file.read_text("utf-8")
        assert '"resolved"' not in file.read_text("utf-8")
