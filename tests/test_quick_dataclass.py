"""Dataclasses that are made quickly: they are as Python's own."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, field, fields, replace
from itertools import product
from typing import Any, ClassVar

import pytest

from axe_nb.quick_dataclass import dataclass
from axe_nb.results import RunResult

FLAGS: tuple[dict[str, bool], ...] = tuple(
    dict(zip(("frozen", "slots", "kw_only", "eq", "repr"), values, strict=True))
    for values in product((False, True), repeat=5)
)


def make_both(body: Callable[[Any], Any], **flags: bool) -> tuple[Any, Any]:
    """Returns the same class made by Python and by us."""
    return body(dataclasses.dataclass(**flags)), body(dataclass(**flags))


def many(decorate: Any) -> Any:
    """A class with every kind of field."""

    @decorate
    class Some:
        """Some fields."""

        kinds: ClassVar[int] = 6
        first: int
        second: str = "two"
        many: list[int] = field(default_factory=list)
        cache: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        fixed: float = field(default=0.5, init=False)
        hidden: int = field(default=0, repr=False, hash=False)
        last: tuple[int, ...] = field(default=(), kw_only=True)

        def __post_init__(self) -> None:
            if self.first < 0:
                raise ValueError("negative")

    return Some


def one(decorate: Any) -> Any:
    @decorate
    class One:
        value: Any

    return One


def none(decorate: Any) -> Any:
    @decorate
    class Empty:
        pass

    return Empty


def with_own_methods(decorate: Any) -> Any:
    @decorate
    class Own:
        first: int = 1
        second: int = 2

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.first == self.first

        def __hash__(self) -> int:
            return self.first

    return Own


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "least": ((1,), {}),
    "all": ((1, "b", [3]), {"last": (4,)}),
    "by name": ((), {"second": "b", "first": 2}),
    "none": ((), {}),
    "too many": ((1, "b", [], 1, ()), {}),
    "an unknown one": ((1,), {"third": 3}),
    "one that is not for callers": ((1,), {"cache": {}}),
    "one that is refused": ((-1,), {}),
}


def outcome(work: Callable[[], object]) -> str:
    """Returns what a piece of work gives, or the error in which it ends."""
    try:
        return repr(work())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_classes_do_what_those_of_python_do(flags: dict[str, bool]) -> None:
    seen = []
    for kind in make_both(many, **flags):

        def make(given: Any, named: Any, kind: Any = kind) -> str:
            return outcome(lambda: shown(kind(*given, **named)))

        made = [make(given, named) for given, named in CALLS.values()]
        a, b, c = (kind(first=number, many=[5]) for number in (1, 1, 2))
        seen.append(
            [
                made,
                (a == b, a == c, a != b, a == 1, a == a),
                outcome(lambda a=a: hash(a) and "a hash"),
                outcome(lambda a=a: setattr(a, "first", 3)),
                outcome(lambda a=a: delattr(a, "first")),
                str(inspect.signature(kind)),
                kind.__init__.__qualname__,
                (kind.__doc__, kind.__match_args__, kind.kinds),
                [name for name in ("__repr__", "__eq__", "__hash__") if name in vars(kind)],
                hasattr(kind, "__slots__") and kind.__slots__,
                [one.name for one in fields(kind)],
                [shown(other(b)) for other in (copy, deepcopy, lambda x: replace(x, hidden=7))],
            ]
        )
    assert seen[0] == seen[1]


def shown(value: Any) -> str:
    """Returns all fields of an object, whatever its `repr` shows."""
    return str([(one.name, getattr(value, one.name)) for one in fields(value)])


@pytest.mark.parametrize("body", [one, none, with_own_methods])
@pytest.mark.parametrize("frozen", [False, True])
def test_odd_classes_do_too(body: Callable[[Any], Any], frozen: bool) -> None:
    value = ["unhashable"]
    seen = []
    for kind in make_both(body, frozen=frozen, slots=True):
        given = () if not fields(kind) else (value,)
        a, b = kind(*given), kind(*given)
        seen.append(
            [
                a == b,
                outcome(lambda a=a: a),
                outcome(lambda a=a, b=b: hash(a) == hash(b)),
                str(inspect.signature(kind)),
                outcome(lambda kind=kind: inspect.signature(kind, eval_str=True)),
            ]
        )
    assert seen[0] == seen[1]


def test_an_object_that_holds_itself_can_be_shown() -> None:
    theirs, ours = make_both(one)
    shown = []
    for kind in (theirs, ours):
        loop = kind([])
        loop.value.append(loop)
        shown.append(repr(loop))
    assert shown[0] == shown[1]


def test_a_field_without_a_default_after_one_that_has_one_is_refused_at_once() -> None:
    for decorate in (dataclasses.dataclass, dataclass):
        with pytest.raises(TypeError, match=r"^non-default argument 'b' follows default"):
            decorate(type("Wrong", (), {"__annotations__": {"a": int, "b": int}, "a": 1}))


def test_a_field_may_be_compared_without_being_hashed() -> None:
    seen = []
    for decorate in (dataclasses.dataclass, dataclass):

        @decorate(frozen=True)
        class Named:
            name: str
            values: list[int] = field(hash=False)

        seen.append(
            (hash(Named("a", [1])) == hash(Named("a", [2])), Named("a", [1]) == Named("a", [2]))
        )
    assert seen == [(True, False)] * 2


def test_hashes_are_of_the_compared_fields() -> None:
    _, kind = make_both(one, frozen=True)
    assert hash(kind("a")) == hash(kind("a")) != hash(kind("b"))
    assert outcome(lambda: hash(kind([]))).startswith("TypeError")


@dataclass(frozen=True, slots=True)
class Base:
    first: int
    many: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Below(Base):
    second: str = "b"


@dataclasses.dataclass(frozen=True)
class ByPython(Below):
    third: float = 0.5


def test_classes_can_be_below_others() -> None:
    made = ByPython(1, [2], "c")
    assert repr(made) == "ByPython(first=1, many=[2], second='c', third=0.5)"
    assert Below(1) == Below(1, [], "b") != Base(1)
    for one in (made, Below(1), Base(1)):
        for name in ("first", "unknown"):
            with pytest.raises(FrozenInstanceError):
                setattr(one, name, 2)
        assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError, match="non-frozen"):
        dataclass(type("Loose", (Base,), {"__annotations__": {}}))


def test_each_object_has_values_of_its_own() -> None:
    a, b = Base(1), Base(1)
    assert a == b
    assert a.many is not b.many


def test_results_do_not_change_and_are_pickled() -> None:
    result = RunResult(status="completed", text="", agent="", model="")
    with pytest.raises(FrozenInstanceError):
        result.text = "x"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result
    assert list(inspect.signature(RunResult).parameters)[:4] == ["status", "text", "agent", "model"]
