"""A history of its own for each test, which is kept although it is a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from axe_nb.recording.history_recorder import find_writer, history_path


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of a history that runs of this test are written to."""
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    path = history_path()
    yield path
    find_writer(path).close()
