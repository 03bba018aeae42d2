"""The language of expectations: a text becomes clauses, before anything is sent.

A clause is `NAME`, `no NAME`, or `NAME OPERATOR VALUE`, the last also with `, parallel`.
Source: D-67.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from axe_nb.conversion.patterns import compile_pattern
from axe_nb.errors import ConfigError
from axe_nb.expectations.measures import MEASURES, NUMERIC, OPERATORS, Measure
from axe_nb.text import one_line

MAX_SHOWN = 80
"""Characters of an expectation, a name or a text in messages."""

_PATTERN = r"/(?:\\.|[^/\\])*/"
_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_PIECE = re.compile(rf"(?:~\s*{_PATTERN}|{_STRING}|[^;])+", re.DOTALL)
"""The text of one clause: semicolons in patterns and strings belong to it."""

_CLAUSE = re.compile(
    rf"""
    (?P<no> no\s+ )?
    (?P<kind> (?:agent|tool): )?
    (?P<name> {_STRING} | [^\W\d] (?: [\w.-] | \[(?:\d{{1,9}}|"[^"]*")\] )* )
    (?: \s* (?P<operator> [=!<>~]+ | \bcontains\b ) \s* (?P<value> .*? ) )?
    (?P<parallel> \s*,\s*parallel )?
    """,
    re.VERBOSE | re.DOTALL,
)
_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\["([^"]*)"\]""")
_WORD = re.compile(r"\w[\w./:-]*")
_CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One expectation."""

    words: str
    """Text of the clause, shortened."""
    is_negated: bool
    name: str
    """Name of the agent, tool or measure."""
    kind: Literal["", "agent", "tool"]
    """Kind of the name, if it is given; else empty."""
    measure: Measure | None
    """The measure; None = an agent or a tool."""
    path: tuple[str | int, ...]
    """For `data`: the keys and indices of the part."""
    operator: str
    """The operator; empty = the value has to exist, or to be neither zero nor empty."""
    value: Any
    """The value on the right; for `~` and `!~` a compiled pattern."""
    is_parallel: bool


def parse(text: str) -> tuple[Clause, ...]:
    """Parses expectations separated by semicolons."""
    if not isinstance(text, str):
        raise ConfigError(f"expectations must be text, not {type(text).__name__}")
    pieces = [piece.strip() for piece in _PIECE.findall(text)]
    clauses = tuple(_parse_clause(piece) for piece in pieces if piece)
    if not clauses:
        raise ConfigError("no expectation given", hint="for example turns <= 6; no write_file")
    return clauses


def _parse_clause(text: str) -> Clause:
    found = _CLAUSE.fullmatch(text)
    if found is None:
        apart = "separate expectations with ; and put : after the name of a result"
        _fail(text, "expected NAME, no NAME, or NAME OPERATOR VALUE", apart)
    name, operator = found["name"], found["operator"] or ""
    path = tuple(
        int(step[2]) if step[2] else step[1] if step[1] is not None else step[3]
        for step in _STEP.finditer(name)
    )
    measure = None
    if name[0] in "\"'":
        name = _unquote(name)
    elif not found["kind"]:
        measure = MEASURES["data"] if path[:1] == ("data",) else MEASURES.get(name)
    if found["no"] and operator:
        _fail(text, "`no` takes a name alone", "leave out `no`, or the comparison")
    if found["parallel"] and (found["no"] or measure):
        _fail(
            text, "`parallel` follows a count of an agent or a tool", "write researcher, parallel"
        )
    value = _read_value(text, operator, found["value"], measure) if operator else None
    return Clause(
        words=one_line(text, MAX_SHOWN), is_negated=bool(found["no"]), name=name,
        kind=(found["kind"] or "").rstrip(":"), measure=measure, path=path[1:],  # type: ignore[arg-type]  # by _CLAUSE
        operator=operator, value=value, is_parallel=bool(found["parallel"]),
    )  # fmt: skip


def _read_value(text: str, operator: str, written: str, measure: Measure | None) -> Any:
    """Reads the value on the right of an operator, which has to take such a value."""
    kind = measure.kind if measure else "number"
    if operator not in OPERATORS[kind]:
        _fail(text, f"expected one of {' '.join(OPERATORS[kind])}")
    if operator in ("~", "!~"):
        if not re.fullmatch(_PATTERN, written, re.DOTALL):
            _fail(text, "expected a pattern, as in /42/")
        try:
            return compile_pattern(written[1:-1])
        except ConfigError as error:
            _fail(text, f"invalid pattern: {error}", error.hint)
    if kind != "number" and re.fullmatch(_STRING, written, re.DOTALL):
        return _unquote(written)
    if kind != "text" and re.fullmatch(r"-?\d[\d_]*(\.\d+)?", written):
        return float(written) if "." in written else int(written)
    if kind == "number" or operator in NUMERIC[2:]:
        _fail(text, "expected a number", "write it without a unit, as in 5000")
    if not _WORD.fullmatch(written):
        _fail(text, "expected a value", "put a text in quotes")
    if kind == "data" and written in _CONSTANTS:
        return _CONSTANTS[written]
    return written


def _fail(text: str, problem: str, hint: str = "") -> NoReturn:
    raise ConfigError(f"invalid expectation `{one_line(text, MAX_SHOWN)}`: {problem}", hint=hint)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
