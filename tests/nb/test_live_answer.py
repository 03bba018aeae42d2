"""What the page is told of an answer while it is written."""

from __future__ import annotations

import pytest

from axe_nb.cell_display.live_tree import LiveAnswer
from axe_nb.events import RetryScheduled, RunFinished, RunStarted, TurnFinished, TurnStarted
from axe_nb.messages import Usage
from axe_nb.views.html import page
from axe_nb.views.markdown import render
from axe_nb.views.transcript import Transcript
from tests.views.runs import done
from tests.views.test_live import delta


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
    for event in (
        TurnFinished("0", 1, text, (), "end", Usage(), True),
        RunFinished("0", done(text=text, data={"city": "*Berne*"})),
    ):
        transcript.apply(event, 0.0)
    assert told(transcript) in page(transcript.whole, "r")["text/html"]
