"""The system prompt of an agent: its own prompt, skill and context files, and warnings about them.

In the prompt, `{{ name }}` stands for a value of `[vars]`, or of the run. Only names are replaced,
as an agent file may come with a project: nothing in it is evaluated.
Source: B-7, B-8, D-12, D-40, D-42.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import format_path
from axe_nb.agents.context import Context, read_context
from axe_nb.agents.provider_table import NOT_PARAMS
from axe_nb.agents.tables import COMMON_PARAMS, variable_problem
from axe_nb.agents.workdir import find_workdir
from axe_nb.conversion.toml_tables import Source, toml_fields
from axe_nb.conversion.value_text import NoText, Written, append_value, write_value
from axe_nb.errors import ConfigError, words
from axe_nb.text import nearest, one_line, quote

NO_PROMPT = "Execute the task described in your instructions."
"""The message to send if the prompt is blank (B-8)."""

VERY_LIKE = 0.85
"""Similarity of a parameter to a common one, from which it is probably a typo."""

OWN_KEYS = {"model": "model", "system": "system_prompt", "tools": "tools"}
"""Key that `[params]` may not set → the agent's own key for it."""


LONGEST_PROMPT = 4_000_000
"""Maximum characters of a system prompt with its values: a short file may name a long one often."""

_BRACES = re.compile(r"\\\{\{|\{\{\s*([^\W\d]\w*)\s*\}\}")
"""An escaped pair of braces, or a name in braces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing(Context):
    """An agent's own context, read from disk, and the system prompt made of it.

    Pictures are sent with the prompt, as a system prompt is text.
    """

    system: str
    """The whole system prompt."""
    system_ends: tuple[int, int]
    """The ends of the agent's own prompt and of its skill in it."""
    workdir: Path
    """Without links; tools open it by this path, so that no link can take its place later."""

    @property
    def prompt(self) -> str:
        """The agent's own prompt, with the values of its variables."""
        return self.system[: self.system_ends[0]]


def brief(agent: Agent, context: Context | None = None) -> Briefing:
    """Assembles the agent's system prompt from its parts.

    Args:
        agent: the agent.
        context: the texts that it refers to; None = they are read now.

    Raises:
        ConfigError: the workdir or the skill is missing, a glob is invalid, or a variable has no
            value.
    """
    workdir = find_workdir(agent)
    if context is None:
        context = read_context(agent)
    system, ends = _join_parts(fill_in(agent), context.skill, context.files)
    return Briefing(
        context.skill, context.files, (*_check_params(agent), *context.warnings),
        context.sources, context.pictures, system=system, system_ends=ends, workdir=workdir,
    )  # fmt: skip


def add_files(
    briefing: Briefing,
    agent: Agent,
    files: Sequence[tuple[str, str]],
    warnings: Sequence[str],
) -> Briefing:
    """Returns a briefing with more context files, after its own, and more warnings."""
    if not files and not warnings:
        return briefing
    every = (*briefing.files, *files)
    system, _ = _join_parts(briefing.prompt, briefing.skill, every)
    return replace(briefing, system=system, files=every, warnings=(*briefing.warnings, *warnings))


def all_warnings(agent: Agent) -> tuple[str, ...]:
    """Returns warnings about the agent's file and its context, as a run would show them."""
    try:
        return (*agent.warnings, *brief(agent).warnings)
    except ConfigError:  # reported when it stops a run
        return agent.warnings


def _check_params(agent: Agent) -> list[str]:
    """Returns warnings about parameters that are ignored, or were probably meant otherwise."""
    warnings: list[str] = []
    if ignored := [key for key in agent.params if key in NOT_PARAMS]:
        own = [OWN_KEYS[key] for key in ignored if key in OWN_KEYS]
        step = f"; set these above [params] instead: {', '.join(own)}" if own else ""
        named = ", ".join(f"params.{key}" for key in ignored)
        warnings.append(f"ignored by axe_nb: {named}{step}")
    for key in agent.params.keys() - NOT_PARAMS - set(COMMON_PARAMS):
        near = nearest(key, COMMON_PARAMS, VERY_LIKE)
        is_own = any(key == field.name for field in toml_fields(Agent))
        step = "the agent's own keys go above [params]" if is_own else ""
        step = step or (f"did you mean {quote(near)}?" if near else "")
        if step:
            warnings.append(f"params.{key} is passed to the model as it is; {step}")
    return sorted(warnings)


def _join_parts(
    prompt: str, skill: str, files: Sequence[tuple[str, str]]
) -> tuple[str, tuple[int, int]]:
    """Joins the parts as B-7 specifies; an empty part leaves no delimiter.

    Returns also where the prompt and the skill end.
    """
    text = prompt if prompt.strip() else ""
    end_of_prompt = len(text)
    if skill.strip():
        text += f"\n\n---\n\n## Skill\n\n{skill}"
    ends = (end_of_prompt, len(text))
    if files:
        fenced = (
            f"### {path}\n```{Path(path).suffix.removeprefix('.')}\n{content}\n```"
            for path, content in files
        )
        text += "\n\n---\n\n## Context Files\n\n" + "\n\n".join(fenced)
    return text, ends


class UnknownVariable(ConfigError):
    """A system prompt names a variable that has no value."""

    def __init__(self, agent: Agent, name: str) -> None:
        near = nearest(name, agent.vars)
        suggested = f"; did you mean {near}?" if near else ""
        super().__init__(
            f"unknown variable {quote(name)} in {{{{ {name} }}}} of system_prompt{suggested}",
            hint=rf"set it under [vars] or with --var {name}=…, or write \{{{{ for literal braces",
        )
        self.variable = name
        self.place = _find_place(agent, name)


def fill_in(agent: Agent) -> str:
    """Returns the system prompt of an agent with the values of its variables.

    Values are not expanded again. The text of an agent without variables is returned unchanged,
    whatever braces it has.

    Raises:
        UnknownVariable: a name has no value.
        ConfigError: a value has no text form, or the whole text is too long.
    """
    if not agent.vars:
        return agent.system_prompt
    prompt = agent.system_prompt
    names = find_names(prompt)
    values = {name: _write_value(name, agent.vars[name]) for name in names & agent.vars.keys()}
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
    """Returns the names of the variables in a system prompt."""
    names = {found[1] for found in _BRACES.finditer(text) if found[1]}
    # `{{ None }}` and `{{ else }}` stay as they are, as in a cell
    return {name for name in names if not variable_problem(name)}


def set_declared(agent: Agent, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the variables of an agent, with those given values that it has a name for."""
    return {name: given.get(name, value) for name, value in agent.vars.items()}


def find_line(source: Source, name: str) -> int | None:
    """Returns the line of a variable in the system prompt of an agent file; None if not found."""
    first = source.line(("system_prompt",))
    if first is None:
        return None
    below = "\n".join(source.text.split("\n")[first - 1 :])
    found = next((one for one in _BRACES.finditer(below) if one[1] == name), None)
    return first + below.count("\n", 0, found.start()) if found else None


def _find_place(agent: Agent, name: str) -> str:
    file = format_path(Path(agent.path)) if agent.path else ""
    line = find_line(Source(agent.text, file), name) if agent.text else None
    if not file:
        return f"in agent {quote(agent.name)}"
    return f"in {file}, line {line}" if line else f"in {file}"


def _write_value(name: str, value: object) -> Written:
    """Returns a value as in the prompt of a cell. Raises ConfigError if it has no text form."""
    try:
        return write_value(value)
    except NoText as error:
        problem = str(error)
    except Exception as error:  # of the value's own methods
        problem = f"cannot be converted to text: {one_line(words(error), 200)}"
    raise ConfigError(f"variable {quote(name)} {problem}", hint="give it a text value")
