"""250 hostile commands and more, each run for real: nothing is touched, nothing is reached."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.sandbox.batch import run_all, untouched
from tests.sandbox.cages import Cage, users

pytestmark = pytest.mark.req("D-55", "D-43")

HERE = Path(__file__).parent
GROUPS: dict[str, list[str]] = tomllib.loads((HERE / "corpus.toml").read_text("utf-8"))
PLAIN: dict[str, list[str]] = tomllib.loads(
    (HERE.parent / "builtin" / "commands.toml").read_text("utf-8")
)
ENDLESS = ("f() { f | f & }; f", ":(){ :|:& };:")
"""Fork bombs: the number of processes is not limited, only how long they live."""

ALL = [
    *(command for group in GROUPS.values() for command in group),
    *(c for c in [*PLAIN["refused"], *PLAIN["not_caught"]] if c not in ENDLESS),
]


def test_the_corpus_has_250_commands() -> None:
    assert len(set(ALL)) >= 250


@pytest.mark.parametrize("uid", users()[:1])  # test_random.py runs random ones as both
def test_nothing_is_touched_or_reached(cage: Cage) -> None:
    with untouched(cage) as canaries:
        commands = [canaries.fill(command, cage) for command in dict.fromkeys(ALL)]
        outputs = run_all(cage, [command for command in commands if "\0" not in command])
    assert len(outputs) > 250
    assert sum(bool(text) for text in outputs.values()) > len(outputs) // 3, "they were run"
