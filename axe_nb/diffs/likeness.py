"""Finds the turns, calls and runs of two trees that belong together.

By agent, tool, arguments and prompt; never by position alone, nor by ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from axe_nb.delegation.reports import without_seconds
from axe_nb.diffs.alignment import Likeness, align
from axe_nb.diffs.texts import format_arguments
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.results import RunResult, Turn

MAX_CELLS = 10_000
"""Turns, calls or runs compared between two that are certain."""

MAX_CHARS, MAX_WORDS = 600, 40
"""Characters and words at the beginning of a text by which its likeness is judged."""

LEAST = 0.25
"""Likeness from 0 to 1 below which two things do not belong together."""

_WORDS = re.compile(r"\w{1,40}")


def _tell_result(result: ToolResult) -> Hashable:
    return without_seconds(result), result.is_error, result.is_denied


def list_words(text: str) -> Set[str]:
    """Returns the words at the beginning of a text."""
    return frozenset(_WORDS.findall(text[:MAX_CHARS])[:MAX_WORDS])


def share(a: Set[str], b: Set[str]) -> float:
    """Returns the share of words that two texts have in common, from 0 to 1."""
    common = len(a & b)
    return common / (len(a) + len(b) - common) if a or b else 1.0


def _weigh(likeness: float) -> float:
    """Returns the gain of pairing two things: one good pair counts more than two poor ones."""
    return likeness * likeness if likeness >= LEAST else 0.0


@dataclass
class CallFacts:
    """A call, for comparison."""

    call: ToolCall
    number: int
    """In its run, from 1."""
    result: ToolResult | None
    children: Sequence[RunResult]
    given: str = field(init=False)

    def __post_init__(self) -> None:
        self.given = format_arguments(self.call)

    def __str__(self) -> str:
        return f"{self.call.name} {self.given}"

    @property
    def key(self) -> Hashable:
        return self.call.name, self.given

    @cached_property
    def name(self) -> str:
        """The tool, with the agent that it asks."""
        agent = self.call.arguments.get("agent") if self.call.traits.delegates else None
        return f"{self.call.name} {agent}" if isinstance(agent, str) else self.call.name

    @cached_property
    def words(self) -> Set[str]:
        return list_words(self.given)

    def likeness(self, other: CallFacts) -> float:
        """Returns the likeness, from 0 to 1."""
        words = share(self.words, other.words)
        if self.name == other.name:
            return 0.5 + 0.5 * words
        if self.call.name == other.call.name:
            return 0.3 + 0.5 * words
        return 0.8 * words if self.words or other.words else 0.0


@dataclass
class TurnFacts:
    """A turn, for comparison."""

    turn: Turn
    calls: Sequence[CallFacts]
    key: Hashable = field(init=False)
    """Equal for turns in which the same was said, called and returned."""

    def __post_init__(self) -> None:
        told = tuple((c.key, c.result and _tell_result(c.result)) for c in self.calls)
        self.key = self.turn.text, self.turn.asked, self.turn.closing, told

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.turn.text, *map(str, self.calls))))

    @property
    def goes_on_below(self) -> bool:
        """True if its calls have more than the key tells: child runs, pictures, edits."""
        return any(
            call.children
            or (call.result and (call.result.pictures or call.result.edited is not None))
            for call in self.calls
        )

    @cached_property
    def kind(self) -> Hashable:
        """Turns of different kinds never belong together: with calls, without, at the end."""
        return self.turn.asked, self.turn.closing, bool(self.calls)

    @cached_property
    def said(self) -> Set[str]:
        return list_words(self.turn.text)

    @cached_property
    def names(self) -> Counter[str]:
        return Counter(call.name for call in self.calls)

    @cached_property
    def given(self) -> Set[str]:
        return frozenset[str]().union(*(call.words for call in self.calls[:32]))

    def likeness(self, other: TurnFacts) -> float:
        """Returns the likeness, from 0 to 1."""
        if self.kind != other.kind:
            return 0.0
        said = share(self.said, other.said)
        if not self.calls:
            return 0.4 + 0.6 * said
        common = 1.0
        if self.names != other.names:
            both = (self.names & other.names).total()
            common = 2 * both / (len(self.calls) + len(other.calls))
        return 0.5 * common + 0.4 * share(self.given, other.given) + 0.1 * said


def list_turns(run: RunResult) -> list[TurnFacts]:
    """Returns the turns of a run; calls that its end left unanswered are none (D-17)."""
    children: dict[str, list[RunResult]] = {}
    for child in run.children:
        children.setdefault(child.call_id, []).append(child)
    turns, number = [], 0
    for turn in run.log:
        results = {result.call_id: result for result in turn.results}
        calls = []
        for call in () if turn.closing or turn.asked else turn.calls:
            number += 1
            calls.append(CallFacts(call, number, results.get(call.id), children.pop(call.id, ())))
        turns.append(TurnFacts(turn, calls))
    return turns


def list_others(run: RunResult) -> list[RunResult]:
    """Returns the child runs that belong to no call that is known."""
    known = {c.id for t in run.log if not (t.closing or t.asked) for c in t.calls}
    return [child for child in run.children if child.call_id not in known]


def pair_turns(a: Sequence[TurnFacts], b: Sequence[TurnFacts]) -> list[tuple[int, int]]:
    """Returns the positions of turns that belong together."""
    return _align([t.key for t in a], [t.key for t in b], lambda i, j: a[i].likeness(b[j]))


def pair_calls(
    a: Sequence[CallFacts], b: Sequence[CallFacts]
) -> tuple[list[tuple[int, int]], Set[int]]:
    """Returns the positions of calls of one turn that belong together, and which of a moved."""
    pairs = _align([c.key for c in a], [c.key for c in b], lambda i, j: a[i].likeness(b[j]))
    left = set(range(len(b))) - {j for _, j in pairs}
    places: dict[Hashable, list[int]] = {}
    for j in sorted(left, reverse=True):
        places.setdefault(b[j].key, []).append(j)
    paired = {i for i, _ in pairs}
    moved = set[int]()
    for i, one in enumerate(a):
        if i not in paired and (waiting := places.get(one.key)):
            pairs.append((i, waiting.pop()))
            moved.add(i)
    return sorted(pairs), moved


def pair_runs(a: Sequence[RunResult], b: Sequence[RunResult]) -> list[tuple[int, int]]:
    """Returns the positions of child runs that belong together."""
    if len(a) == len(b) == 1:
        return [(0, 0)]
    words, words_b = ([list_words(run.task or run.prompt) for run in runs] for runs in (a, b))

    def compare(i: int, j: int) -> float:
        is_same = a[i].agent == b[j].agent
        return (0.5 if is_same else 0.0) + 0.5 * share(words[i], words_b[j])

    return _align([(r.agent, r.prompt) for r in a], [(r.agent, r.prompt) for r in b], compare)


def _align(
    a: Sequence[Hashable], b: Sequence[Hashable], compare: Likeness
) -> list[tuple[int, int]]:
    return align(a, b, lambda i, j: _weigh(compare(i, j)), MAX_CELLS)
