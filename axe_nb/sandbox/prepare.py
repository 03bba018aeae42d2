"""The program to start for a command, with a check of what it is shown.

Source: D-53, D-55.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.view import View, identify

REPLACED = "axe-nb: a protected file was replaced while the command started; try again"

STAT = ("/usr/bin/stat", "/bin/stat", "/run/current-system/sw/bin/stat")
"""Possible paths of the program; `PATH` is not searched, because it may lead into a workdir."""


def prepare(method: Method, view: View, words: Sequence[str]) -> Launch:
    """Returns the program to start for a command.

    Another command may run in the same workdir and replace files that this one is to be shown with
    links, which the mount would follow. So it starts only if it was shown the files and folders
    that were seen there.

    Raises:
        OSError: a link is in the place of one already.
    """
    if os.name == "nt":
        return method.wrap(words, view)
    steps = ["ulimit -c 0"]  # no core files
    if method.level == "full":
        steps.append(_make_check([view.workdir, *view.anchored, *view.read_only]))
    return method.wrap(["/bin/sh", "-c", "; ".join([*steps, 'exec "$@"']), "sh", *words], view)


def _make_check(paths: Sequence[Path]) -> str:
    """Returns a line of the shell that ends it unless the paths are what they are now."""
    program = next(filter(os.path.exists, STAT), STAT[0])
    seen = shlex.quote("\n".join(map(identify, paths)))
    asked = shlex.join([program, "-c", "%d:%i", "--", *map(str, paths)])
    return f'[ "$({asked})" = {seen} ] || {{ echo {shlex.quote(REPLACED)} >&2; exit 125; }}'
