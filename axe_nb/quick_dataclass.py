"""`dataclass` as Python has it, but quicker: the definition of a class, and the making of objects.

Python compiles four to eight functions where a dataclass is defined. This takes 0.4 ms, which was a
quarter of the first answer of a process. Here only the constructor is compiled, on first use. It
sets the slots of frozen classes directly, as `object.__setattr__` takes ten times as long.
Source: goals.md "new process to first answer", "our own share of a turn".
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import MappingProxyType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **flags):
        """Does what `dataclasses.dataclass` does.

        Args:
            cls: the class; None = the decorator is returned.
            flags: `eq`, `frozen`, `kw_only`, `repr` and `slots`.
        """
        if cls is None:
            return lambda cls: _make(cls, **flags)
        return _make(cls)


def _make(
    cls: Any,
    *,
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
    repr: bool = True,
    slots: bool = False,
) -> Any:
    own = dict(vars(cls))
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    has_base = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))  # which has to be frozen too
    doc, cls.__doc__ = cls.__doc__, "-"  # Python would write one with the signature
    cls = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=frozen and has_base, kw_only=kw_only, slots=slots
    )(cls)
    cls.__doc__ = doc
    fields = dataclasses.fields(cls)
    _check_order(fields)
    methods: dict[str, Any] = {"__init__": _LateInit(cls, is_frozen=frozen)}
    if repr:
        methods["__repr__"] = _make_repr([field.name for field in fields if field.repr])
    if eq:
        read = _reader([field.name for field in fields if field.compare])
        methods["__eq__"] = _make_eq(read)
        if not has_hash:
            cls.__hash__ = _make_hash(_reader(_list_hashed(fields))) if frozen else None
    if frozen:
        cls.__dataclass_params__.frozen = True
        methods |= _make_frozen(cls, frozenset(field.name for field in fields))
    if frozen and slots:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own:
            if hasattr(method, "__qualname__"):
                method.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    return cls


def freeze(table: Mapping[str, Any]) -> MappingProxyType[str, Any]:
    """Returns a copy of the table that cannot be changed, but copied and pickled."""
    return table if isinstance(table, MappingProxyType) else MappingProxyType({**table})


copyreg.pickle(MappingProxyType, lambda table: (freeze, ({**table},)))


def _check_order(fields: tuple[Field[Any], ...]) -> None:
    """Raises as Python does, not at the first object: the constructor is compiled late."""
    before = ""
    for field in fields:
        if field.init and not field.kw_only:
            if _is_optional(field):
                before = field.name
            elif before:
                names = f"{field.name!r} follows default argument {before!r}"
                raise TypeError(f"non-default argument {names}")


def _list_hashed(fields: tuple[Field[Any], ...]) -> list[str]:
    return [one.name for one in fields if (one.compare if one.hash is None else one.hash)]


def _reader(names: list[str]) -> Callable[[Any], Any]:
    """Returns a function that reads the fields that are compared, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple([getattr(one, name) for name in names])


def _make_repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _make_eq(read: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or read(self) == read(other)

    return __eq__


def _make_hash(read: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(read(self))

    return __hash__


def _make_frozen(cls: Any, names: frozenset[str]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=False):
        object.__setattr__(self, field.name, value)


class _LateInit:
    """The constructor of a class until it is needed, and then in its place."""

    def __init__(self, cls: Any, *, is_frozen: bool) -> None:
        self._cls = cls
        self._is_frozen = is_frozen

    def __get__(self, one: Any, _: type) -> Any:
        init = _compile_init(self._cls, is_frozen=self._is_frozen)
        self._cls.__init__ = init
        return init if one is None else init.__get__(one)


class _Given:
    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN = _Given()
"""The default of a field that has a factory."""


def _compile_init(cls: Any, *, is_frozen: bool) -> Any:
    """Returns the constructor, as Python would make it but for the way that it sets fields."""
    fields = dataclasses.fields(cls)
    positional = [field for field in fields if field.init and not field.kw_only]
    by_keyword = [field for field in fields if field.init and field.kw_only]
    arguments = ["self", *map(_write_argument, positional)]
    arguments += ["*", *map(_write_argument, by_keyword)] if by_keyword else []
    known: dict[str, Any] = {"NOT_GIVEN": _NOT_GIVEN}
    lines = [_write_line(cls, field, known, is_frozen=is_frozen) for field in fields]
    lines.append("self.__post_init__()" if hasattr(cls, "__post_init__") else "")
    body = "\n  ".join([line for line in lines if line] or ["pass"])
    source = f"def make({', '.join(known)}):\n def __init__({', '.join(arguments)}):\n  {body}"
    made: dict[str, Any] = {}
    # as dataclasses makes its own: among the names of the module, which its annotations use
    exec(f"{source}\n return __init__", vars(sys.modules[cls.__module__]), made)
    init = made["make"](**known)
    init.__defaults__ = tuple(_find_default(one) for one in positional if _is_optional(one))
    init.__kwdefaults__ = {one.name: _find_default(one) for one in by_keyword if _is_optional(one)}
    init.__annotations__ = {one.name: one.type for one in (*positional, *by_keyword)}
    init.__annotations__["return"] = None
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _is_optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _find_default(field: Field[Any]) -> Any:
    return _NOT_GIVEN if field.default is MISSING else field.default


def _write_argument(field: Field[Any]) -> str:
    return f"{field.name}=None" if _is_optional(field) else field.name


def _write_line(cls: Any, field: Field[Any], known: dict[str, Any], *, is_frozen: bool) -> str:
    """Returns the line of the constructor that sets a field; `known` gets the names in it."""
    name = value = field.name
    if field.default_factory is not MISSING:
        known[f"make_{name}"] = field.default_factory
        value = (
            f"make_{name}() if {name} is NOT_GIVEN else {name}" if field.init else f"make_{name}()"
        )
    elif not field.init:
        if field.default is MISSING:
            return ""
        known[f"default_{name}"] = field.default
        value = f"default_{name}"
    if not is_frozen:
        return f"self.{name} = {value}"
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        known[f"set_{name}"] = slot.__set__
        return f"set_{name}(self, {value})"
    known["set_by_name"] = object.__setattr__
    return f"set_by_name(self, {name!r}, {value})"
