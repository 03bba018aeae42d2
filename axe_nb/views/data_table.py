"""Answers that are data as HTML, lists of records as a table. Pure.

Source: design README ("Answers look as good as a Markdown cell"); product.md "Models can do more
than text".
"""

from __future__ import annotations

import json
from html import escape
from typing import Any, TypeAlias

from axe_nb.views.appearance import MONO

Records: TypeAlias = list[dict[str, Any]]

MAX_RECORDS, MAX_KEYS = 100, 10
"""Larger data stays JSON."""

MAX_CELL = 300
"""Characters of a text in a cell; data with longer ones stays JSON."""

CELL = "white-space:pre-wrap;vertical-align:top;text-align"


DATA = f"white-space:pre-wrap;margin-bottom:1em;{MONO}"


def format_data(text: str, *, is_whole: bool) -> str:
    """A JSON text as it stands above a tree: as a table if it is one, else as it is.

    Args:
        text: the JSON.
        is_whole: False = some of it is left out, so that it cannot be read.
    """
    table = make_table(text) if is_whole else ""
    return table or f"<pre style='{DATA}'>{escape(text, quote=False)}</pre>"


def make_table(text: str) -> str:
    """The table of a JSON text; empty if that is not a list of flat records.

    Texts are on the left, numbers on the right; `null`, `true` and `false` are in italics, so that
    no value looks like another. A key that a record does not have is an empty cell.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(data, list) or not 0 < len(data) <= MAX_RECORDS:
        return ""
    if not all(isinstance(record, dict) and record for record in data):
        return ""
    keys = list(dict.fromkeys(key for record in data for key in record))
    is_flat = all(map(_fits, (value for record in data for value in record.values())))
    if len(keys) > MAX_KEYS or not all(map(_fits, keys)) or not is_flat:
        return ""
    return _format_table(keys, data)


def _fits(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CELL
    return value is None or isinstance(value, bool | int | float)


def _format_table(keys: list[str], records: Records) -> str:
    numeric = {key for key in keys if all(_is_number(record.get(key, 0)) for record in records)}
    head = "".join(_format_cell("th", key, is_right=key in numeric) for key in keys)
    body = "".join(
        "<tr>" + "".join(_format_value(record, key) for key in keys) + "</tr>" for record in records
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_value(record: dict[str, Any], key: str) -> str:
    value = record.get(key, "")
    return _format_cell("td", value, is_right=_is_number(value))


def _format_cell(tag: str, value: Any, *, is_right: bool) -> str:
    side = "right" if is_right else "left"
    shown = escape(value if isinstance(value, str) else json.dumps(value), quote=False)
    if value is None or isinstance(value, bool):
        shown = f"<em>{shown}</em>"
    elif isinstance(value, str):
        shown = f"<bdi>{shown}</bdi>"
    return f"<{tag} style='{CELL}:{side}'>{shown}</{tag}>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
