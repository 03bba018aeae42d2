"""Claims on a folder by commands, or on a protected file by an approved write, but never both.

What a command did to protected files is found by comparing them before and after it, so nothing
else of ours may change them meanwhile. Commands may run side by side, but for those whose
protected files are copied and restored.
Source: D-52, D-55.
"""

from __future__ import annotations

import threading
from pathlib import Path


def overlap(one: Path, other: Path) -> bool:
    """True if one of two paths is the other, or in it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


_claims: list[Claim] = []
"""Claims that are held or waited for, in order; held are those that no earlier one excludes."""

_changed = threading.Condition()


class Claim:
    """A claim on a real file or folder, and everything in it."""

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        """Queues up for a path; every claim has to be dropped.

        Args:
            path: the file or folder.
            is_shared: true if other shared claims of it may be held as well.
        """
        self._path = path
        self._is_shared = is_shared
        with _changed:
            _claims.append(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once it is held; false if it was dropped or takes longer than that."""
        with _changed:
            _changed.wait_for(lambda: self._is_free or self not in _claims, timeout)
            return self in _claims and self._is_free

    def drop(self) -> None:
        """Ends the claim, or the wait for it."""
        with _changed:
            if self in _claims:
                _claims.remove(self)
            _changed.notify_all()

    @property
    def _is_free(self) -> bool:
        """True if no claim before it excludes it."""
        for other in _claims:
            if other is self:
                return True
            if self._excludes(other):
                return False
        return False

    def _excludes(self, other: Claim) -> bool:
        return overlap(self._path, other._path) and not (self._is_shared and other._is_shared)
