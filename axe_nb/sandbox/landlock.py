"""Level `files`: Landlock, through a launcher of axe_nb, where there is no bubblewrap (D-82)."""

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from axe_nb.sandbox import seccomp
from axe_nb.sandbox.full import SETTINGS, SYSTEM
from axe_nb.sandbox.launcher import LANDLOCK_CREATE, LIBC
from axe_nb.sandbox.process import Launch, Method
from axe_nb.sandbox.view import View

LAUNCHER = Path(__file__).with_name("launcher.py").read_text("utf-8")
"""Source of the launcher, read once: a command can change the file if it lies in its workdir."""

MORE_SETTINGS = (
    "ca-certificates", "ca-certificates.conf", "debian_version", "gai.conf", "host.conf", "inputrc",
    "locale.alias", "magic", "magic.mime", "perl", "protocols", "python3", "python3.11",
    "redhat-release", "rpc", "wgetrc",
)  # fmt: skip
"""Entries of `/etc` that programs need only if they exist but cannot be read."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

EXECUTE_OR_READ, READ_OR_WRITE_FILE, SIGNALS = 0b1101, 0b110, 0b10
ALL, ALL_BEFORE_5, MAKE_DEVICES, REFER = 0xFFFF, 0x7FFF, 1 << 6 | 1 << 11, 1 << 13
ALL_TCP, ALL_SCOPES = 0b11, 0b11

OLDEST_LANDLOCK = 3
"""First version of Landlock that can forbid truncating files."""


def find_landlock_version() -> int:
    """Returns the version of Landlock in this kernel; below 1 if it is missing or not permitted."""
    return int(LIBC.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))


def list_methods() -> Iterator[Method]:
    if not seccomp.is_supported():
        return
    version = find_landlock_version()
    if version >= OLDEST_LANDLOCK:
        signals = ("sends no signals to other processes", "leaves no process behind")
        yield Method(
            level="files",
            name=f"Landlock {version}",
            ending="child",
            promises=(
                "writes no file outside the workdir",
                "reads nothing in the home folder except toolchains",
                *(signals if version >= 6 else ()),
            ),
            not_promised=(
                "protected files in the workdir are only compared afterwards, and changes reported",
                "it may change a Python environment in the workdir",
                "it sees names of files and processes",
                "it may change modes and times of your files",
            ),
            wrap=partial(_wrap, version),
            protection="notes",
        )


def _wrap(version: int, words: Sequence[str], view: View) -> Launch:
    known = ALL if version >= 5 else ALL_BEFORE_5
    handled = struct.pack("=QQQ", known, 0 if view.network else ALL_TCP, ALL_SCOPES)
    settings = (f"/etc/{name}" for name in (*SETTINGS, *MORE_SETTINGS))
    facts = (f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit())  # noqa: PTH208
    readable = [*SYSTEM, *settings, *facts]
    families = seccomp.INTERNET if view.network else ()
    plan = {
        "handled": handled[: 24 if version >= 6 else 16 if version >= 4 else 8],
        "confined": struct.pack("=QQQ", REFER, 0, SIGNALS) if version >= 6 else b"",
        "unconfined": {"/": REFER},  # else no layer below this one may allow it
        "rules": {
            **dict.fromkeys([*readable, *map(str, view.readable)], EXECUTE_OR_READ),
            **dict.fromkeys(DEVICES, READ_OR_WRITE_FILE),
            ".": known & ~MAKE_DEVICES,
        },
        "filter": seccomp.make_filter(
            {**seccomp.KEYRINGS, **seccomp.OTHER_PROGRAMS, **seccomp.allow_sockets(families)}
        ),
        "parent": os.getpid(),
    }
    base = getattr(sys, "_base_executable", "") or sys.executable  # no workdir can change it
    python = [os.path.realpath(base), "-I", "-S", "-c", LAUNCHER]
    return Launch(
        words=[*python, marshal.dumps(plan).hex(), *words],
        # git takes the system's settings, which are out of sight, for broken
        environment={"GIT_CONFIG_NOSYSTEM": "1"},
    )
