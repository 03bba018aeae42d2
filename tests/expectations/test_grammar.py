"""The language of expectations: its table, its errors, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import ConfigError, ExpectationError
from axe_nb.expectations.language import FORMS, MEASURES, parse
from axe_nb.text import clean
from tests.expectations.test_check import DATA, priced, survey

PLAIN = "write it without a unit, as in 5000"
FORM = "expected NAME, no NAME, or NAME OPERATOR VALUE"
ONE_OF = "expected one of == != < <= > >="
COUNTED = "`parallel` follows a count of an agent or a tool | write researcher, parallel"
APART = "separate expectations with ; and put : after the name of a result"

EXAMPLES = [*FORMS, *(measure.example for measure in MEASURES.values())]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_table_is_an_expectation(example: str) -> None:
    assert parse(example)


def test_the_example_of_a_measure_is_about_it() -> None:
    for name, measure in MEASURES.items():
        clauses = parse(measure.example)
        assert all(clause.measure is measure for clause in clauses), name


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
        ("no a >= 2", "`no a >= 2`: `no` takes a name alone | leave out `no`, or the comparison"),
        ("no a, parallel", f"`no a, parallel`: {COUNTED}"),
        ("turns, parallel", f"`turns, parallel`: {COUNTED}"),
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
