"""The language of expectations: a text becomes clauses, before anything is sent.

A clause is `NAME`, `no NAME`, or `NAME OPERATOR VALUE`, the last also with `, parallel`.
`docs/reference.md` shows the tables of forms and measures.
Source: D-67.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NoReturn

from axe_nb.conversion.patterns import compile_pattern
from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.text import one_line

Kind = Literal["number", "text", "list", "data"]

NUMERIC = ("==", "!=", "<", "<=", ">", ">=")
TEXTUAL = ("==", "!=", "~", "!~", "contains")
OPERATORS: Mapping[Kind, tuple[str, ...]] = {
    "number": NUMERIC, "text": TEXTUAL, "list": (*NUMERIC, *TEXTUAL[2:]),
    "data": (*NUMERIC, *TEXTUAL[2:]),
}  # fmt: skip
"""Kind of a measure → its operators."""

FORMS: Mapping[str, str] = {
    "researcher >= 2": "number of runs of an agent, or of permitted calls of a tool; with `==`, "
    "`!=`, `<`, `<=`, `>`, `>=`",
    "researcher": "at least one",
    "no write_file": "none at all; also for measures",
    "researcher >= 2, parallel": "at least two of them ran at the same time",
    "tool:search >= 1; agent:search": "tells a tool and an agent of the same name apart; also for "
    "the names of measures",
    '"the critic" == 1': "a name with spaces",
}
"""Expectation → its meaning."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A property of a run that an expectation compares."""

    kind: Kind
    """A list is compared by its length with a number, and item by item with a text."""
    help: str
    example: str
    read: Callable[[RunResult], Any]
    """The value of one run; None = unknown."""
    of_tree: bool = True
    """If true, the sum over the tree; if false, the value of the root."""


def _list_failed(run: RunResult, *, denied: bool) -> Iterator[str]:
    """Yields the tools of the calls that were denied, or that failed for another reason."""
    for turn in run.log:
        for result in turn.results:
            if result.is_error and not result.is_skipped and result.is_denied == denied:
                yield result.name


MEASURES: Mapping[str, Measure] = {
    "turns": Measure("number", "answered requests", "turns <= 6", attrgetter("turns")),
    "tool_calls": Measure(
        "number", "calls of tools", "tool_calls < 20", attrgetter("tool_calls")
    ),
    "runs": Measure("number", "runs, the root included", "runs == 4", lambda run: 1),
    "depth": Measure(
        "number", "levels of sub-agents; 0 = none", "depth <= 2", lambda run: count_levels(run),
        of_tree=False,
    ),
    "tokens": Measure(
        "number", "input and output tokens", "tokens < 5000", attrgetter("usage.total")
    ),
    "cost": Measure(
        "number", "cost in US dollars; an error if a price is unknown", "cost < 0.02",
        attrgetter("cost"),
    ),
    "denied": Measure(
        "list", "calls that were not permitted, by tool",
        'no denied; denied contains "write_file"',
        lambda run: tuple(_list_failed(run, denied=True)),
    ),
    "failed": Measure(
        "list", "calls that failed for another reason, by tool", "failed <= 1",
        lambda run: tuple(_list_failed(run, denied=False)),
    ),
    "files_modified": Measure(
        "list", "files that tools changed", "no files_modified", attrgetter("files_modified")
    ),
    "text": Measure(
        "text", "the answer; with `==`, `!=`, `~`, `!~`, `contains`",
        'text ~ /\\b42\\b/; text == "42"', attrgetter("text"), of_tree=False,
    ),
    "status": Measure(
        "text", "the status", "status == completed", attrgetter("status"), of_tree=False
    ),
    "data": Measure(
        "data", "a part of the structured output, or all of it",
        'data.total == 3; data.items[0].name == "a"; data.items >= 2', attrgetter("data"),
        of_tree=False,
    ),
}  # fmt: skip
"""Name → measure, in the order of the reference page."""


def count_levels(run: RunResult) -> int:
    """Returns the number of levels of runs below this one."""
    return max((1 + count_levels(child) for child in run.children), default=0)


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
