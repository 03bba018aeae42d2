"""A model behind a server, which counts its answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import axe_nb
from axe_nb import Request


@dataclass
class CountingModel:
    """Answers `done` to each prompt, up to a number of answers; then it waits for ever."""

    most: int
    answered: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: Request) -> str:
        if self.answered.total() >= self.most:
            await asyncio.Event().wait()
        self.answered[request.last] += 1
        return "done"


@contextmanager
def counting_model(most: int = 10**9) -> Iterator[CountingModel]:
    """The model `openai/one`, as long as the block, for this process and those below it."""
    model = CountingModel(most)
    axe_nb.script("one")(model.answer)
    with axe_nb.script_server("openai"):
        yield model
