"""The finding on the extension of JupyterLab, which its server needs, not the kernel.

Source: jupyter-facts-2 §1 (the server's data folders alone count).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from axe_nb.agents.files import display_path
from axe_nb.doctor.finding import Finding
from axe_nb.text import printable

FOLDER = Path("labextensions") / "axe-nb" / "package.json"
"""Its place in a data folder of Jupyter."""

PARENT = "JPY_PARENT_PID"
"""The variable of a kernel with the process that started it."""

_SERVER = re.compile(r"jupyter[-_ ]?(lab|notebook|server|hub)|-m\0notebook|-m\0jupyter")
"""A command line, in which zeros separate the words, of a server with JupyterLab or Notebook 7."""

SECONDS = 5.0
"""Time that the system has to tell a command line."""


def check_lab() -> list[Finding]:
    """Tells whether the JupyterLab at hand has the extension; nothing if there is none.

    In a kernel that is the server that started it, elsewhere the first one on the PATH.
    """
    parent = os.environ.get(PARENT, "")
    prefix = _find_prefix(parent) if parent.isdecimal() else _find_own_prefix()
    if prefix is None:
        return []
    folders = _list_data_folders(prefix)
    if any((folder / FOLDER).is_file() for folder in folders):
        return [Finding("right", "lab extension", "highlights prompts as Markdown, agents as TOML")]
    python = prefix / ("python.exe" if os.name == "nt" else "bin/python")
    step = f"{printable(display_path(python))} -m pip install axe-nb, and reload the page"
    message = "cells are highlighted as Python: JupyterLab's environment does not have axe-nb"
    return [Finding("note", "lab extension", message, step)]


def _find_own_prefix() -> Path | None:
    """The environment of the command `jupyter-lab`."""
    places = (str(Path(sys.executable).parent), *os.get_exec_path())
    found = shutil.which("jupyter-lab", path=os.pathsep.join(places))
    return Path(found).parent.parent if found else None


def _find_prefix(process: str) -> Path | None:
    """The environment of a server; None if the process is something else, or not known."""
    words = _read_command(process)
    if not words or not _SERVER.search("\0".join(words)):
        return None
    python = shutil.which(words[0])
    return Path(python).absolute().parent.parent if python else None


def _read_command(process: str) -> list[str]:
    try:
        return Path("/proc", process, "cmdline").read_text("utf-8", "replace").split("\0")
    except OSError:
        pass
    try:
        told = subprocess.run(
            ["ps", "-o", "args=", "-p", process],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return told.stdout.split()


def _list_data_folders(prefix: Path) -> list[Path]:
    """The folders that a server looks into; those of its settings are taken to be ours."""
    own = prefix / "share" / "jupyter"
    try:
        from jupyter_core.paths import ENV_JUPYTER_PATH, jupyter_path
    except ImportError:
        return [own]
    return [own, *(Path(one) for one in jupyter_path() if one not in ENV_JUPYTER_PATH)]
