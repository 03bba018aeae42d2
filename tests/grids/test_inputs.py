"""The inputs of a grid, in each form that people have them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_inputs import label_inputs, read_inputs

pytestmark = pytest.mark.req("E-5")

ROWS = [{"city": "Rome", "year": 753}, {"city": "Paris", "year": 987}]


@pytest.mark.parametrize(
    "given",
    [ROWS, tuple(ROWS), iter(ROWS), pd.DataFrame(ROWS), pl.DataFrame(ROWS)],
    ids=["list", "tuple", "iterator", "pandas", "polars"],
)
def test_rows_are_names_and_values(given: Any) -> None:
    assert read_inputs(given) == ROWS


def test_plain_values_have_a_name_and_no_inputs_are_one_row() -> None:
    assert read_inputs(["a", 3]) == [{"input": "a"}, {"input": 3}]
    assert read_inputs(None) == [{}]


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
        ("a.csv", "a,b\n1,2\n1,2,3\n", r'inputs "a.csv", line 3: 3 values for 2 columns'),
        ("a.csv", "a,b\n1,2\n1\n", r'inputs "a.csv", line 3: 1 value for 2 columns'),
        ("a.csv", "a,a\n1,2\n", r'inputs "a.csv": the first line must name each column once'),
        ("a.csv", 'a\n"x', r'inputs "a.csv", line 2: '),
        ("a.csv", "a,b\n", "there are no inputs"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', r'inputs "a.jsonl", line 2: not JSON'),
        ("a.jsonl", "[" * 100_000, r'inputs "a.jsonl", line 1: not JSON'),
        ("a.txt", "a", r"not a .csv or .jsonl file"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=told):
        read_inputs(tmp_path / name)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'inputs "no.csv": '):
        read_inputs(tmp_path / "no.csv")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "there are no inputs"),
        ({"a": 1}, "not dict"),
        (7, "not int"),
        (b"x", "not bytes"),
        ([{1: "x"}], "input 0: the column name 1 is not text"),
        ([{None: 1}], "input 0: the column name None is not text"),
        (pd.DataFrame([[1, 2]]), "input 0: the column name 0 is not text"),
        (np.array(5), "inputs takes a list"),
    ],
)
def test_what_is_no_list_of_inputs_is_told(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_inputs(given)


def test_labels_are_the_first_column_that_tells_inputs_apart() -> None:
    rows = [{"kind": "x", "city": "Rome"}, {"kind": "x", "city": "Paris"}]
    assert label_inputs(rows) == ("Rome", "Paris")
    assert label_inputs([{"a": 1}, {"a": 1}]) == ("0", "1")
    assert label_inputs([{}]) == ("0",)
