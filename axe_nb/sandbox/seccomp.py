"""A filter of system calls, as the kernel reads it, against what mounts do not stop. Pure.

A command in a network namespace can still connect to a socket that is a file in its workdir, and
one with a network to the sockets of other programs: neither is a matter of mounts. Keyrings belong
to no namespace. Landlock knows neither the limits and priorities of a process nor System V IPC.
Source: D-82; safety-facts §1 (unix sockets), §2 (seccomp).
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine → (its audit number, the column of its numbers in the table of system calls)."""

SYSTEM_CALLS = {
    "socket": (41, 198),
    "io_uring_setup": (425, 425),
    # keyrings
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory, semaphores and queues that are found by a number or a name
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # other processes
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
}
"""Name → its numbers on x86-64 and ARM64."""

Rules: TypeAlias = Mapping[str, Sequence[Collection[int]]]
"""System call → for each of its first arguments, the values that it may have."""

REFUSED: Sequence[Collection[int]] = ((),)

EVERYWHERE: Rules = dict.fromkeys(("io_uring_setup", "add_key", "request_key", "keyctl"), REFUSED)

ON_ITSELF: Sequence[Collection[int]] = ((0,),)
"""The first argument is a process, 0 = the caller. A number cannot be told to be its own."""

WITHOUT_NAMESPACES: Rules = {
    **{name: REFUSED for name in SYSTEM_CALLS if name.startswith(("shm", "sem", "msg", "mq_"))},
    **dict.fromkeys(("kcmp", "pidfd_getfd", "process_madvise", "process_mrelease"), REFUSED),
    **{name: ON_ITSELF for name in SYSTEM_CALLS if name.startswith("sched_set")},
    "prlimit64": ON_ITSELF,
    "setpriority": ((0,), (0,)),
    "ioprio_set": ((1,), (0,)),
}
"""Rules for a command without namespaces of its own: these calls would reach other programs."""

X32 = 0x40000000
"""Set in the system calls of a second table of x86-64."""

REFUSE = 0x00050000 | 13
"""Return EACCES."""

KILL, ALLOW = 0x80000000, 0x7FFF0000

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06

ARGUMENTS = 16
"""Offset of the first argument; each has 8 bytes, but the kernel reads only the lower 4 here."""

INTERNET = (2, 10)
"""Families of sockets: AF_INET and AF_INET6."""

Step: TypeAlias = tuple[int, int, int, int]
"""Code, steps to skip if it is true, if it is not, and the value that it is about."""


def is_supported() -> bool:
    """True if there is a filter for this machine."""
    return platform.machine() in MACHINES


def make_filter(families: Collection[int] = (), *, has_namespaces: bool) -> bytes:
    """Returns a filter that refuses all sockets but those of some families, io_uring and keyrings.

    Args:
        families: the families of sockets that are allowed.
        has_namespaces: true if the command has processes and IPC of its own; else the filter also
            refuses what would reach those of others.
    """
    machine, column = MACHINES[platform.machine()]
    rules: Rules = {
        "socket": (families,),
        **EVERYWHERE,
        **({} if has_namespaces else WITHOUT_NAMESPACES),
    }
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, machine),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, REFUSE),
    ]
    for name, allowed in rules.items():
        steps += _make_rule(SYSTEM_CALLS[name][column], allowed)
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _make_rule(number: int, allowed: Sequence[Collection[int]]) -> list[Step]:
    """Returns the steps that decide about one system call, and skip themselves for the others."""
    steps: list[Step] = []
    for index, values in enumerate(allowed):
        steps.append((LOAD, 0, 0, ARGUMENTS + 8 * index))
        steps += ((EQUAL, len(values) - at, 0, value) for at, value in enumerate(values))
        steps.append((RETURN, 0, 0, REFUSE))
    return [(EQUAL, 0, len(steps) + 1, number), *steps, (RETURN, 0, 0, ALLOW)]
