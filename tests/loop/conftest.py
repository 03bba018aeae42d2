"""Models of one test are not those of the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from axe_nb.providers.script import functions


@pytest.fixture(autouse=True)
def no_functions() -> Iterator[None]:
    functions.clear()
    yield
    functions.clear()
