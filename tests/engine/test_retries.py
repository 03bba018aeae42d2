"""Requests that are sent again, as the agent's `[retry]` says."""

from __future__ import annotations

import asyncio

import pytest

from axe_nb import Agent, ProviderError, Request
from axe_nb.agents.agent_tables import Retry
from axe_nb.events import Event, RetryScheduled, RunFinished
from tests.engine.in_process import Stage, agent, exit_code, stage

SLOW_DOWN = ProviderError("rate_limit", "slow down", status=429, retry_after=0.01)


def failing(times: int, error: ProviderError, *, retries: int = 9, name: str = "failing") -> Agent:
    asked: list[Request] = []

    def model(request: Request) -> str:
        asked.append(request)
        if len(asked) <= times:
            raise error
        return "at last"

    return agent(name, model, retry=Retry(retries))


def waits(played: Stage) -> list[RetryScheduled]:
    return [event for event in played.events if isinstance(event, RetryScheduled)]


@pytest.mark.req("D-23")
def test_each_wait_is_an_event_and_the_result_counts_them() -> None:
    played = stage(failing(2, SLOW_DOWN))
    result = played.play()
    assert (result.text, result.turns, result.retries) == ("at last", 1, 2)
    assert result.to_dict()["retries"] == 2
    assert [(w.run, w.turn, w.attempt, w.reason) for w in waits(played)] == [
        ("0", 1, 2, "429"), ("0", 1, 3, "429"),
    ]  # fmt: skip
    assert waits(played)[0].error == "rate_limit: slow down"


@pytest.mark.req("D-23")
def test_waits_grow_and_differ() -> None:
    error = ProviderError("server", "broken")
    played = [stage(failing(2, error, name=name)) for name in "abcd"]

    async def together() -> None:
        await asyncio.gather(*(one.ask() for one in played))

    asyncio.run(together())
    seconds = [[wait.seconds for wait in waits(one)] for one in played]
    assert all(0.5 <= first <= 0.625 and 1 <= second <= 1.25 for first, second in seconds)
    assert len({tuple(pair) for pair in seconds}) == 4


@pytest.mark.req("D-23")
@pytest.mark.parametrize("asked", [1.5, 40.0, 3600.0])
def test_the_servers_wait_is_never_undercut(asked: float) -> None:
    assert asked <= first_wait(asked).seconds <= min(1.25 * asked, asked + 3)


@pytest.mark.req("D-23")
def test_a_wait_leaves_time_for_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 1.0)
    assert 500 <= first_wait(500.0, timeout=502).seconds < 501.5


def first_wait(asked: float, timeout: float = 0) -> RetryScheduled:
    """The wait of a run whose server asks for so many seconds."""
    error = ProviderError("rate_limit", "slow down", retry_after=asked)

    async def until_it_waits() -> Event:
        heard: asyncio.Queue[Event] = asyncio.Queue()
        played = stage(failing(1, error))
        played.emit = heard.put_nowait
        run = asyncio.create_task(played.ask(timeout=timeout))
        while not isinstance(event := await heard.get(), RetryScheduled):
            assert not isinstance(event, RunFinished)
        run.cancel()
        return event

    event = asyncio.run(until_it_waits())
    assert isinstance(event, RetryScheduled)
    return event


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (900.0, "the server asks for a wait of 900s, longer than the run has left"),
        (None, "a retry would wait, longer than the run has left"),
    ],
)
def test_a_wait_beyond_the_runs_time_ends_it_at_once(asked: float | None, told: str) -> None:
    error = ProviderError("rate_limit", "slow down", retry_after=asked)
    played = stage(failing(1, error))
    result = played.play(timeout=600 if asked else 0.4)
    assert (result.status, result.retries) == ("error", 0)
    assert result.error == f"rate_limit: slow down; {told}"
    assert exit_code(result) == 3
    assert waits(played) == []
    with pytest.raises(ProviderError) as raised:
        result.raise_for_status()
    assert raised.value.hint == "give the run more time with --timeout"
    assert error.message == "rate_limit: slow down"
