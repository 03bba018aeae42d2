"""The doctor's row on the extension of JupyterLab: the server's environment is what counts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from axe_nb.commands.doctor import EXTENSION, SERVER_PID, Finding, check_lab


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a Python, in which nothing is installed, as the kernel's PATH has it."""
    folder = tmp_path / "server"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return folder


def install(data: Path) -> None:
    (data / EXTENSION).parent.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[2] / "labextension" / "package.json", data / EXTENSION)


@contextmanager
def running(environment: Path, *words: str) -> Iterator[str]:
    """The id of a process of that Python, with these words on its command line."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    command = [environment / "bin" / "python", "-S", "-c", wait, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        yield str(process.pid)
        process.stdin.close()


def found_by_a_kernel_of(
    environment: Path, monkeypatch: pytest.MonkeyPatch, word: str = "jupyter-lab"
) -> list[Finding]:
    with running(environment, word) as process:
        monkeypatch.setenv(SERVER_PID, process)
        return check_lab()


def test_a_server_without_the_extension_is_noted_with_its_own_python(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [finding] = found_by_a_kernel_of(environment, monkeypatch)
    assert (finding.state, finding.what) == ("note", "lab extension")
    assert finding.message.endswith("JupyterLab's environment does not have axe-nb")
    assert finding.next_step.startswith(f"{environment}/bin/python -m pip install axe-nb")


@pytest.mark.parametrize("place", ["server/share/jupyter", "JUPYTER_PATH", "JUPYTER_DATA_DIR"])
def test_an_extension_where_the_server_looks_is_right(
    environment: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    install(environment.parent / place)
    [finding] = found_by_a_kernel_of(environment, monkeypatch)
    assert (finding.state, finding.next_step) == ("right", "")


def test_nothing_is_said_of_a_kernel_that_no_jupyterlab_started(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_by_a_kernel_of(environment, monkeypatch, "another-editor") == []
    monkeypatch.setenv(SERVER_PID, "999999999")
    assert check_lab() == []


def test_outside_a_kernel_the_jupyterlab_on_the_path_is_looked_at(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SERVER_PID, raising=False)
    monkeypatch.setenv("PATH", str(environment / "bin"))
    monkeypatch.setattr(sys, "executable", str(environment / "elsewhere" / "python"))
    assert check_lab() == []
    command = environment / "bin" / "jupyter-lab"
    command.touch(0o755)
    [finding] = check_lab()
    assert finding.state == "note"
    install(environment / "share" / "jupyter")
    [finding] = check_lab()
    assert finding.state == "right"
