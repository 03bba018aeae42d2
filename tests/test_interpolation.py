"""A cell's body becomes a prompt; values are written alike there and as results of tools."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.commands.option_table import RUN
from axe_nb.commands.parser import parse_run
from axe_nb.conversion.interpolation import prompt_of
from axe_nb.errors import ConfigError
from axe_nb.notebook.option_line import read_words
from axe_nb.results import RunResult
from axe_nb.tools.python_tool import tool_of
from tests.calls import run
from tests.values.samples import Broken, Plain

pytestmark = pytest.mark.req("D-40")


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
        ("In {{ city }}.", "In Bergen."), ("{{ city }}{{ n }}", "Bergen3"),
        ("{{ city.upper()[:3] }}", "BER"), ("{{ f(2, y=n) }}", "6"),
        ("{{ [x for x in rows if x == n - 2] }}", "[\n  1\n]"), ("{{ {'k': n}['k'] }}", "3"),
        ("{{ '}}' + city }}", "}}Bergen"), ("{{ f(\n  2) }}", "2"),
        ("{{ nested }}!", "{{ city }} {city}!"),
        ("{{ rows }}", '[\n  1,\n  "é"\n]'), ("{{ row }}", '{\n  "a": 1\n}'),
    ],
)  # fmt: skip
def test_an_expression_in_double_braces_is_replaced_by_its_value(body: str, prompt: str) -> None:
    assert prompt_of(body, NAMES) == prompt


@pytest.mark.parametrize(
    "body",
    [
        "plain { braces } and {city} and $city and ${city}", '{"a": {"b": {"c": 1}}}',
        "\\frac{{1}}{{2}} and x^{{2}}", "a regex: [0-9]{{3}}", "{{ not closed", "{{}}",
        "{{ .Values.name }} of a chart", "{{#each items}}x{{/each}}", "{{ a b }}",
        "{{ 'text' }} {{ 1.5 }} {{ [1, 2] }} {{ None }} {{ -1 }} {{ {'a': 1} }}", "{{ import os }}",
        "{{ " + "city + " * 300 + "city }}",
    ],
)  # fmt: skip
def test_every_other_brace_passes_unchanged(body: str) -> None:
    assert prompt_of(body, NAMES) == body


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


@pytest.mark.parametrize(
    "mark",
    [
        "# NBVAL_IGNORE_OUTPUT", "#NBVAL_SKIP", "  # NBVAL_RAISES_EXCEPTION",
        "## NBVAL_CHECK_OUTPUT", "### BEGIN SOLUTION", "# END SOLUTION ",
    ],
)  # fmt: skip
def test_lines_for_nbval_and_around_solutions_are_no_part_of_the_prompt(mark: str) -> None:
    assert prompt_of(f"{mark}\nHello\n{mark}\nyou\n{mark}", NAMES) == "Hello\nyou\n"
    assert prompt_of(f"{mark}\n{{{{ x", NAMES, raw=True) == "{{ x"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("f", "function"), ("city.upper", "builtin_function_or_method"), ("Broken", "type"),
        ("(i for i in rows)", "generator"),
    ],
)  # fmt: skip
def test_what_has_no_words_is_told_instead_of_sent(expression: str, kind: str) -> None:
    assert told(f"a\n{{{{ {expression} }}}}")[0] == (
        f"{{{{ {expression} }}}} is of type {kind}, which cannot be converted to text (line 3)"
    )


@settings(deadline=None)
@given(st.text("{}\\ an+'\n", max_size=30))
def test_no_body_does_anything_but_become_a_prompt_or_a_config_error(body: str) -> None:
    try:
        prompt = prompt_of(body, {"a": 1})
    except ConfigError as error:
        prompt = str(error)
    assert json.dumps(prompt)


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
CSV = "a,b\n1,x\n2,"


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ("{{ frame }}", CSV),
        ("Read {{ frame }}", f"Read\n{CSV}"),
        ("Read {{ frame }} and say", f"Read\n{CSV}\n and say"),
        ("Read\n{{ frame }}\nand say", f"Read\n{CSV}\nand say"),
        ("Read\n  {{ frame }}  \nand say", f"Read\n{CSV}  \nand say"),
        ("{{ frame }}{{ frame }}", f"{CSV}\n\n{CSV}".replace("\n\n", "\n")),
        ("{{ n }}{{ frame }}.", f"3\n{CSV}\n."),
        ("all: {{ [n] }}!", "all:\n[\n  3\n]\n!"),
        ("of {{ text }}!", "of a\nb!"),
        ("of {{ answer }}!", "of so\nit is!"),
        ("of {{ array }}!", "of [1, 2]!"),
    ],
)
def test_data_of_several_lines_stands_on_lines_of_its_own(body: str, prompt: str) -> None:
    answer = RunResult(status="completed", text="so\nit is", agent="a", model="p/m")
    names = {"frame": FRAME, "n": 3, "text": "a\nb", "answer": answer, "array": np.array([1, 2])}
    assert prompt_of(body, names) == prompt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (FRAME, CSV),
        ({"n": np.int64(3), "x": float("nan"), "s": {"b"}}, '{"n": 3, "x": null, "s": ["b"]}'),
        (float("nan"), "null"),
        (Plain(), '"<Plain object>"'),
        (RunResult(status="completed", text="so it is", agent="a", model="p/m"), "so it is"),
        (RunResult(status="failed", text="", agent="a", model="p/m", error="no key"), "no key"),
    ],
)  # fmt: skip
def test_the_result_of_a_tool_is_written_alike(tmp_path: Path, value: Any, text: str) -> None:
    def give() -> Any:
        return value

    assert run(tool_of(give), tmp_path) == text


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (np.float64(0.25), 0.25),
        (np.int64(7), 7),
        (["a", "b"], ["a", "b"]),
        (np.array([1, 2]), [1, 2]),
        ({"type": "json", "on": True}, {"type": "json", "on": True}),
        (True, True),
        ("text", "text"),
    ],
)
def test_a_parameter_has_the_value_of_its_variable(value: Any, param: Any) -> None:
    words = read_words(RUN, "cell", "a --param x={value}", {"value": value})
    options = parse_run(words, "cell")
    assert options.overrides.params == {"x": param}
    assert json.dumps(options.overrides.params)
