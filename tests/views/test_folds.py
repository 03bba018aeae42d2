"""Long texts in the saved tree, whole in a fold; and lines that go on from a turn."""

from __future__ import annotations

from axe_nb.messages import ToolCall, ToolResult, Usage
from axe_nb.results import RunResult, Turn
from axe_nb.views.html import ROOM, twin
from tests.views.runs import TEXT, ask, done, long_run, turn

FOLD = "<summary><small style=opacity:.7>{}</small> "


def run(answer: str, result: str) -> RunResult:
    """A run with a sub-agent's answer and a tool's result."""
    calls = (ask("a", "reader", "look"), ToolCall("b", "grep", {"pattern": "x"}))
    results = (ToolResult("a", answer), ToolResult("b", result))
    child = done(agent="reader", id="0.1", call_id="a", text=answer, log=(turn(1, text=answer),))
    log = (Turn(1, "", calls, results, "", Usage()), turn(2, text="ok"))
    return done(log=log, children=(child,))


def html(result: RunResult, name: str = "r") -> str:
    return twin(result, name=name)["text/html"]


def test_a_long_text_is_whole_in_a_fold_below_its_beginning() -> None:
    answer = "\n".join(f"line {n} <b>" for n in range(200))
    page = html(run(answer, "short"))
    assert f"{FOLD.format('answered')}line 0 &lt;b&gt; line 1 &lt;b&gt;" in page
    assert f"<small style=opacity:.7>{len(answer):,} characters</small></summary>" in page
    assert answer.replace("<b>", "&lt;b&gt;") in page
    assert "more characters" not in page, "a pointer is not needed"


def test_answers_of_sub_agents_come_before_results_of_tools_where_room_is_short() -> None:
    answer, result = "a " * (ROOM // 3), "r " * (ROOM // 3)
    page = html(run(answer, result))
    assert page.count(FOLD.format("answered")) == 1
    assert page.count(FOLD.format("result")) == 0
    assert answer.strip() in page
    assert ": r.log[0].results[1].content" in page, "the rest has a pointer"


def test_a_fold_that_has_no_room_leaves_it_to_a_shorter_one() -> None:
    page = html(run("a " * ROOM, "r " * 2000))
    assert "4,000 characters</small></summary>" in page
    assert ": r.children[0].text" in page


def test_a_long_run_keeps_the_answers_of_its_sub_agents_whole() -> None:
    page = html(long_run())
    assert page.count(FOLD.format("answered")) == 4
    assert page.count("1,500 characters</small></summary>") >= 4


def test_forty_answers_of_200_characters_are_whole_without_folds_and_in_50_kilobytes() -> None:
    answer = TEXT[:200]
    calls = tuple(ask(f"c{n}", "reader", "look") for n in range(40))
    children = tuple(
        done(agent="reader", id=f"0.{n}", call_id=one.id, text=answer, log=(turn(1, text=answer),))
        for n, one in enumerate(calls, 1)
    )
    log = (turn(1, *calls, results=[answer] * 40), turn(2, text="ok"))
    page = html(done(text="ok", log=log, children=children))
    assert page.count(f"{answer}</pre>") == 40
    assert FOLD.format("answered") not in page
    assert len(page) < 50_000


def test_each_turn_names_the_cell_that_goes_on_from_it() -> None:
    page = html(run("yes", "no"))
    places = [f"<code>%%axe --from r@{place}</code>" for place in ("0/1", "0.1/1", "0/2")]
    assert [page.count(place) for place in places] == [1, 1, 1]


def test_a_result_without_a_name_of_its_own_has_no_such_line() -> None:
    assert "--from" not in html(run("yes", "no"), "axe_nb.last()")
    assert "--from" not in html(run("yes", "no"), "runs[0]")
