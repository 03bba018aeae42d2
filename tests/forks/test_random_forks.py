"""Forks of random trees that were stopped at random moments, held to what every run promises.

`AXE_FORKED_TREES=200 python -m tests.forks.test_random_forks` plays more of them by hand.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ConfigError, RunResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.fork import make_point
from axe_nb.session.drive import drive
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.random_trees import Stopping, check, play, wait_until_nothing_is_left

TREES = os.environ.get("AXE_FORKED_TREES", "20")

CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"reply": "given"}, {"prompt": Illustrated("more")}, {"results": {}},
)  # fmt: skip

FAULT = re.compile(r"(Key|Attribute|Type|Assertion|Index|Value|Runtime)Error\b")
"""Beginning of the error of a run that met a fault of ours."""


@pytest.mark.timeout(120)
@pytest.mark.req("D-66", "D-2")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
def test_forks_of_random_trees_keep_every_promise(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.forks.test_random_forks"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root), "AXE_NB_HISTORY": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " completed" in done.stdout


def list_places(result: RunResult) -> list[str]:
    """The turns of a tree, and the one after the last of each run."""
    turns = {one.id: {exchange.turn for exchange in one.exchanges} for one in result.walk()}
    return [f"{id}/{n}" for id, own in turns.items() for n in (*own, max(own, default=0) + 1)]


def fork(result: RunResult, chance: random.Random) -> tuple[str, RunResult]:
    """Forks a tree at a random place, and checks it; (what became of it, the latest result)."""
    place, changes = chance.choice(list_places(result)), chance.choice(CHANGES)
    try:
        point = make_point(result, place, **changes)
    except ConfigError:
        return "refused", result
    handle, view = Session().start(RunRequest(agent=None, fork=point)), Stopping(-1, None)
    forked = drive(handle, view)
    wait_until_nothing_is_left()
    check(view.events, forked)
    for run in forked.walk():
        assert not FAULT.match(run.error or ""), run.error
        if run.id == point.run.id:  # what was before the place came from the recording
            assert all(turn.source for turn in run.log if turn.number < point.turn)
    return forked.status, forked


def main() -> None:
    axe_nb.script("inner")(lambda request: "inner end")
    for seed in range(1, int(TREES) + 1):
        print(f"seed {seed}:", end="")
        chance = random.Random(seed)
        _, result = play(seed)
        for _ in range(3):
            outcome, result = fork(result, chance)
            print(f" {outcome}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
