"""Finds the turns, calls and runs of two trees that belong together; the path of a tree.

By agent, tool, arguments and prompt; never by position alone, nor by ids. An item more or less does
not shift the others: equal stretches are found first, what lies between them is paired by likeness,
within a bounded number of comparisons.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from axe_nb.conversion.jsonable import jsonable
from axe_nb.delegation.spawn_agent import without_seconds
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.results import RunResult, Turn

Likeness: TypeAlias = Callable[[int, int], float]
"""(position in a, position in b) → their likeness, from 0 to 1."""

MAX_CELLS = 10_000
"""Turns, calls or runs compared between two equal stretches."""

MAX_CHARS, MAX_WORDS = 600, 40
"""Characters and words at the beginning of a text by which its likeness is judged."""

LEAST = 0.25
"""Likeness from 0 to 1 below which two things do not belong together."""

_WORDS = re.compile(r"\w{1,40}")


def align(
    a: Sequence[Hashable], b: Sequence[Hashable], likeness: Likeness
) -> list[tuple[int, int]]:
    """Returns the pairs of positions that belong together, ascending on both sides.

    Args:
        a: the keys of one sequence; equal ones may be paired without a look at their likeness.
        b: those of the other.
        likeness: the likeness of two items that are not equal.
    """
    pairs: list[tuple[int, int]] = []
    for kind, first, end, first_b, end_b in SequenceMatcher(None, a, b).get_opcodes():
        if kind == "equal":
            pairs += zip(range(first, end), range(first_b, end_b), strict=True)
        elif kind == "replace":
            pairs += _pair_by_likeness(range(first, end), range(first_b, end_b), likeness)
    return pairs


def _pair_by_likeness(a: range, b: range, likeness: Likeness) -> list[tuple[int, int]]:
    """Returns the pairs of two stretches, the best first; in long ones, of similar position."""
    half = max(1, MAX_CELLS // len(a) // 2)
    gains = dict[tuple[int, int], float]()
    for i in a:
        centre = b.start + (i - a.start) * len(b) // len(a)
        for j in range(max(b.start, centre - half), min(b.stop, centre + half)):
            if (gain := likeness(i, j)) >= LEAST:
                gains[i, j] = gain
    pairs: list[tuple[int, int]] = []
    for i, j in sorted(gains, key=lambda pair: -gains[pair]):
        if all((i < k and j < n) or (i > k and j > n) for k, n in pairs):
            pairs.append((i, j))
    return sorted(pairs)


def format_arguments(call: ToolCall) -> str:
    """Returns the arguments as JSON, the same for equal ones; what is not an object as it is."""
    return call.raw or format_value(call.arguments)


def format_value(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON, the same for equal ones."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


def list_words(text: str) -> Set[str]:
    """Returns the words at the beginning of a text."""
    return frozenset(_WORDS.findall(text[:MAX_CHARS])[:MAX_WORDS])


def share(a: Set[str], b: Set[str]) -> float:
    """Returns the share of words that two texts have in common, from 0 to 1."""
    common = len(a & b)
    return common / (len(a) + len(b) - common) if a or b else 1.0


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
        results = ((call.key, call.result) for call in self.calls)
        told = tuple(
            (key, r and (without_seconds(r), r.is_error, r.is_denied)) for key, r in results
        )
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


Item = TypeVar("Item")


def pair_turns(
    a: Sequence[TurnFacts], b: Sequence[TurnFacts]
) -> Iterator[tuple[TurnFacts | None, TurnFacts | None]]:
    """Yields the turns that belong together, and those that are there on one side only."""
    pairs = align([t.key for t in a], [t.key for t in b], lambda i, j: a[i].likeness(b[j]))
    return _list_pairs(a, b, pairs)


def _list_pairs(
    a: Sequence[Item], b: Sequence[Item], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[Item | None, Item | None]]:
    at = at_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        yield from ((one, None) for one in a[at:i])
        yield from ((None, one) for one in b[at_b:j])
        if i < len(a):
            yield a[i], b[j]
        at, at_b = i + 1, j + 1


def pair_calls(
    a: Sequence[CallFacts], b: Sequence[CallFacts]
) -> tuple[list[tuple[int, int]], Set[int]]:
    """Returns the positions of calls of one turn that belong together, and which of a moved."""
    pairs = align([c.key for c in a], [c.key for c in b], lambda i, j: a[i].likeness(b[j]))
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


def pair_runs(
    a: Sequence[RunResult], b: Sequence[RunResult]
) -> Iterator[tuple[RunResult | None, RunResult | None]]:
    """Yields the child runs that belong together, and those that are there on one side only."""
    words, words_b = ([list_words(run.task or run.prompt) for run in runs] for runs in (a, b))

    def compare(i: int, j: int) -> float:
        return 0.5 * (a[i].agent == b[j].agent) + 0.5 * share(words[i], words_b[j])

    keys, keys_b = ([(run.agent, run.prompt) for run in runs] for runs in (a, b))
    is_only = len(a) == len(b) == 1
    return _list_pairs(a, b, [(0, 0)] if is_only else align(keys, keys_b, compare))


def find_path(run: RunResult) -> Hashable:
    """Returns the path: for each reply with calls, their tools and the runs that they started.

    Calls of one reply are one step: two tools at once are not the same as one after the other.
    """
    replies = tuple(
        tuple((call.call.name, *map(find_path, call.children)) for call in turn.calls)
        for turn in list_turns(run)
        if turn.calls
    )
    return run.agent, replies, *map(find_path, list_others(run))
