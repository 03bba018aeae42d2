"""One cage per method and user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from axe_nb.sandbox.bubblewrap import PLACES
from tests.conftest import not_run
from tests.sandbox.cages import METHODS, Cage, make_cage, open_folder, users


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=users())
def uid(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def cage(method: str, uid: int) -> Iterator[Cage]:
    if sys.platform != "linux":
        not_run("these sandboxes are of Linux")
    if method == "bubblewrap" and not any(Path(place).is_file() for place in PLACES):
        not_run("there is no bubblewrap (Debian: sudo apt-get install bubblewrap)")
    with open_folder() as base:
        yield make_cage(method, uid, base)
