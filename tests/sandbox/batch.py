"""Many commands in one sandbox, beside canaries that none of them may touch or reach.

The commands of a batch share a cage, each with a folder and a time limit of its own. That way
thousands of them need few cages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox.cages import SECRET, Cage, canary, server

RUN_EACH = """
exec 9< all.txt
ulimit -u 4000 -f 20000
run() {{
    printf '\\n@start %s\\n' "$1"
    mkdir -p "$PWD/$1" && cd "$1" && echo a > a.txt
    said=$(
        timeout -s KILL {seconds} bash -c "$2" 2>&1 < /dev/null 9<&- |
        timeout -s KILL {seconds} head -c 2000 | tr -d '\\0'
    )
    printf '\\n@end %s\\n%s' "$1" "$said"
}}
export -f run
xargs -0 -n 2 -P {parallel} bash -c 'run "$1" "$2"' run <&9
"""
"""Reads its commands at once and writes to a pipe: some of them remove all files of the workdir."""

START, END = re.compile(r"^@start (\d+)$", re.M), re.compile(r"^@end (\d+)\n([^@]*)", re.M)


@dataclass(frozen=True, slots=True)
class Canaries:
    """What is beside a cage."""

    pid: int
    port: int
    socket: str

    def fill(self, command: str, cage: Cage) -> str:
        """The command with the canaries' names."""
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
        assert look(cage) == before, "a file outside was touched"
        with contextlib.suppress(BlockingIOError):
            unix.accept()[0].close()
            raise AssertionError("a socket outside was reached")
    assert reached == [], "a server outside was reached"


def look(cage: Cage) -> dict[str, Any]:
    """All that is beside the workdir."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(cage.base):
        if cage.work in (Path(folder), *Path(folder).parents):
            folders.clear()
            continue
        folders[:] = [name for name in folders if name != "package"]
        for name in files:
            path = Path(folder, name)
            found[str(path)] = path.read_bytes() if path.is_file() else path.lstat().st_mode
        found[folder] = sorted((*folders, *files))
    for place in ("/etc/profile.d", "/etc/cron.d", "/usr/local/bin"):
        if (path := Path(place)).is_dir():
            found[place] = sorted(path.iterdir())
    found["kernel"] = Path("/proc/sys/kernel/core_pattern").read_bytes()
    found["host"] = socket.gethostname()
    return found


def run_all(
    cage: Cage, commands: Sequence[str], *, seconds: float = 2, parallel: int = 8
) -> dict[str, str]:
    """Runs the commands and returns command -> output; fails if a secret came out.

    A command may end its own cage: what was cut short then is run in the next one, but once only.
    """
    outputs: dict[str, str] = {}
    left = list(dict.fromkeys(commands))
    begun: Counter[str] = Counter()
    while left:
        started, found = run_batch(cage, left, seconds, parallel)
        assert started, "no command was run"
        outputs |= found
        begun.update(started)
        outputs |= {
            command: "" for command, times in begun.items() if times > 1 and command in left
        }
        left = [command for command in left if command not in outputs]
    return outputs


def run_batch(
    cage: Cage, commands: Sequence[str], seconds: float, parallel: int
) -> tuple[list[str], dict[str, str]]:
    """Runs the commands in one cage; returns those that began, and command -> output."""
    shutil.rmtree(cage.work)
    cage.work.mkdir()
    listed = "".join(f"{number}\0{command}\0" for number, command in enumerate(commands))
    (cage.work / "all.txt").write_bytes(listed.encode("utf-8", "surrogatepass"))
    for path in (cage.work, cage.work / "all.txt"):
        os.chown(path, cage.uid, cage.uid)
    limit = 60 + seconds * len(commands) / parallel
    ended = cage.run(RUN_EACH.format(seconds=seconds, parallel=parallel), seconds=limit)
    assert SECRET not in ended.output, "a secret came out"
    started = [commands[int(number)] for number in START.findall(ended.output)]
    return started, {commands[int(number)]: text for number, text in END.findall(ended.output)}
