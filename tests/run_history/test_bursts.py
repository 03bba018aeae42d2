"""Writing gives way to runs at work: it waits until a burst of events is over, but not for long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import axe_nb
from axe_nb.events import RunStarted
from axe_nb.recording.history_writer import BURST, MAX_REST, MIN_REST, find_writer
from axe_nb.recording.recorder import Recorder


def start(recorder: Recorder, number: int) -> None:
    """A run of the tree begins; the first is its root."""
    run = f"0.{number}" if number else "0"
    recorder.event(RunStarted(run, "0" * bool(number), "", "one", "m/x", bool(number), "Go", "Go"))


def go_on(recorder: Recorder, seconds: float) -> tuple[int, float]:
    """Starts many runs for some time; returns their number, and the longest pause in seconds."""
    number, pause, now = 0, 0.0, time.monotonic()
    end = now + seconds
    while now < end:
        for _ in range(BURST):
            start(recorder, number)
            number += 1
        time.sleep(0.01)
        before, now = now, time.monotonic()
        pause = max(pause, now - before)
    return number, pause


def test_a_burst_of_events_is_written_when_it_is_over(kept: Path) -> None:
    number, pause = go_on(Recorder(find_writer(kept)), 3 * MIN_REST)
    if pause > MIN_REST / 2:
        pytest.skip("this machine is too busy for a burst")
    assert not kept.exists()
    (row,) = axe_nb.history()
    assert row.runs == number


def test_a_burst_that_goes_on_is_written_meanwhile(kept: Path) -> None:
    writer = find_writer(kept)
    number, _ = go_on(Recorder(writer), 3 * MAX_REST)
    assert kept.exists()
    assert writer._queue.qsize() < 0.6 * number, "what is left at the end has to be written soon"
