"""What is built from this checkout holds what it needs, and nothing of the checkout's own."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SOURCES = {
    "axe_nb", "docs", "labextension", "notebooks", "tests", "CHANGELOG.md", "CITATION.cff",
    "LICENSE", "README.md", "pyproject.toml", ".gitignore",
}  # fmt: skip
"""Folders and files of the source archive."""

JUNK = re.compile(
    r"__pycache__|\.py[co]$|\.ipynb_checkpoints|\.DS_Store|\.egg-info|_cache/|/\.env|\.sqlite|\.lock$|~$"
)
"""Part of the name of a file that a program left."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def read_files(archive: Path) -> dict[str, bytes]:
    """Path → content of each file in a wheel or a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return {name: packed.read(name) for name in packed.namelist()}
    with tarfile.open(archive) as packed:
        files = {one.name: packed.extractfile(one) for one in packed.getmembers()}
        return {name: file.read() for name, file in files.items() if file}


def test_both_hold_nothing_that_a_machine_left(built: Path) -> None:
    private = [str(ROOT).encode(), sys.prefix.encode()]
    for archive in built.iterdir():
        files = read_files(archive)
        assert not [name for name in files if JUNK.search(name)]
        assert not [name for name, data in files.items() if any(p in data for p in private)]


def test_the_metadata_says_what_an_index_shows(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    files = read_files(wheel)
    [name] = [name for name in files if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(files[name].decode())
    assert metadata["Name"] == "axe-nb"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown, readme = str(metadata.get_payload()), (ROOT / "README.md").read_text("utf-8")
    assert "](" not in shown, "a relative link leads nowhere on an index page"
    blocks = re.findall(r"```(?:toml|ipython)\n.*?```", shown, re.DOTALL)
    assert [block in readme for block in blocks] == [True] * 3
    extras = {"aiohttp", "dask", "images", "ipyparallel", "lab", "mcp", "prices", "test"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    [licence] = [data for name, data in files.items() if name.endswith("/licenses/LICENSE")]
    assert licence == (ROOT / "LICENSE").read_bytes()
    [points] = [data.decode() for name, data in files.items() if name.endswith("entry_points.txt")]
    assert "axe-nb = axe_nb.cli:run_and_exit\n" in points
    plugin = "axe_nb.testing.pytest_plugin"
    assert f"{plugin} = {plugin}" in points.partition("[pytest11]")[2]


def test_the_source_archive_holds_the_files_of_the_repository_and_makes_the_same_wheel(
    built: Path, tmp_path: Path
) -> None:
    [source], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    kept = {name.partition("/")[2] for name in read_files(source)} - {"PKG-INFO"}
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, encoding="utf-8",
    ).stdout.splitlines()  # fmt: skip
    assert kept == {
        name for name in listing if name.split("/")[0] in SOURCES and (ROOT / name).is_file()
    }
    with tarfile.open(source) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Debian's 3.11
        archive.extractall(tmp_path, **safe)
    [unpacked] = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=unpacked, check=True, capture_output=True,
    )  # fmt: skip
    again, first = read_files(tmp_path / wheel.name), read_files(wheel)
    assert again == first


def test_the_wheel_holds_the_extension_of_jupyterlab_where_a_server_looks(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    data = {
        name.partition(".data/data/")[2]: content
        for name, content in read_files(wheel).items()
        if not name.startswith("axe_nb/") and ".dist-info/" not in name
    }
    place = "share/jupyter/labextensions/axe-nb"
    assert data.keys() == {f"{place}/package.json", f"{place}/static/remoteEntry.js"}
    told = json.loads(data[f"{place}/package.json"])
    assert f"{place}/{told['jupyterlab']['_build']['load']}" in data
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (told["name"], told["version"]) == (project["name"], project["version"])


@pytest.mark.req("D-70")
def test_the_dependencies_that_are_settled_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    names = {re.split(r"[<>=]", asked)[0] for asked in project["project"]["dependencies"]}
    assert {"ipython", "ipywidgets", "httpx", "tomli-w"} <= names
    assert not names & {"anthropic", "openai", "ollama", "pydantic"}
