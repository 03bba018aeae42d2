"""The tables of expectations: their forms, and the measures of a run.

`docs/reference.md` is made from them.
Source: D-67.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from axe_nb.results import RunResult

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
