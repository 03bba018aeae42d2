"""Blocking functions beside the loop."""

import asyncio

import pytest

from axe_nb.threads import in_thread


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_a_function_that_raises_what_no_coroutine_can_catch_ends_like_any_other(
    kind: type[BaseException],
) -> None:
    def odd() -> None:
        raise kind("odd")

    async def wait() -> None:
        async with asyncio.timeout(5):
            await in_thread(odd)

    with pytest.raises(RuntimeError, match=f"{kind.__name__}: odd"):
        asyncio.run(wait())
