"""The context of an agent before its first message: prompt, skill and files.

Source: B-6, B-7, B-8; seed 000 §2.3 base; D-12, D-42.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import config_dir, skill_paths
from axe_nb.agents.files import read_text, reason
from axe_nb.agents.tables import COMMON_PARAMS
from axe_nb.agents.trust import check_trust
from axe_nb.agents.workdir import Workdir, find_workdir
from axe_nb.errors import ConfigError
from axe_nb.globs import find_paths
from axe_nb.protected import find_read_protection
from axe_nb.provider_table import NOT_PARAMS
from axe_nb.text import list_some, nearest, quote
from axe_nb.toml_tables.table import toml_fields

NO_PROMPT = "Execute the task described in your instructions."
"""The message to send if the prompt is blank (B-8)."""

MAX_FILE = 1024 * 1024
"""Bytes; a larger context file is skipped with a warning."""

LISTED = 5
"""Maximum number of files that a warning names."""

VERY_LIKE = 0.85
"""Similarity of a parameter to a common one, from which it is probably a typo."""

MAX_VISITED = 100_000
"""Maximum number of files and folders that the globs of an agent look at."""

MAX_FILES = 8 * 1024 * 1024
"""Bytes of all context files together; files beyond it are skipped with a warning."""


OWN_KEYS = {"model": "model", "system": "system_prompt", "tools": "tools"}
"""Key that `[params]` may not set → the agent's own key for it."""


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


@dataclass(frozen=True, slots=True)
class Briefing:
    """An agent's own context, read from disk."""

    system: str
    """The whole system prompt."""
    workdir: Workdir
    skill: str
    """Text of the skill; empty if there is none."""
    files: tuple[tuple[str, str], ...]
    """(path relative to the workdir, text) of each context file, sorted by path."""
    warnings: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    """The real files that it was read from."""


def brief(agent: Agent, context: Context | None = None) -> Briefing:
    """Assembles the agent's system prompt from its parts.

    Args:
        agent: the agent.
        context: the texts that it refers to; None = they are read now.

    Raises:
        ConfigError: the agent is not trusted, the workdir or the skill is missing, or a glob is
            invalid.
    """
    workdir = find_workdir(agent)
    if context is None:
        check_trust(agent.path, agent.text, agent.name)
        context = read_context(agent)
    system = _join_parts(agent.system_prompt, context.skill, context.files)
    warnings = (*_check_params(agent), *context.warnings)
    return Briefing(system, workdir, context.skill, context.files, warnings, context.sources)


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
    files, warnings = _read_files(agent.files, workdir, check) if agent.files else ((), ())
    paths = [*skill_path, *(workdir / path for path, _ in files)]
    sources = tuple(Path(os.path.realpath(path)) for path in paths)
    return Context(skill, files, warnings, sources)


def all_warnings(agent: Agent) -> tuple[str, ...]:
    """Returns warnings about the agent's file and its context, as a run would show them."""
    try:
        return (*agent.warnings, *brief(agent).warnings)
    except ConfigError:  # reported when it stops a run
        return agent.warnings


def _check_params(agent: Agent) -> list[str]:
    """Returns warnings about parameters that are ignored, or were probably meant otherwise."""
    warnings = _find_ignored_params(agent)
    keys = {field.name for field in toml_fields(Agent)}
    for key in agent.params.keys() - NOT_PARAMS - set(COMMON_PARAMS):
        near = nearest(key, COMMON_PARAMS, VERY_LIKE)
        step = "the agent's own keys stand above [params]" if key in keys else ""
        step = step or (f"did you mean {quote(near)}?" if near else "")
        if step:
            warnings.append(f"params.{key} is passed to the model as it is; {step}")
    return sorted(warnings)


def _find_ignored_params(agent: Agent) -> list[str]:
    keys = [key for key in agent.params if key in NOT_PARAMS]
    if not keys:
        return []
    own = [OWN_KEYS[key] for key in keys if key in OWN_KEYS]
    step = f"; the keys above [params] count: {', '.join(own)}" if own else ""
    return [f"ignored by axe_nb: {', '.join(f'params.{key}' for key in keys)}{step}"]


def _join_parts(prompt: str, skill: str, files: Sequence[tuple[str, str]]) -> str:
    """Joins the parts as B-7 specifies; an empty part leaves no delimiter."""
    text = prompt if prompt.strip() else ""
    if skill.strip():
        text += f"\n\n---\n\n## Skill\n\n{skill}"
    if files:
        fenced = (
            f"### {path}\n```{Path(path).suffix.removeprefix('.')}\n{content}\n```"
            for path, content in files
        )
        text += "\n\n---\n\n## Context Files\n\n" + "\n\n".join(fenced)
    return text


def _read_skill(agent: Agent) -> tuple[str, list[Path]]:
    """Reads the skill: an absolute path, else below the agents' parent or the config folder.

    Returns its text, and its path if there is one.
    """
    given = agent.skill.strip()
    if not given:
        return "", []
    for candidate in skill_paths(given, agent.path):
        if _is_secret(candidate):
            raise ConfigError(
                f"skill {quote(given)} is not read: it may hold keys or passwords",
                hint=f"name another skill in agent {quote(agent.name)}",
            )
        try:
            return read_text(candidate), [candidate]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(
                f"failed to read skill {given}: {reason(error)}", hint=_format_skill_hint(agent)
            ) from None
    raise ConfigError(f"skill not found: {given}", hint=_format_skill_hint(agent))


def _is_secret(path: Path, workdir: Path | None = None) -> bool:
    """True if a file may hold keys, so that no model is sent it (D-52)."""
    try:
        real = Path(os.path.realpath(path))
    except ValueError:  # not a path
        return False
    config = Path(os.path.realpath(config_dir()))
    return bool(find_read_protection(real, workdir or real.parent, config))


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
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Reads the text files below the workdir that match; returns warnings about skipped ones."""
    found, warnings = _find_files(patterns, workdir, check)
    files: dict[str, str] = {}
    binary: list[str] = []
    room = MAX_FILES
    for path in sorted(found):
        check()
        shown = path.relative_to(workdir).as_posix()
        try:
            with path.open("rb") as file:
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
    if binary:
        warnings.append(f"binary files skipped: {list_some(binary, LISTED)}")
    return tuple(sorted(files.items())), tuple(warnings)


def _advise(pattern: str, workdir: Path) -> str:
    """Returns the next step for a glob that matches nothing; empty if none is known."""
    if (workdir / pattern).is_dir():
        return f"; for the files of a folder write {quote(pattern.rstrip('/') + '/**')}"
    return "; write / between folders" if "\\" in pattern else ""


class _TooManyFiles(Exception):
    """The globs look at more than `MAX_VISITED` files and folders."""


def _find_files(
    patterns: Sequence[str], workdir: Path, check: Callable[[], None]
) -> tuple[set[Path], list[str]]:
    """Returns the files below the workdir that match a pattern, and warnings."""
    visited = 0

    def count() -> None:
        nonlocal visited
        check()
        visited += 1
        if visited > MAX_VISITED:
            raise _TooManyFiles

    inside = workdir.resolve()
    found: set[Path] = set()
    secret: set[Path] = set()
    outside: set[str] = set()
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
        for path in named:
            if path.resolve().is_relative_to(inside):
                (secret if _is_secret(path, inside) else found).add(path)
            else:
                outside.add(path.relative_to(workdir).as_posix())
    if outside:
        warnings.append(f"links out of the workdir skipped: {list_some(sorted(outside), LISTED)}")
    if secret:
        names = sorted(path.relative_to(workdir).as_posix() for path in secret)
        warnings.append(f"files that may hold keys skipped: {list_some(names, LISTED)}")
    return found, warnings
