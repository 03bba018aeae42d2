"""One cage per method and user."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.conftest import not_run
from tests.sandbox.cages import METHODS, Cage, find_method, make_cage, open_folder, users


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
    find_method(method)
    with open_folder() as base:
        yield make_cage(method, uid, base)
