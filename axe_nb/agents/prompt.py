"""Preparation of an agent's context: its workdir, skill, context files and system prompt.

A link can be replaced at any moment, so each link is resolved once, checked, and opened as a path
without links. In a system prompt, `{{ name }}` is replaced by a value of `[vars]` or of the run.
No code in a prompt is evaluated, as an agent file may come from someone else. The definitions of
all agents in a tree of runs are saved with the result, so that a fork can use these agents.

Source: B-6, B-7, B-8, D-12, D-40, D-42, D-53, D-61, D-66, D-81, D-83, docs/threat-model.md.
"""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from axe_nb.agents.agent import Agent, NoAgent
from axe_nb.agents.agent_tables import variable_problem
from axe_nb.agents.files import expand_home, read_real_text, reason
from axe_nb.agents.globs import find_paths
from axe_nb.agents.protected import find_read_protection
from axe_nb.agents.provider_table import NOT_PARAMS
from axe_nb.agents.trust import NEXT_STEP, is_outside, is_trusted
from axe_nb.agents.user_config import format_path, is_own, skill_paths
from axe_nb.conversion.toml_tables import Source, make_table, toml_fields
from axe_nb.conversion.value_text import NoText, Written, append_value, write_value
from axe_nb.errors import ConfigError, words
from axe_nb.paths import find_names as find_file_names
from axe_nb.paths import follow_links, list_links, open_real_file
from axe_nb.pictures.picture import Picture, find_format, format_bytes
from axe_nb.text import list_some, nearest, one_line, quote

NO_PROMPT = "Execute the task described in your instructions."
"""User message that replaces a blank prompt (B-8)."""


VISITED = 100_000  # maximum files and folders that the globs of an agent visit
LONGEST_PROMPT = 4_000_000  # maximum characters of a system prompt with its variables

TEXT_SIZES, PICTURE_SIZES = (1_048_576, 8_388_608), (20_000_000, 40_000_000)
"""Maximum bytes per file and in total, for texts and pictures; files over a limit are skipped."""

_BRACES = re.compile(r"\\\{\{|\{\{\s*([^\W\d]\w*)\s*\}\}")  # `\{{`, or `{{ name }}`


def find_workdir(agent: Agent) -> Path:
    named = agent.workdir.strip()
    try:
        here = Path(os.path.realpath(os.curdir))
        real = Path(os.path.realpath(expand_home(named))) if named else here
        is_there = real.is_dir()
    except (OSError, ValueError):  # the current folder was deleted, or the path cannot be one
        is_there = False
    if not is_there:
        step = f"fix `workdir` in agent {quote(agent.name)}, or pass --workdir"
        raise ConfigError(f"workdir not found: {named or 'the current folder'}", hint=step)
    if _leaves_by_link(agent, real, here):
        raise ConfigError(
            f"workdir {quote(named)} of agent {quote(agent.name)} leads out of the "
            f"current folder through a link, to {quote(str(real))}",
            hint="to work there, use the path of that folder itself",
        )
    return real


def _leaves_by_link(agent: Agent, real: Path, root: Path) -> bool:
    """True if the workdir leads out of `root` through a link that a command may have created."""
    if real.is_relative_to(root):
        return False
    names = follow_links(expand_home(agent.workdir.strip()).absolute())
    is_linked = any(name.is_relative_to(root) for name in names if ".." not in name.parts)
    is_reviewed = is_from_file(agent, "workdir") and not is_own(Path(agent.path))
    return is_linked and (agent.is_restricted or not is_reviewed)


def is_from_file(agent: Agent, key: str) -> bool:
    """True if the agent's value for a key is the value in the agent's file, without changes."""
    return bool(agent.path) and tomllib.loads(agent.text).get(key) == getattr(agent, key)


def confine(child: Agent, caller: Path, root: str, defined: Mapping[str, Agent]) -> Agent:
    """Checks a child agent's workdir, and returns the child with the workdir to use.

    A child without a workdir uses the current folder if it lies in the root run's workdir, and
    otherwise the root run's workdir. `caller` and `root` are the real workdirs of the calling run
    and the root run; an empty `root` allows any folder. `defined` has the agents of the session, as
    they were when the root run started. Raises ConfigError if the child's workdir is not allowed.
    """
    named = child.workdir.strip()
    with suppress(OSError, ValueError):  # an invalid path or current folder: the run reports it
        real = Path(os.path.realpath(expand_home(named)))
        if not root or real.is_relative_to(root):
            return child
        if not named:
            return replace(child, workdir=root)
        if real != caller and not _names_workdir(child, defined):
            raise _make_outside(child)
    return child


def check_confined(child: Agent, real: Path, root: str, defined: Mapping[str, Agent]) -> None:
    """Raises ConfigError if a child may not use its workdir, whose real path is `real`."""
    if not root or real.is_relative_to(root):
        return
    if not _names_workdir(child, defined) or _leaves_by_link(child, real, Path(root)):
        raise _make_outside(child)


def _names_workdir(child: Agent, defined: Mapping[str, Agent]) -> bool:
    """True if a child's workdir comes unchanged from a trusted file or an agent of the session."""
    if child.text:
        return is_from_file(child, "workdir") and is_trusted(Path(child.path))
    known = defined.get(child.name)  # may be a restricted agent of a saved run
    return known is not None and known.workdir == child.workdir and not child.is_restricted


def _make_outside(child: Agent) -> ConfigError:
    step = "remove `workdir`"
    return ConfigError(
        f"workdir {quote(child.workdir)} of agent {quote(child.name)} lies outside the workdir of "
        "the run that it belongs to",
        hint=f"{step}, or trust the agent's project: {NEXT_STEP}" if child.path else step,
    )


@dataclass(frozen=True, slots=True)
class Context:
    """The skill and context files of an agent, read from disk."""

    skill: str
    files: tuple[tuple[str, str], ...]
    """Path (relative to the workdir) and text of each context file, sorted by path."""
    warnings: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    pictures: tuple[tuple[str, Picture], ...] = ()
    """Path (relative to the workdir) and picture of each picture file, sorted by path."""


def read_context(agent: Agent, check: Callable[[], None] = lambda: None) -> Context:
    """Reads the skill and context files of an agent; `check` may raise an error to abort."""
    workdir = find_workdir(agent)
    skill, sources = _read_skill(agent)
    paths, warnings = _find_files(agent.files, workdir, check)
    links = list_links(workdir) if paths else {}
    texts: list[tuple[str, str]] = []
    pictures: list[tuple[str, Picture]] = []
    skipped: dict[str, list[str]] = {}
    sizes = {False: 0, True: 0}  # bytes of the texts, and of the pictures, so far
    for path in paths:
        check()
        shown, what = path.relative_to(workdir).as_posix(), ""
        try:
            names = find_file_names(workdir, path, links)
            if not names.real.is_relative_to(workdir):
                what = "links out of the workdir"
            elif any(find_read_protection(name, workdir) for name in names.all):  # (D-83)
                what = "files that may hold keys"
            else:
                with os.fdopen(open_real_file(names.real), "rb") as file:
                    data = file.read(TEXT_SIZES[0] + 1)
                    is_picture = bool(find_format(data))
                    data += file.read(PICTURE_SIZES[0]) if is_picture else b""
                if not is_picture and b"\0" in data[:512]:
                    what = "binary files"
            if what:
                skipped.setdefault(what, []).append(shown)
                continue
            one, every = PICTURE_SIZES if is_picture else TEXT_SIZES
            if len(data) > min(one, every - sizes[is_picture]):
                raise ConfigError(
                    f"exceeds the limit of {format_bytes(one)} per "
                    f"{'picture' if is_picture else 'file'} or {format_bytes(every)} in total"
                )
            if is_picture:
                pictures.append((shown, Picture(data)))
            else:
                texts.append((shown, data.decode("utf-8", errors="replace")))
        except (OSError, ConfigError) as error:
            warnings.append(f"context file {shown} skipped: {reason(error)}")
        else:
            sizes[is_picture] += len(data)
            sources.append(names.real)
    warnings += (f"{what} skipped: {list_some(some, 5)}" for what, some in skipped.items())
    return Context(skill, tuple(texts), tuple(warnings), tuple(sources), tuple(pictures))


def _read_skill(agent: Agent) -> tuple[str, list[Path]]:
    given, path = agent.skill.strip(), Path(agent.path)
    if not given:
        return "", []
    step = (
        f"fix `skill` in agent {quote(agent.name)}; relative paths start at the folder above the "
        "agents, or at the config folder"
    )
    for candidate in skill_paths(given, agent.path):
        try:
            names = follow_links(candidate.absolute())
            if any(find_read_protection(name, name.parent) for name in names):
                problem = f"skill {quote(given)} was not read: it may hold keys or passwords"
                raise ConfigError(problem, hint=f"use another skill in agent {quote(agent.name)}")
            real = names[-1]
            is_moved = is_from_file(agent, "skill") and real.exists() and is_outside(path, real)
            if is_moved and not is_trusted(path):
                raise ConfigError(
                    f"skill {quote(given)} of agent {quote(agent.name)} was replaced by a link "
                    "out of the project",
                    hint="start a new run",
                )
            return read_real_text(real), [real]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problem = f"failed to read skill {given}: {reason(error)}"
            raise ConfigError(problem, hint=step) from None
    raise ConfigError(f"skill not found: {given}", hint=step)


def _find_files(
    patterns: Sequence[str], workdir: Path, check: Callable[[], None]
) -> tuple[list[Path], list[str]]:
    visited, warnings, found = itertools.count(1), list[str](), set[Path]()

    def goes_on() -> bool:
        check()
        return next(visited) <= VISITED

    for pattern in patterns:
        named = {*filter(os.path.isfile, find_paths(pattern, workdir, goes_on))}
        if not goes_on():
            warnings.append(
                f"{quote(pattern)} in files: only the first {VISITED} files and folders were "
                "searched; use a narrower glob"
            )
        elif not named:
            warnings.append(f"no file matches {quote(pattern)} in files")
        found |= named
    return sorted(found), warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing(Context):
    """An agent's context, and the system prompt that contains this context."""

    system: str
    system_ends: tuple[int, int]
    """Positions in `system` where the agent's own prompt and the skill end."""
    workdir: Path
    """Real path of the workdir, so that changing a link during the run has no effect."""

    @property
    def prompt(self) -> str:
        """The agent's own system prompt, with variables replaced by values."""
        return self.system[: self.system_ends[0]]


def brief(agent: Agent, context: Context | None = None) -> Briefing:
    """Prepares an agent's system prompt from `context`, which defaults to the files on disk."""
    workdir = find_workdir(agent)
    if context is None:
        context = read_context(agent)
    system, ends = _join_parts(fill_in(agent), context.skill, context.files)
    step = "the agent's own keys go above [params]"
    ignored = agent.params.keys() & (NOT_PARAMS | {field.name for field in toml_fields(Agent)})
    warnings = [f"params.{key} is not a parameter; {step}" for key in sorted(ignored)]
    return Briefing(
        context.skill, context.files, (*warnings, *context.warnings),
        context.sources, context.pictures, system=system, system_ends=ends, workdir=workdir,
    )  # fmt: skip


def all_warnings(agent: Agent) -> tuple[str, ...]:
    try:
        return (*agent.warnings, *brief(agent).warnings)
    except ConfigError:  # reported when it stops a run
        return agent.warnings


def _join_parts(
    prompt: str, skill: str, files: Iterable[tuple[str, str]]
) -> tuple[str, tuple[int, int]]:
    """Joins prompt, skill and context files (B-7); returns the text and where the first two end."""
    text = prompt if prompt.strip() else ""
    end_of_prompt = len(text)
    if skill.strip():
        text += f"\n\n---\n\n## Skill\n\n{skill}"
    ends = (end_of_prompt, len(text))
    fenced = [
        f"### {path}\n```{Path(path).suffix.removeprefix('.')}\n{content}\n```"
        for path, content in files
    ]
    if fenced:
        text += "\n\n---\n\n## Context Files\n\n" + "\n\n".join(fenced)
    return text, ends


class UnknownVariable(ConfigError):
    def __init__(self, agent: Agent, name: str) -> None:
        near = nearest(name, agent.vars)
        suggested = f"; did you mean {near}?" if near else ""
        line = find_line(Source(agent.text), name) if agent.path else None
        file = format_path(Path(agent.path)) if agent.path else f"agent {quote(agent.name)}"
        super().__init__(
            f"unknown variable {quote(name)} in {{{{ {name} }}}} of system_prompt{suggested}",
            hint=rf"set it under [vars] or with --var {name}=…, or write \{{{{ for literal braces",
            place=f"in {file}, line {line}" if line else f"in {file}",
        )
        self.variable = name


def fill_in(agent: Agent) -> str:
    """Replaces the variables in an agent's system prompt; braces in their values are left alone."""
    if not agent.vars:
        return agent.system_prompt
    prompt = agent.system_prompt
    names = find_names(prompt)
    values: dict[str, Written] = {}
    for name in names & agent.vars.keys():
        try:
            values[name] = write_value(agent.vars[name])
        except Exception as error:  # the value's own methods may raise anything
            told = f"cannot be converted to text: {one_line(words(error), 200)}"
            problem = str(error) if isinstance(error, NoText) else told
            raise ConfigError(
                f"variable {quote(name)} {problem}", hint="give it a text value"
            ) from None
    pieces: list[str] = []
    size = at = 0
    for found in _BRACES.finditer(prompt):
        name = found[1]
        if name in names and name not in values:
            raise UnknownVariable(agent, name)
        value = values.get(name) or Written(found[0] if name else "{{", is_block=False)
        append_value(pieces, prompt[at : found.start()], value, prompt, found.end())
        at = found.end()
        size += len(value.text)
        if size > LONGEST_PROMPT:
            raise ConfigError(
                f"system_prompt of agent {quote(agent.name)} is longer than {LONGEST_PROMPT:,} "
                "characters with its variables",
                hint="shorten the values of [vars]",
            )
    return "".join([*pieces, prompt[at:]])


def find_names(text: str) -> Set[str]:
    names = {found[1] for found in _BRACES.finditer(text) if found[1]}
    # `{{ None }}` and `{{ else }}` stay as they are, as in a cell
    return {name for name in names if not variable_problem(name)}


def find_line(source: Source, name: str) -> int | None:
    """Returns the line of a variable's first use in an agent file's system prompt, if any."""
    first = source.line(("system_prompt",))
    if first is None:
        return None
    below = "\n".join(source.text.split("\n")[first - 1 :])
    found = next((one for one in _BRACES.finditer(below) if one[1] == name), None)
    return first + below.count("\n", 0, found.start()) if found else None


AGENT, TRUSTED = "agent", "trusted"
"""Keys of a `Memory`: the agent, and a flag for definitions from the user's own history."""


class Memory(dict[str, Any]):
    """A dict for values that are never saved, such as functions; it is pickled as an empty dict."""

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent with its skill and context files, as saved with a result."""

    values: Mapping[str, Any]
    """Values of agent-file keys that differ from the defaults."""
    skill: str = field(default="", repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Texts of the context files, keyed by path relative to the workdir."""
    pictures: Mapping[str, Picture] = field(default_factory=dict, repr=False)
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, agent: Agent, context: Context | None) -> Definition:
        """Returns the definition of an agent, with no skill and no files if `context` is None."""
        found = context or Context("", (), ())
        made = cls(make_table(agent), found.skill, dict(found.files), dict(found.pictures))
        made.memory[AGENT] = agent
        return made

    @property
    def agent(self) -> Agent | None:
        """The agent, with the user's functions; None if the definition was read from a file."""
        return cast("Agent | None", self.memory.get(AGENT))

    @property
    def name(self) -> str:
        name = self.values.get("name")
        return name if isinstance(name, str) else ""

    @property
    def context(self) -> Context:
        return Context(
            self.skill, tuple(self.files.items()), (), pictures=tuple(self.pictures.items())
        )

    def make_agent(self) -> Agent:
        """Creates an agent from the saved values, without the user's functions."""
        kind = Agent if self.name else NoAgent
        try:
            if "schema" in self.values.get("output", {}):  # a run reads the schema
                raise ValueError("its output refers to a file")
            return kind(**{"name": "", "model": "", **self.values})
        except (TypeError, ValueError, AttributeError) as error:  # the file may be damaged
            problem = one_line(f"{error}", 200)
            raise ConfigError(
                f"agent {quote(self.name)} of the run is damaged: {problem}"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The agents of a tree of runs, as they were when its root run started (D-53)."""

    root: Definition
    """The root agent with the options of its run applied."""
    agents: Mapping[str, Definition] = field(default_factory=dict)
    """Definitions of the agents that the tree could call, without options, keyed by agent name."""
    changed: Mapping[str, Definition] = field(default_factory=dict)
    """Definitions of the agents that a fork changed, keyed by run id."""
    model_all: str = ""
    """Model that an option sets for all agents of the tree; empty if the option is not used."""
    vars: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None
    """JSON Schema of the answer, if set by an option; None to use the root agent's schema."""
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)
