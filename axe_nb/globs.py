"""Globs: which are valid, which paths they mean; `**` is any number of folders.

Source: B-6, D-20, D-42; X-34.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.text import cut_chars, quote

MAX_PATTERN = 1000
"""Characters of a glob."""


def check_glob(pattern: str) -> None:
    """Refuses what is not a valid glob (B-6, D-42).

    Raises:
        ConfigError: it is blank or too long, has an unclosed bracket or a brace, or leads out of
            its folder.
    """
    bare = re.sub(r"\[[!^]?+.[^\]]*\]", "", pattern[:MAX_PATTERN])
    problem = (
        "blank"
        if not pattern.strip()
        else f"longer than {MAX_PATTERN} characters"
        if len(pattern) > MAX_PATTERN
        else "unclosed bracket"
        if "[" in bare
        else "no braces; one glob for each form"
        if "{" in bare
        else "leads out of the workdir"
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts
        else ""
    )
    if problem:
        raise _no_glob(pattern, problem)


def _no_glob(pattern: str, problem: str) -> ConfigError:
    return ConfigError(
        f"invalid glob pattern {quote(cut_chars(pattern, MAX_PATTERN))}: {problem}",
        hint="a glob is like docs/**/*.md",
    )


def find_paths(pattern: str, folder: Path) -> Iterator[Path]:
    """The paths below a folder that the glob means; hidden ones only if it names them with a dot.

    `**` does not go into links: two that lead back would keep it busy for ever.

    Raises:
        ConfigError: it is not a valid glob.
    """
    check_glob(pattern)
    # inside a name `**` is `*`; at the end it means the files too
    parts = [p if p == "**" else re.sub(r"\*+", "*", p) for p in Path(pattern).parts]
    hidden = [part for part in parts if part.startswith(".")]
    try:
        for path in folder.glob("/".join([*parts, "*"] if parts[-1:] == ["**"] else parts)):
            dotted = [part for part in path.relative_to(folder).parts if part.startswith(".")]
            if all(any(fnmatchcase(part, known) for known in hidden) for part in dotted):
                yield path
    except (OSError, ValueError, NotImplementedError) as error:
        raise _no_glob(pattern, str(error)) from None


def parse_glob(pattern: str) -> tuple[str, ...]:
    """A glob name by name, for `matches`; one without a folder means files at any depth.

    Raises:
        ConfigError: it is not a valid glob.
    """
    check_glob(pattern)
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
