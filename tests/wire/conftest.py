"""Bodies that the SDKs take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers import sdk


@pytest.fixture(autouse=True)
def every_body_is_one_that_the_sdks_take() -> Iterator[None]:
    with sdk.watching():
        yield
