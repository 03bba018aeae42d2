"""Parsed expectations: clauses, their subjects and tests.

Source: D-67.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from axe_nb.expectations.table import Kind, Measure
from axe_nb.text import suggestion

if TYPE_CHECKING:
    import regex

NUMERIC = ("==", "!=", "<", "<=", ">", ">=")
TEXTUAL = ("==", "!=", "~", "!~", "contains")
OPERATORS = (*NUMERIC, *TEXTUAL[2:])
ORDERING = ("<", "<=", ">", ">=")
OF_KIND: Mapping[Kind, tuple[str, ...]] = {
    "number": NUMERIC, "text": TEXTUAL, "list": OPERATORS, "data": OPERATORS,
}  # fmt: skip
"""Kind of a measure → its operators."""

Step: TypeAlias = str | int
"""A key or an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The value that something is compared with."""

    text: str
    """As it is written, without quotes."""
    number: float | None = None
    pattern: regex.Pattern[str] | None = None
    is_bare: bool = False
    """True for a word without quotes, which may be `true`, `false` or `null`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """A comparison; without an operator, the thing has to exist."""

    operator: str = ""
    value: Value = Value(text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition in parentheses, on an argument of a call or a measure of a run."""

    path: tuple[Step, ...]
    test: Test


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The agent, tool or measure that an expectation is about."""

    name: str
    kind: Literal["", "agent", "tool"] = ""
    """Empty = not given."""
    conditions: tuple[Condition, ...] = ()
    path: tuple[Step, ...] = ()
    """For `data`: the part of it."""
    measure: Measure | None = None
    """None = an agent or a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One expectation."""

    words: str
    """As it is written."""
    is_negated: bool
    subjects: tuple[Subject, ...]
    """More than one = in this order, or in parallel."""
    test: Test
    is_parallel: bool


def find_advice(measure: Measure, test: Test) -> str:
    """The next step for a test that a measure cannot have; empty if it can."""
    operators, value = OF_KIND[measure.kind], test.value
    if test.operator and test.operator not in operators:
        return f"compare it with {' '.join(operators)}"
    if test.operator and measure.kind == "number" and value.number is None:
        return "compare it with a number"
    if measure.kind == "text" and value.number is not None:
        return "write the text in quotes"
    if test.operator in ("==", "!=") and measure.choices and value.text not in measure.choices:
        return suggestion(value.text, measure.choices) or f"one of {', '.join(measure.choices)}"
    return ""
