"""Level `none`: no sandbox, but a process group.

Source: D-55.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.view import View


def _wrap(words: Sequence[str], view: View) -> Launch:
    if os.name != "nt":
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
