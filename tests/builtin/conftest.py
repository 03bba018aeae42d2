"""What tests of the tools share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder, and no right to do everything: for the time of a test, root is nobody."""
    if os.name == "nt":
        pytest.skip("not run: rights are of POSIX")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    user = os.geteuid()
    if not user:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if not user:
            os.seteuid(user)
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(folder)
