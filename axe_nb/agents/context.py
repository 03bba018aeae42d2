"""The texts and pictures that an agent refers to: its skill and context files, read from disk.

A link may be exchanged at any moment: where it leads is decided once, checked, and opened as a path
without links.
Source: B-6, B-8, D-42, D-83, D-53.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import skill_paths
from axe_nb.agents.files import read_real_text, reason
from axe_nb.agents.globs import find_paths
from axe_nb.agents.protected import find_read_protection
from axe_nb.agents.trust import is_outside, is_trusted
from axe_nb.agents.workdir import find_workdir, is_from_file
from axe_nb.errors import ConfigError
from axe_nb.paths import find_names, follow_links, list_links, open_real_file
from axe_nb.pictures.picture import Picture, find_format, format_bytes
from axe_nb.text import list_some, quote

RESOURCE = "mcp:"
"""Beginning of an entry of `files` that is not a glob, but a resource: `mcp:SERVER/URI`."""

MAX_FILE = 1024 * 1024
"""Bytes; a larger context file is skipped with a warning."""

LISTED = 5
"""Maximum number of files that a warning names."""

MAX_VISITED = 100_000
"""Maximum number of files and folders that the globs of an agent look at."""

MAX_FILES = 8 * 1024 * 1024
"""Bytes of all context files together; files beyond it are skipped with a warning."""

MAX_PICTURE = 20_000_000
"""Bytes; a larger picture is skipped with a warning. How large one may be when it is sent, the
agent's `[limits]` say: what is larger is scaled down."""

MAX_PICTURES = 2 * MAX_PICTURE
"""Bytes of all pictures together; files beyond it are skipped with a warning."""


def server_of(entry: str) -> str:
    """Returns the MCP server that an entry of `files` names; empty for a glob."""
    return entry.removeprefix(RESOURCE).partition("/")[0] if entry.startswith(RESOURCE) else ""


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
    pictures: tuple[tuple[str, Picture], ...] = ()
    """(path relative to the workdir, picture) of each context file that is one, sorted by path."""


def read_context(agent: Agent, check: Callable[[], None] = lambda: None) -> Context:
    """Reads the skill and context files of an agent.

    Args:
        agent: the agent.
        check: called before every file and for every name; may raise to stop reading.

    Raises:
        ConfigError: as for `brief`.
    """
    workdir = find_workdir(agent)
    skill, skill_path = _read_skill(agent)
    found, warnings = _find_files(agent.files, workdir, check)
    files = _Files(warnings)
    for path, real in sorted(found.items()):
        check()
        files.read(path.relative_to(workdir).as_posix(), real)
    return Context(
        skill, tuple(sorted(files.texts.items())), files.list_warnings(),
        (*skill_path, *files.sources), tuple(sorted(files.pictures.items())),
    )  # fmt: skip


def _read_skill(agent: Agent) -> tuple[str, list[Path]]:
    """Returns the text of the skill, and its real path if there is one."""
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
    """Checks where a skill leads now.

    Raises:
        ConfigError: it may hold keys, or lies outside the project of an agent that is not trusted.
    """
    given = quote(agent.skill.strip())
    if any(find_read_protection(path, path.parent) for path in (*passed, real)):
        raise ConfigError(
            f"skill {given} was not read: it may hold keys or passwords",
            hint=f"name another skill in agent {quote(agent.name)}",
        )
    if not is_from_file(agent, "skill"):
        return  # the person's own words name it
    path = Path(agent.path)
    if real.exists() and is_outside(path, real) and not is_trusted(path):
        raise ConfigError(
            f"skill {given} of agent {quote(agent.name)} was replaced by a link out of the project",
            hint="start a new run",
        )


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


@dataclass
class _Files:
    """The context files of an agent, read one by one."""

    warnings: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    """Path relative to the workdir → text."""
    pictures: dict[str, Picture] = field(default_factory=dict)
    sources: list[Path] = field(default_factory=list)
    """Real paths."""
    _binary: list[str] = field(default_factory=list)
    _room: int = MAX_FILES
    _picture_room: int = MAX_PICTURES

    def read(self, shown: str, real: Path) -> None:
        """Reads a file, `shown` by its path in the workdir, or adds a warning that says why not."""
        try:
            with os.fdopen(open_real_file(real), "rb") as file:
                data = file.read(MAX_FILE + 1)
                is_picture = bool(find_format(data))
                if is_picture:
                    data += file.read(max(0, MAX_PICTURE - len(data) + 1))
        except OSError as error:
            self.warnings.append(f"context file {shown} skipped: {reason(error)}")
            return
        if is_picture:
            self._take_picture(shown, real, data)
        elif b"\0" in data[:512]:
            self._binary.append(shown)
        elif len(data) > min(MAX_FILE, self._room):
            self.warnings.append(
                f"context file {shown} skipped: exceeds the limit of {MAX_FILE} bytes "
                f"per file or {MAX_FILES} in total"
            )
        else:
            self._room -= len(data)
            self.texts[shown] = data.decode("utf-8", errors="replace")
            self.sources.append(real)

    def _take_picture(self, shown: str, real: Path, data: bytes) -> None:
        if len(data) > min(MAX_PICTURE, self._picture_room):
            limits = f"{format_bytes(MAX_PICTURE)} per picture or {format_bytes(MAX_PICTURES)}"
            self.warnings.append(
                f"context file {shown} skipped: exceeds the limit of {limits} in total"
            )
            return
        try:
            self.pictures[shown] = Picture(data)
        except ConfigError as error:
            self.warnings.append(f"context file {shown} skipped: {error.message}")
            return
        self._picture_room -= len(data)
        self.sources.append(real)

    def list_warnings(self) -> tuple[str, ...]:
        binary = [f"binary files skipped: {list_some(self._binary, LISTED)}"] * bool(self._binary)
        return (*self.warnings, *binary)


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
        if pattern.startswith(RESOURCE):
            continue  # a server has it
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
        elif any(find_read_protection(name, workdir) for name in names.all):  # (D-83)
            secret.append(shown)
        else:
            found[path] = names.real
    skipped = {"links out of the workdir": outside, "files that may hold keys": secret}
    return found, [f"{what} skipped: {list_some(s, LISTED)}" for what, s in skipped.items() if s]
