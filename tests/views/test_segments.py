"""The segments of a live bar."""

from __future__ import annotations

from axe_nb.cell_display.live_tree import MAX_SEGMENTS, list_segments
from axe_nb.events import (
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import ToolCall, ToolResult, Usage
from axe_nb.views.transcript import Transcript

CALLS = (ToolCall("a", "grep", {}), ToolCall("b", "grep", {}))


def begun() -> Transcript:
    transcript = Transcript()
    transcript.apply(RunStarted("0", "", "", "lead", "m", 0, "task", "task"), 0.0)
    return transcript


def take_turn(transcript: Transcript, number: int, at: float) -> None:
    """A turn of one second with two calls at once, of one and of two seconds."""
    transcript.apply(TurnStarted("0", number, 1, 0), at)
    transcript.apply(TurnFinished("0", number, "", CALLS, "", Usage(), True), at + 1)
    for call in CALLS:
        transcript.apply(ToolStarted("0", call), at + 1)
    for seconds, call in enumerate(CALLS, 1):
        transcript.apply(ToolFinished("0", ToolResult(call.id, "ok"), seconds), at + 1 + seconds)


def test_a_wait_before_a_retry_is_a_segment_of_its_own() -> None:
    transcript = begun()
    transcript.apply(TurnStarted("0", 1, 1, 0), 0.0)
    transcript.apply(RetryScheduled("0", 1, 2, 2.0, "429", "slow down"), 1.0)
    assert transcript.root
    assert list_segments(transcript.root) == [
        ("model", 0.0, 1.0), ("retry", 1.0, 3.0), ("model", 3.0, None),
    ]  # fmt: skip


def test_a_wait_for_the_person_is_a_segment_of_its_own() -> None:
    transcript = begun()
    transcript.apply(TurnStarted("0", 1, 1, 0), 0.0)
    transcript.apply(TurnFinished("0", 1, "", CALLS[:1], "", Usage(), True), 1.0)
    transcript.apply(ToolStarted("0", CALLS[0]), 1.0)
    transcript.apply(PersonAsked("0", "a"), 1.0)
    assert transcript.root
    assert list_segments(transcript.root) == [("model", 0.0, 1.0), ("person", 1.0, None)]
    transcript.apply(PersonAnswered("0", "a", "yes"), 5.0)
    assert list_segments(transcript.root)[1:] == [("person", 1.0, 5.0), ("tool", 5.0, None)]


def test_a_long_run_has_a_bounded_number_of_segments_the_latest() -> None:
    transcript = begun()
    for number in range(200):
        take_turn(transcript, number + 1, 3.0 * number)
    assert transcript.root
    segments = list_segments(transcript.root)
    assert len(segments) == MAX_SEGMENTS
    assert segments[-1] == ("tool", 598.0, 600.0)
