"""The text of an object without data: its `str` or `repr` without memory addresses, or its type."""

from __future__ import annotations

import re
from types import ModuleType

from axe_nb.text import one_line

MAX_SHOWN = 60
"""Characters of an invalid value that an error quotes."""

LONGEST_NAME = 80
"""Maximum characters of a type's name."""


def describe(value: object) -> str:
    """The kind of an object, as in `<Lock object>`; for a module, its name."""
    if issubclass(type(value), ModuleType):
        return f"<module {one_line(str(getattr(value, '__name__', 'unnamed')), LONGEST_NAME)}>"
    return f"<{type_name(value)} object>"


def type_name(value: object) -> str:
    """The name of an object's type, on one line."""
    return one_line(type(value).__name__, LONGEST_NAME)


def own_text(value: object) -> str:
    """Returns the object's own text without addresses; its description if it has none.

    Raises Exception: whatever the object's own method raises.
    """
    kind = type(value)
    is_address = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    if is_address or issubclass(kind, ModuleType):
        return describe(value)
    return remove_addresses(str.__str__(str(value)), value)


def remove_addresses(text: str, value: object) -> str:
    """The text without numbers that are, or may be, an address in memory."""
    # looks at each blank only once, as a text may have very many
    text = re.sub(r"(?<!\s)\s+at 0x[0-9a-fA-F]+", "", text)
    text = re.sub(r"\b0[xX][0-9a-fA-F]{6,}", "0x…", text)
    if text.startswith("<") and text.endswith(">"):
        text = re.sub(r"\b\d{12,}\b", "…", text)  # <Thread(worker, started 140239187752512)>
    for address in (str(id(value)), f"{id(value):x}", f"{id(value):X}"):
        text = text.replace(address, "…")
    return text


def shown_value(value: object) -> str:
    """Formats a value for an error message: one line, shortened."""
    try:
        text = " ".join(remove_addresses(repr(value), value).split())
    except Exception:  # of the value's own method
        text = describe(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
