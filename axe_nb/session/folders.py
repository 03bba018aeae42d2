"""The folders beside a given folder of agents.

Source: product.md "Agent files"; D-83.
"""

from __future__ import annotations

import os
from pathlib import Path


def find_script_dirs(agents_dir: str | None) -> tuple[Path, ...]:
    """Script folders that belong to a given agents folder."""
    return (Path(agents_dir).expanduser().parent / "scripts",) if agents_dir else ()


def find_source_dirs(agents_dir: str | None) -> set[Path]:
    """The given agents folder and its script folders, which tools change only after approval."""
    folders = (Path(agents_dir).expanduser(), *find_script_dirs(agents_dir)) if agents_dir else ()
    return {Path(os.path.realpath(folder)) for folder in folders}
