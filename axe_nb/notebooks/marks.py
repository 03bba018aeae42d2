"""Marks of cells: comment lines and tags, as nbval and nbclient have them. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal

Mark = Literal["ignore output", "raises exception", "skip"]

NAMES: dict[str, Mark] = {
    "nbval-ignore-output": "ignore output",
    "nbval-raises-exception": "raises exception",
    "raises-exception": "raises exception",
    "nbval-skip": "skip",
    "skip-execution": "skip",
}
"""Tag → its meaning; `# NBVAL_SKIP` is the tag `nbval-skip`."""

_COMMENT = re.compile(r"^[ \t]*#[ \t#]*(NBVAL_\w+)[ \t]*$", re.MULTILINE)


def marks_of(cell: Any) -> set[Mark]:
    """Returns the marks of a cell."""
    tags = cell.metadata.get("tags", ())
    comments = (name.lower().replace("_", "-") for name in _COMMENT.findall(cell.source))
    return {NAMES[name] for name in (*tags, *comments) if name in NAMES}
