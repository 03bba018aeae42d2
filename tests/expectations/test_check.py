"""Expectations of finished trees: met, not met with the branch that shows it, or undecidable;
and their language: its table, its errors, and any text at all."""

from __future__ import annotations

import pickle
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import ConfigError, ExpectationError, RunResult, ToolCall, Usage
from axe_nb.expectations import MEASURES, parse
from axe_nb.messages import ToolResult
from axe_nb.results import Turn
from axe_nb.text import clean
from tests.engine.in_process import agent
from tests.views.runs import done


def turn(number: int, *calls: ToolCall, parallel: bool = True) -> Turn:
    results = tuple(ToolResult(c.id, "fine", name=c.name) for c in calls)
    return Turn(number, "", calls, results, "", Usage(100, 10), parallel)


def use(id: str, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def child(name: str, call_id: str, **fields: Any) -> RunResult:
    own = {"agent": name, "call_id": call_id, "turns": 1, "usage": Usage(100, 10), **fields}
    return done(**{"id": f"0.{call_id[1:]}", **own})


def survey() -> RunResult:
    """A lead that asks two researchers at once, then a writer, which writes a report."""
    wrote = turn(1, use("w1", "write_file", path="out/report.md", content="It is 42."))
    writer = child(
        "writer", "c3", log=(wrote, turn(2)), turns=2, tool_calls=1, id="0.3",
        children=(child("checker", "lost", id="0.3.2"),),
    )  # fmt: skip
    return done(
        text="The answer is 42; see out/report.md", turns=4, tool_calls=4, usage=Usage(1000, 50),
        model="script/lead", retries=1, duration_ms=1500, task="Find the answer",
        children=(
            child("researcher", "c1", task="in Rome"),
            child("researcher", "c2", task="in Oslo", status="max_turns"), writer,
        ),
        log=(
            turn(1, use("c1", "call_agent", agent="researcher"), use("c2", "call_agent")),
            turn(2, use("c3", "call_agent", agent="writer")),
            turn(3, use("c4", "read_file", path="out/report.md")), turn(4),
        ),
    )  # fmt: skip


GOOD = """\
researcher
researcher == 2
researcher != 3
researcher < 3
researcher >= 2, parallel
no run_command
file_ops == 2
depth == 2
turns == 9
tokens == 1_490
no denied
no failed
text ~ /\\b42\\b; see/
text contains 42
text != 42
status == completed
agent:writer == 1
no tool:search_the_whole_web
no agent:philosopher\
"""

BAD = {
    "researcher >= 3": ("2 runs", "in agent lead › researcher (0.2)", ".children[1]"),
    "no researcher": ("2 runs", "in agent lead › researcher (0.1)", ".children[0]"),
    "no write_file": (
        "1 call", "in agent lead › writer (0.3), turn 1, call of write_file",
        ".children[2].log[0].calls[0]",
    ),
    "edit_file == 1": ("0 calls; it called call_agent, read_file, write_file", "in agent lead", ""),
    "writer, parallel": ("1 run, none in parallel", "in agent lead › writer (0.3)", ".children[2]"),
    "turns <= 6": ("9 in the whole tree", "in agent lead", ""),
    "depth <= 1": ("2", "in agent lead › writer › checker (0.3.2)", ".children[2].children[0]"),
    "data.total == 3": ("no data: its output is text", "in agent lead", ""),
}  # fmt: skip


@pytest.mark.req("D-67")
def test_expectations_that_are_met_return_the_result(project: Any) -> None:
    result = survey()
    for expectation in GOOD.splitlines():
        assert axe_nb.expect(result, expectation) is result


@pytest.mark.req("D-67")
@pytest.mark.parametrize("expectation", BAD)
def test_a_failure_names_what_was_found_and_the_branch(expectation: str, project: Any) -> None:
    found, branch, pointer = BAD[expectation]
    with pytest.raises(ExpectationError) as failure:
        axe_nb.expect(survey(), f"lead; {expectation}; turns == 9")
    told = f"expectation not met: {expectation} (found {found})"
    assert failure.value.lines() == [told, branch, f"look at the result{pointer}"]
    assert eval(f"result{pointer}", {"result": survey()})
    assert failure.value.exit_code == 1


def refusal(expectation: str, result: RunResult | None = None) -> str:
    """The one line of the error that an expectation cannot be decided, with its next step."""
    with pytest.raises(ConfigError) as error:
        axe_nb.expect(result or survey(), expectation)
    return " | ".join(error.value.lines())


@pytest.mark.req("D-67")
def test_a_name_of_an_agent_and_a_tool_has_to_say_which(project: Any) -> None:
    axe_nb.define(agent("grep", "x"))
    told = '"grep" is both an agent and a tool | write agent:grep or tool:grep'
    assert refusal("no grep") == refusal("grep >= 2, parallel") == told
    axe_nb.expect(survey(), "no agent:grep; no tool:grep")


@pytest.mark.req("D-67")
@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        ("turn <= 6", 'unknown agent, tool or measure "turn" | did you mean "turns"?'),
        ("no tool:writ_file", 'unknown tool "writ_file" | '
         'did you mean "write_file"?'),
        ("agent:resercher", 'unknown agent "resercher" | did you mean "researcher"?'),
        ("no xyzzy", 'unknown agent, tool or measure "xyzzy" | agents: checker, lead, researcher, '
         "writer; for any other name write agent:NAME or tool:NAME"),
        ("call_agent, parallel", "call_agent, parallel: `parallel` takes an agent"),
        ("cost < 1", 'cost cannot be checked: the price of the model "script/lead" is unknown | '
         "compare tokens instead"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_an_error(expectation: str, told: str, project: Any) -> None:
    assert refusal(expectation) == told


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    price: float


def priced(cost: float | None = None, data: Any = None, **more: Any) -> RunResult:
    own = {"status": "completed", "text": "", "agent": "lead", "model": "a/b", **more}
    return RunResult(usage=Usage(9, 1).at_cost(cost), turns=1, data=data, **own)


DATA = {
    "total": 3, "ratio": 0.5, "ok": True, "none": None, "name": "Rome; at \"night\"", "id": "3",
    "items": [{"name": "a"}, Item("b", 2.5)], "tags": ["x", "y"], "a key": 1, "empty": [],
    "numbers": [5, 7],
}  # fmt: skip


@pytest.mark.parametrize(
    "expectation",
    [
        "data.total == 3", "data.ratio < 0.6", "data.ok == true", "data.ok", "data.none == null",
        "data.name ~ /^Rome; /", 'data.name contains "\\"night\\""', "data.id != 3",
        "data.items == 2", 'data.items[0].name == "a"', "data.items[1].price > 2",
        "data.tags contains x", "data.numbers contains 7", "data.tags != z", "no data.missing",
        'data["a key"] == 1', "data contains total", "data.empty == 0", "data",
    ],
)  # fmt: skip
def test_data_is_compared_by_path_and_type(expectation: str) -> None:
    axe_nb.expect(priced(data=DATA), expectation)


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        ("data.totl == 3", 'none in an object with "total", "ratio", "ok", "none", "name" and 6 m'),
        ("data.totl != 3", "none in"), ("no data.total", "3"),
        ('data.total == "3"', "3"), ("data.ok == 1", "true"), ("data.name < 3", '"Rome; at'),
        ("data.items[2]", "none in"), ("data.items[1].__class__", "none in"),
        ("data.name[0]", "none in"), ("data.tags contains z", r"2 items \(x, y\)"),
        ("data.items.name", "none in"),
    ],
)  # fmt: skip
def test_data_that_differs_or_is_missing_is_not_met(expectation: str, found: str) -> None:
    with pytest.raises(ExpectationError, match=rf"\(found {found}"):
        axe_nb.expect(priced(data=DATA), expectation)


def test_calls_that_were_denied_are_not_used() -> None:
    first, second = use("a", "write_file", path="x"), use("b", "write_file", path="y")
    results = (
        ToolResult("a", "no", True, "write_file", is_denied=True),
        ToolResult("b", "Error: full", True, "write_file"),
    )
    log = (Turn(1, "", (first, second), results, "", Usage()),)
    told = "write_file == 1; denied == 1; failed == 1"
    axe_nb.expect(done(log=log), f"{told}; denied contains write_file; failed contains write_file")


def test_calls_of_an_agent_without_tools_are_not_counted(project: Any) -> None:
    result = axe_nb.run(agent("alone", lambda request: axe_nb.call("grep", pattern="x")), "go")
    assert result.status == "completed"
    axe_nb.expect(result, "no grep")
    with pytest.raises(ExpectationError, match="0 calls"):
        axe_nb.expect(result, "tool:grep >= 1")


def test_several_failures_are_one_error_of_three_lines() -> None:
    with pytest.raises(ExpectationError) as failure:
        axe_nb.expect(survey(), "no writer; turns < 2; no denied; depth == 0; tokens < 10")
    assert failure.value.lines() == [
        "4 of 5 expectations not met: no writer (found 1 run), turns < 2 (found 9 in the whole "
        "tree), depth == 0 (found 2) and 1 more",
        "in agent lead › writer (0.3)", "look at the result.children[2]",
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(failure.value)).lines() == failure.value.lines()


def test_what_a_model_wrote_cannot_break_the_lines_of_an_error() -> None:
    evil = "a\nb\x1b[31m\u202e"
    result = done(text=evil, agent=evil, children=(child(evil, "c1", id=evil),))
    with pytest.raises(ExpectationError) as failure:
        axe_nb.expect(result, "text == 1; depth == 0;\n status == error")
    assert len(failure.value.lines()) == 3
    for line in failure.value.lines():
        assert line.isprintable()


def has_parallel(result: RunResult, *names: str) -> list[bool]:
    """True for each name of which two ran at the same time."""

    def is_met(name: str) -> bool:
        with suppress(ExpectationError):
            return axe_nb.expect(result, f"{name}, parallel") is result
        return False

    return list(map(is_met, names))


def test_without_times_the_calls_of_a_reply_are_parallel() -> None:
    calls = (use("c1", "call_agent"), use("c2", "call_agent"))
    children = (child("a", "c1"), child("b", "c2"), child("a", "c2"))
    one_by_one = done(log=(turn(1, *calls, parallel=False),), children=children)
    assert has_parallel(one_by_one, "a") == [False]
    together = done(log=(turn(1, *calls),), children=children)
    assert has_parallel(together, "a", "b") == [True, False]
    by_one_call = done(log=(turn(1, calls[0]),), children=(child("a", "c1"), child("a", "c1")))
    assert has_parallel(by_one_call, "a") == [True]


@pytest.mark.timeout(20)
def test_a_pattern_that_takes_too_long_is_an_error_and_not_a_hang() -> None:
    told = refusal("text ~ /(a|aa)+$b/", done(text="a" * 5000))
    assert told.startswith("the pattern /(a|aa)+$b/ takes longer than 1 s | use a simpler pattern")


@pytest.mark.timeout(20)
def test_a_wide_tree_is_checked_in_linear_time() -> None:
    calls = tuple(use(f"c{n}", "read_file") for n in range(20_000))
    children = tuple(child("a", f"c{n}") for n in range(2000))
    wide = done(log=tuple(turn(n, *calls[n::10]) for n in range(10)), children=children)
    axe_nb.expect(wide, "; ".join(["read_file == 20000", "a == 2000, parallel"] * 10))


PLAIN = "write it without a unit, as in 5000"
FORM = "expected NAME, no NAME, or NAME OPERATOR VALUE"
ONE_OF = "expected one of == != < <= > >="
APART = "separate expectations with ; and put : after the name of a result"

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")
ROWS = PAGE.partition("\nexpectation | meaning\n")[2].partition("\n\n")[0]
SHOWN = {m: re.findall(rf"^`((?:no )?{m}\b.+?)` \| ", ROWS, re.M)[0] for m in MEASURES}
EXAMPLES = [*GOOD.splitlines(), *(SHOWN[name] for name in MEASURES)]


@pytest.mark.parametrize("name", MEASURES)
def test_every_example_of_the_page_is_an_expectation_about_its_measure(name: str) -> None:
    assert all(clause.measure is MEASURES[name] for clause in parse(SHOWN[name]))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no expectation given | for example turns <= 6; no write_file"),
        ("a; turns <= six", f"`turns <= six`: expected a number | {PLAIN}"),
        ("tokens < 5k", f"`tokens < 5k`: expected a number | {PLAIN}"),
        ("a >= 2, paralel", f"`a >= 2, paralel`: expected a number | {PLAIN}"),
        ("a => 2", f"`a => 2`: {ONE_OF}"),
        ("txt ~ /x/", f"`txt ~ /x/`: {ONE_OF}"),
        ("text ~ /a; b", "`text ~ /a`: expected a pattern, as in /42/"),
        ("text ~ /(/", "`text ~ /(/`: invalid pattern: missing ) at position 1"),
        ("text == 'a", "`text == 'a`: expected a value | put a text in quotes"),
        ("no a >= 2", f"`no a >= 2`: {FORM} | {APART}"),
        ("no a, parallel", f"`no a, parallel`: {FORM} | {APART}"),
        ("turns, parallel", "`turns, parallel`: `parallel` takes an agent"),
        ("a, turns < 2", f"`a, turns < 2`: {FORM} | {APART}"),
        ("not a", f"`not a`: {FORM} | {APART}"),
    ],
)  # fmt: skip
def test_an_error_names_the_clause_and_the_next_step(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text)
    said = " | ".join(error.value.lines())
    assert said.removeprefix("invalid expectation ") == told


WORDS = st.sampled_from(
    [*" ;,()[]/\"'\\~=!<>.:$-_", "==", "!=", ">=", "<=", "!~", "contains", "not", "no", "then",
     "parallel", ", parallel", "agent:", "tool:", "researcher", "write_file", "path", "/a/",
     "/(a|b)+;/", '"x"', "'y'", "3", "-1", "5k", "2min", "$0.02", "9" * 18, "true", "null", "data.",
     "total", "items[0]", "[99]", "lead(", "é", "\0", "\ud800", "\n", *MEASURES, *EXAMPLES]
)  # fmt: skip
TEXTS = st.lists(WORDS | st.text(max_size=3), max_size=12).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda blank: blank.join(words))
)
RESULTS = [survey(), priced(0.5, DATA), priced(0, [10**5000, float("nan"), float("inf")])]


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.integers(0, len(RESULTS) - 1))
def test_any_text_is_met_not_met_or_an_error_of_ours(text: str, number: int) -> None:
    lines: list[str] = []
    try:
        axe_nb.expect(RESULTS[number], text)
    except (ConfigError, ExpectationError) as error:
        lines = error.lines()
    assert len(lines) <= 3
    assert [line for line in lines if clean(line) != line or "\n" in line] == []
