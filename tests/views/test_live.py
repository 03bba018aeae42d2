"""A run that goes on: the reply that is being written, the segments of its bars."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb.cell_display.live_tree import MAX_SEGMENTS, LiveAnswer, draw_row, list_segments
from axe_nb.events import (
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import ToolCall, ToolResult, Usage
from axe_nb.views.html import Drawing, page
from axe_nb.views.markdown import render
from axe_nb.views.outline import Outline
from axe_nb.views.rows import draft_line, make_row
from axe_nb.views.transcript import Draft, Node, Transcript, row_of
from tests.views.runs import ONE_CHILD, done

TALE = "Once upon a time " * 20

CALLS = (ToolCall("a", "grep", {}), ToolCall("b", "grep", {}))


def delta(text: str, run: str = "0", **fields: Any) -> TextDelta:
    return TextDelta(run, fields.pop("turn", 1), fields.pop("attempt", 1), text, **fields)


def begun(*events: Any) -> Transcript:
    transcript = Transcript()
    start = RunStarted("0", "", "", "lead", "p/m", 0, "task", "prompt")
    for event in (start, TurnStarted("0", 1, 1, 0), *events):
        transcript.apply(event, 0.0)
    return transcript


def below(*events: Any) -> Node:
    ask = ToolCall("c", "call_agent", {"agent": "scout", "task": "look"}, traits=ONE_CHILD)
    transcript = begun(
        TurnFinished("0", 1, "", (ask,), "tool_use", Usage(), True),
        RunStarted("0.1", "0", "c", "scout", "p/m", 1, "look", "Task: look"),
        TurnStarted("0.1", 1, 1, 0),
        *events,
    )
    [child] = transcript.whole.below()
    return child


def row(transcript: Transcript) -> str:
    return make_row(transcript.whole.turns[-1]).asked


def test_a_turn_says_that_it_thinks_then_writes_then_calls() -> None:
    transcript = begun()
    assert row(transcript) == "waits for the model"
    transcript.apply(delta("Let me see. The user wants", kind="reasoning"), 0.0)
    assert row(transcript) == "thinks: Let me see. The user wants"
    transcript.apply(delta("I shall "), 0.0)
    assert row(transcript) == "writes"
    transcript.apply(delta('{"path": "a.', kind="arguments", name="write_file"), 0.0)
    transcript.apply(delta('md", ', kind="arguments"), 0.0)
    assert row(transcript) == "calls write_file"
    transcript.apply(delta("{", kind="arguments", call=1), 0.0)
    assert row(transcript) == "calls write_file, a tool"
    assert transcript.whole.text == "I shall "


@pytest.mark.parametrize(
    ("pieces", "asked"),
    [
        ((), "look"),
        ((delta("Why? Because", "0.1", kind="reasoning"),), "thinks: Why? Because"),
        ((delta('{"path": "a', "0.1", kind="arguments", name="write_file"),),
         'calls write_file {"path": "a'),
        ((delta(TALE, "0.1"),), "… a time Once upon a time Once upon a time"),
    ],
)  # fmt: skip
def test_the_row_of_a_child_shows_the_last_words_that_it_writes(pieces: Any, asked: str) -> None:
    assert make_row(row_of(below(*pieces))).asked == asked


def test_the_texts_of_a_turn_show_the_end_of_each_part() -> None:
    transcript = begun(
        delta(TALE, kind="reasoning"),
        delta("The answer. "),
        delta('{"a": 1', kind="arguments", name="write_file"),
    )
    _, after = Outline(transcript.whole, max_chars=30).blocks(transcript.whole)
    assert [(block.label, block.text, block.rest) for block in after] == [
        ("thinks", TALE, ""),
        ("arguments", '{"a": 1', ""),
    ]
    transcript.apply(delta(TALE * 4, kind="reasoning"), 0.0)
    _, after = Outline(transcript.whole, max_chars=30).blocks(transcript.whole)
    assert after[0].text.startswith("… ")
    assert TALE in after[0].text
    assert len(after[0].text) < 1005
    child = below(delta("hm", "0.1", kind="reasoning"), delta("So.", "0.1"))
    before, after = Outline(child).blocks(row_of(child))
    assert [block.label for block in before] == ["task"]
    assert [(block.label, block.text) for block in after] == [("thinks", "hm"), ("writes", "So.")]


def test_the_bar_of_a_recorded_failure_has_the_colour_of_failures() -> None:
    child = below(RunFinished("0.1", done(status="error", error="gone", id="0.1")))
    line = draw_row(row_of(child), Outline(child), Drawing())["line"]
    assert "<i class='axe-nb-ended axe-nb-bad' style=--from:0.00" in line


@pytest.mark.req("D-23")
def test_a_retry_after_half_a_reply_shows_its_text_once() -> None:
    transcript = begun(
        delta("hm", kind="reasoning"), delta("One tw"), delta("{", kind="arguments", name="x"),
        delta("One ", attempt=2),
    )  # fmt: skip
    assert transcript.whole.text == "One "
    transcript.apply(delta("two.", attempt=2), 0.0)
    assert transcript.whole.text == "One two."
    _, after = Outline(transcript.whole).blocks(transcript.whole)
    assert after == ()


@pytest.mark.parametrize("size", [20, 40, 72])
def test_the_line_of_a_draft_is_bounded_and_cannot_command_a_terminal(size: int) -> None:
    draft = Draft()
    draft.take(delta("\x1b[2J\n" * 40 + "very" * 99, kind="reasoning"))
    line = draft_line(draft, size=size)
    assert line.startswith("thinks: ")
    assert len(line) <= size
    assert line.isprintable()


def test_a_wait_for_a_retry_or_the_person_is_a_segment_of_its_own() -> None:
    transcript = begun()
    transcript.apply(RetryScheduled("0", 1, 2, 2.0, "429", "slow down"), 1.0)
    before = [("model", 0.0, 1.0), ("retry", 1.0, 3.0)]
    assert list_segments(transcript.whole) == [*before, ("model", 3.0, None)]
    transcript.apply(TurnFinished("0", 1, "", CALLS[:1], "", Usage(), True), 4.0)
    transcript.apply(ToolStarted("0", CALLS[0]), 4.0)
    transcript.apply(PersonAsked("0", "a"), 4.0)
    before += [("model", 3.0, 4.0)]
    assert list_segments(transcript.whole) == [*before, ("person", 4.0, None)]
    transcript.apply(PersonAnswered("0", "a", "yes"), 5.0)
    assert list_segments(transcript.whole)[3:] == [("person", 4.0, 5.0), ("tool", 5.0, None)]


def test_a_long_run_has_a_bounded_number_of_segments_the_latest() -> None:
    transcript = begun()
    for number in range(1, 201):  # of one second, with calls of one and two seconds at once
        at = 3.0 * number
        transcript.apply(TurnStarted("0", number, 1, 0), at)
        transcript.apply(TurnFinished("0", number, "", CALLS, "", Usage(), True), at + 1)
        for seconds, call in enumerate(CALLS, 1):
            transcript.apply(ToolStarted("0", call), at + 1)
            done = ToolFinished("0", ToolResult(call.id, "ok"), seconds)
            transcript.apply(done, at + 1 + seconds)
    segments = list_segments(transcript.whole)
    assert len(segments) == MAX_SEGMENTS
    assert segments[-1] == ("tool", 601.0, 603.0)


def told(transcript: Transcript) -> str:
    """The HTML that a page shows which is loaded now."""
    answer = LiveAnswer(transcript.whole)
    answer.update(0.0)
    return "".join(answer.blocks)


@pytest.mark.req("D-23", "D-65")
def test_data_stand_as_they_are_written_until_they_are_whole() -> None:
    transcript = Transcript()
    transcript.apply(RunStarted("0", "", "", "lead", "m", 0, "", ""), 0.0)
    transcript.apply(TurnStarted("0", 1, 1, 0, data="object"), 0.0)
    transcript.apply(delta("I'll *look*."), 0.0)
    assert told(transcript) == render("I'll *look*."), "words before its calls"
    transcript.apply(RetryScheduled("0", 1, 2, 0.5, "overloaded", "busy"), 0.0)
    assert told(transcript) == "", "the words of a failed attempt are gone"
    transcript.apply(delta('{"city": "*Be', attempt=2), 0.0)
    assert '{"city": "*Be</pre>' in told(transcript)
    text = '{"city": "*Berne*"}'
    transcript.apply(TurnFinished("0", 1, text, (), "end", Usage(), True), 0.0)
    transcript.apply(RunFinished("0", done(text=text, data={"city": "*Berne*"})), 0.0)
    assert told(transcript) in page(transcript.whole, "r")["text/html"]
