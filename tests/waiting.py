"""Waiting for something that happens in another thread or process, for which there is no event."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(is_so: Callable[[], bool], seconds: float = 30) -> bool:
    """Returns True once a condition holds; False if it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
