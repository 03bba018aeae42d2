"""Compares two trees of runs, and tells each change once, where it began.

What follows from a change in the same step is not told again: the prompt of a child from the
arguments of its call, the result of that call from the child's answer, the last turn from the
answer. Texts are compared without secrets, since a saved run has none.
Source: D-6, D-59, D-60.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.conversion.jsonable import jsonable
from axe_nb.delegation.spawn_agent import without_seconds
from axe_nb.messages import Message, ToolSpec
from axe_nb.messages.exchanges import Exchange
from axe_nb.pictures.picture import Picture
from axe_nb.recording.find_exchange import count_earlier
from axe_nb.results import RunResult, Turn, name_run
from axe_nb.secrets import Filter, redact
from axe_nb.text import printable
from axe_nb.views.diffs.pairing import (
    CallFacts,
    TurnFacts,
    format_value,
    list_others,
    list_turns,
    pair_calls,
    pair_runs,
    pair_turns,
)

Kind: TypeAlias = Literal[
    "agent", "model", "system prompt", "params", "tools", "output", "conversation", "prompt",
    "pictures", "turn", "said", "asked", "call", "tool", "order", "arguments", "run", "result",
    "answer", "data", "status", "error", "warnings",
]  # fmt: skip
"""The part of a run that differs. A `turn`, `call` or `run` is there on one side only."""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. Its texts are not filtered; what is shown of them has no secrets."""

    place: str | None
    """Turn of the first tree, such as `0.2/3`; None if only the second tree has it."""
    other: str | None
    """The same turn of the second tree; None if only the first tree has it."""
    kind: Kind
    agent: str
    """The agent, else the model."""
    tool: str = ""
    """The tool, if it is about a call."""
    call: int | None = None
    """Number of the call in its run, from 1, as in places; that of the first tree if both have it.
    """
    before: str | None = None
    """The text of the first tree; None if it has none."""
    after: str | None = None
    """The text of the second tree; None if it has none."""

    def __repr__(self) -> str:
        places = dict.fromkeys(filter(None, (self.place, self.other)))
        of = f" of {printable(self.tool)}" if self.tool else ""
        return redact(f"Change({self.kind}{of} at {printable(' → '.join(places))})")


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Two turns that belong together."""

    a: Turn = field(repr=False)
    b: Turn = field(repr=False)
    place: str
    other: str
    parts: tuple[Change | RunPair, ...] = field(repr=False)
    """Changes and child runs, in reading order."""


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs that belong together."""

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


OUTCOME = frozenset[Kind]({"answer", "data", "status", "error"})
"""Changes of a run that its caller's model is told."""

REQUEST_FIELDS: Mapping[Kind, Callable[[Exchange], Any]] = {
    "system prompt": lambda exchange: exchange.system,
    "params": lambda exchange: exchange.params,
    "tools": lambda exchange: exchange.tools,
    "output": lambda exchange: exchange.output,
}
"""The parts of a request that are not made of the turns before it."""


def compare_runs(a: RunResult, b: RunResult, clean: Filter) -> RunPair:
    """Compares two runs and all runs below them."""
    return _RunComparison(a, b, clean).compare()


@dataclass(frozen=True, slots=True)
class _Step:
    """Two turns, or begins or ends of runs, whose changes are told."""

    agent: str
    place: str | None
    other: str | None
    clean: Filter

    def tell(
        self, kind: Kind, before: str | None, after: str | None, call: CallFacts | None = None
    ) -> Iterator[Change]:
        """Yields the change between two texts, of a call or not, if they differ."""
        clean = self.clean.text
        if before == after or (before and after and clean(before) == clean(after)):
            return
        yield Change(
            kind=kind, place=self.place, other=self.other, agent=self.agent,
            tool=call.call.name if call else "", call=call.number if call else None,
            before=before, after=after,
        )  # fmt: skip


class _RunComparison:
    """The comparison of two runs."""

    def __init__(self, a: RunResult, b: RunResult, clean: Filter) -> None:
        self._a = a
        self._b = b
        self._clean = clean
        self._exchanges = [{one.turn: one for one in run.exchanges} for run in (a, b)]
        self._told: dict[Kind, tuple[Any, Any]] = {}
        """Values of the requests that differ, as they were last."""
        self._is_answer_told = False

    def compare(self, *, is_told: bool = False) -> RunPair:
        """Compares them.

        Args:
            is_told: if True, the arguments of the call that started them differ, and so does
                what they were told.
        """
        return RunPair(self._a, self._b, tuple(self._list_parts(is_told)))

    def _list_parts(self, is_told: bool) -> Iterator[Change | TurnPair | RunPair]:
        a, b = self._a, self._b
        yield from self._compare_inputs(is_told)
        for turn, other in pair_turns(list_turns(a), list_turns(b)):
            if turn and other:
                yield self._compare_turns(turn, other)
            elif turn and not _is_answer(a, turn):  # told as such
                yield from self._step(turn, None).tell("turn", str(turn), None)
            elif other and not _is_answer(b, other):
                yield from self._step(None, other).tell("turn", None, str(other))
        ends = self._make_step(_last_place(a), _last_place(b))
        yield from self._compare_children(ends, None, list_others(a), list_others(b))
        if not self._is_answer_told:
            yield from _compare_answers(ends, a, b)
        yield from _compare_ends(ends, a, b)

    def _make_step(self, place: str | None, other: str | None) -> _Step:
        return _Step(name_run(self._a.agent, self._a.model), place, other, self._clean)

    def _step(self, turn: TurnFacts | None, other: TurnFacts | None) -> _Step:
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
        yield from step.tell("conversation", format_earlier(a), format_earlier(b))
        if not is_told:
            yield from step.tell("prompt", a.prompt, b.prompt)
        yield from _compare_pictures(step, None, a.pictures, b.pictures)

    def _compare_requests(self, step: _Step, turn: int, turn_b: int) -> Iterator[Change]:
        """Yields what differs in two requests, unless it did so in those before."""
        a, b = self._exchanges[0].get(turn), self._exchanges[1].get(turn_b)
        if a is None or b is None:
            return
        for kind, read in REQUEST_FIELDS.items():
            value, value_b = read(a), read(b)
            if value is value_b or value == value_b:
                self._told.pop(kind, None)
            elif self._told.get(kind) != (value, value_b):
                self._told[kind] = value, value_b
                yield from step.tell(kind, *format_values(kind, value, value_b))

    def _compare_turns(self, a: TurnFacts, b: TurnFacts) -> TurnPair:
        step = self._step(a, b)
        parts: list[Change | RunPair] = [
            *self._compare_requests(step, a.turn.number, b.turn.number)
        ]
        parts += step.tell("asked", a.turn.question, b.turn.question)
        if _is_answer(self._a, a) and _is_answer(self._b, b):
            parts += _compare_answers(step, self._a, self._b)
            self._is_answer_told = True
        else:
            parts += step.tell("said", a.turn.text, b.turn.text)
        if a.key != b.key or a.goes_on_below or b.goes_on_below:
            parts += self._compare_calls(step, a.calls, b.calls)
        return TurnPair(a.turn, b.turn, step.place or "", step.other or "", tuple(parts))

    def _compare_calls(
        self, step: _Step, a: Sequence[CallFacts], b: Sequence[CallFacts]
    ) -> Iterator[Change | RunPair]:
        """Yields the changes of the reply first, then those of what came of its calls."""
        pairs, moved = pair_calls(a, b)
        paired, paired_b = dict(pairs), {j for _, j in pairs}
        both = list[tuple[CallFacts, CallFacts, bool]]()
        for i, one in enumerate(a):
            if i not in paired:
                yield from step.tell("call", str(one), None, one)
                continue
            other = b[paired[i]]
            if i in moved:
                numbers = (f"call {one.number}", f"call {other.number}")
                yield from step.tell("order", *numbers, call=one)
            changes = [
                *step.tell("tool", one.call.name, other.call.name, one),
                *_compare_arguments(step, one, other),
            ]
            yield from changes
            both.append((one, other, bool(changes)))
        for j, other in enumerate(b):
            if j not in paired_b:
                yield from step.tell("call", None, str(other), other)
        for one, other, is_changed in both:
            is_told = is_changed and one.call.traits.delegates
            children = self._compare_children(step, one, one.children, other.children, is_told)
            below = list(children)
            yield from below
            has_runs = one.call.traits.delegates and one.children and other.children
            if not (has_runs and any(map(_has_new_outcome, below))):
                yield from _compare_results(step, one, other)

    def _compare_children(
        self,
        step: _Step,
        call: CallFacts | None,
        a: Sequence[RunResult],
        b: Sequence[RunResult],
        is_told: bool = False,
    ) -> Iterator[Change | RunPair]:
        for run, other in pair_runs(a, b):
            if run and other:
                yield _RunComparison(run, other, self._clean).compare(is_told=is_told)
                continue
            before, after = (format_run(one) if one else None for one in (run, other))
            yield from step.tell("run", before, after, call)


def _compare_answers(step: _Step, a: RunResult, b: RunResult) -> Iterator[Change]:
    """Yields the change of the answer: of its data if both have some, which is its text, too."""
    if a.data is None or b.data is None:
        yield from step.tell("answer", a.text, b.text)
    yield from step.tell("data", format_data(a.data), format_data(b.data))


def _compare_ends(step: _Step, a: RunResult, b: RunResult) -> Iterator[Change]:
    if a.status == b.status:
        yield from step.tell("error", a.error, b.error)
    else:
        yield from step.tell("status", format_status(a), format_status(b))
    yield from step.tell("warnings", "\n".join(a.warnings), "\n".join(b.warnings))


def _compare_arguments(step: _Step, a: CallFacts, b: CallFacts) -> Iterator[Change]:
    """Yields the arguments that differ, those of the person included if a call was edited."""
    if a.call.raw or b.call.raw:
        yield from step.tell("arguments", a.given, b.given, a)
        return
    ran, ran_b = (
        call.call.arguments if not call.result or call.result.edited is None else call.result.edited
        for call in (a, b)
    )
    given, given_b = format_changed(a.call.arguments, b.call.arguments)
    if given == given_b:
        given, given_b = format_changed(ran, ran_b)
    yield from step.tell("arguments", given, given_b, a)


def _compare_results(step: _Step, a: CallFacts, b: CallFacts) -> Iterator[Change]:
    one, other = a.result, b.result
    texts = [without_seconds(result) if result else None for result in (one, other)]
    if one and other and (one.is_error, one.is_denied) != (other.is_error, other.is_denied):
        words = (
            "denied" if r.is_denied else "failed" if r.is_error else "worked" for r in (one, other)
        )
        texts = [f"{word}: {text}" for word, text in zip(words, texts, strict=True)]
    yield from step.tell("result", texts[0], texts[1], a)
    yield from _compare_pictures(
        step, a, one.pictures if one else (), other.pictures if other else ()
    )


def _compare_pictures(
    step: _Step, call: CallFacts | None, a: Sequence[Picture], b: Sequence[Picture]
) -> Iterator[Change]:
    yield from step.tell("pictures", *format_pictures(a, b), call=call)


def _has_new_outcome(part: Change | RunPair) -> bool:
    """True if a run ended differently, or is there on one side only."""
    if isinstance(part, Change):
        return True
    own = [one for turn in part.parts if isinstance(turn, TurnPair) for one in turn.parts]
    changes = (change for change in (*part.parts, *own) if isinstance(change, Change))
    return any(change.kind in OUTCOME for change in changes)


def _is_answer(run: RunResult, turn: TurnFacts) -> bool:
    return run.log[-1] is turn.turn and turn.turn.text == run.text and not turn.calls


def _last_place(run: RunResult) -> str:
    numbers = [turn.number for turn in run.log[-1:]] + [one.turn for one in run.exchanges[-1:]]
    return f"{run.id}/{max(numbers, default=1)}"


def format_run(run: RunResult) -> str:
    return f"{name_run(run.agent, run.model)}: {run.task or run.prompt}"


def format_status(run: RunResult) -> str:
    return f"{run.status}: {run.error}" if run.error else run.status


def format_data(data: Any) -> str | None:
    return None if data is None else format_value(jsonable(data), indent=2)


def format_earlier(run: RunResult) -> str:
    """Returns the conversation that a run continues."""
    return "\n".join(map(_format_message, run.messages[: count_earlier(run)]))


def _format_message(message: Message) -> str:
    results = "\n".join(result.content for result in message.tool_results)
    calls = (f"{call.name} {format_value(call.arguments)}" for call in message.tool_calls)
    return "\n".join(filter(None, (f"{message.role}: {results or message.content}", *calls)))


def format_values(kind: Kind, a: Any, b: Any) -> tuple[str | None, str | None]:
    """Returns two values of a field of a request as texts, without what they have in common."""
    match kind:
        case "params":
            return format_changed(a, b)
        case "tools":
            return _format_tools(a, b)
        case "output":
            return format_data(a), format_data(b)
        case _:
            return a, b


def format_changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the entries of two objects that differ, one a line."""
    texts = [
        {
            str(key): value if isinstance(value, str) else format_value(value)
            for key, value in o.items()
        }
        for o in (a, b)
    ]
    keys = [key for key in {**texts[0], **texts[1]} if texts[0].get(key) != texts[1].get(key)]
    before, after = ("\n".join(f"{k}: {one[k]}" for k in keys if k in one) for one in texts)
    return before, after


def _format_tools(a: Sequence[ToolSpec], b: Sequence[ToolSpec]) -> tuple[str, str]:
    """Returns the tools that differ, one a line; all names if only their order does."""
    before, after = (
        [f"{tool.name}: {tool.description} {format_value(tool.input_schema())}" for tool in tools]
        for tools in (a, b)
    )
    if sorted(before) == sorted(after):
        return ", ".join(tool.name for tool in a), ", ".join(tool.name for tool in b)
    return _list_new(before, after), _list_new(after, before)


def format_pictures(a: Sequence[Picture], b: Sequence[Picture]) -> tuple[str, str]:
    """Returns the pictures that differ, one a line; all of them if only their order does."""
    before, after = (
        [f"{picture.shown}, sha256 {picture.digest[:12]}" for picture in some] for some in (a, b)
    )
    if sorted(before) == sorted(after):
        return "\n".join(before), "\n".join(after)
    return _list_new(before, after), _list_new(after, before)


def _list_new(lines: Sequence[str], others: Sequence[str]) -> str:
    return "\n".join(line for line in lines if line not in others)
