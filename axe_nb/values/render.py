"""The one way in which a value becomes text for a model.

Source: product.md "Models can do more than text" (values).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from axe_nb.values.data import encode, to_data
from axe_nb.values.opened import open_value
from axe_nb.values.own_text import describe, type_name
from axe_nb.values.parts import Entries, Items, Leaf, Table
from axe_nb.values.pictures import find_picture
from axe_nb.values.table_text import write_table

LONGEST_DATA = 100_000
"""Maximum size of a value in a prompt, in bytes of UTF-8; text has a limit of its own."""

_NO_DATA = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Iterator, AsyncIterator
)  # fmt: skip
"""Types of which only the name could be written."""


class NoText(Exception):
    """A value cannot stand alone in a text; the message says why: `is a generator, which …`."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.step = step
        """Advice on what to write instead; empty if there is none."""


def write_text(value: object, limit: int = LONGEST_DATA, indent: int | None = None) -> str:
    """Writes a value for a prompt: a single one as its text, a table as CSV, all else as JSON.

    Args:
        value: any value; text is not cut.
        limit: maximum size of data in bytes.
        indent: spaces for each level of JSON; None = on one line.

    Raises:
        NoText: it is bytes, a picture, or has nothing but a type. Within other data such a value is
            written as its type or size.
        Exception: whatever the value's own methods raise.
    """
    _refuse_bytes(value)
    if issubclass(type(value), _NO_DATA):
        raise _make_no_text(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, indent)
    if opened.value == describe(value) and not isinstance(value, str):
        raise _make_no_text(value)
    is_text = value is None or isinstance(opened.value, str | bool)
    return str(opened.value) if is_text else encode(opened.value)


def write_json(value: object, limit: int = LONGEST_DATA) -> str:
    """Writes a tool's result: a table as CSV, a run as its answer, all else as JSON on one line.

    Raises:
        NoText: it is bytes or a picture.
        Exception: whatever the value's own methods raise.
    """
    _refuse_bytes(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, None)
    if hasattr(type(value), "__axe_text__"):
        return str(opened.value)
    return encode(to_data(opened.value, limit))


def _refuse_bytes(value: object) -> None:
    """Refuses what is never written as text.

    Raises:
        NoText: the value is bytes or a picture.
    """
    if picture := find_picture(value):
        raise NoText(f"is a picture ({picture}), which cannot be sent as text")
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoText(
            f"is of type {type(value).__name__}, which cannot be converted to text: decode it"
        )


def _make_no_text(value: object) -> NoText:
    kind = type(value)
    if issubclass(kind, Iterator):
        step = "wrap it in list(…)"
    elif issubclass(kind, FunctionType | BuiltinFunctionType | MethodType):
        step = "call it"
    elif callable(getattr(kind, "collect", None)):
        step = "call its collect() method"
    else:
        step = "name the part of it that you mean"
    return NoText(f"is of type {type_name(value)}, which cannot be converted to text", step)


def _write_data(
    value: object, opened: Items | Entries | Table, limit: int, indent: int | None
) -> str:
    if isinstance(opened, Table):
        return write_table(opened, limit)
    indent = None if hasattr(type(value), "__array__") else indent
    return encode(to_data(value, limit, indent), indent)
