"""One value of each kind that people put into prompts, and hostile ones.

As a program: prints the text of each, for comparison with that of another process.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import types
import uuid
from collections import Counter, deque, namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pydantic

from axe_nb.conversion.value_text import encode, to_data
from axe_nb.results import RunResult


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1


class Access(Flag):
    READ = 1
    WRITE = 2


class Plain:
    def method(self) -> None: ...


class Named:
    def __str__(self) -> str:
        return f"a name ({object.__repr__(self)}, {id(self)}, {id(self):x}, {hex(id(self))})"


class Broken:
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@dataclasses.dataclass
class Trip:
    to: Any
    days: int = 1


Point = namedtuple("Point", ["x", "y"])


class Address(pydantic.BaseModel):
    street: str
    tags: set[str] = set()


class Person(pydantic.BaseModel):
    name: str
    born: date
    key: pydantic.SecretStr = pydantic.SecretStr("k")
    addresses: list[Address] = []
    friend: Person | None = None


class Holder(pydantic.BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    what: Any


WORDS = {"alpha", "beta", "gamma", "delta", "epsilon"}


def make_loop() -> list[Any]:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    return loop


def make_deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


def make_recursive_trip() -> Trip:
    trip = Trip("home")
    trip.to = trip
    return trip


def make_recursive_person() -> Person:
    person = Person(name="a", born=date(2000, 1, 1))
    person.friend = person
    return person


def make_samples() -> list[Any]:
    plain = Plain()
    return [
        None, True, 3, -0.5, float("nan"), float("inf"), -float("inf"), 10**5000, "text", "é\ud800",
        b"abc", bytearray(b"a"), memoryview(b"ab"), b"\x89PNG\r\n\x1a\n1234", Decimal("1.10"),
        Decimal("NaN"), Fraction(1, 3), 1 + 2j, date(2024, 1, 2), datetime(2024, 1, 2, tzinfo=UTC),
        time(1, 2), timedelta(days=1), uuid.UUID(int=5), PurePosixPath("a/b"), range(3),
        Colour.RED, Size.SMALL, Access.READ | Access.WRITE, [1, [2, (3,)]], {"a": {"b": None}},
        {1: 2, "1": 3, None: 4, (1, 2): 5, date(2024, 1, 1): 6}, WORDS, frozenset({1, 10, 9}),
        {1, "a", (1, 2), frozenset(WORDS)}, {0.5, float("nan")}, deque([1]), Counter("aab"),
        {"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items(),
        types.SimpleNamespace(a=plain), types.MappingProxyType({"a": 1}), Point(1, {2}),
        Trip("Ulm"),
        ValueError("wrong", plain), KeyError(),
        Person(name="a", born=date(2000, 1, 1), addresses=[Address(street="s", tags=WORDS)]),
        Holder(what=plain), make_recursive_person(), make_recursive_trip(), make_loop(),
        make_deep(),
        Broken(), Named(), plain, Plain, plain.method, print, lambda: 1, types, (n for n in [1]),
        iter([1]), threading.Lock(), threading.current_thread(), partial(print, plain), RunResult,
        RunResult(status="completed", text="so it is", agent="a", model="p/m"),
        np.int8(3), np.float32(0.1), np.float64("nan"), np.bool_(True), np.str_("a"),
        np.bytes_(b"a"), np.datetime64("2024-01-02"), np.datetime64("NaT", "s"),
        np.timedelta64(5, "D"), np.complex64(1j), np.arange(6).reshape(2, 3),
        np.array([0.1, np.nan], "f4"), np.array(5), np.array([]),
        np.array(["2024", "NaT"], "M8[ns]"), np.array([(1, "a")], [("x", "i4"), ("y", "U3")]),
        np.ma.masked_array([1, 2], [0, 1]), np.array([plain, None, {2, 1}]),
        pd.DataFrame({
            "a": [1, 2], "b": ["x,y", None], "c": pd.to_datetime(["2024", None]),
            "d": [[1, {"k": WORDS}], ""], "e": [plain, b"x"],
        }),
        pd.DataFrame(), pd.DataFrame(index=range(3)), pd.DataFrame({"a": [1.5]}, index=["r"]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.Series([1, None], name="s"),
        pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, "q")], names=["k", None])),
        pd.DataFrame({
            "i": pd.array([1, None], "Int64"), "f": pd.array([0.1, None], "Float32"),
            "c": pd.Categorical(["a", None]), "b": pd.array([True, None], "boolean"),
            "p": pd.period_range("2024-01", periods=2, freq="M"),
            "t": pd.to_timedelta([1, None], "D"), "v": pd.interval_range(0, 2),
            "w": pd.to_datetime(["2024", "2025"]).tz_localize("UTC"),
        }),
        pd.Index([1, 2]), pd.Categorical(["a", None]), [pd.NaT, pd.NA, pd.Timestamp("2024")],
        pd.DataFrame({"x": [1]}).groupby("x"), {"frame": pd.DataFrame({"a": [1], "b": [2]})},
        pl.DataFrame({
            "a": [[1, 2], None], "b": [{"x": 1}, {"x": None}], "c": [date(2024, 1, 1), None],
            "d": [Decimal("1.5"), None], "e": ["", None], "f": [b"x", None],
        }),
        pl.DataFrame(),
        pl.Series(["a", "b"], dtype=pl.Categorical), pl.DataFrame({"a": [1]}).lazy(),
        pl.col("a"), pl.Int8,
    ]  # fmt: skip


if __name__ == "__main__":
    for sample in make_samples():
        print(json.dumps([encode(to_data(sample, 100_000)), encode(to_data([sample], 1000))]))
