"""A finished run is played in its recorded times, each event in its place."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from itertools import pairwise

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult
from axe_nb.cell_display.live_tree import draw_row, list_segments
from axe_nb.events import Event, RetryScheduled, events_of
from axe_nb.messages.exchanges import Lap
from axe_nb.session.drive import NullView
from axe_nb.session.played_run import play, time_events
from axe_nb.views.html import Drawing
from axe_nb.views.outline import Outline, as_lines
from axe_nb.views.transcript import Transcript
from tests.engine.in_process import ask, lead


@pytest.fixture
def survey() -> RunResult:
    """A lead that asks a slow and a quick sub-agent at once; the quick one needs a retry."""
    failed: list[str] = []

    @axe_nb.script("town")
    async def town(request: Request) -> str:
        if "quick" in request.last and not failed:
            failed.append("once")
            await asyncio.sleep(0.1)
            raise axe_nb.ProviderError("overloaded", "busy")
        await asyncio.sleep(0.3 if "slow" in request.last else 0.05)
        return "It is warm here."

    for name in ("slow", "quick"):
        axe_nb.define(Agent(name, "script/town", retry={"max_retries": 1}))
    return axe_nb.run(lead(ask("slow", "slow"), ask("quick", "quick")), "Ask.")


def test_events_have_their_recorded_times_and_order(survey: RunResult) -> None:
    timed = time_events(survey)
    assert all(a <= b for (a, _), (b, _) in pairwise(timed))
    played = [event for _, event in timed if not isinstance(event, RetryScheduled)]
    assert sorted(map(repr, played)) == sorted(map(repr, events_of(survey)))
    slow, quick = (run.id for run in survey.children)
    ended = {event.run: at for at, event in timed if type(event).__name__ == "RunFinished"}
    assert ended[slow] >= 0.3
    assert ended["0"] == pytest.approx(survey.duration_ms / 1000, abs=0.1)
    [(_, retry)] = [(at, event) for at, event in timed if isinstance(event, RetryScheduled)]
    assert (retry.run, retry.attempt, retry.reason) == (quick, 2, "overloaded")
    transcript = Transcript()
    for at, event in timed:
        transcript.apply(event, at)
    drawn, whole = (
        list(as_lines(Outline(root, "r")))
        for root in (transcript.whole, Transcript.of(survey).whole)
    )
    assert drawn == whole
    [bar] = (list_segments(node) for node in transcript.whole.below() if node.id == quick)
    assert [kind for kind, _, _ in bar] == ["model", "retry", "model"]
    assert bar[0][2] - bar[0][1] >= 0.1, "the first attempt"


def test_the_attempts_of_an_agent_that_gives_up_are_played() -> None:
    @axe_nb.script("down")
    async def down(request: Request) -> str:
        await asyncio.sleep(0.05)
        raise axe_nb.ProviderError("overloaded", "busy", retry_after=0.05)

    axe_nb.define(Agent("quick", "script/down", retry={"max_retries": 1}))
    transcript = Transcript()
    for at, event in time_events(axe_nb.run(lead(ask("quick", "quick")), "Ask.")):
        transcript.apply(event, at)
    [quick] = transcript.whole.below()
    assert [kind for kind, _, _ in list_segments(quick)] == ["model", "retry", "model"]


class Seen(NullView):
    is_live = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.result: RunResult | None = None

    def event(self, event: Event) -> None:
        self.events.append(event)

    def finish(self, result: RunResult | None) -> None:
        self.result = result


def test_a_run_plays_as_fast_as_is_asked_and_its_end_is_shown(survey: RunResult) -> None:
    lasted = time_events(survey)[-1][0]
    view = Seen()
    began = time.monotonic()
    play(view, survey, 4.0)
    assert lasted / 4 <= time.monotonic() - began < lasted / 4 + 0.3
    assert len(view.events) == len(time_events(survey))
    assert view.result is survey
    view.tick = lambda: signal.raise_signal(signal.SIGINT)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt, match="the replay was stopped"):
        play(view, survey, 1.0)
    assert len(view.events) == 2 * len(time_events(survey)), "nothing is left that goes on"


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1e300])
def test_impossible_times_of_a_file_are_left_out(survey: RunResult, at: float) -> None:
    odd = replace(survey, times=(Lap("run", at, at), Lap("model", at, at, 1)))
    timed = time_events(odd)
    assert all(0 <= seconds < 10 for seconds, _ in timed)


def test_a_wait_for_a_person_keeps_its_colour_and_asks_nothing(survey: RunResult) -> None:
    paused = replace(survey, times=(*survey.times, Lap("person", 0.1, 0.2, 1, 1)))
    transcript, asked = Transcript(), set[str]()
    for at, event in time_events(paused):
        for node in transcript.apply(event, at):
            asked.add(draw_row(node, Outline(transcript.whole), Drawing())["question"])
    assert "person" in {kind for kind, _, _ in list_segments(transcript.whole)}
    assert asked == {""}


def test_what_cannot_be_played_is_told(
    survey: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert axe_nb.replay(survey) is None, "without a live tree there is nothing to wait for"
    assert "✓ lead · script/lead · completed" in capsys.readouterr().out
    with pytest.raises(axe_nb.ConfigError, match=r"takes the result of a run, not \[17\]"):
        axe_nb.replay([17])  # type: ignore[arg-type]
    for speed in (0, -1, "fast", float("nan"), 10**400):
        with pytest.raises(axe_nb.ConfigError, match="speed takes a positive number"):
            axe_nb.replay(survey, speed=speed)  # type: ignore[arg-type]
