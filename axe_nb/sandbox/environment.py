"""The environment variables that programs get: none that holds a key.

Source: D-43, D-82.
"""

from __future__ import annotations

import os

VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""Environment variables passed to a program; none of them holds keys or tokens."""


def clean_environment() -> dict[str, str]:
    """Returns the environment of a command or server, without keys and tokens."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
