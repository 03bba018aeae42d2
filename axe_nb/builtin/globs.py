"""Globs over paths, name by name, in linear time: `**` is any number of folders.

Source: D-20, D-42; X-34.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from axe_nb.agents.prompt import check_glob
from axe_nb.errors import ConfigError
from axe_nb.tools.tool import ToolError

MAX_PATTERN = 1000
"""Characters of a glob."""


def glob_parts(pattern: str) -> tuple[str, ...]:
    """A glob name by name; one without a folder means files at any depth.

    Raises:
        ToolError: it is no glob.
    """
    try:
        check_glob(pattern)
    except ConfigError as error:
        raise ToolError(f"{error}. Write something like *.py or docs/**/*.md") from None
    if "{" in pattern:
        raise ToolError(f"invalid glob pattern {pattern}: no braces; call once for each form")
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"invalid glob pattern: longer than {MAX_PATTERN} characters")
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    return parts if len(parts) > 1 else ("**", *parts)


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path, name by name, is one that a glob means; `**` is any number of folders."""
    # places in `parts` that the names so far can have led to: linear, whatever the pattern
    reached = _past_folders({0}, parts)
    for name in names:
        further = {i for i in reached if i < len(parts) and parts[i] == "**"}
        further |= {
            i + 1
            for i in reached
            if i < len(parts) and parts[i] != "**" and fnmatchcase(name, parts[i])
        }
        reached = _past_folders(further, parts)
    return len(parts) in reached


def _past_folders(reached: set[int], parts: Sequence[str]) -> set[int]:
    for i in range(len(parts)):
        if i in reached and parts[i] == "**":
            reached.add(i + 1)
    return reached
