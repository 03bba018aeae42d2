"""What a grid compares: its variants with their names, its inputs in each form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from axe_nb import Agent
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid import label_inputs
from axe_nb.exploring.run_grid import make_variants, read_inputs

pytestmark = pytest.mark.req("E-5")

B = Agent(name="b", model="script/x")
LONG = "openrouter/anthropic/claude-sonnet-5-5-2026"


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (("a", None, None, "p"), ["a"]),
        ((["a", B], None, None, "p"), ["a", "b"]),
        (("a", ["m/1", "m/2"], {"temperature": 0}, "p"), ["m/1", "m/2"]),
        ((["a", B], ["m/1", "m/2"], None, "p"), ["a · m/1", "a · m/2", "b · m/1", "b · m/2"]),
        (
            ("a", None, [{}, {"temperature": 0}], {"short": "p", "long": "q"}),
            ["no params · short", "no params · long", "temperature=0 · short",
             "temperature=0 · long"],
        ),
        (("a", None, {"cold": {"n": 0}, "hot": {"n": 1}}, "p"), ["cold", "hot"]),
        ((None, ["m/1", "m/2"], None, ["p", "q"]),
         ["m/1 · prompt 0", "m/1 · prompt 1", "m/2 · prompt 0", "m/2 · prompt 1"]),
        (("a", [f"{LONG}-1", f"{LONG}-2", "m/1"], None, "p"), [f"{LONG}-1", f"{LONG}-2", "m/1"]),
    ],
)  # fmt: skip
def test_a_variant_is_named_by_what_it_differs_in(given: Any, labels: list[str]) -> None:
    assert [variant.label for variant in make_variants(*given)] == labels


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (([], None, None, "p"), "agents is empty"),
        ((["a", "a"], None, None, "p"), "agents contains a twice"),
        (("a", [f"{LONG}-1", f"{LONG}-1"], None, "p"), f"models contains {LONG}-1 twice"),
        (("a", 7, None, "p"), "models takes one value or a list, not int"),
    ],
)
def test_what_makes_no_variants_is_told(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_variants(*given)


ROWS = [{"city": "Rome", "year": 753}, {"city": "Paris", "year": 987}]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (ROWS, ROWS), (iter(ROWS), ROWS), (pd.DataFrame(ROWS), ROWS), (pl.DataFrame(ROWS), ROWS),
        (["a", 3], [{"input": "a"}, {"input": 3}]), (None, [{}]),
    ],
    ids=["list", "iterator", "pandas", "polars", "plain values", "none"],
)  # fmt: skip
def test_inputs_are_rows_of_names_and_values(given: Any, rows: Any) -> None:
    assert read_inputs(given) == rows


def test_files_are_read(tmp_path: Path) -> None:
    table, lines = tmp_path / "cities.csv", tmp_path / "cities.jsonl"
    table.write_text('\ufeffcity,note\nRome,"two\nlines, one comma"\n\nParis,\n', "utf-8")
    lines.write_text('{"city": "Rome"}\n\n{"city": "a\u2028b"}\n"plain"\n', "utf-8")
    assert read_inputs(str(table)) == [
        {"city": "Rome", "note": "two\nlines, one comma"},
        {"city": "Paris", "note": ""},
    ]
    assert read_inputs(lines) == [{"city": "Rome"}, {"city": "a\u2028b"}, {"input": "plain"}]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "a,b\n1,2\n1,2,3\n", r'inputs "a.csv", line 3: expected 2 values'),
        ("a.csv", "a,b\n1,2\n1\n", r'inputs "a.csv", line 3: expected 2 values'),
        ("a.csv", "a,a\n1,2\n", r'inputs "a.csv": the first line must name each column once'),
        ("a.csv", 'a\n"x', r'inputs "a.csv", line 2: '),
        ("a.csv", "a,b\n", "there are no inputs"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', r'inputs "a.jsonl", line 2: not JSON'),
        ("a.jsonl", "[" * 100_000, r'inputs "a.jsonl", line 1: not JSON'),
        ("a.txt", "a", r"not a .csv or .jsonl file"),
        ("a.csv", None, r'inputs "a.csv": '),
    ],
)
def test_a_wrong_file_is_told_with_its_line(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=told):
        read_inputs(tmp_path / name)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "there are no inputs"), ({"a": 1}, "not dict"), (7, "not int"), (b"x", "not bytes"),
        ([{1: "x"}], "input 0: the column name 1 is not text"),
        (pd.DataFrame([[1, 2]]), "input 0: the column name 0 is not text"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_inputs_is_told(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_inputs(given)


def test_labels_are_the_first_column_that_tells_inputs_apart() -> None:
    rows = [{"kind": "x", "city": "Rome"}, {"kind": "x", "city": "Paris"}]
    assert label_inputs(rows) == ("Rome", "Paris")
    assert label_inputs([{"a": np.int64(1)}, {"a": 1}]) == ("0", "1")
    assert label_inputs([{}]) == ("0",)
