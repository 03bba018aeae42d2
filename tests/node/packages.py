"""Servers by others, of npm, and the Node.js that runs them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bootstrap import NODE, interpreter
from tests.conftest import not_run


def find_package(name: str) -> Path:
    """The folder of a package that `package-lock.json` names."""
    folder = interpreter(".venv").parent.parent / NODE / "node_modules" / name
    if not folder.exists():
        not_run(f"no {name}; `python3 tests` fetches it")
    return folder


def find_node() -> Path:
    """The program that runs it."""
    import playwright

    name = "node.exe" if sys.platform == "win32" else "node"
    return Path(str(playwright.__file__)).parent / "driver" / name
