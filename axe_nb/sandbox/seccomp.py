"""Compiles system call filters, which close gaps that mounts and Landlock leave.

Namespaces isolate neither keyrings nor sockets to the host of a virtual machine (AF_VSOCK). A
command with network access could reach abstract sockets, such as those of a desktop. A command in
the home folder could reach the sockets of docker and key agents. Under Landlock, a command could
reach all sockets and use UDP.

Source: D-82.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Collection, Mapping
from typing import TypeAlias

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine → (AUDIT_ARCH constant, column of its system call numbers in `SYSTEM_CALLS`)."""

SYSTEM_CALLS = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "socket": (41, 198), "socketpair": (53, 199), "io_uring_setup": (425, 425),
    "shmat": (30, 196), "shmctl": (31, 195),
    "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "prlimit64": (302, 261),
}  # fmt: skip
"""System call → numbers on x86-64 and ARM64."""

Rules: TypeAlias = Mapping[str, Collection[int]]
"""System call → allowed values of its first argument (second for `socketpair`); if empty, no call
is allowed."""

KEYRINGS: Rules = dict.fromkeys(("add_key", "request_key", "keyctl"), ())

OTHER_PROGRAMS: Rules = {
    **dict.fromkeys(("shmat", "shmctl", "semop", "semtimedop", "semctl"), ()),
    **dict.fromkeys(("msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"), ()),
    "prlimit64": (0,),
}
"""Rules that keep a command without namespaces from affecting other programs."""

UNIX, INTERNET = 1, (2, 10, 16)
"""Socket families: AF_UNIX; then AF_INET, AF_INET6 and AF_NETLINK, which lists the interfaces."""

PAIRS = tuple(kind | flags for kind in (1, 5) for flags in (0, 0x800, 0x80000, 0x80800))
"""Allowed types of socket pairs. SOCK_DGRAM is refused, as it could send to any other socket."""

X32 = 0x40000000  # bit in the numbers of system calls of the x32 ABI
KILL, ALLOW = 0x80000000, 0x7FFF0000
REFUSE = 0x00050000 | 13  # makes a call fail with EACCES
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
MACHINE, NUMBER, ARGUMENT, SECOND = 4, 0, 16, 24  # offsets of fields, or their lower halves

Step: TypeAlias = tuple[int, int, int, int]
"""Filter instruction: (code, jump if true, jump if false, value)."""


def is_supported() -> bool:
    return platform.machine() in MACHINES


def allow_sockets(families: Collection[int]) -> Rules:
    """Returns rules that block io_uring and all sockets except those of the given families."""
    rules: dict[str, Collection[int]] = {"socket": families, "io_uring_setup": ()}
    if UNIX not in families:
        rules["socketpair"] = PAIRS
    return rules


def make_filter(rules: Rules) -> bytes:
    """Compiles rules into a filter that allows calls without a rule; empty on unknown machines."""
    if not is_supported():
        return b""
    machine, column = MACHINES[platform.machine()]
    steps: list[Step] = [
        (LOAD, 0, 0, MACHINE),
        (EQUAL, 1, 0, machine),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, REFUSE),
    ]
    for name, values in rules.items():
        steps.append((EQUAL, 0, len(values) + 3, SYSTEM_CALLS[name][column]))
        steps.append((LOAD, 0, 0, SECOND if name == "socketpair" else ARGUMENT))
        steps += ((EQUAL, len(values) - at, 0, value) for at, value in enumerate(values))
        steps += (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
