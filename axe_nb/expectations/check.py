"""The check of a finished run against expectations, and of the names in them before it begins.

Source: D-67.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from axe_nb.agents.agent import DEFINED, Agent, list_agents
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError, ExpectationError
from axe_nb.expectations.language import MAX_SHOWN, MEASURES, Clause, Measure, parse
from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult, name_run
from axe_nb.text import list_some, nearest, one_line, plural, printable, quote, suggestion

MAX_SECONDS = 1.0
"""Time limit in seconds for matching a pattern, as the texts come from models."""

MISSING = object()
"""Stands for a part of `data` that does not exist."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Thing:
    """One run, or one permitted call of a tool, with its place in the tree."""

    run: RunResult
    """The run itself, or the run that made the call."""
    name: str
    """The agent, or the tool."""
    is_run: bool
    place: str
    """Its place, for people: `in agent lead › writer (0.3), turn 1, call of write_file`."""
    pointer: str
    """Path below the root's RunResult: `.children[0].log[0].calls[1]`."""
    way: tuple[Hashable, ...]
    """The runs and calls from the root to it; begins with the way of those above it."""
    group: Hashable
    """Key that is equal for all that one call, or parallel calls, have started."""
    lap: Lap | None
    """Its time span; None if none was recorded."""
    is_forked: bool
    """True if a fork took it over, with its time in the run that it forks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one expectation."""

    is_met: bool
    found: str
    """The state of the run, in a few words."""
    at: Thing
    """The run or call that decided it."""


def check(
    result: RunResult, expectations: str, *, name: str = "", agents_dir: str | None = None
) -> int:
    """Checks a run and returns the number of expectations, all of which it met.

    `name` is the Python expression for the result, which the error names as the next step.
    """
    clauses = parse(expectations)
    tree = list(_walk(result, (), "", (), None))
    names = _KnownNames(tree, agents_dir)
    missed = [
        (clause, verdict)
        for clause in clauses
        if not (verdict := _decide(clause, tree, names)).is_met
    ]
    if not missed:
        return len(clauses)
    facts = [f"{clause.words} (found {verdict.found})" for clause, verdict in missed]
    at = missed[0][1].at
    count = f"{len(missed)} of {len(clauses)} expectations" if len(missed) > 1 else "expectation"
    hint = f"look at {name}{at.pointer}" if name else "run it with -v to see every turn"
    error = ExpectationError(f"{count} not met: {list_some(facts, 3)}", hint=hint)
    error.place = at.place
    raise error


def check_spelling(expectations: str, agents: Iterable[Agent], agents_dir: str | None) -> None:
    """Rejects a misspelt name before the run, which would be paid for and then not be judged.

    `agents` are those that the run can reach. Other unknown names may belong to agents that a tool
    starts, which only the finished run shows.
    """
    names = _KnownNames((), agents_dir, agents)
    known = names.agents | names.tools
    for clause in parse(expectations):
        shown = _shorten(clause.name)
        is_known = clause.measure or clause.kind or clause.name in known
        if not is_known and suggestion(clause.name, {*known, *MEASURES}):
            error = names.explain_unknown(clause)
            error.hint += f" If not, write agent:{shown} or tool:{shown}"
            raise error


class _KnownNames:
    """The agents and tools of a tree, of this session and of files.

    A misspelt name must not make `no writ_file` true.
    """

    def __init__(
        self, tree: Sequence[Thing], agents_dir: str | None, agents: Iterable[Agent] = ()
    ) -> None:
        every = [*DEFINED.values(), *agents]
        self.agents = {*DEFINED, *list_agents(agents_dir), *(agent.name for agent in every)}
        self.tools = {*REGISTRY.known, *(tool for agent in every for tool in agent.own_tools)}
        for thing in tree:
            if thing.is_run:
                self.agents |= {thing.name} - {""}
                self.tools |= {call.name for turn in thing.run.log for call in turn.calls}

    def is_agent(self, clause: Clause) -> bool:
        """True if a clause is about an agent, False if about a tool; an error if about either."""
        name, kind = clause.name, clause.kind
        if not kind and name in self.agents & self.tools:
            shown = _shorten(name)
            raise ConfigError(
                f"{quote(shown)} is both an agent and a tool",
                hint=f"write agent:{shown} or tool:{shown}",
            )
        known = {"agent": self.agents, "tool": self.tools}.get(kind, self.agents | self.tools)
        if name not in known and (not kind or nearest(name, known)):
            raise self.explain_unknown(clause)
        return kind == "agent" or (not kind and name in self.agents)

    def explain_unknown(self, clause: Clause) -> ConfigError:
        names = {"agent": self.agents, "tool": self.tools}.get(
            clause.kind, {*self.agents, *self.tools, *MEASURES}
        )
        agents = list_some(sorted(map(_shorten, self.agents)), 5)
        step = f"agents: {agents}; for any other name write agent:NAME or tool:NAME"
        return ConfigError(
            f"unknown {clause.kind or 'agent, tool or measure'} {quote(_shorten(clause.name))}",
            hint=suggestion(clause.name, sorted(names)) or step,
        )


def _shorten(name: str) -> str:
    """A name for an error message; a model may have chosen it."""
    return printable(one_line(name, MAX_SHOWN))


def _walk(
    run: RunResult, above: tuple[str, ...], pointer: str, way: tuple[Hashable, ...], group: Hashable
) -> Iterator[Thing]:
    """Yields a run, its calls that were permitted, and those below it, in call order."""
    agents = (*above, name_run(run.agent, run.model))
    place = f"in agent {' › '.join(map(_shorten, agents))}"
    place += f" ({_shorten(run.id)})" if above else ""
    own = next((lap for lap in run.times if lap.kind == "run"), None)
    yield Thing(run, run.agent, True, place, pointer, way, group, own, _is_forked(run))
    laps = {(lap.turn, lap.call): lap for lap in run.times if lap.kind == "tool"}
    children = {child.call_id: child for child in run.children}
    groups: dict[str, Hashable] = {}
    for at, turn in enumerate(run.log):
        where = f"{place}, turn {turn.number}"
        results = {result.call_id: result for result in turn.results}
        for number, call in enumerate(turn.calls):
            groups[call.id] = (pointer, at, None if turn.parallel else number)
            result = results.get(call.id)
            if turn.closing or (result and (result.is_denied or result.is_skipped)):
                continue
            lap, is_forked = laps.get((turn.number, number + 1)), turn.source == "recorded"
            tool, child = REGISTRY.find(call.name), children.get(call.id)
            if child and tool and tool.is_one_child:  # the call waits for a free place
                lap = next((one for one in child.times if one.kind == "run"), None)
                is_forked = _is_forked(child)
            yield Thing(
                run, call.name, False, f"{where}, call of {_shorten(call.name)}",
                f"{pointer}.log[{at}].calls[{number}]", (*way, call.id), groups[call.id], lap,
                is_forked,
            )  # fmt: skip
    for number, child in enumerate(run.children):
        group = groups.get(child.call_id, (pointer, child.call_id))
        below = (*way, child.call_id, number)
        yield from _walk(child, agents, f"{pointer}.children[{number}]", below, group)


def _is_forked(run: RunResult) -> bool:
    return bool(run.log) and run.log[-1].source == "recorded"


def _decide(clause: Clause, tree: Sequence[Thing], names: _KnownNames) -> Verdict:
    if clause.measure is not None:
        decide = _decide_data if clause.measure.kind == "data" else _compare_measure
        return decide(clause, clause.measure, tree)
    is_agent = names.is_agent(clause)
    wanted = {clause.name} if is_agent else REGISTRY.expand(clause.name)
    things = [one for one in tree if one.is_run == is_agent and one.name in wanted]
    count = len(things)
    is_met = _holds(count, clause.operator, clause.value) != clause.is_negated
    found = plural(count, "run" if is_agent else "call")
    if not things:
        others = dict.fromkeys(one.name for one in tree[1:] if one.is_run == is_agent)
        listed = list_some(list(map(_shorten, others)), 5)
        found += f"; it {'ran' if is_agent else 'called'} {listed}" if listed else ""
        return Verdict(is_met, found, tree[0])
    if clause.is_parallel and is_met:
        ordered = sorted(things, key=lambda one: one.lap.began if one.lap else 0)
        if not any(_ran_beside(first, second) for first, second in combinations(ordered, 2)):
            return Verdict(False, f"{found}, none in parallel", things[-1])
    limit = int(clause.value or 0)
    return Verdict(is_met, found, things[limit if 0 <= limit < count else -1])


def _ran_beside(first: Thing, second: Thing) -> bool:
    """True if the second, which began later, began before the first ended, without waiting for it.

    Without times, and if they touch, as on a virtual clock, their calls decide.
    """
    if second.way[: len(first.way)] == first.way or first.way[: len(second.way)] == second.way:
        return False
    if first.is_forked != second.is_forked:
        return False
    if first.lap and second.lap and second.lap.began != first.lap.ended:
        return second.lap.began < first.lap.ended
    return first.group == second.group


def _compare_measure(clause: Clause, measure: Measure, tree: Sequence[Thing]) -> Verdict:
    """Compares a measure of the root, or its sum over the tree."""
    runs = [one for one in tree if one.is_run] if measure.of_tree else [tree[0]]
    values = [measure.read(one.run) for one in runs]
    if None in values:
        model = quote(_shorten(runs[values.index(None)].run.model))
        raise ConfigError(
            f"{clause.name} cannot be checked: the price of the model {model} is unknown",
            hint="compare tokens instead",
        )
    at, found = tree[0], values[0]
    if measure.of_tree:
        is_list = measure.kind == "list"
        weights = [len(value) if is_list else value for value in values]
        found = [item for value in values for item in value] if is_list else sum(values)
        at = runs[weights.index(max(weights))]
    elif clause.name == "depth":
        at = max((one for one in tree if one.is_run), key=lambda one: len(one.way))
    shown = _describe(found)
    if measure.of_tree and measure.kind == "number" and len(runs) > 1:
        shown += " in the whole tree"
    is_met = _holds(found, clause.operator, clause.value) != clause.is_negated
    return Verdict(is_met, shown, at)


def _decide_data(clause: Clause, measure: Measure, tree: Sequence[Thing]) -> Verdict:
    """Compares a part of the structured output; a missing part fails every comparison."""
    data = found = measure.read(tree[0].run)
    if data is None:
        return Verdict(False, "no data: its output is text", tree[0])
    for step in clause.path:
        if isinstance(found, Mapping):
            found = found.get(step, MISSING)
        elif isinstance(step, int):
            is_list = isinstance(found, Sequence) and not isinstance(found, str)
            found = found[step] if is_list and step < len(found) else MISSING
        elif dataclasses.is_dataclass(found):  # fields are read without code of the object's
            names = {field.name for field in dataclasses.fields(found)}
            found = getattr(found, step) if step in names else MISSING
        else:
            found = getattr(found, "__dict__", {}).get(step, MISSING)
    if not clause.operator:
        is_met = (found is MISSING) == clause.is_negated
    else:
        is_met = found is not MISSING and _holds(found, clause.operator, clause.value)
    shown = f"none in {_describe(data)}" if found is MISSING else _describe(found)
    return Verdict(is_met, shown, tree[0])


def _holds(found: Any, sign: str, value: Any) -> bool:
    """True if a value is as expected; without an operator, if it is neither zero nor empty."""
    if sign == "":
        return bool(found)
    if sign in ("!=", "!~"):
        return not _holds(found, {"!=": "==", "!~": "~"}[sign], value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(found, Sequence) and not isinstance(found, str):
        if is_number and sign != "contains":
            return _COMPARE[sign](len(found), value)
        return any(_holds(item, sign, value) for item in found)
    if sign == "~":
        try:
            return isinstance(found, str) and bool(value.search(found, timeout=MAX_SECONDS))
        except TimeoutError:
            shown = one_line(f"/{value.pattern}/", MAX_SHOWN)
            raise ConfigError(
                f"the pattern {shown} takes longer than {MAX_SECONDS:g} s",
                hint="use a simpler pattern without nested repeats",
            ) from None
    if sign == "contains" and isinstance(found, str | Mapping):
        return str(value) in found
    if is_number != (isinstance(found, int | float) and not isinstance(found, bool)):
        return False
    if isinstance(found, str) != isinstance(value, str):
        return found is value and sign == "=="
    return _COMPARE["==" if sign == "contains" else sign](found, value)


def _describe(found: Any) -> str:
    """A found value in a few words, on one line."""
    if isinstance(found, str):
        return quote(one_line(found, MAX_SHOWN))
    if isinstance(found, Sequence):
        shown = [one_line(item, MAX_SHOWN) for item in found if isinstance(item, str)]
        items = f" ({list_some(list(dict.fromkeys(shown)), 3)})" if shown else ""
        return f"{plural(len(found), 'item')}{items}"
    if isinstance(found, Mapping):
        return f"an object with {list_some([quote(str(key)) for key in found], 5) or 'no keys'}"
    if found is None or isinstance(found, bool):
        return json.dumps(found)
    if isinstance(found, int):
        return f"{found:,}" if abs(found) < 10**15 else "a large number"
    if isinstance(found, float):
        return f"{found:.6g}"
    return f"a {type(found).__name__}"
