"""The system prompt of an agent: its own prompt, skill and context files, and warnings about them.

Source: B-7, B-8; seed 000 §2.3 base; D-12, D-42.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.context import Context, read_context
from axe_nb.agents.tables import COMMON_PARAMS
from axe_nb.agents.variables import fill_in
from axe_nb.agents.workdir import find_workdir
from axe_nb.conversion.toml_tables import toml_fields
from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import Picture
from axe_nb.provider_table import NOT_PARAMS
from axe_nb.text import nearest, quote

NO_PROMPT = "Execute the task described in your instructions."
"""The message to send if the prompt is blank (B-8)."""

VERY_LIKE = 0.85
"""Similarity of a parameter to a common one, from which it is probably a typo."""

OWN_KEYS = {"model": "model", "system": "system_prompt", "tools": "tools"}
"""Key that `[params]` may not set → the agent's own key for it."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """An agent's own context, read from disk."""

    system: str
    """The whole system prompt."""
    system_ends: tuple[int, int]
    """The ends of the agent's own prompt and of its skill in it."""
    workdir: Path
    """Without links; tools open it by this path, so that no link can take its place later."""
    skill: str
    """Text of the skill; empty if there is none."""
    files: tuple[tuple[str, str], ...]
    """(path relative to the workdir, text) of each context file, sorted by path."""
    warnings: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    """The real files that it was read from."""
    pictures: tuple[tuple[str, Picture], ...] = ()
    """(path relative to the workdir, picture) of each context file that is one; they are sent with
    the prompt, as a system prompt is text."""

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
    warnings = (*_check_params(agent), *context.warnings)
    return Briefing(
        system, ends, workdir, context.skill, context.files, warnings, context.sources,
        context.pictures,
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
    if not agent.params:
        return []
    warnings = _find_ignored_params(agent)
    for key in agent.params.keys() - NOT_PARAMS - set(COMMON_PARAMS):
        near = nearest(key, COMMON_PARAMS, VERY_LIKE)
        is_own = any(key == field.name for field in toml_fields(Agent))
        step = "the agent's own keys go above [params]" if is_own else ""
        step = step or (f"did you mean {quote(near)}?" if near else "")
        if step:
            warnings.append(f"params.{key} is passed to the model as it is; {step}")
    return sorted(warnings)


def _find_ignored_params(agent: Agent) -> list[str]:
    keys = [key for key in agent.params if key in NOT_PARAMS]
    if not keys:
        return []
    own = [OWN_KEYS[key] for key in keys if key in OWN_KEYS]
    step = f"; set these above [params] instead: {', '.join(own)}" if own else ""
    return [f"ignored by axe_nb: {', '.join(f'params.{key}' for key in keys)}{step}"]


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
