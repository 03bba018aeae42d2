"""Answers above the tree: as data, in any direction, with the lines that the model wrote."""

from __future__ import annotations

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


def test_the_head_of_a_run_without_an_agent_names_the_model_once() -> None:
    text = twin(done(agent="", model="script/x", text="yes"))["text/plain"]
    assert "✓ script/x · completed" in text
