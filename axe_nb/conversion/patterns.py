r"""Regular expressions from models and scripts, compiled only if the result is small.

When `regex` compiles a pattern, it copies repeated parts: `((a{1000}){1000}){1000}` would need
gigabytes, and compilation cannot be interrupted. The size is therefore estimated first.
Source: D-20.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from axe_nb.errors import ConfigError

if TYPE_CHECKING:
    import regex

MAX_PATTERN = 1000
"""Maximum number of characters in a pattern."""

MAX_SIZE = 50_000
"""Maximum size of a compiled pattern: its length times the maximum number of copies of a part."""

_SPACE = r"(?:\s|\#[^\n]*\n|\(\?\#[^)]*\))*"

_NO_GROUP = re.compile(r"\(\?\#[^)]*\)|\(\?[A-Za-z01-]*\)")
"""Matches a comment or inline flags, which look like groups in a pattern."""

_EMPTY = r"\((?:\?(?:[:=!>|]|<[=!]|P?<\w+>|[A-Za-z01-]*:|\(\w*\)))?{space}\|?{space}\)"
"""Pattern for an empty group, which takes quadratic time to compile if repeated."""


def compile_pattern(pattern: str, flags: int = 0) -> regex.Pattern[str]:
    """Compiles a pattern. Raises ConfigError if the pattern is invalid or would be too costly."""
    import regex

    if len(pattern) > MAX_PATTERN:
        raise ConfigError(f"longer than {MAX_PATTERN} characters")
    copies = count_copies(pattern)
    if len(pattern) * copies > MAX_SIZE:
        raise ConfigError(
            "its repeats make it too large",
            hint="use * instead of large counts and nested + or {n}",
        )
    # a group that is called again takes unbounded memory to match
    calls = rf"\(\?(?:[R&\d]|P{_SPACE}[>&]|[+-]{_SPACE}\d)"
    if re.search(calls, re.sub(r"\\.", "", pattern, flags=re.DOTALL)):
        raise ConfigError("it calls a group again", hint="write the part out instead")
    bare = _NO_GROUP.sub("", re.sub(r"\\.", "a", pattern, flags=re.DOTALL))
    space = r"(?:\s|\#[^\n]*\n)*" if re.search(r"\(\?[A-Za-z01-]*x", pattern) else ""
    if copies > 1 and re.search(_EMPTY.format(space=space), bare):
        raise ConfigError("it contains a repeat and an empty group", hint="remove the empty group")
    try:
        return regex.compile(pattern, flags)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise ConfigError(str(error)) from None


def count_copies(pattern: str) -> int:
    """Returns an upper bound for the number of copies of any one part in the compiled pattern."""
    bare = re.sub(r"\\.", "a", pattern, flags=re.DOTALL)
    bare = re.sub(r"\s", "", _NO_GROUP.sub("", re.sub(r"\[\^?[^][]+\]", "a", bare)))
    groups = [1]  # the largest product so far in each open group
    last = 1  # the product of the latest element, which a repeat multiplies
    for token in re.finditer(r"\{([\d,]+)\}|.", bare):
        if token[0] in "[#" or (token[0] == ")" and len(groups) == 1):
            break
        if token[0] == "(":
            groups.append(1)
        elif token[1] or token[0] == "+":
            last *= _copies(token[1] or "+")
        else:
            last = groups.pop() if token[0] == ")" else 1
        groups[-1] = max(groups[-1], last)
    else:
        return max(groups)
    product = 1
    # escapes, and repeats with the blanks and comments of verbose patterns
    counts = rf"\\.|\{{((?:[\d\s,]|#[^\n]*\n)*)\}}|\){_SPACE}(\+)"
    for match in re.finditer(counts, pattern, re.DOTALL):
        product *= _copies(re.sub(r"#[^\n]*\n|\s", "", match[1] or match[2] or ""))
    return product


def _copies(counts: str) -> int:
    return 2 if counts == "+" else 1 + max([0, *map(int, filter(None, counts.split(",")))])
