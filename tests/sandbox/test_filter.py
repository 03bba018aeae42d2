"""The filter of system calls: nothing that reaches keys, memory or processes of other programs."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from axe_nb.sandbox import seccomp
from tests.conftest import not_run
from tests.sandbox.cages import FULL, Cage
from tests.sandbox.test_attacks import OF_LAUNCHER, PYTHON, control

pytestmark = pytest.mark.req("D-82")

START = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
def call(name, *arguments):
    numbers = {numbers}
    ctypes.set_errno(0)
    result = libc.syscall(numbers[name], *map(ctypes.c_long, arguments))
    print(name, result if result >= 0 else -ctypes.get_errno())
    return result
"""

KEYS = """
name, secret = (ctypes.create_string_buffer(text) for text in (b"user", b"changed"))
kind, text = map(ctypes.addressof, (name, secret))
call("add_key", kind, kind, text, 7, -3)
call("request_key", kind, kind, 0, -3)
call("keyctl", 0, -3, 1)
call("keyctl", 10, -3, kind, kind, 0)
"""

LIMITS = """
pid = int(sys.argv[1])
room = ctypes.create_string_buffer(128)
limits = ctypes.addressof(room)
call("prlimit64", pid, 7, 0, limits)
call("prlimit64", pid | 1 << 32, 7, 0, limits)
"""

SHARED = """
call("shmat", int(sys.argv[1]), 0, 0)  # first: what it makes itself may get the same number
made = libc.shmget(0, 4096, 0o1600)
print("shmget", made)
call("shmat", made, 0, 0)
libc.shmctl(made, 0, 0)
"""

ORDINARY = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)
"""


def run_script(cage: Cage, script: str, argument: str = "") -> list[tuple[str, int]]:
    column = seccomp.MACHINES[platform.machine()][1]
    numbers = {name: both[column] for name, both in seccomp.SYSTEM_CALLS.items()}
    (cage.work / "script.py").write_text(START.format(numbers=numbers) + script)
    output = cage.run(f"/usr/bin/python3 script.py {argument}").output
    found = re.findall(r"^(\w+) (-?\d+)$", output, re.MULTILINE)
    assert len(found) == len(output.splitlines()), output
    return [(name, int(result)) for name, result in found]


REFUSED = -13


def test_no_keyring_is_reached_also_by_the_second_table_of_calls(cage: Cage) -> None:
    assert [result for _, result in run_script(cage, KEYS)] == [REFUSED] * 4
    if platform.machine() == "x86_64":
        script = f"print('getpid', libc.syscall({seccomp.X32 + 39}) and -ctypes.get_errno())"
        assert run_script(cage, script) == [("getpid", REFUSED)]


@pytest.mark.parametrize(
    ("method", "without"), [("bubblewrap", ["--seccomp"]), ("Landlock", OF_LAUNCHER["filter"])]
)
def test_without_the_filter_a_keyring_is_reached(cage: Cage, without: Sequence[str]) -> None:
    """No namespace hides that of the login, in which programs keep passwords."""
    [_, _, (_, keyring), _] = run_script(control(cage, without), KEYS)
    assert keyring > 0


@pytest.mark.parametrize("method", ["Landlock"])
def test_limits_and_memory_of_other_processes_are_not_reached(cage: Cage, shared: int) -> None:
    """A limit of the time that it may compute would end one."""
    assert [result for _, result in run_script(cage, LIMITS, "$PPID")] == [REFUSED] * 2
    script = (
        "import ctypes, sys; libc = ctypes.CDLL(None); pid = int(sys.argv[1]); "
        "room = (ctypes.c_long * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8); "
        "print(libc.ptrace(16, pid, 0, 0), libc.process_vm_readv(pid, room, 1, room, 1, 0))"
    )
    assert cage.run(f'{PYTHON} "{script}" $PPID').output == "-1 -1\n"
    weak = control(cage, OF_LAUNCHER["filter"])
    assert ("prlimit64", 0) in run_script(weak, LIMITS, "$PPID")  # changes nothing
    assert all(result >= 0 for _, result in run_script(weak, SHARED, str(shared)))


def test_memory_that_programs_share_is_not_reached(cage: Cage, shared: int) -> None:
    [of_others, made, own] = [result for _, result in run_script(cage, SHARED, str(shared))]
    assert made >= 0
    if cage.method in FULL:
        assert of_others == -22
        assert own >= 0, "what it makes is its own"
    else:
        assert [of_others, own] == [REFUSED] * 2


@pytest.fixture
def shared() -> Iterator[int]:
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.shmget(0, 4096, 0o1666)
    assert number >= 0
    try:
        yield number
    finally:
        libc.shmctl(number, 0, None)


def test_a_command_sets_its_own_limits_and_priorities(cage: Cage) -> None:
    (cage.work / "script.py").write_text(START.format(numbers={}) + ORDINARY)
    ended = cage.run(
        "/usr/bin/python3 script.py; nice -n 3 nice; ulimit -n 64 && ulimit -n; "
        "taskset 1 echo pinned; ionice -c 3 ionice; chrt --idle 0 echo idle"
    )
    assert ended.output == "5 True\n3\n64\npinned\nidle\nidle\n"


HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


@pytest.fixture(params=list(seccomp.MACHINES))
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    return str(request.param)


def test_the_numbers_are_those_of_the_system(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.is_file():
        not_run("there are no headers of this system (Debian: sudo apt-get install linux-libc-dev)")
    numbers = dict(re.findall(r"^#define __NR_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE))
    column = seccomp.MACHINES[machine][1]
    expected = {name: int(numbers[name]) for name in seccomp.SYSTEM_CALLS}
    assert {name: both[column] for name, both in seccomp.SYSTEM_CALLS.items()} == expected
