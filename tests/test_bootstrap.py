"""A machine with nothing but Python gets its environments from one command, and keeps them."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import bootstrap

ROOT = Path(__file__).parent.parent
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in miniature, with a package that needs no network and what an old Python left."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with zipfile.ZipFile(tmp_path / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.dist-info/METADATA", METADATA)
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "axe-nb.stamp").write_text("3.10.1 /usr /elsewhere\n")
    (tmp_path / ".venv" / "left-over").touch()
    return tmp_path


def test_an_environment_is_made_once_and_brought_up_to_date(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def installed(package: str = "tiny-1-py3-none-any.whl") -> bool:
        python = bootstrap.environment(".venv", package, root=checkout)
        subprocess.run([python, "-c", "import tiny"], check=True)
        return "installing" in capsys.readouterr().out

    assert installed()
    assert not (checkout / ".venv" / "left-over").exists(), "the old Python's is made anew"
    assert not installed(), "what is there is kept"

    (checkout / "pyproject.toml").write_text("[project]\n# changed\n")
    assert installed()

    with pytest.raises(SystemExit, match=r"(?s)no-such-package.*\n\.venv: pip failed, see above"):
        installed("no-such-package")
    assert not (checkout / ".venv" / "axe-nb.stamp").exists(), "the next time starts afresh"


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
