"""The texts that an agent refers to: its skill and context files, read from disk.

A link may be exchanged at any moment: where it leads is decided once, checked, and opened as a path
without links.
Source: B-6, B-8; D-42, D-52, D-53.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import config_dir, skill_paths
from axe_nb.agents.files import read_real_text, reason
from axe_nb.agents.trust import may_leave
from axe_nb.agents.unusual import find_outside
from axe_nb.agents.workdir import find_workdir
from axe_nb.descriptors import open_real_file
from axe_nb.errors import ConfigError
from axe_nb.globs import find_paths
from axe_nb.links import find_names, follow_links, list_links
from axe_nb.protected import find_read_protection
from axe_nb.text import list_some, quote

MAX_FILE = 1024 * 1024
"""Bytes; a larger context file is skipped with a warning."""

LISTED = 5
"""Maximum number of files that a warning names."""

MAX_VISITED = 100_000
"""Maximum number of files and folders that the globs of an agent look at."""

MAX_FILES = 8 * 1024 * 1024
"""Bytes of all context files together; files beyond it are skipped with a warning."""


@dataclass(frozen=True, slots=True)
class Context:
    """The texts that an agent refers to, read from disk."""

    skill: str
    """Text of the skill; empty if there is none."""
    files: tuple[tuple[str, str], ...]
    """(path relative to the workdir, text) of each context file, sorted by path."""
    warnings: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    """Real paths of the files that were read."""


def read_context(agent: Agent, check: Callable[[], None] = lambda: None) -> Context:
    """Reads the skill and context files of an agent that needs no trust, or is trusted.

    Args:
        agent: the agent.
        check: called before every file and for every name; may raise to stop reading.

    Raises:
        ConfigError: as for `brief`.
    """
    workdir = find_workdir(agent).real
    skill, skill_path = _read_skill(agent)
    files, warnings, paths = _read_files(agent.files, workdir, check)
    return Context(skill, files, warnings, (*skill_path, *paths))


def _read_skill(agent: Agent) -> tuple[str, list[Path]]:
    """Reads the skill: an absolute path, else below the agents' parent or the config folder.

    Returns its text, and its real path if there is one.
    """
    given = agent.skill.strip()
    if not given:
        return "", []
    for candidate in skill_paths(given, agent.path):
        try:
            *passed, real = follow_links(candidate.absolute())
            _check_skill(agent, passed, real)
            return read_real_text(real), [real]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(
                f"failed to read skill {given}: {reason(error)}", hint=_format_skill_hint(agent)
            ) from None
    raise ConfigError(f"skill not found: {given}", hint=_format_skill_hint(agent))


def _check_skill(agent: Agent, passed: Iterable[Path], real: Path) -> None:
    """Checks where a skill leads now; trust in the agent was checked before.

    Raises:
        ConfigError: it may hold keys, or lies outside the project of an agent that is not trusted.
    """
    given = quote(agent.skill.strip())
    if any(is_secret([path], path.parent) for path in (*passed, real)):
        raise ConfigError(
            f"skill {given} is not read: it may hold keys or passwords",
            hint=f"name another skill in agent {quote(agent.name)}",
        )
    if not (agent.path and agent.text) or tomllib.loads(agent.text).get("skill") != agent.skill:
        return  # the person's own words name it
    is_outside = real.exists() and find_outside(Path(agent.path), real)
    if is_outside and not may_leave(agent.path, agent.text):
        raise ConfigError(
            f"skill {given} of agent {quote(agent.name)} was replaced by a link out of the project",
            hint="start a new run",
        )


def is_secret(names: Iterable[Path], workdir: Path) -> bool:
    """True if a file may hold keys by one of its names, so that no model is sent it (D-52)."""
    config = Path(os.path.realpath(config_dir()))
    return any(find_read_protection(path, workdir, config) for path in names)


def _format_skill_hint(agent: Agent) -> str:
    given = agent.skill.strip()
    likely = (f"{given}.md", f"{given}/SKILL.md", f"skills/{given}/SKILL.md")
    for name in (*likely, given.removeprefix("axe/")):
        if any(map(os.path.isfile, skill_paths(name, agent.path))):
            return f"did you mean {quote(name)}?"
    return (
        f"fix `skill` in agent {quote(agent.name)}; relative paths start at "
        "the folder above the agents, or at the config folder"
    )


def _read_files(
    patterns: Sequence[str], workdir: Path, check: Callable[[], None]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], tuple[Path, ...]]:
    """Reads the text files below the workdir that match.

    Returns (path, text) of each, warnings about skipped ones, and the real paths.
    """
    found, warnings = _find_files(patterns, workdir, check)
    files: dict[str, str] = {}
    binary: list[str] = []
    read: list[Path] = []
    room = MAX_FILES
    for path, real in sorted(found.items()):
        check()
        shown = path.relative_to(workdir).as_posix()
        try:
            with os.fdopen(open_real_file(real), "rb") as file:
                data = file.read(MAX_FILE + 1)
        except OSError as error:
            warnings.append(f"context file {shown} skipped: {reason(error)}")
            continue
        if b"\0" in data[:512]:
            binary.append(shown)
            continue
        if len(data) > min(MAX_FILE, room):
            warnings.append(
                f"context file {shown} skipped: exceeds the limit of {MAX_FILE} bytes "
                f"per file or {MAX_FILES} in total"
            )
            continue
        room -= len(data)
        files[shown] = data.decode("utf-8", errors="replace")
        read.append(real)
    if binary:
        warnings.append(f"binary files skipped: {list_some(binary, LISTED)}")
    return tuple(sorted(files.items())), tuple(warnings), tuple(read)


def _advise(pattern: str, workdir: Path) -> str:
    """Returns the next step for a glob that matches nothing; empty if none is known."""
    if (workdir / pattern).is_dir():
        return f"; for the files of a folder write {quote(pattern.rstrip('/') + '/**')}"
    return "; write / between folders" if "\\" in pattern else ""


class _TooManyFiles(Exception):
    """The globs look at more than `MAX_VISITED` files and folders."""


def _find_files(
    patterns: Sequence[str], workdir: Path, check: Callable[[], None]
) -> tuple[Mapping[Path, Path], list[str]]:
    """Returns path → real path of the files below the workdir that match, and warnings."""
    visited = 0

    def count() -> None:
        nonlocal visited
        check()
        visited += 1
        if visited > MAX_VISITED:
            raise _TooManyFiles

    matching: set[Path] = set()
    warnings: list[str] = []
    for pattern in patterns:
        named: set[Path] = set()
        with contextlib.suppress(_TooManyFiles):
            named.update(path for path in find_paths(pattern, workdir, count) if path.is_file())
        if visited > MAX_VISITED:
            warnings.append(
                f"{quote(pattern)} in files: only the first {MAX_VISITED} files and folders were "
                "searched; use a narrower glob"
            )
        elif not named:
            warnings.append(f"no file matches {quote(pattern)} in files{_advise(pattern, workdir)}")
        matching |= named
    found, skipped = _check_files(matching, workdir)
    return found, [*warnings, *skipped]


def _check_files(paths: Iterable[Path], workdir: Path) -> tuple[Mapping[Path, Path], list[str]]:
    """Returns path → real path of the files that may be read, and warnings about the others."""
    found: dict[Path, Path] = {}
    secret: list[str] = []
    outside: list[str] = []
    links = None
    for path in sorted(paths):
        try:
            links = list_links(workdir) if links is None else links
            names = find_names(workdir, path, links)
        except OSError:  # replaced by a cycle of links meanwhile
            continue
        shown = path.relative_to(workdir).as_posix()
        if not names.real.is_relative_to(workdir):
            outside.append(shown)
        elif is_secret(names.all, workdir):
            secret.append(shown)
        else:
            found[path] = names.real
    warnings: list[str] = []
    if outside:
        warnings.append(f"links out of the workdir skipped: {list_some(outside, LISTED)}")
    if secret:
        warnings.append(f"files that may hold keys skipped: {list_some(secret, LISTED)}")
    return found, warnings
