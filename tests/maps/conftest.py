"""Models for maps: `echo` answers with the prompt, `openai/one` stands behind a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request


@dataclass
class Echo:
    """What the model was asked."""

    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most: int = 0
    hangs: set[str] = field(default_factory=set)
    """Prompts that are never answered."""
    faults: dict[str, Exception] = field(default_factory=dict)
    """Prompt → error that it is answered with, once."""

    @property
    def agent(self) -> Agent:
        return Agent(name="echo", model="script/echo")

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.asked)

    async def answer(self, request: Request) -> Any:
        prompt = request.messages[-1].content
        self.asked.append(prompt)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if prompt in self.hangs:
                await asyncio.Event().wait()
            await asyncio.sleep(0.001 * (prompt.count("slow") * 50 + 1))
        finally:
            self.at_once -= 1
        if prompt in self.faults:
            raise self.faults.pop(prompt)
        if prompt.startswith("fail"):
            raise axe_nb.ProviderError("server", "out of order")
        return prompt.upper()


@pytest.fixture
def echo() -> Echo:
    made = Echo()
    axe_nb.script("echo")(made.answer)
    return made


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
