"""Validation and matching of globs, where `**` matches any number of folders.

Source: B-6, D-20, D-42, X-34.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.text import cut_chars, quote

MAX_PATTERN = 1000


def check_glob(pattern: str) -> None:
    bare = re.sub(r"\[[!^]?+.[^\]]*\]", "", pattern[:MAX_PATTERN])
    braces = "braces are not supported; write one glob for each alternative"
    problems = {
        "blank": not pattern.strip(),
        f"longer than {MAX_PATTERN} characters": len(pattern) > MAX_PATTERN,
        "unclosed bracket": "[" in bare,
        braces: "{" in bare,
        "leads out of the workdir": Path(pattern).is_absolute() or ".." in Path(pattern).parts,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise _make_glob_error(pattern, problem)


def _make_glob_error(pattern: str, problem: str) -> ConfigError:
    return ConfigError(
        f"invalid glob pattern {quote(cut_chars(pattern, MAX_PATTERN))}: {problem}",
        hint="a valid glob is, for example, docs/**/*.md",
    )


def find_paths(pattern: str, folder: Path, goes_on: Callable[[], bool]) -> Iterator[Path]:
    """Yields the paths below a folder that match a glob.

    Hidden names match only if the glob spells out the dot. Each folder is visited once, and `**`
    does not follow links. `goes_on` is called for each name that is tried; False ends the search.
    """
    check_glob(pattern)
    # `**` inside a name means `*`; a final `**` includes files
    parts = [p if p == "**" else re.sub(r"\*+", "*", p) for p in Path(pattern).parts]
    parts += ["*"] if parts[-1:] == ["**"] else []
    if not parts:
        raise _make_glob_error(pattern, "does not name a file")
    hidden = [part for part in parts if part.startswith(".")]
    waiting = [(folder, _skip_folders({0}, parts))]
    while waiting:
        place, reached = waiting.pop()
        names = [parts[i] for i in reached if i < len(parts)]
        if any(re.search(r"[*?\[]", name) for name in names):
            with suppress(OSError):
                names = [path.name for path in place.iterdir()]
        for name in names:
            if not goes_on():
                return
            if name.startswith(".") and not any(fnmatchcase(name, one) for one in hidden):
                continue
            path = place / name
            # unlike methods of Path, these do not raise for a folder without search permission
            is_link = os.path.islink(path)  # noqa: PTH114
            further = _advance(name, reached, parts, in_folders=not is_link)
            if len(parts) in further and os.path.lexists(path):
                yield path
            if further - {len(parts)} and os.path.isdir(path):  # noqa: PTH112
                waiting.append((path, further))


def parse_glob(pattern: str) -> tuple[str, ...]:
    """Splits a glob at slashes, for `matches`; a glob without a slash matches at any depth."""
    check_glob(pattern)
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    return parts if len(parts) > 1 else ("**", *parts)


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """True if a glob, split by `parse_glob`, matches a path, split into folder and file names."""
    # tracks all positions in `parts` that the names so far can reach, in linear time
    reached = _skip_folders({0}, parts)
    for name in names:
        reached = _advance(name, reached, parts)
    return len(parts) in reached


def _advance(
    name: str, reached: set[int], parts: Sequence[str], *, in_folders: bool = True
) -> set[int]:
    further = set()
    for i in reached - {len(parts)}:
        if parts[i] != "**" and fnmatchcase(name, parts[i]):
            further.add(i + 1)
        elif parts[i] == "**" and in_folders:
            further.add(i)
    return _skip_folders(further, parts)


def _skip_folders(reached: set[int], parts: Sequence[str]) -> set[int]:
    for i in range(len(parts)):
        if i in reached and parts[i] == "**":
            reached.add(i + 1)
    return reached
