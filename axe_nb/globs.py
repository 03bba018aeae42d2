"""Validation and matching of globs; `**` stands for any number of folders.

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
"""Maximum characters of a glob."""


def check_glob(pattern: str) -> None:
    """Checks that a glob is valid (B-6, D-42).

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
        else "braces are not supported; write one glob for each alternative"
        if "{" in bare
        else "leads out of the workdir"
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts
        else ""
    )
    if problem:
        raise _make_glob_error(pattern, problem)


def _make_glob_error(pattern: str, problem: str) -> ConfigError:
    return ConfigError(
        f"invalid glob pattern {quote(cut_chars(pattern, MAX_PATTERN))}: {problem}",
        hint="an example of a valid glob is docs/**/*.md",
    )


def find_paths(pattern: str, folder: Path) -> Iterator[Path]:
    """Yields the matching paths below a folder; hidden ones only if the glob names them with a dot.

    `**` does not follow links: two that lead back would never end.

    Raises:
        ConfigError: it is not a valid glob.
    """
    check_glob(pattern)
    # inside a name `**` is `*`; at the end it includes files
    parts = [p if p == "**" else re.sub(r"\*+", "*", p) for p in Path(pattern).parts]
    hidden = [part for part in parts if part.startswith(".")]
    try:
        for path in folder.glob("/".join([*parts, "*"] if parts[-1:] == ["**"] else parts)):
            dotted = [part for part in path.relative_to(folder).parts if part.startswith(".")]
            if all(any(fnmatchcase(part, known) for known in hidden) for part in dotted):
                yield path
    except (OSError, ValueError, NotImplementedError) as error:
        raise _make_glob_error(pattern, str(error)) from None


def parse_glob(pattern: str) -> tuple[str, ...]:
    """Splits a glob into names, for `matches`; one without a folder matches files at any depth.

    Raises:
        ConfigError: it is not a valid glob.
    """
    check_glob(pattern)
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    return parts if len(parts) > 1 else ("**", *parts)


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """True if a path, as a sequence of names, matches a glob."""
    # positions in `parts` reachable with the names so far: linear for any pattern
    reached = _skip_folders({0}, parts)
    for name in names:
        further = {i for i in reached if i < len(parts) and parts[i] == "**"}
        further |= {
            i + 1
            for i in reached
            if i < len(parts) and parts[i] != "**" and fnmatchcase(name, parts[i])
        }
        reached = _skip_folders(further, parts)
    return len(parts) in reached


def _skip_folders(reached: set[int], parts: Sequence[str]) -> set[int]:
    for i in range(len(parts)):
        if i in reached and parts[i] == "**":
            reached.add(i + 1)
    return reached
