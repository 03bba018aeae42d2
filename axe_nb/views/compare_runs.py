"""Compares two run trees, and reports each change once, at the place where it began.

Turns, calls and child runs are paired by their content rather than by position or id, so that an
extra one does not shift the others. Direct consequences are not reported: if a call's arguments
differ, the prompt of its child run is not compared; if the child's answer differs, the call's
result is not compared. Secrets are removed from texts before they are compared, because a saved
run contains no secrets. Source: D-6, D-59, D-60.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

from axe_nb.conversion.jsonable import jsonable
from axe_nb.delegation.spawn_agent import without_seconds
from axe_nb.messages import ToolCall, ToolResult, ToolSpec
from axe_nb.pictures.picture import Picture
from axe_nb.recording.find_exchange import count_earlier
from axe_nb.results import RunResult, Turn, name_run
from axe_nb.secrets import redact
from axe_nb.text import printable

Kind: TypeAlias = Literal[
    "agent", "model", "system prompt", "params", "tools", "output", "conversation", "prompt",
    "pictures", "turn", "said", "asked", "call", "tool", "order", "arguments", "run", "result",
    "answer", "data", "status", "error", "warnings",
]  # fmt: skip
"""Part of a run that differs. A `turn`, `call` or `run` exists in only one of the trees."""

Places: TypeAlias = tuple[str | None, str | None]
"""Places of a turn in the first and in the second tree; None if a tree has no such turn."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two runs. Its fields may contain secrets, but its `repr` does not."""

    place: str | None
    other: str | None
    """Place of the turn in the second tree, such as `0.2/3`; None if the tree has no such turn."""
    kind: Kind
    agent: str
    """Name of the first run's agent, or of its model if it has no agent."""
    tool: str = ""
    """Name of the tool if the change is in a call; empty for other changes."""
    call: int | None = None
    """One-based number of the call in the first tree (in the second tree, if the call is only
    there); None if the change is not in a call."""
    before: str | None = None
    """Text in the first tree; None if it has no such text."""
    after: str | None = None
    """Text in the second tree; None if it has no such text."""

    def __repr__(self) -> str:
        places = dict.fromkeys(filter(None, (self.place, self.other)))
        of = f" of {printable(self.tool)}" if self.tool else ""
        return redact(f"Change({self.kind}{of} at {printable(' → '.join(places))})")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two turns, or two runs, that correspond to each other."""

    kind: Literal["turn", "run"]
    places: tuple[str, str]
    """Places of the two turns, such as `0.2/3`, or ids of the two runs, such as `0.2`."""
    names: tuple[str, str] = field(repr=False)
    """Numbers of the two turns, or agents of the two runs (the model if a run has no agent)."""
    parts: tuple[Part, ...] = field(repr=False)
    """The pair's changes, turns and child runs, in reading order."""
    tokens: tuple[int, int] = (0, 0)
    """Tokens used by each run and its descendants; 0 for turns."""

    @property
    def has_new_outcome(self) -> bool:
        """True if the answers, data, statuses or errors of two runs differ."""
        turns = [part for part in self.parts if isinstance(part, Pair) and part.kind == "turn"]
        changes = [*self.parts, *(part for turn in turns for part in turn.parts)]
        kinds = {change.kind for change in changes if isinstance(change, Change)}
        return not kinds.isdisjoint(("answer", "data", "status", "error"))


Part: TypeAlias = Change | Pair


def list_changes(part: Part) -> Iterator[Change]:
    """Yields all changes in a part, in reading order, or the part itself if it is a change."""
    if isinstance(part, Change):
        yield part
    else:
        for inner in part.parts:
            yield from list_changes(inner)


def find_path(run: RunResult) -> Hashable:
    """Returns a run's path: its agent and, for each turn, its tools and the child runs' paths."""
    return run.agent, tuple(
        tuple((call.call.name, *map(find_path, call.children)) for call in turn.calls)
        for turn in _list_turns(run)
        if turn.calls
    )


def _find_words(text: str) -> Set[str]:
    return frozenset(re.findall(r"\w{1,40}", text[:600]))


def _share(a: Set[str], b: Set[str]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common) if a or b else 1.0


@dataclass
class _Call:
    call: ToolCall
    number: int
    """Number of the call in its run, starting at 1."""
    result: ToolResult | None
    children: Sequence[RunResult]

    def __str__(self) -> str:
        return f"{self.call.name} {self.given}"

    @cached_property
    def given(self) -> str:
        """The arguments as canonical JSON, or as received if they were invalid JSON."""
        return self.call.raw or _format_value(self.call.arguments)

    @property
    def ran(self) -> Mapping[str, Any]:
        """The arguments with which the tool ran, including changes by the user."""
        edited = self.result.edited if self.result else None
        return self.call.arguments if edited is None else edited

    @property
    def key(self) -> Hashable:
        return self.call.name, self.given

    @cached_property
    def words(self) -> Set[str]:
        return _find_words(self.given)

    def likeness(self, other: _Call) -> float:
        words = _share(self.words, other.words)
        return 0.5 + 0.5 * words if self.call.name == other.call.name else 0.8 * words


@dataclass
class _Turn:
    turn: Turn
    calls: Sequence[_Call]

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.turn.text, *map(str, self.calls))))

    @cached_property
    def key(self) -> Hashable:
        """A key that is equal for turns with the same purpose, text, calls and results."""
        results = ((call.key, call.result) for call in self.calls)
        told = tuple(
            (key, r and (without_seconds(r), r.is_error, r.is_denied)) for key, r in results
        )
        return self.turn.text, self.turn.asked, self.turn.closing, told

    @cached_property
    def words(self) -> Set[str]:
        return frozenset[str]().union(*(call.words for call in self.calls[:32]))

    def likeness(self, other: _Turn) -> float:
        """Returns the similarity to another turn; 0 if purposes differ or only one has calls."""
        kinds = ((t.turn.asked, t.turn.closing, bool(t.calls)) for t in (self, other))
        if len(set(kinds)) > 1:
            return 0.0
        said = _share(_find_words(self.turn.text), _find_words(other.turn.text))
        if not self.calls:
            return 0.4 + 0.6 * said
        names = [[call.call.name for call in turn.calls] for turn in (self, other)]
        return 0.5 * (names[0] == names[1]) + 0.4 * _share(self.words, other.words) + 0.1 * said


def _list_turns(run: RunResult) -> list[_Turn]:
    """Returns a run's turns, without calls in replies to final requests, as none ran (D-17)."""
    turns, number = [], 0
    for turn in run.log:
        results = {result.call_id: result for result in turn.results}
        calls = []
        for call in () if turn.closing or turn.asked else turn.calls:
            number += 1
            children = [child for child in run.children if child.call_id == call.id]
            calls.append(_Call(call, number, results.get(call.id), children))
        turns.append(_Turn(turn, calls))
    return turns


def _pair(
    a: Sequence[Item],
    b: Sequence[Item],
    key: Callable[[Item], Hashable],
    likeness: Callable[[Item, Item], float],
) -> list[tuple[Item | None, Item | None]]:
    """Pairs the items of two sequences in order. An item without a partner is paired with None.

    Items with equal keys are paired first, and then similar items between them, beginning with the
    highest `likeness` (0 to 1). In long stretches, only items at similar positions are compared.
    """
    pairs: list[tuple[int, int]] = []
    matcher = SequenceMatcher(None, [*map(key, a)], [*map(key, b)])
    for kind, first, end, first_b, end_b in matcher.get_opcodes():
        if kind == "equal":
            pairs += zip(range(first, end), range(first_b, end_b), strict=True)
        if kind != "replace":
            continue
        half = max(1, 10_000 // (end - first) // 2)  # compares at most 10,000 pairs
        gains = dict[tuple[int, int], float]()
        for i in range(first, end):
            centre = first_b + (i - first) * (end_b - first_b) // (end - first)
            for j in range(max(first_b, centre - half), min(end_b, centre + half)):
                if (gain := likeness(a[i], b[j])) >= 0.25:
                    gains[i, j] = gain
        found: list[tuple[int, int]] = []
        for i, j in sorted(gains, key=lambda pair: -gains[pair]):
            if all((i < k and j < n) or (i > k and j > n) for k, n in found):
                found.append((i, j))
        pairs += sorted(found)
    items: list[tuple[Item | None, Item | None]] = []
    at = at_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        items += ((one, None) for one in a[at:i])
        items += ((None, one) for one in b[at_b:j])
        if i < len(a):
            items.append((a[i], b[j]))
        at, at_b = i + 1, j + 1
    return items


class RunComparison:
    """Compares two runs and all their descendants."""

    def __init__(self, a: RunResult, b: RunResult) -> None:
        self._a, self._b = a, b
        self._exchanges = [{one.turn: one for one in run.exchanges} for run in (a, b)]
        self._known: dict[Kind, tuple[Any, Any]] = {}
        """Request field that differs → its latest values in both trees."""

    def compare(self, *, is_told: bool = False) -> Pair:
        a, b = self._a, self._b
        names = name_run(a.agent, a.model), name_run(b.agent, b.model)
        tokens = a.total_usage.total, b.total_usage.total
        return Pair("run", (a.id, b.id), names, tuple(self._list_parts(is_told)), tokens)

    def _list_parts(self, is_told: bool) -> Iterator[Part]:
        a, b = self._a, self._b
        last, last_b = (
            max((*(turn.number for turn in run.log), *(one.turn for one in run.exchanges), 1))
            for run in (a, b)
        )
        start, ends = self._place(1, 1), self._place(last, last_b)
        if not is_told:
            yield from self._tell(start, "agent", a.agent, b.agent)
        yield from self._tell(start, "model", a.model, b.model)
        if all(self._exchanges):
            yield from self._compare_requests(start, *map(min, self._exchanges))
        yield from self._tell(start, "conversation", _format_earlier(a), _format_earlier(b))
        if not is_told:
            yield from self._tell(start, "prompt", a.prompt, b.prompt)
        yield from self._tell(
            start, "pictures", *_list_new(_list_pictures(a.pictures), _list_pictures(b.pictures))
        )
        is_answer_told = False
        turns, turns_b = _list_turns(a), _list_turns(b)
        for turn, other in _pair(turns, turns_b, lambda turn: turn.key, _Turn.likeness):
            if turn and other:
                is_answer_told |= _is_answer(a, turn) and _is_answer(b, other)
                yield self._compare_turns(turn, other)
            elif turn and not _is_answer(a, turn):  # answers are compared below
                yield from self._tell(self._place(turn.turn.number), "turn", str(turn), None)
            elif other and not _is_answer(b, other):
                place = self._place(None, other.turn.number)
                yield from self._tell(place, "turn", None, str(other))
        if not is_answer_told:
            yield from self._compare_answers(ends)
        if a.status == b.status:
            yield from self._tell(ends, "error", a.error, b.error)
        else:
            before, after = (f"{r.status}: {r.error}" if r.error else r.status for r in (a, b))
            yield from self._tell(ends, "status", before, after)
        yield from self._tell(ends, "warnings", "\n".join(a.warnings), "\n".join(b.warnings))

    def _place(self, turn: int | None = None, turn_b: int | None = None) -> Places:
        numbers = ((self._a.id, turn), (self._b.id, turn_b))
        place, other = (None if number is None else f"{id}/{number}" for id, number in numbers)
        return place, other

    def _tell(
        self,
        places: Places,
        kind: Kind,
        before: str | None,
        after: str | None,
        call: _Call | None = None,
    ) -> Iterator[Change]:
        """Yields a change if two texts differ. `call` is the call that they belong to, if any."""
        if before == after or (before and after and redact(before) == redact(after)):
            return
        yield Change(
            kind=kind, place=places[0], other=places[1],
            agent=name_run(self._a.agent, self._a.model), tool=call.call.name if call else "",
            call=call.number if call else None, before=before, after=after,
        )  # fmt: skip

    def _compare_requests(self, places: Places, turn: int, turn_b: int) -> Iterator[Change]:
        """Yields differences between two requests, except those reported for earlier requests."""
        a, b = self._exchanges[0].get(turn), self._exchanges[1].get(turn_b)
        if a is None or b is None:
            return
        fields: dict[Kind, str] = {
            "system prompt": "system", "params": "params", "tools": "tools", "output": "output",
        }  # fmt: skip
        for kind, name in fields.items():
            value, value_b = getattr(a, name), getattr(b, name)
            if value is value_b or value == value_b:
                self._known.pop(kind, None)
            elif self._known.get(kind) != (value, value_b):
                self._known[kind] = value, value_b
                if kind == "params":
                    value, value_b = _format_changed(value, value_b)
                elif kind == "tools":
                    value, value_b = _list_new(_list_tools(value), _list_tools(value_b))
                elif kind == "output":
                    value, value_b = _format_data(value), _format_data(value_b)
                yield from self._tell(places, kind, value, value_b)

    def _compare_turns(self, a: _Turn, b: _Turn) -> Pair:
        numbers = a.turn.number, b.turn.number
        places = self._place(*numbers)
        parts: list[Part] = []
        parts += self._compare_requests(places, *numbers)
        parts += self._tell(places, "asked", a.turn.question, b.turn.question)
        if _is_answer(self._a, a) and _is_answer(self._b, b):
            parts += self._compare_answers(places)
        else:
            parts += self._tell(places, "said", a.turn.text, b.turn.text)
        parts += self._compare_calls(places, a.calls, b.calls)
        shown = places[0] or "", places[1] or ""
        return Pair("turn", shown, (str(numbers[0]), str(numbers[1])), tuple(parts))

    def _compare_answers(self, places: Places) -> Iterator[Change]:
        """Yields changes in the answer. If both runs have data, only the data is compared."""
        a, b = self._a, self._b
        if a.data is None or b.data is None:
            yield from self._tell(places, "answer", a.text, b.text)
        yield from self._tell(places, "data", _format_data(a.data), _format_data(b.data))

    def _compare_calls(
        self, places: Places, a: Sequence[_Call], b: Sequence[_Call]
    ) -> Iterator[Part]:
        """Yields changes in the calls, and then changes in their child runs and results."""
        pairs = _pair(a, b, lambda call: call.key, _Call.likeness)
        new = [other for one, other in pairs if other and not one]
        both: list[tuple[_Call, _Call, bool]] = []
        for one, other in pairs:
            if one is None:
                continue
            moved = None if other else next((other for other in new if other.key == one.key), None)
            if moved:
                new.remove(moved)
                numbers = f"call {one.number}", f"call {moved.number}"
                yield from self._tell(places, "order", *numbers, call=one)
            other = other or moved
            if other is None:
                yield from self._tell(places, "call", str(one), None, one)
                continue
            given = one.given, other.given
            if not one.call.raw and not other.call.raw:
                given = _format_changed(one.ran, other.ran)
            changes = [
                *self._tell(places, "tool", one.call.name, other.call.name, one),
                *self._tell(places, "arguments", *given, call=one),
            ]
            yield from changes
            both.append((one, other, bool(changes)))
        for other in new:
            yield from self._tell(places, "call", None, str(other), other)
        for one, other, is_changed in both:
            delegates = one.call.traits.delegates
            below = [*self._compare_children(places, one, other, is_changed and delegates)]
            yield from below
            is_new = any(isinstance(part, Change) or part.has_new_outcome for part in below)
            if not (is_new and delegates and one.children and other.children):
                yield from self._compare_results(places, one, other)

    def _compare_children(
        self, places: Places, a: _Call, b: _Call, is_told: bool
    ) -> Iterator[Part]:
        def likeness(one: RunResult, other: RunResult) -> float:
            words, words_b = (_find_words(run.task or run.prompt) for run in (one, other))
            return 0.5 * (one.agent == other.agent) + 0.5 * _share(words, words_b)

        pairs = _pair(a.children, b.children, lambda run: (run.agent, run.prompt), likeness)
        if len(a.children) == len(b.children) == 1:
            pairs = [(a.children[0], b.children[0])]
        for run, other in pairs:
            if run and other:
                yield RunComparison(run, other).compare(is_told=is_told)
                continue
            before, after = (
                f"{name_run(one.agent, one.model)}: {one.task or one.prompt}" if one else None
                for one in (run, other)
            )
            yield from self._tell(places, "run", before, after, a)

    def _compare_results(self, places: Places, a: _Call, b: _Call) -> Iterator[Change]:
        one, other = a.result, b.result
        texts = [without_seconds(result) if result else None for result in (one, other)]
        if one and other and (one.is_error, one.is_denied) != (other.is_error, other.is_denied):
            texts = [
                f"{'denied' if r.is_denied else 'failed' if r.is_error else 'worked'}: {text}"
                for r, text in zip((one, other), texts, strict=True)
            ]
        yield from self._tell(places, "result", texts[0], texts[1], a)
        shown = (_list_pictures(result.pictures) if result else [] for result in (one, other))
        yield from self._tell(places, "pictures", *_list_new(*shown), call=a)


def _is_answer(run: RunResult, turn: _Turn) -> bool:
    return run.log[-1] is turn.turn and turn.turn.text == run.text and not turn.calls


def _format_value(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


def _format_data(data: Any) -> str | None:
    return None if data is None else _format_value(jsonable(data), indent=2)


def _format_earlier(run: RunResult) -> str:
    lines: list[str] = []
    for message in run.messages[: count_earlier(run)]:
        results = "\n".join(result.content for result in message.tool_results)
        lines.append(f"{message.role}: {results or message.content}")
        lines += (f"{call.name} {_format_value(call.arguments)}" for call in message.tool_calls)
    return "\n".join(lines)


def _format_changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    texts = [
        {
            str(k): value if isinstance(value, str) else _format_value(value)
            for k, value in o.items()
        }
        for o in (a, b)
    ]
    keys = [key for key in {**texts[0], **texts[1]} if texts[0].get(key) != texts[1].get(key)]
    before, after = ("\n".join(f"{k}: {one[k]}" for k in keys if k in one) for one in texts)
    return before, after


def _list_tools(tools: Iterable[ToolSpec]) -> list[str]:
    return [f"{t.name}: {t.description} {_format_value(t.input_schema())}" for t in tools]


def _list_pictures(pictures: Sequence[Picture]) -> list[str]:
    return [f"{picture.shown}, sha256 {picture.digest[:12]}" for picture in pictures]


def _list_new(a: Sequence[str], b: Sequence[str]) -> tuple[str, str]:
    """Returns the lines only in `a` and those only in `b`; if there are none, all lines of both."""
    before, after = [line for line in a if line not in b], [line for line in b if line not in a]
    is_reordered = not before and not after
    return "\n".join(a if is_reordered else before), "\n".join(b if is_reordered else after)
