"""Level `full`, by bubblewrap.

Source: D-55; safety-facts §1, §5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from axe_nb.sandbox import seccomp
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.mounts import SIZE, Kind, list_mounts
from axe_nb.sandbox.view import View

PLACES = (
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
)
"""Possible paths of the program; `PATH` is not searched, because it may lead into a workdir."""

FLAGS = (
    "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session",
)  # fmt: skip
NOT_PROMISED_TO_ROOT = ("it may change modes of devices such as /dev/null",)
"""Devices mounted read-only could not be opened at all."""
NO_NESTING = "--disable-userns"
"""Known to 0.8 and newer, as is `--size`."""

OPTIONS: Mapping[Kind, str] = {
    "read": "--ro-bind",
    "write": "--bind",
    "link": "--symlink",
    "empty": "--tmpfs",
    "proc": "--proc",
    "dev": "--dev",
    "freeze": "--remount-ro",
}

PROMISES = (
    "writes nothing outside the workdir, and no protected file in it",
    "reads nothing in the home folder except toolchains",
    "sees no other processes and none of the kernel's environment",
    "leaves no process behind",
)


def list_methods() -> Iterator[Method]:
    """Yields the ways to use each bubblewrap of the system, the stricter one first."""
    for place in PLACES:
        if Path(place).is_file():
            for flags in ((*FLAGS, NO_NESTING), FLAGS):
                yield Method(
                    level="full",
                    name="bubblewrap",
                    ending="child",
                    promises=PROMISES,
                    not_promised=() if os.geteuid() else NOT_PROMISED_TO_ROOT,
                    wrap=partial(_wrap, (place, *flags)),
                )
            return


def _wrap(start: Sequence[str], words: Sequence[str], view: View) -> Launch:
    found = [*start, *(["--share-net"] if view.network else [])]
    for kind, path, target in list_mounts(view):
        match kind:
            case "link":
                found += ["--symlink", target, path]
            case "hide":
                found += ["--ro-bind", "/dev/null", path]
            case "read" | "write":
                found += [OPTIONS[kind], path, path]
            case "empty" if NO_NESTING in start:
                found += ["--size", str(SIZE), "--tmpfs", path]
            case _:
                found += [OPTIONS[kind], path]
    data = {}
    if seccomp.is_supported():
        found += ["--seccomp", "{filter}"]
        data["{filter}"] = seccomp.make_filter(seccomp.INTERNET, has_namespaces=True)
    found += ["--chdir", str(view.workdir), "--", *words]
    return Launch(words=found, data=data, environment={"TMPDIR": "/tmp"})
