"""Levels `full` and `files` by a launcher of our own, where there is no bubblewrap.

Source: D-55; safety-facts §2, §3.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from axe_nb.sandbox import seccomp
from axe_nb.sandbox.bubblewrap import PROMISES
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.launcher import find_landlock_version
from axe_nb.sandbox.mounts import SETTINGS, SYSTEM, list_mounts
from axe_nb.sandbox.view import View, identify

LAUNCHER = Path(__file__).with_name("launcher.py")
REMOVER = Path(__file__).with_name("remover.py")

NAMESPACES = (
    "/usr/bin/setpriv", "--pdeathsig", "KILL",
    "/usr/bin/unshare", "--user", "--map-current-user", "--keep-caps", "--pid", "--fork",
    "--kill-child", "--mount", "--ipc", "--uts", "--cgroup",
)  # fmt: skip

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

OLDEST_LANDLOCK = 3
"""The first version that refuses to cut files."""


def list_methods() -> Iterator[Method]:
    """Yields the ways that this system has the programs and the kernel for, strongest first."""
    if not seccomp.is_supported():
        return
    if all(Path(word).is_file() for word in NAMESPACES if word.startswith("/")):
        yield Method(
            level="full", name="namespaces", ending="child", promises=PROMISES, wrap=_unshare
        )
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
                "protected files in the workdir are only compared and restored afterwards",
                "it may change packages of a Python environment in the workdir",
                "it sees names of files and processes",
                "it may change modes and times of your files",
            ),
            wrap=_restrict,
            restores=True,
        )


def _start_launcher(plan: dict[str, Any]) -> list[str]:
    """Returns the words that start the launcher, by a Python that no workdir can change."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return [os.path.realpath(base), "-I", "-S", str(LAUNCHER), marshal.dumps(plan).hex()]


def _unshare(words: Sequence[str], view: View) -> Launch:
    plan = {
        "mounts": [tuple(mount) for mount in list_mounts(view)],
        "network": view.network,
        "filter": seccomp.make_filter(seccomp.INTERNET, has_namespaces=True).hex(),
        "workdir": str(view.workdir),
    }
    network = () if view.network else ("--net",)
    started = [
        *NAMESPACES,
        *network,
        "--",
        *_start_launcher(plan),
        *words,
    ]
    return Launch(words=started, environment={"TMPDIR": "/tmp"})


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
        "remover": str(REMOVER),
    }
    # git takes the system's settings, which are out of sight, for broken
    return Launch(
        words=[*_start_launcher(plan), *words],
        environment={"GIT_CONFIG_NOSYSTEM": "1"},
    )


@cache
def _list_system_facts() -> tuple[str, ...]:
    """Returns what is in `/proc` but not about a process."""
    return tuple(str(path) for path in sorted(Path("/proc").iterdir()) if not path.name.isdigit())
