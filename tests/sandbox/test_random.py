"""Random commands, a hundred of them; `tests/sandbox/random_commands.py` runs 20,000."""

from __future__ import annotations

import pytest

from tests.sandbox.cages import Cage
from tests.sandbox.random_commands import run_random


@pytest.mark.req("D-82")
def test_no_canary_is_touched(cage: Cage) -> None:
    assert run_random(cage.method, cage.uid, 100, seed=7) > 25
