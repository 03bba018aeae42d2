"""Many commands in one sandbox, beside canaries that none of them may touch or reach.

The commands of a batch share a cage, each with a folder and a time limit of its own. That way
thousands of them need few cages.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox.cages import FULL, SECRET, Cage, canary, server

RUNNER = (Path(__file__).parent / "runner.py").read_text("utf-8")
LIMITS = "ulimit -u 4000 -f 20000; exec"


@dataclass(frozen=True, slots=True)
class Canaries:
    pid: int
    port: int
    socket: str

    def fill(self, command: str, cage: Cage) -> str:
        values = {
            "other": cage.base / "other", "home": cage.home, "pid": self.pid, "port": self.port,
            "socket": self.socket, "work": cage.work,
        }  # fmt: skip
        for name, value in values.items():
            command = command.replace(f"{{{name}}}", str(value))
        return command


@contextlib.contextmanager
def untouched(cage: Cage) -> Iterator[Canaries]:
    """Canaries of every kind; fails if one was touched or reached when the block ends."""
    path = f"{cage.base}/other/socket"
    with canary() as sleeper, server() as (port, reached), socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        Path(path).chmod(0o777)
        unix.listen()
        unix.setblocking(False)
        before = look(cage)
        yield Canaries(sleeper.pid, port, path)
        assert sleeper.poll() is None, f"a process outside ended with {sleeper.returncode}"
        assert is_sleeping(sleeper.pid), "a process outside was stopped or traced"
        assert look(cage) == before, "a file outside was touched"
        with contextlib.suppress(BlockingIOError):
            unix.accept()[0].close()
            raise AssertionError("a socket outside was reached")
    assert reached == [], "a server outside was reached"


def is_sleeping(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "RSD"


def look(cage: Cage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(cage.base):
        if cage.work in (Path(folder), *Path(folder).parents):
            folders.clear()
            continue
        for name in files:
            path = Path(folder, name)
            content = path.read_bytes() if path.is_file() else stat.S_IFMT(path.lstat().st_mode)
            found[str(path)] = content, status(cage, path)
        found[folder] = sorted((*folders, *files)), status(cage, Path(folder))
    for place in ("/etc/profile.d", "/etc/cron.d", "/usr/local/bin"):
        if (path := Path(place)).is_dir():
            found[place] = sorted(path.iterdir())
    found["kernel"] = Path("/proc/sys/kernel/core_pattern").read_bytes()
    found["host"] = socket.gethostname()
    return found


def status(cage: Cage, path: Path) -> Sequence[int]:
    """What the level keeps of a file but its content: at `files` its owner and names, else all."""
    its = path.lstat()
    kept = (its.st_uid, its.st_nlink)
    if cage.method not in FULL:
        return kept
    return *kept, its.st_mode, its.st_gid, its.st_mtime_ns, its.st_ctime_ns


def run_all(
    cage: Cage, commands: Sequence[str], *, seconds: float = 2, parallel: int = 8
) -> dict[str, str]:
    """Runs the commands and returns command -> output; fails if a secret came out.

    A command may end its own cage, and others with it. All that were running then are run once
    more, one after the other: there, what a command cuts short is itself.
    """
    outputs: dict[str, str] = {}
    left, cut = list(dict.fromkeys(commands)), []
    while left:
        started, found = run_batch(cage, left, seconds, parallel)
        assert started, "no command was run"
        outputs |= found
        cut += [command for command in started if command not in found]
        left = [command for command in left if command not in started]
    while cut:
        started, found = run_batch(cage, cut, seconds, 1)
        assert started, "no command was run"
        outputs |= dict.fromkeys(started, "") | found
        cut = cut[len(started) :]
    return outputs


def run_batch(
    cage: Cage, commands: Sequence[str], seconds: float, parallel: int
) -> tuple[list[str], dict[str, str]]:
    """Runs the commands in one cage; returns those that began, and command -> output."""
    for path in cage.work.iterdir():  # the times of the folder above tell if it was touched
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    cage.work.chmod(0o755)
    listed = "\0".join(commands).encode("utf-8", "surrogatepass")
    (cage.work / "all.txt").write_bytes(listed)
    for path in (cage.work, cage.work / "all.txt"):
        os.chown(path, cage.uid, cage.uid)
    words = ["/usr/bin/python3", "-I", "-S", "-c", RUNNER, str(seconds), str(parallel)]
    limit = 60 + seconds * len(commands) / parallel
    ended = cage.run(f"{LIMITS} {shlex.join(words)}", seconds=limit)
    assert SECRET not in ended.output, "a secret came out"
    started: list[str] = []
    outputs: dict[str, str] = {}
    for what, number, *text in said(ended.output):
        if what == "start":
            started.append(commands[number])
        else:
            outputs[commands[number]] = text[0]
    return started, outputs


def said(output: str) -> Iterator[list[Any]]:
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)
