"""The program to start for a command at one level of the sandbox: its variables and limits.

Source: D-43, D-53, D-82.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from axe_nb.paths import hold_real_folder
from axe_nb.sandbox.view import View

Level = Literal["full", "files", "docker", "none"]

VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""Environment variables passed to a program; none of them holds keys or tokens."""

LIMITS = {"c": 0, "f": 8 << 20, "n": 4096}
"""Limits of a command, as options of `ulimit`: core files, blocks of 512 bytes of a file, open
files."""

PROCESSES = 8192
"""Most processes of the user at the same time; root is exempt."""

LEAST_MEMORY = 2 << 30
"""Bytes of memory that one process may use, or half of the machine's if that is more."""

PROGRAM_FOLDERS = (
    "/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/opt/homebrew/bin",
    "/snap/bin", "/Applications/Docker.app/Contents/Resources/bin",
)  # fmt: skip
"""Folders of programs; `PATH` is not searched, because it may lead into a workdir."""

REPLACED = "axe-nb: a protected file was replaced while the command started; try again"

Protection = Literal["mounts", "rules", "notes", "none"]
"""The way to protect files in the workdir: by mounts, for which a name must exist; by rules about
paths; by notes on changes, which nothing prevents."""

Ending = Literal["child", "group", "program"]
"""The way to end everything: SIGKILL to its first child, with which it ends all others and itself;
SIGKILL to its group; or the program `Launch.end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One program to start."""

    words: Sequence[str] | str
    """Program and arguments; on Windows, the line of both."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the level sets, on top of those of the command."""
    end: Sequence[str] = ()
    """Program and arguments that end it."""
    filter: bytes = b""
    """System calls that bubblewrap is to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to run commands with restricted access."""

    level: Level
    name: str
    """The program or interface that it uses, for people."""
    ending: Ending
    promises: tuple[str, ...]
    """Short sentences about what a command cannot do."""
    not_promised: tuple[str, ...] = ()
    """Short sentences about what it can still do."""
    wrap: Wrap
    protection: Protection


Wrap: TypeAlias = Callable[[Sequence[str], View], Launch]
"""(words of a command, view) → the program to start instead."""


def find_program(name: str) -> str:
    """Returns the path of a program of the system; empty if it has none."""
    places = (f"{folder}/{name}" for folder in PROGRAM_FOLDERS)
    return next(filter(os.path.isfile, places), "")


def clean_environment() -> dict[str, str]:
    """Returns the environment of a command or server, without keys and tokens."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def prepare(method: Method, view: View, words: Sequence[str]) -> Launch:
    """Returns the program to start for a command.

    Another command may run in the same workdir and replace files that this one is to be shown with
    links, which the mount would follow. So it starts only if it was shown the files and folders
    that were seen there.
    """
    if os.name == "nt":
        return method.wrap(words, view)
    steps = ["ulimit -c 0"] if method.level == "none" else _list_limits()
    if method.ending == "child":
        shown = (path for path, seen in view.closed.items() if seen == path)
        steps.append(_make_check(view.workdir, [*view.anchored, *shown]))
    return method.wrap(["/bin/sh", "-c", "; ".join([*steps, 'exec "$@"']), "sh", *words], view)


def _list_limits() -> list[str]:
    """Returns lines of the shell; a lower limit of the machine stays."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = {**LIMITS, "d": max(LEAST_MEMORY, memory // 2) >> 10}
    lines = [f"ulimit -{option} {most} 2>/dev/null" for option, most in limits.items()]
    # shells disagree about the name of the last one
    return [*lines, f"ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES} 2>/dev/null"]


def _make_check(workdir: Path, paths: Sequence[Path]) -> str:
    """Returns a line of the shell that ends it unless the workdir and paths are what they are."""
    seen = []
    for path in (workdir, *paths):
        with hold_real_folder(path.parent) as folder:
            found = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
        seen.append(f"{found.st_dev}:{found.st_ino}")
    asked = shlex.join([find_program("stat"), "-c", "%d:%i", "--", ".", *map(str, paths)])
    expected = shlex.quote("\n".join(seen))
    return f'[ "$({asked})" = {expected} ] || {{ echo {shlex.quote(REPLACED)} >&2; exit 125; }}'
