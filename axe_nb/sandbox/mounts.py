"""The file system of a command at level `full`, as a list of mounts. Pure, but for what exists.

The list says what is visible, not what is hidden: all other places do not exist.
Source: D-55; safety-facts §1, §3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from axe_nb.sandbox.view import View

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
"""Programs and libraries of the system."""

SETTINGS = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "group", "host.conf", "hosts", "inputrc", "java", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic", "magic.mime", "maven",
    "mime.types", "nsswitch.conf", "os-release", "passwd", "perl", "pki", "protocols", "python3",
    "python3.11", "R", "redhat-release", "resolv.conf", "rpc", "services", "ssl", "terminfo",
    "texmf", "timezone",
)  # fmt: skip
"""Files and folders of `/etc` that programs need; none of them holds a secret."""

SIZE = 1 << 30
"""Most bytes that a command can write into each empty folder, which is memory."""

Kind = Literal["read", "write", "hide", "link", "empty", "proc", "dev", "freeze"]


class Mount(NamedTuple):
    """One step in building the file system of a command; later ones cover earlier ones."""

    kind: Kind
    """`read` and `write` show a path of the machine; `hide` covers a file, `empty` a folder.
    `freeze` makes a folder read-only, but for what is mounted below it."""
    path: str
    target: str = ""
    """Target of a link."""


def list_mounts(view: View) -> Iterator[Mount]:
    """Yields the mounts of a view, in order."""
    for name in SYSTEM:
        if Path(name).is_symlink():
            yield Mount("link", name, os.readlink(name))  # noqa: PTH115 - as written
        elif Path(name).is_dir():
            yield Mount("read", name)
    for name in SETTINGS:
        if (path := Path("/etc", name)).exists():
            yield Mount("read", str(path))
    # else root may set what the whole machine sees: kernel settings, and modes even of a new /proc
    yield Mount("proc", "/proc")
    yield Mount("freeze", "/proc")
    yield Mount("dev", "/dev")
    yield Mount("empty", "/dev/shm")
    yield Mount("freeze", "/dev")
    for name in ("/tmp", "/run", "/var/tmp"):
        yield Mount("empty", name)
    if view.home != Path(view.home.anchor):
        yield Mount("empty", str(view.home))
    yield from (Mount("read", str(path)) for path in view.readable)
    yield Mount("write", str(view.workdir))
    yield from (Mount("write", str(path)) for path in view.anchored)
    yield from (Mount("read", str(path)) for path in view.read_only)
    for path in view.hidden:
        yield Mount("empty" if path.is_dir() else "hide", str(path))
    yield Mount("freeze", "/")
