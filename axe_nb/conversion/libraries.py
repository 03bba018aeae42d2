"""Values of numpy, pandas, polars and pydantic, decimals and fractions.

None of them is imported, but pandas for `to_frame`: a value of a library exists only if the user
has imported it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from types import ModuleType
from typing import Any

from axe_nb.conversion.own_text import own_text
from axe_nb.conversion.parts import BLOCK, Entries, Instead, Items, Leaf, Opened, Table
from axe_nb.errors import ConfigError
from axe_nb.text import clean

_SHORT_FLOATS = {"float16", "float32", "float[pyarrow]", "halffloat[pyarrow]"}
"""Data types of numpy, pandas and polars, in lower case, with at most 32 bits."""


def open_foreign(value: Any) -> Opened | None:
    """Returns the parts of a library's value; None if it is of none of them."""
    for name, open_ in _OPENERS.items():
        module = sys.modules.get(name)
        if module is not None and (opened := open_(module, value)) is not None:
            return opened
    return None


def to_plain(value: Any) -> Any:
    """Converts what a library has of JSON's own types, and leaves all else as it is.

    For values that must not lose anything, such as parameters.
    """
    try:
        return _make_plain(value)
    except Exception:  # nested too deeply, or a method of the value's own
        return value


def _make_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _make_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(item) for item in value]
    opened = open_foreign(value)
    if isinstance(opened, Instead):
        return _make_plain(opened.value)
    if isinstance(opened, Items):
        return [_make_plain(item) for item in opened.values]
    return value


def _is(value: object, module: ModuleType, *names: str) -> bool:
    """True if a value is of one of a module's types."""
    kinds = (getattr(module, name, None) for name in names)
    return any(isinstance(kind, type) and issubclass(type(value), kind) for kind in kinds)


def get_attributes(value: object, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """The attributes of an object; what cannot be read is told in its place."""
    for name in names:
        try:
            yield name, getattr(value, name)
        except Exception:
            yield name, "<unreadable>"


def _shorten(values: Iterable[Any], dtype: object) -> Sequence[Any]:
    """Removes the digits that a number of 32 bits only seems to have in 64."""
    if str(dtype).lower() not in _SHORT_FLOATS:
        return list(values)
    return [
        _shorten_float(float(value)) if hasattr(type(value), "__float__") else value
        for value in values
    ]


def _shorten_float(value: float) -> float:
    for digits in range(5, 9):
        short = float(f"{value:.{digits}g}")
        if array("f", [short]) == array("f", [value]):
            return short
    return value


def _open_numpy(numpy: ModuleType, value: Any) -> Opened | None:
    if _is(value, numpy, "ndarray"):
        if type(value).__name__ == "MaskedConstant":  # its only item is itself
            return Leaf(None)
        if value.ndim == 0:
            return Instead(value[()])
        plain = value if type(value).__name__ == "MaskedArray" else numpy.asarray(value)
        return Items(_read_array(plain), len(plain))
    if not _is(value, numpy, "generic") or isinstance(value, str | bytes):
        return None
    match value.dtype.kind:
        case "m" | "M":
            return Leaf(None if numpy.isnat(value) else str(value))
        case "c":
            return Leaf(str(value))
        case "f":
            return Instead(float(str(value)))
        case "V" if value.dtype.names:
            names = value.dtype.names
            return Entries(((name, value[name]) for name in names), len(names))
    return Instead(value.item())


def _read_array(items: Any) -> Iterator[Any]:
    if items.ndim > 1:
        yield from (items[row] for row in range(len(items)))
        return
    is_plain = items.dtype.kind in "biu" or items.dtype == "f8" or hasattr(items, "mask")
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        yield from block.tolist() if is_plain else block


def _open_pandas(pandas: ModuleType, value: Any) -> Opened | None:
    if _is(value, pandas, "DataFrame"):
        return _open_frame(value, value.columns, value.shape[1])
    if _is(value, pandas, "Series"):
        return _open_frame(value.to_frame(), ["value" if value.name is None else value.name], 1)
    extensions = sys.modules.get("pandas.api.extensions", pandas)
    if _is(value, pandas, "Index") or _is(value, extensions, "ExtensionArray"):
        return Items(_read_slices(value, lambda block: _shorten(block, value.dtype)), len(value))
    if any(value is getattr(pandas, name, None) for name in ("NaT", "NA")):
        return Leaf(None)
    if _is(value, pandas, "Timestamp"):
        return Leaf(value.isoformat())
    if _is(value, pandas, "Timedelta", "Period", "Interval"):
        return Leaf(str(value))
    return None


def _read_slices(value: Any, read: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    for start in range(0, len(value), BLOCK):
        yield from read(value[start : start + BLOCK])


def _open_frame(frame: Any, columns: Sequence[Any], width: int) -> Table:
    """Opens a pandas frame; an index that only counts the rows is left out."""
    index = frame.index
    counts = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    levels = 0 if counts and index.name is None else index.nlevels
    named = [name or "index" if levels == 1 else name or f"level {at}"
             for at, name in enumerate(index.names)]  # fmt: skip

    def read(start: int, stop: int, width: int) -> list[Sequence[Any]]:
        block = frame.iloc[start:stop]
        read = [list(block.index.get_level_values(at)) for at in range(levels)][:width]
        for at in range(width - len(read)):
            column = block.iloc[:, at]
            read.append(list(_shorten(column, column.dtype)))
        return read  # type: ignore[return-value]

    def label(count: int) -> list[str]:
        labels = [*named[:levels], *columns[: max(0, count - levels)]]
        return [_label(label) for label in labels[:count]]

    return Table(label, width + levels, len(frame), read)


def _label(label: Any) -> str:
    if isinstance(label, tuple):
        return " / ".join(part for part in map(_label, label) if part)
    return own_text(label)


def _open_polars(polars: ModuleType, value: Any) -> Opened | None:
    if _is(value, polars, "DataFrame"):
        names = value.columns
        frame = value
    elif _is(value, polars, "Series"):
        names = [value.name or "value"]
        frame = value.to_frame()
    elif _is(value, polars, "LazyFrame"):
        return Leaf("<LazyFrame object>")
    else:
        return None

    def read(start: int, stop: int, width: int) -> list[Sequence[Any]]:
        columns = frame.slice(start, stop - start).get_columns()[:width]
        return [_shorten(column.to_list(), column.dtype) for column in columns]

    return Table(lambda count: names[:count], frame.width, frame.height, read)


def _open_pydantic(pydantic: ModuleType, value: Any) -> Opened | None:
    if not _is(value, pydantic, "BaseModel"):
        return None
    try:
        dumped = value.model_dump(warnings=False)
    except Exception:  # a model within itself, or a serializer of the user's
        dumped = dict(vars(value))
    if isinstance(dumped, dict):
        return Entries(iter(dumped.items()), len(dumped))
    return Instead(dumped)


def _open_exact(module: ModuleType, value: Any) -> Opened | None:
    """Opens a decimal or a fraction, whose text has all its digits."""
    if _is(value, module, "Decimal"):
        return Leaf(None if value.is_nan() else module.Decimal.__str__(value))
    return Leaf(module.Fraction.__str__(value)) if _is(value, module, "Fraction") else None


_OPENERS: dict[str, Callable[[ModuleType, Any], Opened | None]] = {
    "numpy": _open_numpy,
    "pandas": _open_pandas,
    "polars": _open_polars,
    "pydantic": _open_pydantic,
    "decimal": _open_exact,
    "fractions": _open_exact,
}
"""Module → function that opens its values."""


def as_number(value: object) -> object:
    """Returns the int or float that a value is; anything else, bools included, as it is."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def as_count(value: object) -> int | None:
    """Returns the positive whole number that a value is; None if it is none."""
    number = as_number(value)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if is_count else None  # type: ignore[return-value]


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Returns rows as a pandas DataFrame, with texts as a notebook shows them.

    Args:
        rows: column → value.
        columns: names in their order.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError:
        hint = "install it: pip install pandas"
        raise ConfigError("to_frame needs pandas", hint=hint) from None
    # pandas refuses halves of characters
    shown = [
        {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}
        for row in rows
    ]
    return DataFrame(shown, columns=columns)
