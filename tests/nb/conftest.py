"""One kernel of each line for all tests of this folder, like new for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.nb.kernels import Kernels


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    with ExitStack() as ends:
        yield Kernels(ends)
