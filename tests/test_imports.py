"""What `import axe_nb` and its command leave alone, and whose modules they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bootstrap

IMPORTERS = {
    "importlib": "import importlib; thing = importlib.import_module('serve').app",
    "find_spec": "from importlib.util import find_spec; thing = find_spec('serve').loader",
    "pydantic": "from pydantic import TypeAdapter, ImportString\n"
    "thing = TypeAdapter(ImportString).validate_python('serve.app')",
    "uvicorn": "import uvicorn; config = uvicorn.Config('serve:app'); config.load()\n"
    "thing = config.loaded_app",
}
"""Ways in which a library imports a module of the person's."""


@pytest.mark.parametrize("code", IMPORTERS.values(), ids=IMPORTERS)
def test_other_libraries_find_the_modules_of_the_current_folder(tmp_path: Path, code: str) -> None:
    (tmp_path / "serve.py").write_text("async def app(scope, receive, send): ...\n")
    run = "axe_nb.script('a')(lambda request: 'done'); axe_nb.run(None, 'go', model='script/a')"
    lines = f"import sys; sys.path[:0] = ['']\nimport axe_nb; {run}\n{code}\nprint('found', thing)"
    done = run_python(tmp_path, "-c", lines)
    assert done.stdout.startswith("found <"), done.stderr


def test_importing_it_changes_nothing_of_how_modules_are_found_and_loads_no_prices(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys; before = list(sys.meta_path), list(sys.path), list(sys.path_hooks)\n"
        "import axe_nb; axe_nb.script('a')(lambda request: 'done')\n"
        "with axe_nb.script_server('openai') as server:\n"
        "    os.environ['AXE_OPENAI_BASE_URL'] = server.base_url\n"
        "    print(axe_nb.run(None, 'go', model='openai/a').text)\n"
        "print(before == (sys.meta_path, sys.path, sys.path_hooks))\n"
        "print({'genai_prices', 'pydantic'} & {*sys.modules})"
    )
    assert run_python(tmp_path, "-c", code).stdout.split() == ["done", "True", "set()"]


PLANTED = ("stringprep", "httpx", "idna", "regex", "argparse", "json", "sqlite3", "tomllib", "uuid")


@pytest.mark.req("D-83")
@pytest.mark.parametrize("command", ["python -m axe_nb", "axe-nb"])
def test_the_command_runs_no_module_of_the_current_folder(tmp_path: Path, command: str) -> None:
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open('{name}.ran', 'w')\n")
    script = tmp_path / "axe/scripts/a.toml"
    script.parent.mkdir(parents=True)
    script.write_text('[[rule]]\ntext = "done"\n')
    installed = str(Path(sys.executable).with_name("axe-nb"))
    way = ["-m", "axe_nb"] if command.startswith("python") else [installed]
    done = run_python(tmp_path, *way, "run", "-m", "script/a", "-p", "go")
    assert done.stdout == "done\n", done.stderr
    run_python(tmp_path, *way, "run", "-m", "openai/gpt-5", "-p", "go")  # by `encodings.idna`
    assert [path.name for path in tmp_path.glob("*.ran")] == []


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Python prints in this folder, with addresses of providers that are never reached."""
    nowhere = {"OPENAI_API_KEY": "k", "AXE_OPENAI_BASE_URL": "https://localhost:9"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
        check=False, stdin=subprocess.DEVNULL,
        env=os.environ | nowhere | {"PYTHONPATH": str(bootstrap.ROOT)},
    )  # fmt: skip
