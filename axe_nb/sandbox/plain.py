"""Level `none`: no sandbox, but a process group.

Source: D-82.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.view import View

SETPRIV = ("/usr/bin/setpriv", "/bin/setpriv", "/run/current-system/sw/bin/setpriv")
"""Possible paths of a program that has another one end with the thread that started it."""


def _wrap(words: Sequence[str], view: View) -> Launch:
    if os.name != "nt":
        setpriv = next(filter(os.path.exists, SETPRIV), "")
        first = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        return Launch(words=[*first, *words])
    if words[1:2] != ["/c"]:
        return Launch(words=words)
    program, option, command = words  # cmd.exe splits its line itself
    return Launch(words=f'{program} {option} "{command}"')


METHOD = Method(
    level="none",
    name="",
    ending="group",
    promises=(),
    not_promised=("it can do anything you can",),
    wrap=_wrap,
)
