"""Blocking functions beside the loop."""

import asyncio

import pytest

from axe_nb.threads import in_thread


def test_a_function_that_raises_stop_iteration_ends_like_any_other() -> None:
    def exhausted() -> None:
        next(iter(()))

    async def wait() -> None:
        async with asyncio.timeout(5):
            await in_thread(exhausted)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(wait())
