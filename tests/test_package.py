"""What is built from this checkout holds what it needs, and nothing of the checkout's own."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("axe_nb/")}
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "axe_nb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == here
    assert "axe_nb/py.typed" in packed


def test_the_wheel_holds_the_extension_of_jupyterlab_where_a_server_looks(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        data = {
            name.partition(".data/data/")[2]: archive.read(name)
            for name in archive.namelist()
            if not name.startswith("axe_nb/") and ".dist-info/" not in name
        }
    place = "share/jupyter/labextensions/axe-nb"
    assert data.keys() == {f"{place}/package.json", f"{place}/static/remoteEntry.js"}
    told = json.loads(data[f"{place}/package.json"])
    assert f"{place}/{told['jupyterlab']['_build']['load']}" in data
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (told["name"], told["version"]) == (project["name"], project["version"])


def test_the_wheel_offers_the_command_and_the_plug_in_of_pytest(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        lines = archive.read(name).decode().split("\n")
    assert "axe-nb = axe_nb.cli:run_and_exit" in lines
    assert "axe_nb.pytest_plugin = axe_nb.pytest_plugin" in lines[lines.index("[pytest11]") :]


def test_the_source_archive_holds_the_project_and_no_environments(built: Path) -> None:
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = [Path(name).parts[1:] for name in archive.getnames()]
    assert {parts[0] for parts in names} <= {
        "axe_nb", "docs", "labextension", "notebooks", "tests", "CHANGELOG.md", "LICENSE",
        "README.md", "pyproject.toml", "PKG-INFO", ".gitignore",
    }  # fmt: skip
    assert not [parts for parts in names if "__pycache__" in parts]
    assert ("tests", "requirements", "rows.toml") in names


@pytest.mark.req("D-70")
def test_the_dependencies_that_are_settled_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    names = {re.split(r"[<>=]", asked)[0] for asked in project["project"]["dependencies"]}
    assert {"ipython", "ipywidgets", "httpx", "tomli-w"} <= names
    assert not names & {"anthropic", "openai", "ollama", "pydantic"}
