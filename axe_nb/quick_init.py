"""Frozen dataclasses that are made quickly.

Python sets each field of a frozen dataclass by a call of `object.__setattr__`, at ten times the
price of an assignment: a third of what a turn took us. The slots themselves can be set for less.
Source: goals.md "our own share of a turn".
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick_init(cls: type[T]) -> type[T]:
    """Replaces the constructor of a frozen dataclass with slots by one that does the same sooner.

    It has the same signature, calls `__post_init__`, and the fields stay as they are afterwards.
    """
    init: Any = cls.__init__
    code = init.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional, by_keyword = names[: code.co_argcount], names[code.co_argcount :]
    known: dict[str, Any] = {}
    lines = []
    for field in fields(cls):  # type: ignore[arg-type]
        name = value = field.name
        known[f"set_{name}"] = getattr(cls, name).__set__
        if field.default_factory is not MISSING:
            known[f"make_{name}"] = field.default_factory
            given = f"{name} if {name} is not NOT_GIVEN else " if field.init else ""
            value = f"{given}make_{name}()"
        lines.append(f"set_{name}({names[0]}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(f"{names[0]}.__post_init__()")
    defaults = (*(init.__defaults__ or ()), *(init.__kwdefaults__ or {}).values())
    known["NOT_GIVEN"] = next((d for d in defaults if repr(d) == "<factory>"), MISSING)
    arguments = [*positional, *(["*", *by_keyword] if by_keyword else [])]
    source = f"def __init__({', '.join(arguments)}):\n  " + "\n  ".join(lines)
    exec(source, known)  # as dataclasses makes its own
    quick = known.pop("__init__")
    quick.__defaults__, quick.__kwdefaults__ = init.__defaults__, init.__kwdefaults__
    quick.__annotations__, quick.__qualname__ = init.__annotations__, init.__qualname__
    quick.__module__ = cls.__module__
    cls.__init__ = quick  # type: ignore[method-assign]
    return cls
