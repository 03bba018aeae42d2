"""Runs of the agent `one`, recorded from a script server and replayed without it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, ToolCall, script, script_server
from axe_nb.scripting.wire import Protocol
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from tests.protocols import PROTOCOLS, provider_of

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def define(protocol: str = "openai", name: str = "one", **options: Any) -> None:
    axe_nb.define(Agent(name=name, model=f"{provider_of(protocol)}/{name}", **options))


def count_up() -> None:
    """The model answers a, b, c …"""
    answers = iter("abcdefghijkl")
    script("one")(lambda request: next(answers))


def call_once(*calls: ToolCall) -> None:
    """The model makes the calls, and answers with their results."""

    @script("one")
    def one(request: Request) -> Any:
        return calls if request.turn == 1 else " / ".join(r.content for r in request.results)


def record(prompt: Any = "go", protocol: Protocol = "openai", **options: Any) -> RunResult:
    with script_server(protocol), axe_nb.cassette("one.axe", "record"):
        return axe_nb.run("one", prompt, **options)


def replay(prompt: Any = "go", **options: Any) -> RunResult:
    with axe_nb.cassette("one.axe", "replay") as cassette:
        result = axe_nb.run("one", prompt, **options)
        assert cassette.unused == 0
    return result


def replay_to_its_error() -> str:
    with axe_nb.cassette("one.axe", "replay"):
        return axe_nb.run("one", "go").error or ""


def run_with(answer: Any, prompt: str = "go") -> RunResult:
    """Runs the agent `one` for a person who answers."""
    handle = session.start(RunRequest(agent="one", prompt=prompt))
    result: RunResult = asyncio.run(handle.execute(lambda event: None, answer))
    return result


def record_with(answer: Any) -> RunResult:
    with script_server("openai"), axe_nb.cassette("one.axe", "record"):
        return run_with(answer)


def without_times(result: RunResult) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(v) for key, v in value.items() if key != "duration_ms"}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(result.to_dict())


async def interrupt(agent: Agent | str, when: Callable[[], bool]) -> RunResult:
    """The result of a run that is cancelled at some point."""
    handle = session.start(RunRequest(agent=agent, prompt="go"))
    task = asyncio.create_task(handle.execute(lambda _: None))
    while not when():  # noqa: ASYNC110 - a thread may set it
        await asyncio.sleep(0.01)
    handle.cancel()
    await asyncio.wait([task])
    assert handle.finished
    return handle.finished


@contextmanager
def start(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the code, with all three streams; killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()
