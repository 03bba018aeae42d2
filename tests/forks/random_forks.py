"""Forks of random trees that were stopped at random moments, held to what every run promises.

`python -m tests.forks.random_forks --trees 200 --seed 1` plays them, and prints what became of
them; the exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
import traceback
from typing import Any

import axe_nb
from axe_nb import ConfigError, RunResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.fork import ForkPoint, make_point
from axe_nb.session.drive import drive
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.random_trees import Stopping, check, play, wait_until_nothing_is_left

CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"reply": "given"}, {"prompt": Illustrated("more")}, {"results": {}},
)  # fmt: skip

FAULT = re.compile(r"(Key|Attribute|Type|Assertion|Index|Value|Runtime)Error\b")
"""Beginning of the error of a run that met a fault of ours."""


def list_places(result: RunResult) -> list[str]:
    """The turns of a tree, and the one after the last of each run."""
    turns = {one.id: {exchange.turn for exchange in one.exchanges} for one in result.walk()}
    return [f"{id}/{n}" for id, own in turns.items() for n in (*own, max(own, default=0) + 1)]


def fork(result: RunResult, chance: random.Random) -> tuple[str, RunResult]:
    """Forks a tree at a random place; (what became of it, the latest result).

    Raises:
        AssertionError: a promise was broken.
    """
    place, changes = chance.choice(list_places(result)), chance.choice(CHANGES)
    try:
        point = make_point(result, place, **changes)
    except ConfigError:
        return "refused", result
    handle, view = Session().start(RunRequest(agent=None, fork=point)), Stopping(-1, None)
    forked = drive(handle, view)
    wait_until_nothing_is_left()
    check(view.events, forked)
    check_fork(point, forked)
    return forked.status, forked


def check_fork(point: ForkPoint, forked: RunResult) -> None:
    """What was before the place came from the recording; no run met a fault."""
    for run in forked.walk():
        assert not FAULT.match(run.error or ""), run.error
        if run.id == point.run.id:
            assert all(turn.source for turn in run.log if turn.number < point.turn)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    axe_nb.script("inner")(lambda request: "inner end")
    outcomes: collections.Counter[str] = collections.Counter()
    broken = []
    for seed in range(asked.seed, asked.seed + asked.trees):
        chance = random.Random(seed)
        try:
            _, result = play(seed)
            for _ in range(3):
                outcome, result = fork(result, chance)
                outcomes[outcome] += 1
        except Exception:
            broken.append(f"seed {seed}: {traceback.format_exc()}")
    print(*(f"{count:4} {outcome}" for outcome, count in outcomes.items()), sep="\n")
    print(f"{asked.trees} trees, {len(broken)} broken promises")
    print(*broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
