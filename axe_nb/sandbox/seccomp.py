"""A filter of system calls that refuses sockets, as the kernel reads it. Pure.

A command in a network namespace can still connect to a socket that is a file in its workdir, and
one with a network to the sockets of other programs: neither is a matter of mounts.
Source: D-55; safety-facts §1 (unix sockets), §2 (seccomp).
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Collection

SYSTEM_CALLS = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
"""Machine → (its audit number, numbers of `socket` and `io_uring_setup`)."""

X32 = 0x40000000
"""Set in the system calls of a second table of x86-64."""

REFUSE = 0x00050000 | 13
"""Return EACCES."""

KILL, ALLOW = 0x80000000, 0x7FFF0000

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06

INTERNET = (2, 10)
"""Families of sockets: AF_INET and AF_INET6."""


def is_supported() -> bool:
    """True if there is a filter for this machine."""
    return platform.machine() in SYSTEM_CALLS


def make_filter(families: Collection[int] = ()) -> bytes:
    """Returns a filter that refuses all sockets but those of some families, and io_uring."""
    machine, socket, io_uring = SYSTEM_CALLS[platform.machine()]
    size = len(families)
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, machine),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, size + 3, 0, X32),
        (EQUAL, size + 2, 0, io_uring),
        (EQUAL, 0, size + 2, socket),
        (LOAD, 0, 0, 16),
        *((EQUAL, size - index, 0, family) for index, family in enumerate(families)),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
