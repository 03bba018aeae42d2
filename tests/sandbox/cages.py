"""Runs commands in each sandbox of this machine, as root and as an ordinary user."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from axe_nb.sandbox.find import list_methods
from axe_nb.sandbox.process import Method
from tests.conftest import not_run

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
SECRET = "sk-canary-5f1d"

FULL = ("bubblewrap",)
METHODS = (*FULL, "Landlock")
"""Names of the methods, without versions."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int | None
    output: str
    notes: tuple[str, ...]
    in_time: bool


@dataclass(slots=True)
class Cage:
    method: str
    uid: int
    base: Path
    """Holds `home` and, in it, `work`; `other` is somebody else's."""
    without: Sequence[Sequence[str]] = ()
    environ: dict[str, str] = field(default_factory=dict)
    python: str = ""
    package: Path = ROOT

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def work(self) -> Path:
        return self.home / "work"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "ANTHROPIC_API_KEY": SECRET,
            "PYTHONPATH": str(self.package),
            "LANG": "C.UTF-8",
            **self.environ,
        }

    def run(
        self, command: str, *, seconds: float = 60, folder: Path | None = None, **more: Any
    ) -> Ended:
        kernel = self.begin(command, seconds=seconds, folder=folder, **more)
        out, err = kernel.communicate(timeout=seconds + 60)
        assert kernel.returncode == 0, err
        told = json.loads(out)
        assert not told["failure"], told
        return Ended(told["code"], told["output"], tuple(told["notes"]), told["in_time"])

    def begin(
        self,
        command: str,
        *,
        seconds: float,
        folder: Path | None = None,
        network: bool = False,
        workdir: Path | None = None,
        sources: Sequence[Path] = (),
    ) -> subprocess.Popen[str]:
        job = {
            "method": self.method,
            "without": self.without,
            "workdir": str(workdir or self.work),
            "command": command,
            "network": network,
            "seconds": seconds,
            "sources": [str(path) for path in sources],
        }
        kernel = subprocess.Popen(
            [self.python, "-P", "-m", "tests.sandbox.kernel"],
            cwd=folder or self.base, env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **as_user(self.uid),
        )  # fmt: skip
        assert kernel.stdin
        kernel.stdin.write(json.dumps(job))
        kernel.stdin.close()
        kernel.stdin = None
        return kernel


def find_method(name: str) -> Method:
    """The method of this name; ends the test where this machine has none."""
    found = next((m for m in list_methods() if m.name.startswith(name)), None)
    if found is None:
        by = " (Debian: sudo apt-get install bubblewrap)" if name == "bubblewrap" else ""
        not_run(f"there is no {name}{by}")
    return found


def use_only(monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """Makes a machine on which only one method works; returns its level."""
    level = find_method(name).level
    methods = [m for m in list_methods() if m.name.partition(" ")[0] == name]
    monkeypatch.setattr("axe_nb.sandbox.find.METHODS", {sys.platform: [lambda: methods]})
    return level


def as_user(uid: int) -> dict[str, Any]:
    return {} if os.geteuid() == uid else {"user": uid, "group": uid, "extra_groups": []}


@functools.cache
def python_for(uid: int) -> str:
    if uid == os.geteuid():
        return sys.executable
    for name in ("/usr/bin/python3", sys.executable):
        asked = [name, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(asked, check=True, capture_output=True, cwd="/", **as_user(uid))
            return name
    return not_run("no Python 3.11 that an ordinary user may run")


@functools.cache
def readable_package() -> Path:
    """A copy of the package and of these tests that every user may read."""
    package = Path(tempfile.mkdtemp(prefix="axe-nb-test-package-"))
    atexit.register(shutil.rmtree, package, ignore_errors=True)
    package.chmod(0o755)
    skip = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(ROOT / "axe_nb", package / "axe_nb", ignore=skip)
    shutil.copytree(ROOT / "tests" / "sandbox", package / "tests" / "sandbox", ignore=skip)
    (package / "tests" / "__init__.py").touch()
    found = python_for(NOBODY)
    subprocess.run([found, "-m", "compileall", "-q", str(package)], check=True)
    return package


def package_for(uid: int) -> Path:
    return ROOT if uid == os.geteuid() else readable_package()


@functools.cache
def make_repository() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="axe-nb-test-repository-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    for words in (
        ["init", "-q", "."], ["config", "user.email", "a@b.c"], ["config", "user.name", "A"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)
    return folder / ".git"


def make_cage(method: str, uid: int, base: Path) -> Cage:
    """Prepares the folders of a cage below `base`, a new folder that the user may enter."""
    cage = Cage(method, uid, base, python=python_for(uid))
    cage.work.mkdir(parents=True)
    (cage.home / ".ssh").mkdir()
    (cage.home / ".ssh" / "id_rsa").write_text(SECRET)
    (base / "other").mkdir()
    (base / "other" / "secret.txt").write_text(SECRET)
    shutil.copytree(make_repository(), cage.work / ".git")
    cage.package = package_for(uid)
    if uid != os.geteuid():
        for folder, folders, files in os.walk(base):
            for name in (".", *folders, *files):
                os.chown(Path(folder, name), uid, uid, follow_symlinks=False)
    return cage


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="axe-nb-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def users() -> list[Any]:
    me = os.geteuid()
    ids = [me, NOBODY] if me == 0 else [me]
    return [pytest.param(uid, id="root" if uid == 0 else "user") for uid in ids]


@contextlib.contextmanager
def canary() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", f"86400.{int.from_bytes(os.urandom(4), 'big')}"]) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def server() -> Iterator[tuple[int, list[str]]]:
    """Port of a TCP and a UDP server on loopback, and what has reached them."""
    reached: list[str] = []
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        yield port, reached
        tcp.setblocking(False)
        udp.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection, _ = tcp.accept()
            connection.close()
            reached.append("tcp")
        with contextlib.suppress(BlockingIOError):
            udp.recv(1)
            reached.append("udp")


def find_sleepers() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, *words = (process / "cmdline").read_text("utf-8", "replace").split("\0")
            if program == "sleep":
                found.update(words[:1])
    return found


def is_running(seconds: str) -> bool:
    return seconds in find_sleepers()


def ends(seconds: str, patience: float = 10.0) -> bool:
    until = time.monotonic() + patience
    while is_running(seconds):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def unique() -> str:
    """Seconds that no other process of this machine sleeps."""
    return f"600.{int.from_bytes(os.urandom(5), 'big')}"


def kill(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
