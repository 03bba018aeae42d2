"""The constructor of frozen dataclasses that are made often: as Python's own, but quicker."""

from __future__ import annotations

import inspect
import pickle
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from axe_nb.quick_init import quick_init
from axe_nb.results import RunResult


@dataclass(frozen=True, slots=True)
class Slow:
    first: int
    second: str = "two"
    many: list[int] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    last: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("negative")


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: str = "two"
    many: list[int] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    last: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("negative")


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "least": ((1,), {}),
    "all": ((1, "b", [3]), {"last": (4,)}),
    "by name": ((), {"second": "b", "first": 2}),
    "none": ((), {}),
    "too many": ((1, "b", [], ()), {}),
    "an unknown one": ((1,), {"third": 3}),
    "one that is not for callers": ((1,), {"cache": {}}),
    "one that is refused": ((-1,), {}),
}


@pytest.mark.parametrize(("given", "named"), CALLS.values(), ids=CALLS)
def test_the_quick_constructor_does_the_same(given: Any, named: Any) -> None:
    def make(kind: Any) -> str:
        try:
            made = kind(*given, **named)
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return repr(made)

    assert make(Quick) == make(Slow).replace("Slow", "Quick")


def test_its_signature_is_the_same() -> None:
    assert inspect.signature(Quick) == inspect.signature(Slow)
    assert Quick.__init__.__qualname__ == "Quick.__init__"


def test_each_object_has_values_of_its_own() -> None:
    one, other = Quick(1), Quick(1)
    assert one == other
    assert one.many is not other.many
    assert one.cache is not other.cache


def test_its_objects_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Quick(1).first = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        RunResult(status="completed", text="", agent="", model="").text = "x"  # type: ignore[misc]


def test_its_objects_are_copied_and_pickled() -> None:
    one = Quick(1, "b", [2], last=(3,))
    assert pickle.loads(pickle.dumps(one)) == copy(one) == replace(one) == one
    assert replace(one, first=5).first == 5
