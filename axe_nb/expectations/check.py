"""The check of a finished run against its expectations.

Source: product.md "Runs are recordings"; D-67.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from axe_nb.errors import ConfigError, ExpectationError
from axe_nb.expectations.clause import Clause, Condition, Subject, Test, find_advice
from axe_nb.expectations.comparison import MISSING, Stopwatch, describe, holds, look_up
from axe_nb.expectations.grammar import parse
from axe_nb.expectations.names import KnownNames, check_argument
from axe_nb.expectations.table import MEASURES, Measure
from axe_nb.expectations.timing import count_following, find_parallel
from axe_nb.expectations.tree import Branch, Thing, Use, list_branches, list_uses, name_of
from axe_nb.results import RunResult, name_run
from axe_nb.text import list_some, plural, quote, suggestion
from axe_nb.toolbox import REGISTRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on one expectation."""

    is_met: bool
    found: str
    """The state of the run, in a few words."""
    at: Thing
    """The branch that decided it."""


def check(
    result: RunResult, expectations: str, *, name: str = "", agents_dir: str | None = None
) -> int:
    """Checks a run and returns the number of expectations, all of which it met.

    Args:
        result: the run.
        expectations: as in `researcher >= 2, parallel; no write_file`.
        name: the Python expression for the result, for the next step; empty = none.
        agents_dir: folder to search for agents first.

    Raises:
        ConfigError: the expectations are invalid, or cannot be decided.
        ExpectationError: the run did not meet them.
    """
    clauses = parse(expectations)
    branches = list_branches(result)
    tree = _Tree(branches, KnownNames(branches, agents_dir), Stopwatch())
    verdicts = [(clause, tree.decide(clause)) for clause in clauses]
    missed = [(clause, verdict) for clause, verdict in verdicts if not verdict.is_met]
    if not missed:
        return len(clauses)
    facts = [f"{clause.words} (found {verdict.found})" for clause, verdict in missed]
    at = missed[0][1].at
    count = f"{len(missed)} of {len(clauses)} expectations" if len(missed) > 1 else "expectation"
    hint = f"look at {name}{at.pointer}" if name else "run it with -v to see every turn"
    error = ExpectationError(f"{count} not met: {list_some(facts, 3)}", hint=hint)
    error.place = str(at)
    raise error


class _Tree:
    """A tree of runs, and the verdicts on it."""

    def __init__(self, branches: Sequence[Branch], names: KnownNames, watch: Stopwatch) -> None:
        self._branches = branches
        self._root = branches[0]
        self._uses = list_uses(branches)
        self._names = names
        self._watch = watch

    def decide(self, clause: Clause) -> Verdict:
        """Decides one expectation.

        Raises:
            ConfigError: it names something unknown, or cannot be decided.
        """
        subject, *others = clause.subjects
        if others and clause.is_parallel:
            verdict = self._run_beside(clause.subjects)
        elif others:
            verdict = self._follow(clause.subjects)
        elif subject.measure and subject.measure.kind == "data":
            return self._decide_data(subject, clause)
        elif subject.measure:
            verdict = self._compare(subject.name, subject.measure, clause.test)
        else:
            verdict = self._count(subject, clause)
        is_met = verdict.is_met != clause.is_negated
        return Verdict(is_met=is_met, found=verdict.found, at=verdict.at)

    def _count(self, subject: Subject, clause: Clause) -> Verdict:
        """Counts the runs of an agent, or the calls of a tool."""
        things = self._find(subject)
        number, is_agent = len(things), self._names.is_agent(subject)
        is_met = holds(number, clause.test, self._watch)
        found = plural(number, "run" if is_agent else "call")
        if not things:
            found += self._describe_others(is_agent)
            return Verdict(is_met=is_met, found=found, at=self._root)
        if clause.is_parallel and is_met and not find_parallel([things]):
            return Verdict(is_met=False, found=f"{found}, none in parallel", at=things[-1])
        wanted = int(clause.test.value.number or 0)
        at = things[wanted if 0 <= wanted < number else -1]
        return Verdict(is_met=is_met, found=found, at=at)

    def _describe_others(self, is_agent: bool) -> str:
        """The runs or calls that there were instead, in a few words."""
        runs = [name_run(b.run.agent, b.run.model) for b in self._branches[1:]]
        names = runs if is_agent else [use.call.name for use in self._uses]
        others = list(dict.fromkeys(map(name_of, names)))
        return f"; it {'ran' if is_agent else 'called'} {list_some(others, 5)}" if others else ""

    def _run_beside(self, subjects: Sequence[Subject]) -> Verdict:
        """Checks that a run or call of each ran in parallel with one of each other."""
        found = [self._find(subject) for subject in subjects]
        for subject, things in zip(subjects, found, strict=True):
            if not things:
                return Verdict(is_met=False, found=f"no {name_of(subject.name)}", at=self._root)
        if common := find_parallel(found):
            return Verdict(is_met=True, found="in parallel", at=common)
        return Verdict(is_met=False, found="none in parallel", at=found[-1][-1])

    def _follow(self, subjects: Sequence[Subject]) -> Verdict:
        """Checks that runs and calls followed one another."""
        steps = [self._find(subject) for subject in subjects]
        done = count_following(self._root.run, steps)
        if done == len(steps):
            return Verdict(is_met=True, found="this order", at=steps[-1][-1])
        name = name_of(subjects[done].name)
        if not steps[done]:
            return Verdict(is_met=False, found=f"no {name}", at=self._root)
        found = f"no {name} after {name_of(subjects[done - 1].name)}"
        return Verdict(is_met=False, found=found, at=steps[done][-1])

    def _compare(self, name: str, measure: Measure, test: Test) -> Verdict:
        """Compares a measure of the tree."""
        own = self._read(name, measure)
        found, at = own[0], self._root
        if measure.of == "tree":
            is_list = measure.kind == "list"
            found = [item for items in own for item in items] if is_list else sum(own)
            weights = [len(value) if is_list else value for value in own]
            at = self._branches[weights.index(max(weights))]
        elif name == "depth":
            at = max(self._branches, key=lambda branch: len(branch.above))
        # saved errors are compared, and a time is never the same twice
        shown = "another time" if name == "seconds" else describe(found)
        is_sum = measure.of == "tree" and measure.kind != "list" and len(own) > 1
        if is_sum and name != "seconds":
            shown += " in the whole tree"
        return Verdict(is_met=holds(found, test, self._watch), found=shown, at=at)

    def _read(self, name: str, measure: Measure) -> list[Any]:
        """The values of all runs that count.

        Raises:
            ConfigError: one is unknown.
        """
        branches = self._branches if measure.of == "tree" else self._branches[:1]
        own = [measure.read(branch.run) for branch in branches]
        if None in own:
            model = quote(name_of(branches[own.index(None)].run.model))
            raise ConfigError(
                f"{name} cannot be checked: the price of the model {model} is unknown",
                hint="compare tokens instead",
            )
        return own

    def _decide_data(self, subject: Subject, clause: Clause) -> Verdict:
        """Compares a part of the structured output; what is missing compares with nothing."""
        data = MEASURES["data"].read(self._root.run)
        if data is None:
            return Verdict(is_met=False, found="no data: its output is text", at=self._root)
        found = look_up(data, subject.path)
        if not clause.test.operator:
            is_met = (found is MISSING) == clause.is_negated
        else:
            is_met = found is not MISSING and (
                holds(found, clause.test, self._watch) != clause.is_negated
            )
        shown = f"none in {describe(data)}" if found is MISSING else describe(found)
        return Verdict(is_met=is_met, found=shown, at=self._root)

    def _find(self, subject: Subject) -> Sequence[Thing]:
        """The runs or calls of a subject that meet its conditions."""
        if self._names.is_agent(subject):
            clauses = [_make_clause(condition) for condition in subject.conditions]
            runs = [branch for branch in self._branches if branch.run.agent == subject.name]
            return [run for run in runs if self._fits_run(run, clauses)]
        names = REGISTRY.expand(subject.name)
        calls = [use for use in self._uses if use.call.name in names]
        used = {name for use in calls for name in use.arguments}
        for condition in subject.conditions:
            check_argument(str(condition.path[0]), subject, used)
        return [call for call in calls if self._fits_call(call, subject.conditions)]

    def _fits_run(self, branch: Branch, clauses: Sequence[Clause]) -> bool:
        if not clauses:
            return True
        below = _Tree(list_branches(branch.run), self._names, self._watch)
        return all(below.decide(clause).is_met for clause in clauses)

    def _fits_call(self, use: Use, conditions: Sequence[Condition]) -> bool:
        found = [look_up(use.arguments, condition.path) for condition in conditions]
        return all(
            value is not MISSING and (not c.test.operator or holds(value, c.test, self._watch))
            for value, c in zip(found, conditions, strict=True)
        )


def _make_clause(condition: Condition) -> Clause:
    """The expectation of a run that a condition on it stands for.

    Raises:
        ConfigError: there is no such measure, or it cannot be compared like that.
    """
    name = str(condition.path[0])
    measure = MEASURES.get(name)
    if measure is None:
        hint = suggestion(name, MEASURES) or f"measures: {', '.join(MEASURES)}"
        raise ConfigError(f"unknown measure {quote(name)} of an agent", hint=hint)
    if advice := find_advice(measure, condition.test):
        raise ConfigError(f"{name} cannot be compared this way", hint=advice)
    subject = Subject(name=name, measure=measure, path=condition.path[1:])
    return Clause(
        words=name, is_negated=False, subjects=(subject,), test=condition.test, is_parallel=False
    )
