"""The table of expectations: their forms, and the measures of a run.

`docs/reference.md` is made from it.
Source: product.md "Runs are recordings"; D-67.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, get_args

from axe_nb.results import RunResult, Status, name_run

Kind = Literal["number", "text", "list", "data"]

SECONDS = {"s": 1.0, "ms": 0.001, "min": 60.0}
DOLLARS = {"$": 1.0}
THOUSANDS = {"k": 1000, "M": 1_000_000}

FORMS: Mapping[str, str] = {
    "researcher >= 2": "number of runs of an agent, or of permitted calls of a tool; with `==`, "
    "`!=`, `<`, `<=`, `>`, `>=`",
    "researcher": "at least one",
    "no write_file": "none at all; also for measures",
    "not turns > 6": "the opposite of any expectation",
    "researcher >= 2, parallel": "at least two of them ran at the same time",
    "researcher and writer, parallel": "one of each ran at the same time",
    "researcher then writer then write_file": "each began after one of the previous had ended",
    'write_file(path ~ /report/, content contains "42")': "counts only calls with matching "
    "arguments",
    'researcher(status == completed, task contains "Rome") == 2': "counts only runs with matching "
    "measures, which include the runs below",
    "tool:search >= 1; agent:search": "tells a tool and an agent of the same name apart; also for "
    "the names of measures",
    '"the critic" == 1': "a name with spaces",
}
"""Expectation → its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure of a run."""

    kind: Kind
    """A list is compared by its length with a number, and item by item with a text."""
    help: str
    example: str
    read: Callable[[RunResult], Any]
    """The value of one run; None = unknown."""
    of: Literal["tree", "root"] = "tree"
    """The sum over the tree, or the value of the root."""
    units: Mapping[str, float] = field(default_factory=lambda: THOUSANDS)
    """Unit → its value."""
    choices: tuple[str, ...] = ()


def _list_calls(run: RunResult, *, denied: bool) -> tuple[str, ...]:
    """The tools of the calls that were denied, or that failed for another reason."""
    results = (result for turn in run.log for result in turn.results)
    failed = (r for r in results if r.is_error and not r.is_skipped)
    return tuple(r.name for r in failed if r.is_denied == denied)


def _number(name: str, help: str, example: str) -> Measure:
    return Measure(kind="number", help=help, example=example, read=attrgetter(name))


def _list(help: str, example: str, read: Callable[[RunResult], Any]) -> Measure:
    return Measure(kind="list", help=help, example=example, read=read)


def _text(name: str, help: str, example: str, choices: tuple[str, ...] = ()) -> Measure:
    return Measure(
        kind="text", help=help, example=example, read=lambda run: getattr(run, name) or "",
        of="root", choices=choices,
    )  # fmt: skip


MEASURES: Mapping[str, Measure] = {
    "turns": _number("turns", "answered requests", "turns <= 6"),
    "tool_calls": _number("tool_calls", "calls of tools", "tool_calls < 20"),
    "runs": Measure(
        kind="number", help="runs, the root included", example="runs == 4", read=lambda run: 1
    ),
    "depth": Measure(
        kind="number", help="levels of sub-agents; 0 = none", example="depth <= 2",
        read=lambda run: count_levels(run), of="root",
    ),
    "tokens": _number("usage.total", "input and output tokens", "tokens < 5k"),
    "input_tokens": _number("usage.input_tokens", "input tokens", "input_tokens < 4000"),
    "output_tokens": _number("usage.output_tokens", "output tokens", "output_tokens < 1000"),
    "cached_tokens": _number("usage.cached_tokens", "input tokens from a cache", "cached_tokens"),
    "reasoning_tokens": _number(
        "usage.reasoning_tokens", "output tokens that are reasoning", "no reasoning_tokens"
    ),
    "cost": Measure(
        kind="number", help="cost in US dollars; an error if a price is unknown",
        example="cost < $0.02", read=lambda run: run.cost, units=DOLLARS,
    ),
    "seconds": Measure(
        kind="number", help="duration", example="seconds < 90; seconds < 2min", of="root",
        read=lambda run: run.duration_ms / 1000, units=SECONDS,
    ),
    "retries": _number("retries", "requests that were sent again", "no retries"),
    "denied": _list(
        "calls that were not permitted, by tool", 'no denied; denied contains "write_file"',
        lambda run: _list_calls(run, denied=True),
    ),
    "failed": _list(
        "calls that failed for another reason, by tool", "failed <= 1",
        lambda run: _list_calls(run, denied=False),
    ),
    "incomplete": _list(
        "runs that did not complete, by agent", "no incomplete",
        lambda run: () if run.ok else (name_run(run.agent, run.model),),
    ),
    "warnings": _list(
        "warnings", "no warnings; warnings ~ /token limit/", attrgetter("warnings")
    ),
    "files_read": _list(
        "files that tools read", 'files_read contains "data.csv"', attrgetter("files_read")
    ),
    "files_modified": _list(
        "files that tools changed", "no files_modified", attrgetter("files_modified")
    ),
    "text": _text(
        "text", "the answer; with `==`, `!=`, `~`, `!~`, `contains`",
        'text ~ /\\b42\\b/; text == "42"',
    ),
    "task": _text("task", "the task", 'task contains "Rome"'),
    "error": _text("error", "the error", "error ~ /timeout/"),
    "status": _text("status", "the status", "status == completed", get_args(Status)),
    "model": _text("model", "the model", "model == ollama/llama3.2"),
    "stop_reason": _text("stop_reason", "the last stop reason", "stop_reason != length"),
    "data": Measure(
        kind="data", help="a part of the structured output, or all of it",
        example='data.total == 3; data.items[0].name == "a"; data.items >= 2',
        read=lambda run: getattr(run, "data", None), of="root",
    ),
}  # fmt: skip
"""Name → measure, in the order of the reference page."""


def count_levels(run: RunResult) -> int:
    """Number of levels of runs below this one."""
    return max((1 + count_levels(child) for child in run.children), default=0)
