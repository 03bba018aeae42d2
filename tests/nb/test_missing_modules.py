"""What a kernel, pytest and the standard library import if it exists: no tool writes it unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

from axe_nb.protected import find_write_protection

RECORDER = """
import os, sys

class Recorder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None:
            with open(os.environ["MISSING"], "a") as out:
                out.write(name + "\\n")

sys.meta_path.append(Recorder)
"""

ALL_OF_PYTHON = """
import importlib, sys
left_out = {"antigravity", "idlelib", "test", "this", "turtledemo"}
for name in sorted(sys.stdlib_module_names - left_out):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
"""

ALWAYS = {"org"} if sys.version_info < (3, 12) else set()
"""What `copy` and `pickle` of Python 3.11 look for."""

CELLS = ("1/0", "%load_ext axe_nb", "%axe list", "%pdoc print", "print??", "%matplotlib inline")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(RECORDER, "utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "missing").touch()
    return tmp_path / "project"


def make_environment(folder: Path) -> dict[str, str]:
    watch = folder.parent / "watch"
    path = f"{watch}{os.pathsep}{os.environ['PYTHONPATH']}"
    return {**os.environ, "PYTHONPATH": path, "MISSING": str(folder.parent / "missing")}


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, *expected: str) -> None:
    """All that was missed is protected, as a module and as a package without `__init__.py`."""
    missed = set((folder.parent / "missing").read_text("utf-8").split())
    assert missed, "the recorder was there"
    assert missed >= ALWAYS | set(expected)
    monkeypatch.chdir(folder)
    for name in missed:
        assert find_write_protection(folder / f"{name}.py", folder), f"add {name} to OPTIONAL"
        part = folder / name / "part.py"
        is_of_python = name.casefold() in sys.stdlib_module_names
        assert is_of_python or find_write_protection(part, folder), f"add {name} to OPTIONAL"


def test_what_a_kernel_misses_is_protected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(cwd=str(folder), env=make_environment(folder))
    client = kernel.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=120)
        for cell in CELLS:
            client.execute_interactive(cell, timeout=120, output_hook=lambda _: None)
        for code in ("import o", "os.pa", "%a"):
            client.complete(code, reply=True, timeout=120)
        client.inspect("print", reply=True, timeout=120)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    check(folder, monkeypatch, "colorama")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", ALL_OF_PYTHON],
        ["-m", "axe_nb", "--version"],
        ["-m", "pytest", "-q", "test_a.py"],
        ["-m", "pip", "install", "--dry-run", "--no-index", "--find-links", ".", "no-such-package"],
        ["-m", "jupyter", "--version"],
        ["-m", "jupyter", "labextension", "list"],
    ],
)
def test_what_a_program_misses_is_protected(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "test_a.py").write_text("def test_a(): pass\n", "utf-8")
    environment = make_environment(folder)
    subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, timeout=300,
    )  # fmt: skip
    check(folder, monkeypatch)


def test_what_jupyterlab_and_an_older_kernel_miss_is_protected(tmp_path: Path) -> None:
    for name in (
        "annotationlib", "attr", "docrepr", "jupyterlab_language_pack_de_DE", "lxml", "notebook",
        "pickleshare", "pyls", "pylsp", "pytz", "qtconsole", "wsaccel",
    ):  # fmt: skip
        assert find_write_protection(tmp_path / f"{name}.py", tmp_path), name
        assert find_write_protection(tmp_path / name / "part.py", tmp_path), name
