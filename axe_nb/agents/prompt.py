"""What an agent is told before its first message: prompt, skill, files.

Source: B-6, B-7, B-8; seed 000 §2.3 base; D-12, D-42.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import config_dir
from axe_nb.agents.files import expand_home, read_text, reason
from axe_nb.agents.provider_table import NOT_PARAMS
from axe_nb.agents.toml_lines import ESCAPES
from axe_nb.errors import ConfigError
from axe_nb.globs import find_paths
from axe_nb.text import list_some, quote

NO_PROMPT = "Execute the task described in your instructions."
"""What an agent is told where the prompt is blank (B-8)."""

MAX_FILE = 1024 * 1024
"""Bytes; a larger context file is left out with a warning."""

LISTED = 5
"""Files that a warning names."""

MAX_FILES = 8 * 1024 * 1024
"""Bytes of all context files together; what comes after is left out with a warning."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """An agent's own context, read from disk."""

    system: str
    """The whole system prompt."""
    workdir: Path
    """Absolute."""
    skill: str
    """Text of the skill; empty = none."""
    files: tuple[tuple[str, str], ...]
    """(path relative to the workdir, text) of every context file, sorted by path."""
    warnings: tuple[str, ...]


def brief(agent: Agent) -> Briefing:
    """The agent's system prompt and what it is made of.

    Raises:
        ConfigError: the workdir or the skill is not there, or a glob is not valid.
    """
    workdir = _workdir(agent)
    skill = _skill(agent)
    files, warnings = _files(agent.files, workdir)
    system = _system(agent.system_prompt, skill, files)
    return Briefing(system, workdir, skill, files, (*_ignored(agent), *warnings))


def all_warnings(agent: Agent) -> tuple[str, ...]:
    """Warnings about the agent's file and about its context, as a run would show them."""
    try:
        return (*agent.warnings, *brief(agent).warnings)
    except ConfigError:  # it stops a run, and is told there
        return agent.warnings


def _ignored(agent: Agent) -> list[str]:
    keys = [f"params.{key}" for key in agent.params if key in NOT_PARAMS]
    return [f"without effect in axe_nb: {', '.join(keys)}"] if keys else []


def _system(prompt: str, skill: str, files: Sequence[tuple[str, str]]) -> str:
    """The parts joined as B-7 lays down; an empty part leaves no delimiter."""
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


def _workdir(agent: Agent) -> Path:
    try:
        path = expand_home(agent.workdir.strip() or ".").absolute()
        is_there = path.is_dir()
    except OSError:  # the current folder was deleted, or no name can be that long
        is_there = False
    if not is_there:
        given = agent.workdir.strip()
        is_escaped = any(c in given for c in "\b\t\n\f\r")  # as "C:\temp" is read
        raise ConfigError(
            f"workdir not found: {quote(given) if is_escaped else given or 'the current folder'}",
            hint=ESCAPES
            if is_escaped
            else f"mend workdir of agent {quote(agent.name)}, or give --workdir",
        )
    return path


def _skill(agent: Agent) -> str:
    """Text of the skill file: absolute, else below the folder of the agents, else of the config."""
    given = agent.skill.strip()
    if not given:
        return ""
    path = expand_home(given)
    home = Path(agent.path).parent.parent if agent.path else Path("axe")
    for candidate in [path] if path.is_absolute() else [home / path, config_dir() / path]:
        try:
            return read_text(candidate)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(
                f"failed to read skill {given}: {reason(error)}", hint=_mend_skill(agent)
            ) from None
    raise ConfigError(f"skill not found: {given}", hint=_mend_skill(agent))


def _mend_skill(agent: Agent) -> str:
    return (
        f"mend skill of agent {quote(agent.name)}; it is looked for below the folder of the "
        "agents and in the config folder"
    )


def _files(
    patterns: Sequence[str], workdir: Path
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Every text file below the workdir that a pattern names, and warnings about those left out."""
    found, warnings = _named_files(patterns, workdir)
    files: dict[str, str] = {}
    binary: list[str] = []
    room = MAX_FILES
    for path in sorted(found):
        shown = path.relative_to(workdir).as_posix()
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE + 1)
        except OSError as error:
            warnings.append(f"context file {shown} left out: {reason(error)}")
            continue
        if b"\0" in data[:512]:
            binary.append(shown)
            continue
        if len(data) > min(MAX_FILE, room):
            warnings.append(
                f"context file {shown} left out: larger than the {MAX_FILE} bytes "
                f"of one file or the {MAX_FILES} of all"
            )
            continue
        room -= len(data)
        files[shown] = data.decode("utf-8", errors="replace")
    if binary:
        warnings.append(f"binary files left out: {list_some(binary, LISTED)}")
    return tuple(sorted(files.items())), tuple(warnings)


def _named_files(patterns: Sequence[str], workdir: Path) -> tuple[set[Path], list[str]]:
    """The files below the workdir that a pattern names, and warnings."""
    inside = workdir.resolve()
    found: set[Path] = set()
    outside: set[str] = set()
    warnings: list[str] = []
    for pattern in patterns:
        named = {path for path in find_paths(pattern, workdir) if path.is_file()}
        if not named:
            warnings.append(f"no file matches {quote(pattern)} in files")
        for path in named:
            if path.resolve().is_relative_to(inside):
                found.add(path)
            else:
                outside.add(path.relative_to(workdir).as_posix())
    if outside:
        warnings.append(f"links out of the workdir left out: {list_some(sorted(outside), LISTED)}")
    return found, warnings
