"""Parses expectations, and checks finished runs against them.

A clause is `no NAME`, `NAME` or `NAME OPERATOR VALUE`. A clause about an agent, unless it begins
with `no`, may end in `, parallel`. `docs/make_reference.py` documents the forms and measures.
Source: D-67.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from axe_nb.agents.agent import DEFINED, Agent, list_agents
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.patterns import compile_pattern
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError, ExpectationError
from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult, name_run
from axe_nb.text import list_some, nearest, one_line, plural, printable, quote, suggestion

Kind = Literal["number", "text", "list", "data"]

NUMERIC = ("==", "!=", "<", "<=", ">", ">=")
TEXTUAL = ("==", "!=", "~", "contains")
OPERATORS: Mapping[Kind, tuple[str, ...]] = {
    "number": NUMERIC, "text": TEXTUAL, "list": (*NUMERIC, *TEXTUAL[2:]),
    "data": (*NUMERIC, *TEXTUAL[2:]),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measure:
    """A property of a run that an expectation compares."""

    kind: Kind
    """Kind of the value. A list is compared with a number by length, and with text item by item."""
    read: Callable[[RunResult], Any]
    """Returns the value for one run, or None if it is unknown."""
    of_tree: bool = True
    """True if the values of all runs in the tree are added up; False if only the root's is used."""


def _list_failed(run: RunResult, *, denied: bool) -> list[str]:
    results = [one for turn in run.log for one in turn.results if not one.is_skipped]
    return [one.name for one in results if one.is_error and one.is_denied == denied]


MEASURES: Mapping[str, Measure] = {
    "turns": Measure("number", attrgetter("turns")),
    "depth": Measure("number", lambda run: count_levels(run), of_tree=False),
    "tokens": Measure("number", attrgetter("usage.total")),
    "cost": Measure("number", attrgetter("cost")),
    "denied": Measure("list", partial(_list_failed, denied=True)),
    "failed": Measure("list", partial(_list_failed, denied=False)),
    "text": Measure("text", attrgetter("text"), of_tree=False),
    "status": Measure("text", attrgetter("status"), of_tree=False),
    "data": Measure("data", attrgetter("data"), of_tree=False),
}
"""Name → measure, in the order of the reference page."""


def count_levels(run: RunResult) -> int:
    return max((1 + count_levels(child) for child in run.children), default=0)


MAX_SHOWN = 80
"""Maximum length of an expectation, a name or a value in messages, in characters."""

MAX_SECONDS = 1.0
"""Time limit in seconds for matching a pattern against a model's text."""

MISSING = object()
"""Placeholder for a part of `data` that does not exist."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_PATTERN = r"/(?:\\.|[^/\\])*/"
_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_PIECE = re.compile(rf"(?:~\s*{_PATTERN}|{_STRING}|[^;])+", re.DOTALL)
"""Matches the text of one clause, including semicolons in its patterns and strings."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    words: str
    """Text of the clause, shortened."""
    is_negated: bool
    name: str
    kind: str
    """`agent` or `tool` if `name` has the prefix `agent:` or `tool:`; otherwise empty."""
    measure: Measure | None
    """Measure to compare; None if the clause is about an agent or a tool."""
    path: tuple[str | int, ...]
    """Keys and indices that lead to a part of `data`; empty if the clause compares no part."""
    operator: str
    """Comparison operator. If empty, the clause is met if the part of `data` exists, or if the
    measure or the number of runs or calls is truthy."""
    value: Any
    """Value to compare with; a compiled pattern for `~`."""
    is_parallel: bool


def parse(text: str) -> list[Clause]:
    if not isinstance(text, str):
        raise ConfigError(f"expectations must be text, not {type(text).__name__}")
    pieces = [piece.strip() for piece in _PIECE.findall(text) if piece.strip()]
    if not pieces:
        raise ConfigError("no expectation given", hint="for example turns <= 6; no write_file")
    clauses = []
    for piece in pieces:
        try:
            clauses.append(_parse_clause(piece))
        except ConfigError as error:
            shown = one_line(piece, MAX_SHOWN)
            problem = f"invalid expectation `{shown}`: {error.message}"
            raise ConfigError(problem, hint=error.hint) from None
    return clauses


def _parse_clause(text: str) -> Clause:
    found = _CLAUSE.fullmatch(text)
    if found is None or (found["no"] and (found["operator"] or found["parallel"])):
        raise ConfigError(
            "expected NAME, no NAME, or NAME OPERATOR VALUE",
            hint="separate expectations with ; and put : after the name of a result",
        )
    name, sign, kind = found["name"], found["operator"] or "", found["kind"] or ""
    path = [
        int(step[2]) if step[2] else step[1] if step[1] is not None else step[3]
        for step in _STEP.finditer(name)
    ]
    measure = None
    if name[0] in "\"'":
        name = _unquote(name)
    elif not kind:
        measure = MEASURES.get("data" if path[:1] == ["data"] else name)
    if found["parallel"] and measure:
        raise ConfigError("`parallel` takes an agent")
    value = _read_value(sign, found["value"], measure.kind if measure else "number")
    return Clause(
        words=one_line(text, MAX_SHOWN), is_negated=bool(found["no"]), name=name,
        kind=kind.rstrip(":"), measure=measure, path=tuple(path[1:]), operator=sign, value=value,
        is_parallel=bool(found["parallel"]),
    )  # fmt: skip


def _read_value(sign: str, written: str, kind: Kind) -> Any:
    """Parses the value after an operator. Raises ConfigError if either does not fit `kind`."""
    if not sign:
        return None
    if sign not in OPERATORS[kind]:
        raise ConfigError(f"expected one of {' '.join(OPERATORS[kind])}")
    if sign == "~":
        if not re.fullmatch(_PATTERN, written, re.DOTALL):
            raise ConfigError("expected a pattern, as in /42/")
        try:
            return compile_pattern(written[1:-1])
        except ConfigError as error:
            raise ConfigError(f"invalid pattern: {error}", hint=error.hint) from None
    if kind != "number" and re.fullmatch(_STRING, written, re.DOTALL):
        return _unquote(written)
    if kind != "text" and re.fullmatch(r"-?\d[\d_]*(\.\d+)?", written):
        return float(written) if "." in written else int(written)
    if kind == "number" or sign in NUMERIC[2:]:
        raise ConfigError("expected a number", hint="write it without a unit, as in 5000")
    if not _WORD.fullmatch(written):
        raise ConfigError("expected a value", hint="put a text in quotes")
    constants = {"true": True, "false": False, "null": None} if kind == "data" else {}
    return constants.get(written, written)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class Thing:
    """A run, or a permitted tool call, with its place in the run tree."""

    run: RunResult
    """The run itself, or the run that made the call."""
    name: str
    is_run: bool
    place: str
    """Place in words: `in agent lead › writer (0.3), turn 1, call of write_file`."""
    pointer: str
    """Python path from the root's result to the run or call: `.children[0].log[0].calls[1]`."""
    group: Hashable = None
    """Key shared by all runs that one call, or several parallel calls, have started."""
    lap: Lap | None = None
    """Time span of a run; None for a call, or if no times were recorded."""
    is_forked: bool = False
    """True if a fork copied the run, including the times of the original run."""

    def ran_beside(self, later: Thing) -> bool:
        """True if `later` began before this run ended; False if it is a descendant of this run.

        If times are missing or equal, as on a virtual clock, it is True if both runs come from one
        call or from parallel calls.
        """
        first, second = sorted((self.pointer, later.pointer), key=len)
        if second.startswith(first) or self.is_forked != later.is_forked:
            return False
        if self.lap and later.lap and later.lap.began != self.lap.ended:
            return later.lap.began < self.lap.ended
        return self.group == later.group


Verdict: TypeAlias = tuple[bool, str, Thing]
"""Outcome of a clause: whether it is met, the value found, and the deciding run or call."""


def check(
    result: RunResult, expectations: str, *, name: str = "", agents_dir: str | None = None
) -> int:
    """Checks that a run meets all expectations, and returns their number.

    `name` is the Python expression for the result, used in the hint. Raises ExpectationError if an
    expectation is not met, and ConfigError if one is invalid or cannot be decided.
    """
    clauses = parse(expectations)
    tree = list(_walk(result, (), "", None))
    names = _KnownNames(tree, agents_dir)
    facts, places = list[str](), list[Thing]()
    for clause in clauses:
        if clause.measure is None:
            is_met, found, at = _decide_count(clause, tree, names)
        elif clause.measure.kind == "data":
            is_met, found, at = _decide_data(clause, result.data, tree[0])
        else:
            is_met, found, at = _decide_measure(clause, clause.measure, tree)
        if not is_met:
            facts.append(f"{clause.words} (found {found})")
            places.append(at)
    if not facts:
        return len(clauses)
    count = f"{len(facts)} of {len(clauses)} expectations" if len(facts) > 1 else "expectation"
    hint = f"look at {name}{places[0].pointer}" if name else "run it with -v to see every turn"
    error = ExpectationError(f"{count} not met: {list_some(facts, 3)}", hint=hint)
    error.place = places[0].place
    raise error


def check_spelling(expectations: str, agents: Iterable[Agent], agents_dir: str | None) -> None:
    """Before a run, raises ConfigError for an unknown name that is similar to a known one.

    `agents` are the agents that the run can reach. Any other unknown name is allowed, because it
    may belong to an agent that a tool starts.
    """
    names = _KnownNames((), agents_dir, agents)
    known = {*names.agents, *names.tools, *MEASURES}
    for clause in parse(expectations):
        is_known = clause.measure or clause.kind or clause.name in known
        if not is_known and suggestion(clause.name, known):
            error, shown = names.explain_unknown(clause), _shorten(clause.name)
            error.hint += f" If not, write agent:{shown} or tool:{shown}"
            raise error


class _KnownNames:
    """The known names of agents and tools, to find misspelt names such as `writ_file`."""

    def __init__(
        self, tree: Sequence[Thing], agents_dir: str | None, agents: Iterable[Agent] = ()
    ) -> None:
        every = [*DEFINED.values(), *agents]
        self.agents = {*DEFINED, *list_agents(agents_dir), *(agent.name for agent in every)}
        self.tools = {*REGISTRY.known, *(tool for agent in every for tool in agent.own_tools)}
        runs = [thing.run for thing in tree if thing.is_run]
        self.agents |= {run.agent for run in runs} - {""}
        self.tools |= {call.name for run in runs for turn in run.log for call in turn.calls}

    def is_agent(self, clause: Clause) -> bool:
        """True if a clause is about an agent. Raises ConfigError for unknown or ambiguous names."""
        name, kind = clause.name, clause.kind
        if not kind and name in self.agents & self.tools:
            shown = _shorten(name)
            raise ConfigError(
                f"{quote(shown)} is both an agent and a tool",
                hint=f"write agent:{shown} or tool:{shown}",
            )
        known = self._list(kind)
        if name not in known and (not kind or nearest(name, known)):
            raise self.explain_unknown(clause)
        return kind == "agent" or (not kind and name in self.agents)

    def _list(self, kind: str) -> set[str]:
        return {"agent": self.agents, "tool": self.tools}.get(kind, self.agents | self.tools)

    def explain_unknown(self, clause: Clause) -> ConfigError:
        names = self._list(clause.kind) | (set() if clause.kind else set(MEASURES))
        agents = list_some(sorted(map(_shorten, self.agents)), 5)
        step = f"agents: {agents}; for any other name write agent:NAME or tool:NAME"
        return ConfigError(
            f"unknown {clause.kind or 'agent, tool or measure'} {quote(_shorten(clause.name))}",
            hint=suggestion(clause.name, sorted(names)) or step,
        )


def _shorten(name: str) -> str:
    """Shortens a name for an error message, because a model may have chosen it."""
    return printable(one_line(name, MAX_SHOWN))


def _walk(run: RunResult, above: tuple[str, ...], pointer: str, group: Hashable) -> Iterator[Thing]:
    """Yields a run, then its permitted calls, then the same for each of its child runs."""
    agents = (*above, name_run(run.agent, run.model))
    place = f"in agent {' › '.join(map(_shorten, agents))}"
    place += f" ({_shorten(run.id)})" if above else ""
    own = next((lap for lap in run.times if lap.kind == "run"), None)
    is_forked = bool(run.log) and run.log[-1].source == "recorded"
    yield Thing(run, run.agent, True, place, pointer, group, own, is_forked)
    groups: dict[str, Hashable] = {}
    for at, turn in enumerate(run.log):
        where = f"{place}, turn {turn.number}"
        results = {result.call_id: result for result in turn.results}
        for number, call in enumerate(turn.calls):
            groups[call.id] = (pointer, at, None if turn.parallel else number)
            result = results.get(call.id)
            if result is None and (turn.closing or run.ok):  # an agent without tools
                continue
            if result and (result.is_denied or result.is_skipped):
                continue
            place_of_call = f"{where}, call of {_shorten(call.name)}"
            here = f"{pointer}.log[{at}].calls[{number}]"
            yield Thing(run, call.name, False, place_of_call, here)
    for number, child in enumerate(run.children):
        below = groups.get(child.call_id, (pointer, child.call_id))
        yield from _walk(child, agents, f"{pointer}.children[{number}]", below)


def _decide_count(clause: Clause, tree: Sequence[Thing], names: _KnownNames) -> Verdict:
    is_agent = names.is_agent(clause)
    if clause.is_parallel and not is_agent:
        raise ConfigError(f"{clause.words}: `parallel` takes an agent")
    wanted = {clause.name} if is_agent else REGISTRY.expand(clause.name)
    things = [one for one in tree if one.is_run == is_agent and one.name in wanted]
    count = len(things)
    is_met = _holds(count, clause.operator, clause.value) != clause.is_negated
    found = plural(count, "run" if is_agent else "call")
    if not things:
        others = dict.fromkeys(one.name for one in tree[1:] if one.is_run == is_agent)
        listed = list_some(list(map(_shorten, others)), 5)
        found += f"; it {'ran' if is_agent else 'called'} {listed}" if listed else ""
        return is_met, found, tree[0]
    if clause.is_parallel and is_met:
        ordered = sorted(things, key=lambda one: one.lap.began if one.lap else 0)
        if not any(first.ran_beside(second) for first, second in combinations(ordered, 2)):
            return False, f"{found}, none in parallel", things[-1]
    limit = int(clause.value or 0)
    return is_met, found, things[limit if 0 <= limit < count else -1]


def _decide_measure(clause: Clause, measure: Measure, tree: Sequence[Thing]) -> Verdict:
    """Checks a clause about a measure, either of the root or summed over the tree."""
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
        at = max(
            (one for one in tree if one.is_run), key=lambda one: one.pointer.count(".children")
        )
    shown = _describe(found)
    if measure.of_tree and measure.kind == "number" and len(runs) > 1:
        shown += " in the whole tree"
    return _holds(found, clause.operator, clause.value) != clause.is_negated, shown, at


def _decide_data(clause: Clause, data: Any, root: Thing) -> Verdict:
    """Checks a clause about a part of `data`; a missing part fails every comparison."""
    if data is None:
        return False, "no data: its output is text", root
    found = data = jsonable(data)
    for step in clause.path:
        if isinstance(found, dict):
            found = found.get(step, MISSING)
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            found = MISSING
    if not clause.operator:
        is_met = (found is MISSING) == clause.is_negated
    else:
        is_met = found is not MISSING and _holds(found, clause.operator, clause.value)
    shown = f"none in {_describe(data)}" if found is MISSING else _describe(found)
    return is_met, shown, root


def _holds(found: Any, sign: str, value: Any) -> bool:
    """True if a comparison holds or, if there is no operator, `found` is truthy."""
    if sign == "":
        return bool(found)
    if sign == "!=":
        return not _holds(found, "==", value)
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
    return f"{found:.6g}" if isinstance(found, float) else f"a {type(found).__name__}"
