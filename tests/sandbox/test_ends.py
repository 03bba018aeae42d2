"""Everything that a command started ends with it, however it ends."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Sequence

import pytest

from tests.sandbox.cages import Cage, ends, is_running, kill, unique

pytestmark = pytest.mark.req("D-55")

DAEMON = (
    '/usr/bin/python3 -c "import os, sys; os.fork() and os._exit(0); os.setsid(); '
    "os.fork() and os._exit(0); os.chdir('/'); os.execvp('sleep', ['sleep', '{s}'])\""
)
WAYS = {
    "background": "sleep {s} &",
    "setsid": "setsid sleep {s} &",
    "double fork": "( ( sleep {s} & ) & )",
    "nohup": "nohup sleep {s} > /dev/null 2>&1 &",
    "ignores signals": "( trap '' TERM INT HUP; setsid sleep {s} ) &",
    "daemon": DAEMON,
    "many": "for i in $(seq 50); do setsid sleep {s} & done",
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_when_it_ends(cage: Cage, way: str) -> None:
    seconds = unique()
    ended = cage.run(WAYS[way].format(s=seconds) + "\nsleep 0.2; echo done")
    assert "done" in ended.output
    assert not is_running(seconds), "all has ended before the result is there"


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_when_its_time_is_up(cage: Cage, way: str) -> None:
    seconds = unique()
    command = f"trap '' TERM INT HUP\n{WAYS[way].format(s=seconds)}\nsleep {seconds}"
    ended = cage.run(command, seconds=1.5)
    assert not ended.in_time
    assert not is_running(seconds)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_when_the_kernel_is_killed(cage: Cage, way: str) -> None:
    seconds = unique()
    assert start_and_kill(cage, way, seconds)
    assert ends(seconds)


@pytest.mark.parametrize(
    ("method", "without"),
    [
        ("bubblewrap", ["--die-with-parent"]),
        ("Landlock", ("    prctl(PR_PDEATHSIG, ", "    (lambda *_: 0)(0, ")),
    ],
)  # fmt: skip
def test_without_its_flag_it_outlives_the_kernel(cage: Cage, without: Sequence[str]) -> None:
    seconds = unique()
    assert start_and_kill(dataclasses.replace(cage, without=[without]), "setsid", seconds, 3)
    assert is_running(seconds)
    for pid in processes(seconds):
        os.kill(pid, signal.SIGKILL)


def processes(seconds: str) -> list[int]:
    """Ids of the processes that name the seconds in their arguments."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if seconds in line]


def start_and_kill(cage: Cage, way: str, seconds: str, lasting: float = 600) -> bool:
    """True if the command was at work when the kernel was killed."""
    command = f"{WAYS[way].format(s=seconds)}\nsleep {lasting}"
    kernel = cage.begin(command, seconds=600)
    until = time.monotonic() + 60
    while not is_running(seconds) and time.monotonic() < until:
        time.sleep(0.05)
    was_running = is_running(seconds)
    kill(kernel)
    for pipe in (kernel.stdout, kernel.stderr):
        if pipe:
            pipe.close()
    return was_running
