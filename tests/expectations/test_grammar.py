"""The language of expectations: its table, its errors, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import ConfigError, ExpectationError
from axe_nb.expectations.grammar import parse
from axe_nb.expectations.table import FORMS, MEASURES
from axe_nb.text import clean
from tests.expectations.test_check import DATA, priced, survey

EXAMPLES = [*FORMS, *(measure.example for measure in MEASURES.values())]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_table_is_an_expectation(example: str) -> None:
    assert parse(example)


def test_the_example_of_a_measure_is_about_it() -> None:
    for name, measure in MEASURES.items():
        clauses = parse(measure.example)
        assert all(clause.subjects[0].measure is measure for clause in clauses), name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no expectation given | for example turns <= 6; no write_file"),
        (" ; ", "no expectation given | for example turns <= 6; no write_file"),
        ("a; turns <= six", "`turns <= six`: expected a number, at `six`"),
        ("turns <=", "`turns <=`: expected a number, at the end"),
        ("a => 2", "`a => 2`: unknown operator, at `=> 2` | did you mean >=?"),
        ("a = 2", "`a = 2`: unknown operator, at `= 2` | did you mean ==?"),
        ("txt ~ /x/", "`txt ~ /x/`: expected one of == != < <= > >=, at `~ /x/` | "
         "did you mean text?"),
        ("text ~ /a; b", "`text ~ /a; b`: not understood, at `/a; b` | close the pattern with /"),
        ("text == 'a", "`text == 'a`: not understood, at `'a` | close the text with a quote"),
        ("text ~ /(/", "`text ~ /(/`: invalid pattern: missing ) at position 1, at `/(/`"),
        ("text ~ 42", "`text ~ 42`: expected a pattern, as in /42/, at `42`"),
        ("a >= 2, paralel", "`a >= 2, paralel`: expected ; or the end, at `, paralel` | "
         "did you mean parallel?"),
        ("no a, parallel", "`no a, parallel`: expected ; or the end, at `, parallel` | "
         "parallel follows a count of an agent or a tool, as in researcher >= 2"),
        ("a, turns < 2", "`a, turns < 2`: expected ; or the end, at `, turns < 2` | "
         "separate expectations with ;"),
        ("tokens < 5,000", "`tokens < 5,000`: expected ; or the end, at `,000` | "
         "write 5000 or 5k"),
        ("cost < 2s", '`cost < 2s`: unknown unit "s", at `2s` | known here: $'),
        ("a >= 2k", '`a >= 2k`: unknown unit "k", at `2k` | write it without a unit'),
        ("status == complete", "`status == complete`: unknown value, at `complete` | "
         'did you mean "completed"?'),
        ("no a >= 2", "`no a >= 2`: expected ; or the end, at `>= 2` | "
         "put not before the comparison"),
        ("a then turns", "`a then turns`: then takes agents and tools, at the end"),
        ("a(b == 1 c)", "`a(b == 1 c)`: expected , or ), at `c)`"),
        ("turns(b)", "`turns(b)`: only agents and tools take conditions, at `(b)`"),
        ("r a <= 1", "`r a <= 1`: expected ; or the end, at `a <= 1` | "
         "separate expectations with ; and put : after the name of a result"),
        ("a contians b", "`a contians b`: expected ; or the end, at `contians b` | "
         "did you mean contains?"),
        ("a" * 20_000, "the expectations have more than 10,000 characters"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_and_the_next_step(text: str, told: str) -> None:
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
