"""250 hostile commands and more, each run for real: nothing is touched, nothing is reached."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from tests.sandbox.batch import run_all, untouched
from tests.sandbox.cages import FULL, SECRET, Cage

pytestmark = pytest.mark.req("D-82", "D-43")

HERE = Path(__file__).parent
GROUPS: dict[str, list[str]] = tomllib.loads((HERE / "corpus.toml").read_text("utf-8"))
PLAIN: dict[str, list[str]] = tomllib.loads(
    (HERE.parent / "builtin" / "commands.toml").read_text("utf-8")
)
ENDLESS = ("f() { f | f & }; f", ":(){ :|:& };:")
"""Fork bombs: the number of root's processes is not limited, only how long they live."""

ALL = [
    *(command for group in GROUPS.values() for command in group),
    *(c for kind in ("refused", "not_caught", "evasions") for c in PLAIN[kind] if c not in ENDLESS),
]


assert len(set(ALL)) >= 250


def test_nothing_is_touched_or_reached(cage: Cage) -> None:
    with untouched(cage) as canaries:
        commands = [canaries.fill(command, cage) for command in dict.fromkeys(ALL)]
        outputs = run_all(cage, [command for command in commands if "\0" not in command])
    assert len(outputs) > 250
    assert sum(bool(text) for text in outputs.values()) > len(outputs) // 3, "they were run"


OUTSIDE = """
cd "$1"; chmod 700 .; touch -d 2001-01-01 secret.txt; chgrp "$(id -g)" secret.txt
chmod 4755 secret.txt
chown 1 secret.txt; echo x > secret.txt; truncate -s 0 secret.txt; mv secret.txt s; rm secret.txt
ln secret.txt "$2/link"; ln secret.txt link; touch new; cat secret.txt
"""


def test_what_each_level_keeps_of_a_file_outside(cage: Cage) -> None:
    other = cage.base / "other"
    with untouched(cage):
        ended = cage.run(f"f() {{ {OUTSIDE} }}; f {other} {cage.work}")
    assert SECRET not in ended.output
    mode = (other / "secret.txt").stat().st_mode
    assert stat.S_IMODE(mode) == (0o644 if cage.method in FULL else 0o4755)
