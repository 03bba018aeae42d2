"""The exchanges of a run in memory: they share what its messages hold."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from axe_nb import RunResult
from axe_nb.scripting.wire import Protocol
from tests.chains import count_text, run_chain
from tests.protocols import BRIEF


def reach(roots: Iterable[Any]) -> dict[int, Any]:
    """All objects that hang on some, by identity, without the code of classes."""
    found: dict[int, Any] = {}
    left = list(roots)
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = one
            left += gc.get_referents(one)
    return found


def count_own(result: RunResult) -> int:
    """The bytes of objects that only the exchanges hold."""
    others = reach((result.messages, result.log, result.prompt, result.agent, result.model))
    own = [one for key, one in reach(result.exchanges).items() if key not in others]
    return sum(map(sys.getsizeof, own))


@pytest.mark.req("D-59")
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", BRIEF)
def test_exchanges_take_little_beside_the_messages_that_they_share(
    protocol: Protocol, streams: bool
) -> None:
    result = run_chain(protocol, streams=streams)
    assert len(result.exchanges) == result.turns > 5
    assert count_own(result) < 2 * count_text(result)
