"""Any value becomes a text that is bounded, valid, without addresses, and the same everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axe_nb.conversion.value_text import NoText, encode, to_data, write_json, write_text
from axe_nb.text import count_bytes, cut_bytes
from tests.values.samples import (
    WORDS,
    Address,
    Colour,
    Named,
    Plain,
    Point,
    Trip,
    make_samples,
)  # fmt: skip

ADDRESS = re.compile(r"0x[0-9a-f]{6,}|\b1[34]\d{13}\b|\b7[ef][0-9a-f]{10}\b")

words = st.text(st.characters(exclude_characters="xX"), max_size=8)  # also half a character
plain_words = st.text(st.characters(codec="utf-8", exclude_characters="xX"), max_size=8)
numbers = st.floats() | st.integers() | st.decimals() | st.fractions() | st.complex_numbers()
times = st.datetimes() | st.dates() | st.times() | st.timedeltas()
ODD = [Plain, Plain(), Named(), print, WORDS, Colour.RED, re, pd.NaT]
odd = st.sampled_from(ODD)
single = (
    st.none() | st.booleans() | words | st.binary(max_size=8) | numbers | times | st.uuids() | odd
)
hashable = st.none() | words | st.integers() | st.floats() | st.dates() | st.booleans()
rows = st.lists(st.tuples(plain_words | st.none(), st.floats(width=32), st.dates()), max_size=4)
columns = rows.map(lambda rows: {name: [row[at] for row in rows] for at, name in enumerate("abc")})
arrays = st.lists(st.floats(width=32) | st.integers(-9, 9), max_size=6)


def hold(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=5)
        | st.builds(Trip, inner)
        | st.builds(Point, inner, inner)
        | st.lists(inner, max_size=3).map(lambda made: pd.Series(made, dtype=object))
        | st.lists(inner, max_size=3).map(lambda made: pd.DataFrame({"x": made}, dtype=object))
    )


values = st.recursive(
    single
    | arrays.map(np.array)
    | arrays.map(lambda made: pl.Series("s", made, pl.Float64, strict=False))
    | columns.map(pd.DataFrame)
    | columns.map(pl.DataFrame)
    | st.builds(Address, street=plain_words, tags=st.sets(plain_words)),
    hold,
    max_leaves=8,
)


def has_address(text: str) -> bool:
    """True if a text has an address of the values above; any integer may look like one."""
    own = [form for value in ODD for form in (str(id(value)), f"{id(value):x}")]
    return re.search("0x[0-9a-f]{6,}", text) is not None or any(form in text for form in own)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not valid JSON")


@settings(
    deadline=None, derandomize=True, max_examples=150, suppress_health_check=list(HealthCheck)
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


SAMPLES = make_samples()
OTHERS = make_samples()


@pytest.mark.parametrize("at", range(len(SAMPLES)))
@pytest.mark.parametrize("limit", [1000, 100_000])
def test_every_kind_of_value_has_a_text_without_addresses(at: int, limit: int) -> None:
    for value, other in ((SAMPLES[at], OTHERS[at]), ([SAMPLES[at]] * 3, [OTHERS[at]] * 3)):
        text = encode(to_data(value, limit))
        json.loads(text, parse_constant=refuse)
        assert count_bytes(text) <= limit
        assert not ADDRESS.search(text)
        assert text == encode(to_data(other, limit))
        assert "unreadable" not in text


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
    assert len(written.pop().splitlines()) == len(SAMPLES)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.lists(plain_words, min_size=3, max_size=3), max_size=60), st.integers(1000, 4000)
)
def test_any_table_is_bounded_and_says_what_is_missing(rows: list[list[str]], limit: int) -> None:
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    text = write_text(frame, limit)
    assert count_bytes(text) <= limit
    assert len(text) == len(cut_bytes(text, limit))
    assert text.startswith("a,b,c")
    is_whole = count_bytes(write_text(frame, 1_000_000)) <= limit
    assert text.endswith("left out") != is_whole or not rows
