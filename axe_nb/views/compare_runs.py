"""Comparison of two trees of runs, which reports each change once, where it began. Pure.

Turns, calls and runs are paired by agent, tool, arguments and prompt, never by position alone, nor
by ids: an item more or less does not shift the others. What follows from a change in the same step
is not told again: the prompt of a child from the arguments of its call, the result of that call
from the child's answer, the last turn from the answer. Texts are compared without secrets, since a
saved run has none.
Source: D-6, D-59, D-60.
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
from axe_nb.messages import Message, ToolCall, ToolResult
from axe_nb.messages.exchanges import Exchange
from axe_nb.pictures.picture import Picture
from axe_nb.recording.find_exchange import count_earlier
from axe_nb.results import RunResult, Turn, name_run
from axe_nb.secrets import Filter, redact
from axe_nb.text import printable

MAX_PAIRS = 10_000
"""Maximum pairs of turns, calls or runs compared by their words between two equal stretches."""

MAX_CHARS = 600
"""Characters at the start of a text that are compared for similarity."""

LEAST = 0.25
"""Minimum similarity, from 0 to 1, of two items that can be paired."""

_WORDS = re.compile(r"\w{1,40}")

Kind: TypeAlias = Literal[
    "agent", "model", "system prompt", "params", "tools", "output", "conversation", "prompt",
    "pictures", "turn", "said", "asked", "call", "tool", "order", "arguments", "run", "result",
    "answer", "data", "status", "error", "warnings",
]  # fmt: skip
"""The part of a run that differs. A `turn`, `call` or `run` exists on one side only."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. Its texts are unfiltered; their display contains no secrets."""

    place: str | None
    """Turn of the first tree, such as `0.2/3`; None if only the second tree has it."""
    other: str | None
    """The same turn in the second tree; None if only the first tree has it."""
    kind: Kind
    agent: str
    """Name of the agent, or of the model if there is none."""
    tool: str = ""
    """Name of the tool, if the change is about a call."""
    call: int | None = None
    """Number of the call in its run, from 1, as in places; in the first tree if both have it."""
    before: str | None = None
    """The text in the first tree; None if it has none."""
    after: str | None = None
    """The text in the second tree; None if it has none."""

    def __repr__(self) -> str:
        places = dict.fromkeys(filter(None, (self.place, self.other)))
        of = f" of {printable(self.tool)}" if self.tool else ""
        return redact(f"Change({self.kind}{of} at {printable(' → '.join(places))})")


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Two turns that correspond to each other."""

    a: Turn = field(repr=False)
    b: Turn = field(repr=False)
    place: str
    other: str
    parts: tuple[Change | RunPair, ...] = field(repr=False)
    """Changes and child runs, in reading order."""


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs that correspond to each other."""

    a: RunResult
    b: RunResult
    parts: tuple[Change | TurnPair | RunPair, ...] = field(repr=False)
    """Changes, turns, and child runs of no call, in reading order."""


def find_first(changes: Iterable[Change]) -> str | None:
    """Returns the turn of the first change, such as `0.2/3`; None if there is none."""
    return next((change.place or change.other for change in changes), None)


def list_changes(pair: RunPair | TurnPair) -> Iterator[Change]:
    """Yields the changes of a pair and of all below it, in reading order."""
    for part in pair.parts:
        if isinstance(part, Change):
            yield part
        else:
            yield from list_changes(part)


def find_path(run: RunResult) -> Hashable:
    """Returns the path: for each reply with calls, their tools and the runs that they started.

    Calls of one reply are one step: two tools at once are not the same as one after the other.
    """
    replies = tuple(
        tuple((call.call.name, *map(find_path, call.children)) for call in turn.calls)
        for turn in _list_turns(run)
        if turn.calls
    )
    return run.agent, replies, *map(find_path, _list_others(run))


def align(
    a: Sequence[Hashable], b: Sequence[Hashable], likeness: Callable[[int, int], float]
) -> list[tuple[int, int]]:
    """Returns the pairs of matching positions, ascending on both sides.

    Equal stretches are found first; what lies between them is paired by likeness, the best first,
    in long stretches only at similar positions.

    Args:
        likeness: (position in a, position in b) → the likeness of two items that are not equal,
            from 0 to 1.
    """
    pairs: list[tuple[int, int]] = []
    for kind, first, end, first_b, end_b in SequenceMatcher(None, a, b).get_opcodes():
        if kind == "equal":
            pairs += zip(range(first, end), range(first_b, end_b), strict=True)
        if kind != "replace":
            continue
        half = max(1, MAX_PAIRS // (end - first) // 2)
        gains = dict[tuple[int, int], float]()
        for i in range(first, end):
            centre = first_b + (i - first) * (end_b - first_b) // (end - first)
            for j in range(max(first_b, centre - half), min(end_b, centre + half)):
                if (gain := likeness(i, j)) >= LEAST:
                    gains[i, j] = gain
        found: list[tuple[int, int]] = []
        for i, j in sorted(gains, key=lambda pair: -gains[pair]):
            if all((i < k and j < n) or (i > k and j > n) for k, n in found):
                found.append((i, j))
        pairs += sorted(found)
    return pairs


def _list_pairs(
    a: Sequence[Item], b: Sequence[Item], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[Item | None, Item | None]]:
    """Yields the matching items, and those that exist on one side only."""
    at = at_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        yield from ((one, None) for one in a[at:i])
        yield from ((None, one) for one in b[at_b:j])
        if i < len(a):
            yield a[i], b[j]
        at, at_b = i + 1, j + 1


def _find_words(text: str) -> Set[str]:
    return frozenset(_WORDS.findall(text[:MAX_CHARS]))


def _share(a: Set[str], b: Set[str]) -> float:
    """Returns the share of words that two texts have in common, from 0 to 1."""
    common = len(a & b)
    return common / (len(a) + len(b) - common) if a or b else 1.0


@dataclass
class _Call:
    """A call with its result and the runs that it started."""

    call: ToolCall
    number: int
    """Number of the call in its run, from 1."""
    result: ToolResult | None
    children: Sequence[RunResult]

    def __str__(self) -> str:
        return f"{self.call.name} {self.given}"

    @cached_property
    def given(self) -> str:
        """The arguments as JSON, equal for equal arguments; other values unchanged."""
        return self.call.raw or _format_value(self.call.arguments)

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
    """A turn with its calls."""

    turn: Turn
    calls: Sequence[_Call]

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.turn.text, *map(str, self.calls))))

    @cached_property
    def key(self) -> Hashable:
        """Key that is equal for turns with the same text, calls and results."""
        results = ((call.key, call.result) for call in self.calls)
        told = tuple(
            (key, r and (without_seconds(r), r.is_error, r.is_denied)) for key, r in results
        )
        return self.turn.text, self.turn.asked, self.turn.closing, told

    @cached_property
    def words(self) -> Set[str]:
        return frozenset[str]().union(*(call.words for call in self.calls[:32]))

    def likeness(self, other: _Turn) -> float:
        """Similarity of two turns; 0 for different kinds: with calls, without, at the end."""
        kinds = ((t.turn.asked, t.turn.closing, bool(t.calls)) for t in (self, other))
        if len(set(kinds)) > 1:
            return 0.0
        said = _share(_find_words(self.turn.text), _find_words(other.turn.text))
        if not self.calls:
            return 0.4 + 0.6 * said
        names = [[call.call.name for call in turn.calls] for turn in (self, other)]
        return 0.5 * (names[0] == names[1]) + 0.4 * _share(self.words, other.words) + 0.1 * said


def _list_turns(run: RunResult) -> list[_Turn]:
    """Returns the turns of a run; calls that its end left unanswered do not count (D-17)."""
    children: dict[str, list[RunResult]] = {}
    for child in run.children:
        children.setdefault(child.call_id, []).append(child)
    turns, number = [], 0
    for turn in run.log:
        results = {result.call_id: result for result in turn.results}
        calls = []
        for call in () if turn.closing or turn.asked else turn.calls:
            number += 1
            calls.append(_Call(call, number, results.get(call.id), children.pop(call.id, ())))
        turns.append(_Turn(turn, calls))
    return turns


def _list_others(run: RunResult) -> list[RunResult]:
    """Returns the child runs that belong to no known call."""
    known = {c.id for t in run.log if not (t.closing or t.asked) for c in t.calls}
    return [child for child in run.children if child.call_id not in known]


def _pair_calls(a: Sequence[_Call], b: Sequence[_Call]) -> tuple[dict[int, int], Set[int]]:
    """Returns the matching positions of one turn's calls, and the positions in a that moved."""
    pairs = dict(align([c.key for c in a], [c.key for c in b], lambda i, j: a[i].likeness(b[j])))
    left = [j for j in range(len(b)) if j not in pairs.values()]
    moved = set[int]()
    for i, one in enumerate(a):
        same = next((j for j in left if b[j].key == one.key), None) if i not in pairs else None
        if same is not None:
            pairs[i] = same
            left.remove(same)
            moved.add(i)
    return pairs, moved


def _pair_runs(
    a: Sequence[RunResult], b: Sequence[RunResult]
) -> Iterator[tuple[RunResult | None, RunResult | None]]:
    words, words_b = ([_find_words(run.task or run.prompt) for run in runs] for runs in (a, b))

    def compare(i: int, j: int) -> float:
        return 0.5 * (a[i].agent == b[j].agent) + 0.5 * _share(words[i], words_b[j])

    keys, keys_b = ([(run.agent, run.prompt) for run in runs] for runs in (a, b))
    is_only = len(a) == len(b) == 1
    return _list_pairs(a, b, [(0, 0)] if is_only else align(keys, keys_b, compare))


OUTCOME = frozenset[Kind]({"answer", "data", "status", "error"})
"""Changes of a run that the model of its caller sees."""

REQUEST_FIELDS: Mapping[Kind, Callable[[Exchange], Any]] = {
    "system prompt": lambda exchange: exchange.system,
    "params": lambda exchange: exchange.params,
    "tools": lambda exchange: exchange.tools,
    "output": lambda exchange: exchange.output,
}
"""Part of a request that does not come from earlier turns → its value."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Two turns, or starts or ends of runs, whose changes are reported."""

    agent: str
    place: str | None
    other: str | None
    clean: Filter

    def tell(
        self, kind: Kind, before: str | None, after: str | None, call: _Call | None = None
    ) -> Iterator[Change]:
        """Yields the change between two texts, with the call if there is one, if they differ."""
        clean = self.clean.text
        if before == after or (before and after and clean(before) == clean(after)):
            return
        yield Change(
            kind=kind, place=self.place, other=self.other, agent=self.agent,
            tool=call.call.name if call else "", call=call.number if call else None,
            before=before, after=after,
        )  # fmt: skip


def compare_runs(a: RunResult, b: RunResult, clean: Filter, *, is_told: bool = False) -> RunPair:
    """Compares two runs and all runs below them.

    Args:
        is_told: if True, the arguments of the call that started them differ, and so do their
            prompts.
    """
    return RunPair(a, b, tuple(_RunComparison(a, b, clean).list_parts(is_told)))


class _RunComparison:
    """The comparison of two runs."""

    def __init__(self, a: RunResult, b: RunResult, clean: Filter) -> None:
        self._a = a
        self._b = b
        self._clean = clean
        self._exchanges = [{one.turn: one for one in run.exchanges} for run in (a, b)]
        self._told: dict[Kind, tuple[Any, Any]] = {}
        """Fields of the requests that differ → their latest values."""

    def list_parts(self, is_told: bool) -> Iterator[Change | TurnPair | RunPair]:
        a, b = self._a, self._b
        yield from self._compare_inputs(is_told)
        turns, turns_b = _list_turns(a), _list_turns(b)
        keys, keys_b = [turn.key for turn in turns], [turn.key for turn in turns_b]
        pairs = align(keys, keys_b, lambda i, j: turns[i].likeness(turns_b[j]))
        is_answer_told = False
        for turn, other in _list_pairs(turns, turns_b, pairs):
            if turn and other:
                is_answer_told |= _is_answer(a, turn) and _is_answer(b, other)
                yield self._compare_turns(turn, other)
            elif turn and not _is_answer(a, turn):  # told as such
                yield from self._step(turn, None).tell("turn", str(turn), None)
            elif other and not _is_answer(b, other):
                yield from self._step(None, other).tell("turn", None, str(other))
        ends = self._make_step(_last_place(a), _last_place(b))
        yield from self._compare_children(ends, None, _list_others(a), _list_others(b))
        if not is_answer_told:
            yield from _compare_answers(ends, a, b)
        if a.status == b.status:
            yield from ends.tell("error", a.error, b.error)
        else:
            yield from ends.tell("status", _format_status(a), _format_status(b))
        yield from ends.tell("warnings", "\n".join(a.warnings), "\n".join(b.warnings))

    def _make_step(self, place: str | None, other: str | None) -> _Step:
        return _Step(name_run(self._a.agent, self._a.model), place, other, self._clean)

    def _step(self, turn: _Turn | None, other: _Turn | None) -> _Step:
        return self._make_step(
            f"{self._a.id}/{turn.turn.number}" if turn else None,
            f"{self._b.id}/{other.turn.number}" if other else None,
        )

    def _compare_inputs(self, is_told: bool) -> Iterator[Change]:
        a, b = self._a, self._b
        step = self._make_step(f"{a.id}/1", f"{b.id}/1")
        if not is_told:
            yield from step.tell("agent", a.agent, b.agent)
        yield from step.tell("model", a.model, b.model)
        exchanges, exchanges_b = self._exchanges
        if exchanges and exchanges_b:
            yield from self._compare_requests(step, min(exchanges), min(exchanges_b))
        yield from step.tell("conversation", _format_earlier(a), _format_earlier(b))
        if not is_told:
            yield from step.tell("prompt", a.prompt, b.prompt)
        yield from step.tell("pictures", *_format_pictures(a.pictures, b.pictures))

    def _compare_requests(self, step: _Step, turn: int, turn_b: int) -> Iterator[Change]:
        """Yields the differences of two requests that earlier requests did not have."""
        a, b = self._exchanges[0].get(turn), self._exchanges[1].get(turn_b)
        if a is None or b is None:
            return
        for kind, read in REQUEST_FIELDS.items():
            value, value_b = read(a), read(b)
            if value is value_b or value == value_b:
                self._told.pop(kind, None)
            elif self._told.get(kind) != (value, value_b):
                self._told[kind] = value, value_b
                yield from step.tell(kind, *_format_values(kind, value, value_b))

    def _compare_turns(self, a: _Turn, b: _Turn) -> TurnPair:
        step = self._step(a, b)
        parts: list[Change | RunPair] = [
            *self._compare_requests(step, a.turn.number, b.turn.number)
        ]
        parts += step.tell("asked", a.turn.question, b.turn.question)
        if _is_answer(self._a, a) and _is_answer(self._b, b):
            parts += _compare_answers(step, self._a, self._b)
        else:
            parts += step.tell("said", a.turn.text, b.turn.text)
        parts += self._compare_calls(step, a.calls, b.calls)
        return TurnPair(a.turn, b.turn, step.place or "", step.other or "", tuple(parts))

    def _compare_calls(
        self, step: _Step, a: Sequence[_Call], b: Sequence[_Call]
    ) -> Iterator[Change | RunPair]:
        """Yields the changes of the reply first, then those of the results of its calls."""
        pairs, moved = _pair_calls(a, b)
        changed = set[int]()
        for i, one in enumerate(a):
            if i not in pairs:
                yield from step.tell("call", str(one), None, one)
                continue
            other = b[pairs[i]]
            if i in moved:
                numbers = (f"call {one.number}", f"call {other.number}")
                yield from step.tell("order", *numbers, call=one)
            changes = [
                *step.tell("tool", one.call.name, other.call.name, one),
                *_compare_arguments(step, one, other),
            ]
            yield from changes
            changed |= {i} if changes else set()
        for j, other in enumerate(b):
            if j not in pairs.values():
                yield from step.tell("call", None, str(other), other)
        for i, j in sorted(pairs.items()):
            one, other = a[i], b[j]
            delegates = one.call.traits.delegates
            is_told = i in changed and delegates
            children = self._compare_children(step, one, one.children, other.children, is_told)
            below = list(children)
            yield from below
            has_runs = delegates and one.children and other.children
            if not (has_runs and any(map(_has_new_outcome, below))):
                yield from _compare_results(step, one, other)

    def _compare_children(
        self,
        step: _Step,
        call: _Call | None,
        a: Sequence[RunResult],
        b: Sequence[RunResult],
        is_told: bool = False,
    ) -> Iterator[Change | RunPair]:
        for run, other in _pair_runs(a, b):
            if run and other:
                yield compare_runs(run, other, self._clean, is_told=is_told)
                continue
            before, after = (
                f"{name_run(one.agent, one.model)}: {one.task or one.prompt}" if one else None
                for one in (run, other)
            )
            yield from step.tell("run", before, after, call)


def _compare_answers(step: _Step, a: RunResult, b: RunResult) -> Iterator[Change]:
    """Yields the change of the answer; if both have data, of the data instead of the text."""
    if a.data is None or b.data is None:
        yield from step.tell("answer", a.text, b.text)
    yield from step.tell("data", _format_data(a.data), _format_data(b.data))


def _compare_arguments(step: _Step, a: _Call, b: _Call) -> Iterator[Change]:
    """Yields the arguments that differ, including those of the person if a call was edited."""
    if a.call.raw or b.call.raw:
        yield from step.tell("arguments", a.given, b.given, a)
        return
    ran, ran_b = (
        call.call.arguments if not call.result or call.result.edited is None else call.result.edited
        for call in (a, b)
    )
    given, given_b = _format_changed(a.call.arguments, b.call.arguments)
    if given == given_b:
        given, given_b = _format_changed(ran, ran_b)
    yield from step.tell("arguments", given, given_b, a)


def _compare_results(step: _Step, a: _Call, b: _Call) -> Iterator[Change]:
    one, other = a.result, b.result
    texts = [without_seconds(result) if result else None for result in (one, other)]
    if one and other and (one.is_error, one.is_denied) != (other.is_error, other.is_denied):
        words = (
            "denied" if r.is_denied else "failed" if r.is_error else "worked" for r in (one, other)
        )
        texts = [f"{word}: {text}" for word, text in zip(words, texts, strict=True)]
    yield from step.tell("result", texts[0], texts[1], a)
    pictures, pictures_b = (result.pictures if result else () for result in (one, other))
    yield from step.tell("pictures", *_format_pictures(pictures, pictures_b), call=a)


def _has_new_outcome(part: Change | RunPair) -> bool:
    """True if a run ended differently, or exists on one side only."""
    if isinstance(part, Change):
        return True
    own = [one for turn in part.parts if isinstance(turn, TurnPair) for one in turn.parts]
    changes = (change for change in (*part.parts, *own) if isinstance(change, Change))
    return any(change.kind in OUTCOME for change in changes)


def _is_answer(run: RunResult, turn: _Turn) -> bool:
    return run.log[-1] is turn.turn and turn.turn.text == run.text and not turn.calls


def _last_place(run: RunResult) -> str:
    numbers = [turn.number for turn in run.log[-1:]] + [one.turn for one in run.exchanges[-1:]]
    return f"{run.id}/{max(numbers, default=1)}"


def _format_value(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON; equal values have equal texts."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


def _format_status(run: RunResult) -> str:
    return f"{run.status}: {run.error}" if run.error else run.status


def _format_data(data: Any) -> str | None:
    return None if data is None else _format_value(jsonable(data), indent=2)


def _format_earlier(run: RunResult) -> str:
    """Returns the conversation that a run continues."""
    return "\n".join(map(_format_message, run.messages[: count_earlier(run)]))


def _format_message(message: Message) -> str:
    results = "\n".join(result.content for result in message.tool_results)
    calls = (f"{call.name} {_format_value(call.arguments)}" for call in message.tool_calls)
    return "\n".join(filter(None, (f"{message.role}: {results or message.content}", *calls)))


def _format_values(kind: Kind, a: Any, b: Any) -> tuple[str | None, str | None]:
    """Returns two values of a request's field as texts, without their common parts."""
    match kind:
        case "params":
            return _format_changed(a, b)
        case "tools":
            tools, tools_b = (
                [f"{t.name}: {t.description} {_format_value(t.input_schema())}" for t in tools]
                for tools in (a, b)
            )
            return _list_new(tools, tools_b)
        case "output":
            return _format_data(a), _format_data(b)
        case _:
            return a, b


def _format_changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the differing entries of two objects, one a line."""
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


def _format_pictures(a: Sequence[Picture], b: Sequence[Picture]) -> tuple[str, str]:
    pictures, pictures_b = (
        [f"{picture.shown}, sha256 {picture.digest[:12]}" for picture in some] for some in (a, b)
    )
    return _list_new(pictures, pictures_b)


def _list_new(a: Sequence[str], b: Sequence[str]) -> tuple[str, str]:
    """Returns the lines that only one of two lists has; all lines if only their order differs."""
    before, after = [line for line in a if line not in b], [line for line in b if line not in a]
    is_reordered = not before and not after
    return "\n".join(a if is_reordered else before), "\n".join(b if is_reordered else after)
