"""TOML text as tables, without the texts that would take all memory."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_PARTS = 32
"""Parts of a dotted key: `tomllib` takes memory that grows with their square."""

_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*+(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_PARTS}}}",
    re.MULTILINE,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text.

    Raises:
        ValueError: it is not TOML, or nested too deeply.
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.end()) + 1
        raise ValueError(f"a key with more than {MAX_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
