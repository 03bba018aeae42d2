"""Answers above the tree: as data, in any direction, with the lines that the model wrote."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import axe_nb
from axe_nb.views.html import answer, twin
from axe_nb.views.markdown import render
from tests.views.runs import done, turn
from tests.views.test_html import Page

HEBREW = "שלום, שמונה פריטים."


def data_answer(data: Any) -> str:
    """The HTML of an answer that is data."""
    return answer(done(text=json.dumps(data), data=data))["text/html"]


@pytest.mark.req("D-65")
def test_a_list_of_records_is_a_table_and_nothing_in_it_is_html() -> None:
    html = data_answer(
        [{"town": "<b>Ulm</b>", "people": 126000}, {"town": "$x$", "people": 5, "old": True}]
    )
    page = Page(html)
    assert page.tags.count("tr") == 3
    assert page.open == page.unbalanced == []
    assert "b" not in page.tags
    assert "mathjax_ignore" in html
    cells = re.findall(r"<t[hd] style='[^']*:(\w+)'>(.*?)</t[hd]>", html)
    assert cells == [
        ("left", "<bdi>town</bdi>"), ("right", "<bdi>people</bdi>"), ("left", "<bdi>old</bdi>"),
        ("left", "<bdi>&lt;b&gt;Ulm&lt;/b&gt;</bdi>"), ("right", "126000"), ("left", "<bdi></bdi>"),
        ("left", "<bdi>$x$</bdi>"), ("right", "5"), ("left", "<em>true</em>"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        {"town": "Ulm"}, [], [{}], [1, 2], ["a"], [{"a": [1]}], [{"a": "x" * 301}],
        [{str(n): n for n in range(11)}], [{"a": 1}] * 101, [{"k" * 301: 1}],
    ],
)  # fmt: skip
def test_other_data_stays_json(data: Any) -> None:
    page = Page(data_answer(data))
    assert "table" not in page.tags
    assert json.loads(page.text) == data


def test_the_text_of_a_table_is_json_in_text_views() -> None:
    data = [{"town": "Ulm"}]
    bundle = twin(done(text=json.dumps(data), data=data, log=(turn(1, text="x"),)))
    assert bundle["text/plain"].startswith('[\n  {\n    "town": "Ulm"\n  }\n]\n\n✓')


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
