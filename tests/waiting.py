"""Waiting for something that happens in another thread or process, for which there is no event."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def eventually(is_so: Callable[[], bool], seconds: float = 30) -> bool:
    """Returns True once a condition holds; False if it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def open_files() -> int:
    """Number of files that this process has open; 0 where no list of them exists."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
