"""Runs and calls that ran at the same time or one after another, by their times.

Source: product.md "Runs are recordings"; D-67.
"""

from __future__ import annotations

from collections.abc import Sequence

from axe_nb.expectations.tree import Thing, count_in_order, find_in_group
from axe_nb.results import RunResult
from axe_nb.times import Lap

Found = Sequence[Sequence[Thing]]
"""The runs or calls that each subject of an expectation names."""


def find_parallel(found: Found) -> Thing | None:
    """Returns a run or call that ran at the same time as one of each of the other lists.

    A single list is held against itself. What is above another, and waits for it, does not count.
    Where no times were kept, the calls of one reply ran at the same time, unless the agent makes
    them one by one, and so did the runs that one call started.
    """
    if not _have_laps(found):
        return find_in_group(found)
    sides = found if len(found) > 1 else [found[0], found[0]]
    begun = [(thing, side) for side, things in enumerate(sides) for thing in things]
    running: list[list[Thing]] = [[] for _ in sides]
    for thing, side in sorted(begun, key=lambda one: _lap(one[0]).began):
        together = [thing]
        for other, things in enumerate(running):
            things[:] = [one for one in things if _lap(one).ended >= _lap(thing).began]
            beside = (one for one in things if all(_is_beside(one, own) for own in together))
            if other != side and (one := next(beside, None)):
                together.append(one)
        if len(together) == len(sides):
            return thing
        running[side].append(thing)
    return None


def count_following(root: RunResult, found: Found) -> int:
    """Returns the number of leading lists of which one began after one of the previous had ended.

    Args:
        root: the tree.
        found: the runs and calls of each step.
    """
    if not _have_laps(found):
        names = [{id(one.key) for one in things} for things in found]
        return count_in_order(root, names)
    before: Thing | None = None
    for done, things in enumerate(found):
        after = [one for one in things if before is None or _follows(before, one)]
        if not after:
            return done
        before = min(after, key=lambda one: _lap(one).ended)
    return len(found)


def _have_laps(found: Found) -> bool:
    return all(thing.lap for things in found for thing in things)


def _lap(thing: Thing) -> Lap:
    assert thing.lap is not None
    return thing.lap


def _is_beside(one: Thing, other: Thing) -> bool:
    if one.way[: len(other.way)] == other.way or other.way[: len(one.way)] == one.way:
        return False
    first, second = sorted((_lap(one), _lap(other)), key=lambda lap: lap.began)
    # a virtual clock stands still: what seems to touch was parallel if it could be
    return second.began < first.ended or (
        second.began == first.ended and one.group is not None and one.group == other.group
    )


def _follows(before: Thing, one: Thing) -> bool:
    gap = _lap(one).began - _lap(before).ended
    return gap > 0 or (gap == 0 and not _is_beside(before, one))
