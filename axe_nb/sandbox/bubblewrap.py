"""Level `full`, by bubblewrap.

Source: D-82.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from axe_nb.sandbox import seccomp
from axe_nb.sandbox.process import Launch, Method, find_program
from axe_nb.sandbox.view import View

FLAGS = (
    "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session",
)  # fmt: skip
NOT_PROMISED_TO_ROOT = ("it may change modes of devices such as /dev/null",)
"""Devices mounted read-only could not be opened at all."""
NO_NESTING = "--disable-userns"
"""Known to 0.8 and newer, as is `--size`."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
"""Programs and libraries of the system."""

SETTINGS = (
    "alternatives", "crypto-policies", "fonts", "group", "hosts", "java", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "maven", "mime.types", "nsswitch.conf", "os-release",
    "passwd", "pki/ca-trust", "pki/java", "pki/nssdb", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "R", "resolv.conf", "services", "ssl/cert.pem", "ssl/certs",
    "ssl/openssl.cnf", "terminfo", "texmf", "timezone",
)  # fmt: skip
"""Files and folders of `/etc` that programs need; none of them holds a secret.

Each is a mount, which takes 0.2 ms.
"""

SIZE = 1 << 30
"""Most bytes that a command can write into each empty folder, which is memory."""


def list_methods() -> Iterator[Method]:
    """Yields the ways to use bubblewrap, the stricter one first, if the system has it."""
    if program := find_program("bwrap"):
        for flags in ((*FLAGS, NO_NESTING), FLAGS):
            yield Method(
                level="full",
                name="bubblewrap",
                ending="child",
                promises=(
                    "writes nothing outside the workdir, and no protected file in it",
                    "reads nothing in the home folder except toolchains",
                    "sees no other processes and none of the kernel's environment",
                    "leaves no process behind",
                ),
                not_promised=() if os.geteuid() else NOT_PROMISED_TO_ROOT,
                wrap=partial(_wrap, (program, *flags)),
                protection="mounts",
            )


def _wrap(start: Sequence[str], words: Sequence[str], view: View) -> Launch:
    network = ["--share-net"] if view.network else []
    mounts = _list_mounts(start, view)
    is_shared = view.network or view.workdir == view.home  # with sockets of other programs
    families = seccomp.INTERNET if is_shared else (seccomp.UNIX, *seccomp.INTERNET)
    return Launch(
        words=[*start, *network, *mounts, "--chdir", str(view.workdir), "--", *words],
        environment={"TMPDIR": "/tmp"},
        filter=seccomp.make_filter({**seccomp.KEYRINGS, **seccomp.allow_sockets(families)}),
    )


def _list_mounts(start: Sequence[str], view: View) -> Iterator[str]:
    """Yields the file system of a command: what it does not name does not exist there."""
    empty = ["--size", str(SIZE), "--tmpfs"] if NO_NESTING in start else ["--tmpfs"]
    for name in SYSTEM:
        if Path(name).is_symlink():
            yield from ("--symlink", os.readlink(name), name)  # noqa: PTH115 - as written
        elif Path(name).is_dir():
            yield from ("--ro-bind", name, name)
    for name in SETTINGS:
        if (path := Path("/etc", name)).exists():
            yield from ("--ro-bind", str(path), str(path))
    # else root may set what the whole machine sees: kernel settings, and modes even of a new /proc
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    yield from ("--dev", "/dev", *empty, "/dev/shm", "--remount-ro", "/dev")
    for name in ("/tmp", "/run", "/var/tmp"):
        yield from (*empty, name)
    if view.home != Path(view.home.anchor):
        yield from (*empty, str(view.home))
    for path in view.readable:
        yield from ("--ro-bind", str(path), str(path))
    for path in (view.workdir, *view.anchored):
        yield from ("--bind", str(path), str(path))
    for path, seen in view.closed.items():
        if seen:
            yield from ("--ro-bind", str(seen), str(path))
        else:
            yield from (*empty, str(path), "--remount-ro", str(path))
    yield from ("--remount-ro", "/")
