"""What the page is told of an answer while it is written."""

from __future__ import annotations

import pytest

from axe_nb.cell_display.live_tree import LiveAnswer
from axe_nb.events import RetryScheduled, RunFinished, RunStarted, TurnFinished, TurnStarted
from axe_nb.messages import ToolCall, Usage
from axe_nb.views.html import page
from axe_nb.views.markdown import render
from axe_nb.views.transcript import Transcript
from tests.views.runs import done
from tests.views.test_live import begun, delta


def told(transcript: Transcript) -> tuple[str, bool]:
    """The HTML that a page shows which is loaded now; True if it was said before calls."""
    answer = LiveAnswer(transcript.whole)
    answer.update(0.0)
    return "".join(answer.blocks), answer.is_earlier


def finished(text: str, *calls: ToolCall, number: int = 1) -> TurnFinished:
    return TurnFinished("0", number, text, calls, "end", Usage(), True)


def test_what_was_said_before_calls_stays_until_there_are_new_words() -> None:
    transcript = begun(delta("I'll *look*."))
    assert told(transcript) == (render("I'll *look*."), False)
    transcript.apply(finished("I'll *look*.", ToolCall("c", "grep", {})), 0.0)
    assert told(transcript) == (render("I'll *look*."), True)
    transcript.apply(TurnStarted("0", 2, 1, 0), 0.0)
    assert told(transcript) == (render("I'll *look*."), True)
    transcript.apply(delta("Found.", turn=2), 0.0)
    assert told(transcript) == (render("Found."), False)


@pytest.mark.req("D-23")
def test_the_words_of_a_failed_attempt_are_gone() -> None:
    transcript = begun(delta("One tw"))
    transcript.apply(RetryScheduled("0", 1, 2, 0.5, "overloaded", "busy"), 0.0)
    assert told(transcript)[0] == ""
    transcript.apply(delta("One two.", attempt=2), 0.0)
    assert told(transcript)[0] == render("One two.")


@pytest.mark.req("D-65")
def test_data_stand_as_they_are_written_until_they_are_whole() -> None:
    transcript = Transcript()
    transcript.apply(RunStarted("0", "", "", "lead", "m", 0, "", ""), 0.0)
    transcript.apply(TurnStarted("0", 1, 1, 0, data="object"), 0.0)
    transcript.apply(delta("I'll *look*."), 0.0)
    assert told(transcript)[0] == render("I'll *look*."), "words before its calls"
    transcript.apply(RetryScheduled("0", 1, 2, 0.5, "overloaded", "busy"), 0.0)
    transcript.apply(delta('{"city": "*Be', attempt=2), 0.0)
    assert '{"city": "*Be</pre>' in told(transcript)[0]
    text = '{"city": "*Berne*"}'
    for event in (finished(text), RunFinished("0", done(text=text, data={"city": "*Berne*"}))):
        transcript.apply(event, 0.0)
    assert told(transcript)[0] in page(transcript.whole, "r")["text/html"]
