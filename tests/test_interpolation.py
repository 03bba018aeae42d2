"""A cell's body becomes a prompt: what stands in double braces, and what is left alone."""

import json
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.conversion.interpolation import prompt_of
from axe_nb.conversion.value_text import format_value
from axe_nb.errors import ConfigError
from axe_nb.results import RunResult

pytestmark = pytest.mark.req("D-40")


class Broken:
    def __str__(self) -> str:
        raise ValueError("no words")


def fail() -> None:
    raise KeyError("a\nb")


NAMES: dict[str, Any] = {
    "city": "Bergen", "n": 3, "row": {"a": 1}, "rows": [1, "é"], "nested": "{{ city }} {city}",
    "broken": Broken(), "fail": fail, "f": lambda x, y=1: x * y, "text": "a\nb",
    "Broken": Broken,
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ("In {{ city }}.", "In Bergen."),
        ("In {{city}}.", "In Bergen."),
        ("{{ city }}{{ n }}", "Bergen3"),
        ("{{ city.upper()[:3] }}", "BER"),
        ("{{ f(2, y=n) }}", "6"),
        ("{{ [x for x in rows if x == n - 2] }}", "[\n  1\n]"),
        ("{{ {'k': n}['k'] }}", "3"),
        ("{{ row['a'] }}", "1"),
        ("{{ '}}' + city }}", "}}Bergen"),
        ("{{ f(\n  2) }}", "2"),
        ("{{ len(city) }}", "6"),
        ("{{ rows }}", '[\n  1,\n  "é"\n]'),
        ("{{ row }}", '{\n  "a": 1\n}'),
        ("{{ text }}", "a\nb"),
    ],
)
def test_an_expression_in_double_braces_is_replaced_by_its_value(body: str, prompt: str) -> None:
    assert prompt_of(body, NAMES) == prompt


@pytest.mark.parametrize(
    "body",
    [
        "plain { braces } and {city} and $city and ${city}",
        '{"a": {"b": {"c": 1}}}',
        "\\frac{{1}}{{2}} and x^{{2}}",
        "a regex: [0-9]{{3}}",
        "{{ not closed",
        "{{ not closed }",
        "closed only }}",
        "{{}}",
        "{{ }}",
        "{{ .Values.name }} of a chart",
        "{{#each items}}x{{/each}}",
        "{{ a b }}",
        "{{ 'text' }} {{ 1.5 }} {{ [1, 2] }} {{ None }} {{ -1 }} {{ {'a': 1} }}",
        "{{ import os }}",
        "{{ x = 1 }}",
        "{% if city %}",
        "\\{ {",
        "{{ " + "city + " * 300 + "city }}",
    ],
)
def test_every_other_brace_passes_unchanged(body: str) -> None:
    assert prompt_of(body, NAMES) == body


def test_a_backslash_makes_the_braces_literal() -> None:
    assert prompt_of(r"\{{ city }} and {{ city }}", NAMES) == "{{ city }} and Bergen"
    assert prompt_of(r"\{{ unknown }}", NAMES) == "{{ unknown }}"


def test_values_are_never_expanded_again() -> None:
    assert prompt_of("{{ nested }}!", NAMES) == "{{ city }} {city}!"


def test_a_raw_cell_is_taken_as_it_is() -> None:
    assert prompt_of(r"{{ unknown }} \{{ city }}", NAMES, raw=True) == r"{{ unknown }} \{{ city }}"


def told(body: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        prompt_of(body, NAMES)
    assert caught.value.exit_code == 2
    return caught.value.lines()


def test_an_unknown_name_is_told_with_its_line_and_the_nearest_name() -> None:
    assert told("one\n\nIn {{ ctiy }}.") == [
        'unknown name "ctiy" in {{ ctiy }} (line 4); did you mean city?',
        r"write \{{ for a literal brace, or use --raw",
    ]
    assert told("{{ zzz_9 }}")[0] == 'unknown name "zzz_9" in {{ zzz_9 }} (line 2)'


def test_a_key_of_a_dict_written_as_an_attribute_is_told_how_to_write_it() -> None:
    assert told("{{ row.a }}") == [
        "{{ row.a }} failed (line 2): AttributeError: 'dict' object has no attribute 'a'",
        r'write ["a"] instead of .a; write \{{ for a literal brace, or use --raw',
    ]
    assert "in place of" not in told("{{ city.a }}")[1], "a text has no keys"


@pytest.mark.parametrize("name", ["input", "id", "type"])
def test_a_function_of_python_itself_is_a_name_that_was_forgotten(name: str) -> None:
    assert told(f"{{{{ {name} }}}}")[0] == f'unknown name "{name}" in {{{{ {name} }}}} (line 2)'
    assert prompt_of(f"{{{{ {name} }}}}", {name: "mine"}) == "mine"


@pytest.mark.parametrize("name", ["pritn", "lenn", "get_ipythn", "ouT", "_privat"])
def test_a_name_that_the_user_did_not_define_is_never_offered(name: str) -> None:
    around = {"get_ipython": print, "Out": {}, "_private": 1, "__builtins__": {}}
    with pytest.raises(ConfigError) as caught:
        prompt_of(f"{{{{ {name} }}}}", around)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{{ 1 / 0 * n }}", "{{ 1 / 0 * n }} failed (line 2): ZeroDivisionError: division by zero"),
        ("\n{{ row['b'] }}", "{{ row['b'] }} failed (line 3): KeyError: 'b'"),
        ("{{ fail() }}", "{{ fail() }} failed (line 2): KeyError: 'a\\nb'"),
        ("{{ broken }}", "{{ broken }} failed (line 2): ValueError: no words"),
        ("{{ f(\n\n) }}", "{{ f( ) }} failed (line 2): TypeError: "),
        ("{{ await f() }}", "{{ await f() }} failed (line 2): SyntaxError: "),
    ],
)
def test_an_expression_that_fails_is_told_in_one_line(body: str, message: str) -> None:
    first = told(body)[0]
    assert first.startswith(message)
    assert "\n" not in first


def test_a_long_expression_is_told_by_its_beginning() -> None:
    assert len(told("{{ zzz_9 + '" + "x" * 900 + "' }}")[0]) < 150


def test_an_odd_expression_warns_nobody() -> None:
    """Warnings are errors in these tests, and would spoil a notebook's stderr."""
    assert prompt_of(r"{{ n is 3 }} {{ '\d' + city }}", NAMES) == r"True \dBergen"


def test_the_cells_own_names_are_not_changed() -> None:
    before = dict(NAMES)
    assert prompt_of("{{ (new := n) }}", NAMES) == "3"
    assert before == NAMES


@pytest.mark.parametrize(
    "mark",
    [
        "# NBVAL_IGNORE_OUTPUT",
        "#NBVAL_SKIP",
        "  # NBVAL_RAISES_EXCEPTION",
        "## NBVAL_CHECK_OUTPUT",
        "### BEGIN SOLUTION",
        "# END SOLUTION ",
    ],
)
def test_lines_for_nbval_and_around_solutions_are_no_part_of_the_prompt(mark: str) -> None:
    assert prompt_of(f"{mark}\nHello\n{mark}\nyou\n{mark}", NAMES) == "Hello\nyou\n"
    assert prompt_of(f"{mark}\n{{{{ x", NAMES, raw=True) == "{{ x"


def test_other_comments_are_part_of_the_prompt() -> None:
    body = "# A heading\ntext # NBVAL_SKIP\n# about NBVAL_SKIP\n"
    assert prompt_of(body, NAMES) == body.removesuffix("\n")


def test_lines_are_those_of_the_editor_also_below_a_line_for_nbval() -> None:
    body = "# NBVAL_SKIP\n\none\n# NBVAL_CHECK_OUTPUT\n{{ ctiy }}"
    assert "(line 6)" in told(body)[0]


def test_a_value_that_looks_like_a_line_for_nbval_stays() -> None:
    names = {"mark": "# NBVAL_SKIP\n"}
    assert prompt_of("{{ mark }}", names) == "# NBVAL_SKIP\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (3, "3"),
        (None, "None"),
        ((1, 2), "[\n  1,\n  2\n]"),
        ({"a": {1, 2}}, '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        ({(1, 2): 3}, '{\n  "[1, 2]": 3\n}'),
        (RunResult(status="completed", text="so it is", agent="a", model="p/m"), "so it is"),
    ],
)
def test_a_value_is_written_as_a_model_reads_it_best(value: object, text: str) -> None:
    assert format_value(value) == text


def test_a_table_is_written_with_all_its_rows_and_columns() -> None:
    frame = pandas.DataFrame({f"c{i}": range(70) for i in range(30)})
    lines = format_value(frame).split("\n")
    assert lines[0].split(",") == [f"c{i}" for i in range(30)]
    assert [line.split(",") for line in lines[1:]] == [[str(row)] * 30 for row in range(70)]
    assert format_value(frame["c1"]).split("\n") == ["c1", *map(str, range(70))]


def test_a_large_table_is_cut_and_says_so() -> None:
    frame = pandas.DataFrame({f"c{i}": range(10_000, 11_000) for i in range(60)})
    text = format_value(frame)
    *table, note = text.split("\n")
    assert note == f"… {1000 - len(table) + 1} of 1,000 rows left out"
    assert 99_000 < len(text.encode()) <= 100_000
    assert format_value(frame["c1"]).endswith("\n10999")


@pytest.mark.parametrize(
    ("expression", "kind", "step"),
    [
        ("f", "function", "call it"),
        ("city.upper", "builtin_function_or_method", "call it"),
        ("Broken", "type", "name the part of it that you mean"),
        ("(i for i in rows)", "generator", "wrap it in list(…)"),
    ],
)
def test_what_has_no_words_is_told_instead_of_sent(expression: str, kind: str, step: str) -> None:
    assert told(f"a\n{{{{ {expression} }}}}") == [
        f"{{{{ {expression} }}}} is of type {kind}, which cannot be converted to text (line 3)",
        step + r"; write \{{ for a literal brace, or use --raw",
    ]


def test_a_value_without_end_is_cut_and_says_so() -> None:
    assert format_value("x" * 200_000) == "x" * 200_000
    assert format_value("x" * 200_007).endswith("x\n[7 more characters left out]")
    loop: list[object] = []
    loop.append(loop)
    assert format_value(loop) == '[\n  "… contains itself (list)"\n]'


@settings(deadline=None)
@given(st.text())
def test_a_text_without_double_braces_is_its_own_prompt(body: str) -> None:
    text = body.replace("{{", "").replace("NBVAL", "")
    assert prompt_of(text, {}) == text.removesuffix("\n")


@settings(deadline=None)
@given(st.text())
def test_any_value_arrives_as_it_is(value: str) -> None:
    assert prompt_of("<{{ v }}>", {"v": value}) == f"<{value}>"


@settings(deadline=None)
@given(st.text("{}\\ an+'\n", max_size=30))
def test_no_body_does_anything_but_become_a_prompt_or_a_config_error(body: str) -> None:
    try:
        prompt = prompt_of(body, {"a": 1})
    except ConfigError as error:
        prompt = str(error)
    assert json.dumps(prompt)


def test_results_in_lists_and_dictionaries_are_their_whole_answers() -> None:
    long = "word " * 100
    result = RunResult(status="completed", text=long, agent="a", model="script/a")
    assert json.loads(prompt_of("{{ rs }}", {"rs": [result]})) == [long]
    assert json.loads(prompt_of("{{ d }}", {"d": {"a": result}})) == {"a": long}
