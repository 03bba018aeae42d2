"""Rows as a pandas DataFrame, if pandas is there.

Source: product.md "Runs are recordings", "Exploring" (`to_frame`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.text import clean


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
