"""What becomes of each kind of value; any of them becomes a text that is bounded and valid.

It has no addresses, is the same everywhere, and says what is missing.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axe_nb.conversion.value_text import NoText, encode, to_data, write_json, write_text
from axe_nb.text import count_bytes
from tests.values.samples import (
    WORDS,
    Address,
    Broken,
    Colour,
    Named,
    Plain,
    Point,
    Trip,
    make_samples,
)

DATA: list[tuple[Any, Any]] = [
    ([float("nan"), float("inf"), Decimal("NaN"), Decimal("1.1")], [None, "Infinity", None, "1.1"]),
    ([date(2024, 1, 2), datetime(2024, 1, 2, 3)], ["2024-01-02", "2024-01-02T03:00:00"]),
    ([timedelta(1), 10**5000], ["1 day, 0:00:00", "<an integer of 16,610 bits>"]),
    ([b"abc", b"\x89PNG\r\n\x1a\n"], ["<3 bytes>", "<a picture: PNG>"]),
    ([Trip("Ulm"), Point(1, 2), Colour.RED], [{"to": "Ulm", "days": 1}, {"x": 1, "y": 2}, "red"]),
    (Address(street="s", tags=WORDS), {"street": "s", "tags": sorted(WORDS)}),
    ([{10, 9, 1}, {"10", 9, (1,)}], [[1, 9, 10], ["10", 9, [1]]]),
    ({1: "a", "1": "b", None: "d", (1, 2): "e"},
     {"1": "a", "1 (str)": "b", "null": "d", "[1, 2]": "e"}),
    (np.array([[0.1, np.nan]], "f4"), [[0.1, None]]),
    (np.array(["2024", "NaT"], "M8[D]"), ["2024-01-01", None]),
    ({"mean": np.ma.masked_array([1], [1]).mean()}, {"mean": None}),
    ([np.int64(3), np.bool_(True), np.timedelta64(5, "D")], [3, True, "5 days"]),
    ([pd.NaT, pd.NA, pd.Timestamp("2024-01-02"), pd.Period("2024-01")],
     [None, None, "2024-01-02T00:00:00", "2024-01"]),
    ([pd.Categorical(["a", None]), pd.Series([1, 2])], [["a", None], [1, 2]]),
    ({"f": pd.DataFrame([[1, 2]], columns=["a", "a"])},
     {"f": {"columns": ["a", "a"], "rows": [[1, 2]]}}),
    ([pl.Series([[1], None])], [[[1], None]]),
    ([SimpleNamespace(a=1), ValueError("v"), KeyError()], [{"a": 1}, "ValueError: v", "KeyError"]),
    ([Plain(), Broken(), len], ["<Plain object>", "<Broken object>", "<built-in function len>"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "data"), DATA)
def test_a_value_within_data_is_written_as_json(value: Any, data: Any) -> None:
    assert to_data(value, 100_000) == data


TEXTS: list[tuple[Any, str]] = [
    (Decimal("1.10"), "1.10"), (date(2024, 1, 2), "2024-01-02"), (float("nan"), "null"),
    (np.float32(0.1), "0.1"), (np.bool_(True), "True"),
    (np.arange(4).reshape(2, 2), "[[0, 1], [2, 3]]"),
    (np.array([(1, (0.1,))], [("n", int), ("in", [("x", "f4")])]), '[{"n": 1, "in": {"x": 0.1}}]'),
    (np.rec.array([(1, "a")], [("n", int), ("s", "U1")])[0], '{"n": 1, "s": "a"}'),
    (pd.DataFrame({"a": [1, 2], "b": ["x,y", None], "c": ["", 'say "hi"']}),
     'a,b,c\n1,"x,y",""\n2,,"say ""hi"""'),
    (pd.DataFrame({"a": [1.5]}, index=pd.Index(["r"], name="row")), "row,a\nr,1.5"),
    (pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, "q")])),
     "level 0,level 1,a\n1,q,1"),
    (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "")])),
     "a / x,b\n1,2"),
    (pd.DataFrame({"d": [[1, {"k": 2}]], "t": pd.to_datetime(["2024"])}),
     'd,t\n"[1, {""k"": 2}]",2024-01-01T00:00:00'),
    (pd.Series([1, 2], index=["x", "y"], name="n"), "index,n\nx,1\ny,2"),
    (pd.DataFrame({"i": pd.array([1, None], "Int64"), "f": np.array([0.1, 2], "f4")}),
     "i,f\n1,0.1\n,2.0"),
    (pd.DataFrame(index=range(3)), "(an empty table: 3 rows, no columns)"),
    (pl.DataFrame({"a": [[1], None], "b": [{"x": 1}, None]}), 'a,b\n[1],"{""x"": 1}"\n,'),
    (pl.Series("q", ["a", None]), "q\na\n"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_a_value_alone_is_text_a_table_or_json(value: Any, text: str) -> None:
    assert write_text(value) == text


class Figure:
    def _repr_png_(self) -> bytes:
        return b"\x89PNG"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"abc", "is of type bytes, which cannot be converted to text: decode it"),
        (b"\xff\xd8\xff\xe0", "is a picture (JPEG), which cannot be sent as text"),
        (Figure(), "is a picture (Figure), which cannot be sent as text"),
        (Plain(), "is of type Plain, which cannot be converted to text"),
        (map(str, [1]), "is of type map, which cannot be converted to text"),
    ],
)
def test_a_value_without_a_text_is_refused(value: Any, told: str) -> None:
    with pytest.raises(NoText) as caught:
        write_text(value)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "value",
    [
        np.broadcast_to(np.float64(0.5), (10**9, 3)),
        pd.DataFrame(np.broadcast_to(np.float64(0.5), (10**9, 3)), copy=False),
        pl.DataFrame({"a": pl.int_range(0, 10**6, eager=True)}),
        range(10**12),
    ],
)
def test_only_as_much_of_large_data_is_converted_as_fits(value: Any) -> None:
    """Converted whole, most of these would need hundreds of gigabytes."""
    assert 95_000 < len(write_text(value).encode()) <= 100_000
    assert len(json.dumps(to_data([value], 1000))) < 1100


def test_a_table_that_does_not_fit_names_the_rows_and_columns_that_are_missing() -> None:
    frame = pd.DataFrame({"n": range(100_000, 200_000), "text": "word"})
    *lines, note = write_text(frame).split("\n")
    assert note == f"… {100_001 - len(lines):,} of 100,000 rows left out"
    assert lines[-1] == f"{100_000 + len(lines) - 2},word"
    frame = pd.DataFrame(np.full((1000, 5000), 0.25), columns=[f"c{at}" for at in range(5000)])
    text = write_text(frame)
    header, *rows, note = text.split("\n")
    kept = header.count(",") + 1
    assert note == (
        f"… {1000 - len(rows)} of 1,000 rows and {5000 - kept:,} of 5,000 columns "
        f"(c{kept}, c{kept + 1} and {5000 - kept - 2:,} more) left out"
    )


def test_a_table_that_fits_is_whole_however_wide_or_long() -> None:
    wide = pd.DataFrame([range(9000)], columns=[f"{at:04}" for at in range(9000)])
    assert len(next(csv.reader(io.StringIO(write_text(wide))))) == 9000
    long = pl.DataFrame({"n": range(16_000)})
    assert write_text(long).split("\n")[1:] == [str(at) for at in range(16_000)]
    cell = pd.DataFrame({"text": ["x" * 99_000]})
    assert write_text(cell) == "text\n" + "x" * 99_000


def test_data_that_does_not_fit_names_what_is_missing() -> None:
    data = to_data({"rows": list(range(1000)), "text": "x" * 1000, "end": 1}, 1000)
    *rows, note = data["rows"]
    assert rows == list(range(len(rows)))
    assert note == f"… {1000 - len(rows)} of 1,000 items left out"
    many = to_data({f"k{at}": at for at in range(1000)}, 1000)
    *names, last = many
    assert last == "…"
    assert many["…"] == (
        f"{1000 - len(names)} of 1,000 entries left out: k{len(names)}, k{len(names) + 1}, "
        f"k{len(names) + 2} and {1000 - len(names) - 3} more"
    )
    assert to_data("x" * 2000, 1000).endswith("more characters left out]")
    inner: list[Any] = [1]
    inner.append([inner, [2], [2]])
    assert to_data(inner, 1000) == [1, ["… contains itself (list)", [2], [2]]]


def test_no_library_is_imported_for_a_value() -> None:
    code = (
        "import sys; from axe_nb.conversion.value_text import write_text;"
        "write_text({'a': [1.5, {2}]});"
        "print([name for name in ('numpy', 'pandas', 'polars', 'pydantic')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_a_text_with_very_many_blanks_takes_no_longer() -> None:
    class Wide:
        def __repr__(self) -> str:
            return " " * 200_000 + "end at 0x7f00"

    began = time.process_time()
    assert "left out" in write_json([Wide()])
    assert time.process_time() - began < 5  # quadratic: 70


ODD = [Plain, Plain(), Named(), print, WORDS, Colour.RED, re, pd.NaT]
words = st.text(st.characters(exclude_characters="xX"), max_size=8)  # also half a character
hashable = st.none() | words | st.integers() | st.floats() | st.dates() | st.booleans()


def hold(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=4)
    return (
        some
        | some.map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=5)
        | st.builds(Trip, inner)
        | st.builds(Point, inner, inner)
        | some.map(lambda made: pd.Series(made, dtype=object))
        | some.map(lambda made: pd.DataFrame({"x": made}, dtype=object))
    )


SAMPLES = [*ODD, *make_samples()]
samples = st.integers(0, len(SAMPLES) - 1).map(lambda at: SAMPLES[at])
values = st.recursive(samples | hashable, hold, max_leaves=8)


def has_address(text: str) -> bool:
    """True if a text has an address of the values above; any integer may look like one."""
    own = [form for value in ODD for form in (str(id(value)), f"{id(value):x}")]
    return re.search("0x[0-9a-f]{6,}", text) is not None or any(form in text for form in own)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not valid JSON")


@settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=list(HealthCheck)
)
@given(values, st.sampled_from([1000, 100_000]))
def test_any_nested_value_is_bounded_valid_and_without_addresses(value: Any, limit: int) -> None:
    text = encode(to_data(value, limit))
    json.loads(text, parse_constant=refuse)
    assert count_bytes(text) <= limit
    assert not has_address(text)
    assert text == encode(to_data(value, limit))
    for write in (write_text, write_json, partial(write_text, indent=2)):
        try:
            written = write(value, limit)
        except NoText as error:
            written = str(error)
        assert isinstance(value, str) or count_bytes(written) <= limit
        assert not has_address(written)


def test_texts_are_the_same_in_every_process() -> None:
    """Sets of text have another order with another hash seed, objects another address."""
    written = {
        subprocess.run(
            [sys.executable, "-m", "tests.values.samples"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(written) == 1
    assert len(written.pop().splitlines()) == len(make_samples())
