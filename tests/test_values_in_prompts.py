"""Values in prompts, as parameters, and as results of tools: one way to write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from axe_nb.commands.command_table import RUN
from axe_nb.commands.parser import parse_run
from axe_nb.conversion.interpolation import prompt_of
from axe_nb.notebook.option_line import read_words
from axe_nb.results import RunResult
from axe_nb.session.overrides import Overrides
from axe_nb.tools.python_tool import tool_of
from tests.calls import run
from tests.values.samples import Plain

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
def test_the_result_of_a_tool_is_written_in_the_same_way(
    tmp_path: Path, value: Any, text: str
) -> None:
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
    assert Overrides(params={"x": value}).params == {"x": param}
    assert json.dumps(Overrides(params={"x": value}).params)
