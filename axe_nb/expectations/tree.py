"""A finished tree of runs as expectations see it: branches, uses of tools, order, parallel work.

Source: product.md "Runs are recordings"; D-59, D-67.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

from axe_nb.messages import ToolCall, ToolResult
from axe_nb.results import RunResult, name_run
from axe_nb.text import one_line, printable
from axe_nb.times import Lap
from axe_nb.toolbox import REGISTRY

MAX_NAME = 60
"""Characters of a name, which a model may have chosen."""

Way: TypeAlias = "tuple[Hashable, ...]"
"""The runs and calls from the root to a run or call; it begins with those above it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch:
    """One run, with the way to it."""

    run: RunResult
    above: tuple[str, ...] = ()
    """Agents of the runs above it, the root's first."""
    pointer: str = ""
    """Below the root's RunResult: `.children[0]`; empty for the root."""
    way: Way = ()
    group: Hashable = None
    """Equal for the runs that were started by parallel calls, or by one call."""
    lap: Lap | None = None
    """Its time; None if it was not kept."""

    @property
    def key(self) -> object:
        """The result itself."""
        return self.run

    def __str__(self) -> str:
        way = " › ".join(map(name_of, (*self.above, name_run(self.run.agent, self.run.model))))
        return f"in agent {way}" + (f" ({name_of(self.run.id)})" if self.above else "")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Use:
    """One tool call that was permitted."""

    branch: Branch
    call: ToolCall
    result: ToolResult | None
    """None if the run was stopped before."""
    turn: int
    """From 1."""
    pointer: str
    """Below the root's RunResult: `.log[0].calls[1]`."""
    way: Way
    group: Hashable
    lap: Lap | None
    """Its time; None if it was not kept."""

    @property
    def key(self) -> object:
        """The call itself."""
        return self.call

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that it ran with."""
        edited = self.result.edited if self.result else None
        return self.call.arguments if edited is None else edited

    def __str__(self) -> str:
        return f"{self.branch}, turn {self.turn}, call of {name_of(self.call.name)}"


Thing: TypeAlias = Branch | Use


def name_of(name: str) -> str:
    """A name for an error message."""
    return printable(one_line(name, MAX_NAME))


def list_branches(root: RunResult) -> list[Branch]:
    """All runs of a tree, depth first in call order."""
    return list(_walk(Branch(run=root, lap=_find_lap(root))))


def _walk(branch: Branch) -> Iterator[Branch]:
    yield branch
    run = branch.run
    turns = {
        call.id: number if turn.parallel else (number, call.id)
        for number, turn in enumerate(run.log)
        for call in turn.calls
    }
    for index, child in enumerate(run.children):
        yield from _walk(
            Branch(
                run=child,
                above=(*branch.above, name_run(run.agent, run.model)),
                pointer=f"{branch.pointer}.children[{index}]",
                way=(*branch.way, child.call_id, index),
                group=(branch.pointer, turns.get(child.call_id, child.call_id)),
                lap=_find_lap(child),
            )
        )


def _find_lap(run: RunResult) -> Lap | None:
    return next((lap for lap in run.times if lap.kind == "run"), None)


def list_uses(branches: Sequence[Branch]) -> list[Use]:
    """The tool calls of these runs that were permitted and not skipped, run by run."""
    return [use for branch in branches for use in _list_own_uses(branch)]


def _list_own_uses(branch: Branch) -> Iterator[Use]:
    laps = {(lap.turn, lap.call): lap for lap in branch.run.times if lap.kind == "tool"}
    children = {child.call_id: child for child in branch.run.children}
    for number, turn in enumerate(branch.run.log):
        results = {result.call_id: result for result in turn.results}
        for index, call in enumerate(() if turn.closing else turn.calls):
            result = results.get(call.id)
            if result is None or not (result.is_denied or result.is_skipped):
                tool, child = REGISTRY.find(call.name), children.get(call.id)
                waits = tool is not None and tool.is_one_child  # for a place among the children
                own = laps.get((turn.number, index + 1))
                yield Use(
                    branch=branch, call=call, result=result, turn=turn.number,
                    pointer=f"{branch.pointer}.log[{number}].calls[{index}]",
                    way=(*branch.way, call.id),
                    group=(branch.pointer, number if turn.parallel else (number, index)),
                    lap=_find_lap(child) if waits and child else own,
                )  # fmt: skip


def find_in_group(found: Sequence[Sequence[Thing]]) -> Thing | None:
    """Returns a run or call in one group with one of each of the other lists.

    A single list is held against itself.
    """
    if len(found) == 1:
        seen: set[Hashable] = set()
        for thing in found[0]:
            if thing.group is not None and thing.group in seen:
                return thing
            seen.add(thing.group)
        return None
    others = [{thing.group for thing in things} for things in found[1:]]
    return next(
        (
            thing
            for thing in found[0]
            if thing.group is not None and all(thing.group in groups for groups in others)
        ),
        None,
    )


def count_in_order(root: RunResult, steps: Sequence[Set[int]]) -> int:
    """Number of leading steps that followed one another.

    Without times, the order of the calls decides. Parallel calls, and the runs that one call
    started, do not follow one another.

    Args:
        root: the tree.
        steps: for each step, the `id()` of the runs or calls that are it.
    """
    return _advance(root, steps, 0)


def _advance(run: RunResult, steps: Sequence[Set[int]], done: int) -> int:
    """Number of steps done after a run, if `done` were done before it."""
    children = defaultdict(list)
    for child in run.children:
        children[child.call_id].append(child)
    before = now = done
    for turn in run.log:
        before = now
        for call in turn.calls:
            start = before if turn.parallel else now
            below = (_advance(child, steps, start) for child in children.pop(call.id, ()))
            now = max(now, _reach(call, steps, start), *below)
    for lost in children.values():  # of a turn that was stopped
        now = max(now, *(_advance(child, steps, before) for child in lost))
    return max(now, _reach(run, steps, done))


def _reach(thing: object, steps: Sequence[Set[int]], done: int) -> int:
    """Number of steps done after this one, if `done` were done before it."""
    return done + (done < len(steps) and id(thing) in steps[done])
