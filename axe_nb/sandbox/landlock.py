"""Level `files`: Landlock by a launcher of our own, where there is no bubblewrap.

Source: D-82; safety-facts §2.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from axe_nb.sandbox import seccomp
from axe_nb.sandbox.bubblewrap import SETTINGS, SYSTEM
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.launcher import find_landlock_version
from axe_nb.sandbox.view import View, identify

LAUNCHER = Path(__file__).with_name("launcher.py")

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

OLDEST_LANDLOCK = 3
"""The first version that refuses to cut files."""


def list_methods() -> Iterator[Method]:
    """Yields the method, if the kernel has it."""
    if not seccomp.is_supported():
        return
    version = find_landlock_version()
    if version >= OLDEST_LANDLOCK:
        signals = ("sends no signals to other processes", "leaves no process behind")
        yield Method(
            level="files",
            name=f"Landlock {version}",
            ending="signal",
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
            wrap=_restrict,
            is_read_only=False,
        )


def _restrict(words: Sequence[str], view: View) -> Launch:
    system = [*SYSTEM, *(f"/etc/{name}" for name in SETTINGS)]
    families = seccomp.INTERNET if view.network else ()
    plan = {
        "read": [*system, *_list_system_facts(), *map(str, view.readable)],
        "write": [str(view.workdir)],
        "files": DEVICES,
        "network": view.network,
        "filter": seccomp.make_filter(families, has_namespaces=False).hex(),
        "workdir": str(view.workdir),
        "identity": identify(view.workdir),
        "parent": os.getpid(),
    }
    # git takes the system's settings, which are out of sight, for broken
    base = getattr(sys, "_base_executable", "") or sys.executable  # no workdir can change it
    started = [os.path.realpath(base), "-I", "-S", str(LAUNCHER), marshal.dumps(plan).hex()]
    return Launch(
        words=[*started, *words],
        environment={"GIT_CONFIG_NOSYSTEM": "1"},
    )


@cache
def _list_system_facts() -> tuple[str, ...]:
    """Returns what is in `/proc` but not about a process."""
    return tuple(str(path) for path in sorted(Path("/proc").iterdir()) if not path.name.isdigit())
