"""Level `full` on macOS: sandbox-exec of macOS, with a generated profile.

Of its rules, the last that matches holds. A rule is about a path, whether it exists or not.
Source: D-82.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from axe_nb.sandbox.process import Launch, Method
from axe_nb.sandbox.view import View

PROGRAM = "/usr/bin/sandbox-exec"

READABLE = (
    "/usr", "/bin", "/sbin", "/opt", "/System", "/Library", "/Applications/Xcode.app", "/dev",
    "/nix/store", "/private/etc", "/private/var/db/dyld", "/private/var/db/timezone",
    "/private/var/select",
)  # fmt: skip

START = """\
(version 1)
(deny default)
(allow process-exec process-fork sysctl-read file-read-metadata)
(allow signal process-info* (target same-sandbox))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem ipc-posix-shm)
(allow pseudo-tty)
(allow file-read* (literal "/"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))"""


def list_methods() -> Iterator[Method]:
    """Yields the method, if the system has the program."""
    if Path(PROGRAM).is_file():
        yield Method(
            level="full",
            name="sandbox-exec",
            ending="group",
            promises=(
                "writes nothing outside the workdir and the folder for temporary files, and no "
                "protected file in the workdir",
                "reads nothing in the home folder except toolchains",
            ),
            not_promised=(
                "it sees other processes",
                "a process that leaves its process group is not ended",
            ),
            wrap=lambda words, view: Launch(words=[PROGRAM, "-p", make_profile(view), *words]),
            protection="rules",
        )


def make_profile(view: View) -> str:
    """Returns the profile of a view."""
    temporary = os.path.realpath(tempfile.gettempdir())
    hidden = [path for path, seen in view.closed.items() if seen != path]
    work = [view.workdir, Path(temporary)]
    rules = [
        START,
        _rule("allow file-read*", "subpath", [*map(Path, READABLE), *view.readable, *work]),
        _rule("allow file-write*", "subpath", work),
        _rule("deny file-write*", "subpath", [*view.names, *view.closed]),
        _rule("deny file-write-unlink", "literal", view.anchored),
        _rule("deny file-read* file-write*", "subpath", hidden),
        "(allow network*)" if view.network else "",
    ]
    return "\n".join(filter(None, rules))


def _rule(start: str, kind: str, paths: Iterable[Path]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"'})
    filters = [f'({kind} "{str(path).translate(escapes)}")' for path in paths]
    return f"({start} {' '.join(filters)})" if filters else ""
