"""Changes values in TOML text; comments, order and formatting of the rest stay as they are.

Source: D-70.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tomlkit.items import AbstractTable
    from tomlkit.toml_document import TOMLDocument


def update_text(text: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns the text with the values in which two tables differ.

    Args:
        text: valid TOML.
        old: the table that the text stands for; it may have keys that the text writes otherwise.
        new: the table that it is to stand for.
    """
    import tomlkit

    document = tomlkit.parse(text.replace("\r\n", "\n"))
    _update(document, old, new)
    updated = tomlkit.dumps(document)
    return updated.replace("\n", "\r\n") if "\r\n" in text else updated


def _update(
    table: TOMLDocument | AbstractTable, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    for key in old.keys() - new.keys():
        table.pop(key, None)
    for key, value in new.items():
        before = old.get(key)
        if key in old and value == before and type(value) is type(before):
            continue
        written = table.get(key)
        if isinstance(value, Mapping) and isinstance(written, Mapping):
            known = before if isinstance(before, Mapping) else {}
            if known.keys() <= written.keys():
                _update(table[key], known, value)
                continue
        import tomli_w
        import tomlkit

        # written as in a new file
        item = tomlkit.parse(tomli_w.dumps({key: value}, multiline_strings=True))
        table[key] = item[key]
