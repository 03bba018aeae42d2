"""The line that sums up a run with all that is below it. Pure.

Source: design README "Second generation" (the head; "a green line is green all the way down").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from axe_nb.messages import Usage
from axe_nb.results import name_run
from axe_nb.text import plural
from axe_nb.views import excerpts
from axe_nb.views.appearance import LOOKS, Tone
from axe_nb.views.cost import format_cost
from axe_nb.views.middle import find_wait
from axe_nb.views.tree import WAITS, CallNode, Node, State

ORDER: tuple[Tone, ...] = ("good", "bad", "limit", "off", "running")
"""Order of the parts of the bar below the line."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of the line."""

    text: str
    marks: tuple[tuple[str, Tone], ...] = ()
    """Parts of it that need a look, each with the tone of its colour; in brackets."""

    def __str__(self) -> str:
        marks = ", ".join(text for text, _ in self.marks)
        return " ".join(filter(None, (self.text, f"({marks})" if marks and self.text else marks)))


def summary(node: Node) -> str:
    """The line in words."""
    return " · ".join(map(str, facts_of(node)))


def facts_of(node: Node) -> list[Fact]:
    """The parts of the line, none of them empty."""
    if node.is_group:
        facts = [Fact(_count_runs(node)), Fact(format_tokens(node.total))]
    else:
        facts = [*_progress(node), *_figures(node)]
    return [fact for fact in facts if str(fact)]


def states_of(node: Node) -> list[State]:
    """The states of the sub-agents of a run, or of the runs of a cell, in call order."""
    calls = (call for turn in node.turns for call in turn.calls)
    if node.is_group:
        return [call.child.state if call.child else call.state for call in calls]
    return [child.state for call in calls for child in call.children]


def progress_of(node: Node) -> list[tuple[Tone, int]]:
    """Number of sub-agents in each tone of state: done, failed, running."""
    counts = Counter(LOOKS[child.state].tone for child in node.below())
    return [(tone, counts[tone]) for tone in ORDER if counts[tone]]


def _count_runs(group: Node) -> str:
    counts = Counter(sorted(states_of(group)))
    return ", ".join(f"{n} {state}" for state, n in counts.items())


def _progress(node: Node) -> Iterator[Fact]:
    """The model and the state; while it runs, how far it has come."""
    # without an agent, the model is the name that stands before
    yield Fact(excerpts.line(node.model, 2 * excerpts.WHO) if node.agent else "")
    if node.state != "running":
        yield Fact(node.state)
        yield Fact(_format_origin(node))
        yield Fact(plural(len(node.turns), "turn") if node.turns else "")
        return
    yield Fact(_format_waits(node))
    yield Fact(_format_origin(node))
    yield Fact(f"turn {node.turns[-1].number}" if node.turns else "")
    states = Counter(child.state for child in node.below())
    if states:
        yield Fact(f"{states['completed']} of {plural(states.total(), 'sub-agent')} done")
        yield Fact(f"{states['running']} running" if states["running"] else "")


def _figures(node: Node) -> Iterator[Fact]:
    """The parts of its tree, and how many of them need a look."""
    below = list(node.below())
    ended = Counter(n.state for n in below if n.state not in ("completed", "running"))
    marks = tuple((f"{n} {state}", LOOKS[state].tone) for state, n in ended.items())
    if node.state == "running":
        troubled = sum(ended.values())
        yield Fact("", ((f"{troubled} failed", "bad"),) if troubled else ())
    else:
        yield Fact(plural(len(below), "sub-agent") if below else "", marks)
    calls = [call for call in list_calls(node) if not call.children]
    yield Fact(plural(len(calls), "tool call") if calls else "", _count_troubles(calls))
    yield Fact(_format_repairs(node))
    yield Fact(_format_retries(node))
    yield Fact(format_tokens(node.total))
    warnings = node.result.warnings if node.result else ()
    yield Fact("", ((plural(len(warnings), "warning"), "limit"),) if warnings else ())


def _count_troubles(calls: Iterable[CallNode]) -> tuple[tuple[str, Tone], ...]:
    """The denied and the failed calls, and those that a limit or the person kept from running."""
    counts = Counter(call.state for call in calls)
    denied, failed, left_out = counts["denied"], counts["error"], counts["not run"]
    cut_short = counts["cancelled"]
    marks: list[tuple[str, Tone]] = []
    if denied:
        marks.append((f"{denied:,} denied", "limit"))
    if failed:
        marks.append((f"{failed:,} failed", "bad"))
    if cut_short:
        marks.append((f"{cut_short:,} interrupted", "off"))
    if left_out:
        marks.append((f"{left_out:,} not run", "off"))
    return tuple(marks)


def format_tokens(usage: Usage) -> str:
    """The number of tokens, how many came from a cache, and the price; empty if none are known."""
    if not usage.total:
        return ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return " · ".join(filter(None, (plural(usage.total, "token") + cached, format_cost(usage))))


def _format_waits(node: Node) -> str:
    """The run that waits for the person, in the whole tree."""
    if find_wait(node) == WAITS:
        return WAITS
    names = [name_run(run.agent, run.model) for run in node.below() if find_wait(run) == WAITS]
    return f"{excerpts.line(names[0], excerpts.WHO)} {WAITS}" if names else ""


def _format_repairs(node: Node) -> str:
    """The number of answers that had to be repaired, in the whole tree."""
    turns = (turn for run in (node, *node.below()) for turn in run.turns)
    count = sum(turn.asked == "repair" for turn in turns)
    return plural(count, "repair") if count else ""


def _format_origin(node: Node) -> str:
    """The place of the run that it forks, and how many turns were not asked again."""
    if not node.origin:
        return ""
    turns = (turn for run in (node, *node.below()) for turn in run.turns)
    kept = sum(turn.source == "recorded" for turn in turns)
    return f"fork of {node.origin}" + (f" ({plural(kept, 'turn')} recorded)" if kept else "")


def _format_retries(node: Node) -> str:
    """The number of requests sent again, in the whole tree."""
    count = sum(result.retries for result in node.result.walk()) if node.result else 0
    return "" if not count else "1 retry" if count == 1 else f"{count:,} retries"


def list_calls(node: Node) -> Iterator[CallNode]:
    """Yields the calls of a run and of all runs below it."""
    for run in (node, *node.below()):
        for turn in run.turns:
            yield from turn.calls


def has_trouble(node: Node) -> bool:
    """True if a call of the run, or of one below it, was denied or has failed."""
    return any(call.result and call.result.is_error for call in list_calls(node))
