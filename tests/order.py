"""The order of the tests in parallel: the long files first."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

LONG = ("tests/browser/", "notebooks/", "tests/nb/", "tests/sandbox/")
"""Begin first, so that no worker sits over one of them when the others have ended."""


MIDDLE = "tests/browser/test_l"
"""Half of the time of the browser's tests is spent in files before it."""


class ByFile(LoadScopeScheduling):
    """Gives each worker one file after another; the browser's to two, which start one each."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not file.startswith("tests/browser/"):
            return file
        return "the browser's first half" if file < MIDDLE else "the browser's second half"


def long_first(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
