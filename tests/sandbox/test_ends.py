"""Everything that a command started ends with it, however it ends."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

import pytest

from tests.sandbox.cages import Cage, ends, find_sleepers, is_running, kill, unique

pytestmark = pytest.mark.req("D-82")

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


def all_ways() -> tuple[str, dict[str, str]]:
    seconds = {way: unique() for way in WAYS}
    return "\n".join(WAYS[way].format(s=seconds[way]) for way in WAYS), seconds


def survivors(seconds: Mapping[str, str]) -> list[str]:
    asleep = find_sleepers()
    return [way for way in seconds if seconds[way] in asleep]


def test_nothing_is_left_when_it_ends(cage: Cage) -> None:
    command, seconds = all_ways()
    ended = cage.run(f"{command}\nsleep 0.2; echo done")
    assert "done" in ended.output
    assert survivors(seconds) == [], "all has ended before the result is there"


def test_nothing_is_left_when_its_time_is_up(cage: Cage) -> None:
    command, seconds = all_ways()
    own = unique()
    ended = cage.run(f"trap '' TERM INT HUP\n{command}\nsleep {own}", seconds=1.5)
    assert not ended.in_time
    assert survivors({**seconds, "the command": own}) == []


NOT_CONFINED = ('if plan["confined"]:', "if False:")
"""A line of the launcher, and what stands there on Linux before 6.12."""

CHAIN = """
if [ $2 = 0 ]; then : > ready; else sh chain.sh $1 $(($2 - 1)) & fi
exec sleep $1
"""


@pytest.mark.parametrize("method", ["Landlock"])
@pytest.mark.parametrize("without", [[], [NOT_CONFINED]], ids=["confined", "not confined"])
def test_nothing_is_left_of_a_long_chain_of_processes(
    cage: Cage, without: Sequence[Sequence[str]]
) -> None:
    seconds = unique()
    (cage.work / "chain.sh").write_text(CHAIN)
    ended = dataclasses.replace(cage, without=without).run(
        f"sh chain.sh {seconds} 700 & while [ ! -e ready ]; do sleep 0.1; done"
    )
    assert (ended.code, ended.output) == (0, "")
    assert not is_running(seconds)


RELAY = """
import os, time
os.setsid()
until = time.monotonic() + 120
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    with open("beats", "a") as file:
        file.write("x")
"""


def test_nothing_is_left_of_processes_that_replace_one_another(cage: Cage) -> None:
    (cage.work / "relay.py").write_text(RELAY)
    cage.run("for i in 1 2 3; do (/usr/bin/python3 relay.py &) ; done; sleep 1")
    beats = cage.work / "beats"
    assert beats.stat().st_size
    size = beats.stat().st_size
    time.sleep(0.5)
    assert beats.stat().st_size == size


@pytest.mark.parametrize("target", ["$PPID", "-1", "1"])
def test_a_command_that_stops_its_parents_ends_at_its_time_limit(cage: Cage, target: str) -> None:
    seconds = unique()
    ended = cage.run(f"setsid sleep {seconds} &\nkill -STOP {target}\nsleep {seconds}", seconds=1)
    assert not ended.in_time
    assert ends(seconds, patience=1)


def test_nothing_is_left_when_the_kernel_is_killed(cage: Cage) -> None:
    command, seconds = all_ways()
    assert start_and_kill(cage, command, seconds)
    assert all(ends(one) for one in seconds.values())


@pytest.mark.parametrize(
    ("method", "without"),
    [
        ("bubblewrap", ["--die-with-parent"]),
        ("Landlock", ("    prctl(PR_PDEATHSIG, ", "    (lambda *_: 0)(0, ")),
    ],
)  # fmt: skip
def test_without_its_flag_it_outlives_the_kernel(cage: Cage, without: Sequence[str]) -> None:
    seconds = unique()
    weak = dataclasses.replace(cage, without=[without])
    assert start_and_kill(weak, WAYS["setsid"].format(s=seconds), {"setsid": seconds}, 3)
    assert is_running(seconds)
    for pid in processes(seconds):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("method", [""])
def test_without_a_sandbox_the_program_itself_ends_with_the_kernel(cage: Cage) -> None:
    seconds = unique()
    assert start_and_kill(cage, f"exec sleep {seconds}", {"program": seconds})
    assert ends(seconds)


def processes(seconds: str) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if seconds in line]


def start_and_kill(
    cage: Cage, command: str, seconds: Mapping[str, str], lasting: float = 600
) -> bool:
    """True if the command was at work, in all its ways, when the kernel was killed."""
    kernel = cage.begin(f"{command}\nsleep {lasting}", seconds=600)
    until = time.monotonic() + 60
    while survivors(seconds) != list(seconds) and time.monotonic() < until:
        time.sleep(0.05)
    was_running = survivors(seconds) == list(seconds)
    kill(kernel)
    for pipe in (kernel.stdout, kernel.stderr):
        if pipe:
            pipe.close()
    return was_running
