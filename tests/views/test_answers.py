"""Answers above the tree: as data, in any direction, with the lines that the model wrote."""

from __future__ import annotations

import pytest

import axe_nb
from axe_nb.views.html import twin
from axe_nb.views.markdown import render
from tests.views.runs import done, turn

HEBREW = "שלום, שמונה פריטים."


def test_the_lines_of_an_answer_stay_lines() -> None:
    assert render("one\ntwo") == "<p>one<br />\ntwo</p>\n"


def test_texts_from_right_to_left_take_their_own_direction() -> None:
    html = twin(done(text=f"# {HEBREW}\n\n- {HEBREW}", log=(turn(1, text=HEBREW), turn(2))))[
        "text/html"
    ]
    assert f'<h1 dir="auto">{HEBREW}</h1>' in html
    assert f"<code dir=auto style=background:#8881>{HEBREW}</code>" in html
    assert (
        "dir" not in twin(done(text="plain äöü", log=(turn(1, text="said"), turn(2))))["text/html"]
    )


@pytest.mark.req("D-65")
def test_an_answer_that_does_not_fit_is_no_success_in_its_row() -> None:
    @axe_nb.script("misfit")
    def misfit(request: axe_nb.Request) -> str:
        return (
            '{"name": 1}' if request.turn == 1 or "never" in request.messages[0].content else "{}"
        )

    agent = axe_nb.Agent("guide", "script/misfit")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    text = twin(axe_nb.run(agent, "once", output=schema))["text/plain"]
    assert "✓ guide · script/misfit · completed · 2 turns · 1 repair · " in text
    assert "✗ turn 1 · answers, does not fit the schema · " in text
    assert "✓ turn 2 · repairs its answer · " in text
    text = twin(axe_nb.run(agent, "never", output=schema))["text/plain"]
    assert "✗ turn 2 · repairs its answer, still does not fit · " in text


def test_the_head_of_a_run_without_an_agent_names_the_model_once() -> None:
    text = twin(done(agent="", model="script/x", text="yes"))["text/plain"]
    assert "✓ script/x · completed" in text
