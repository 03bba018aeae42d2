"""Variables of system prompts: `{{ name }}` is replaced by a value of `[vars]`, or of the run.

Only names are replaced, as an agent file may come with a project: nothing in it is evaluated.
Source: product.md "Agent files" (`[vars]`), "Notebook" (`--var`); D-40.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import format_path
from axe_nb.agents.tables import variable_problem
from axe_nb.conversion.toml_tables import Source
from axe_nb.conversion.value_text import NoText, Written, append_value, write_value
from axe_nb.errors import ConfigError, words
from axe_nb.text import nearest, one_line, quote

LONGEST_PROMPT = 4_000_000
"""Maximum characters of a system prompt with its values: a short file may name a long one often."""

_BRACES = re.compile(r"\\\{\{|\{\{\s*([^\W\d]\w*)\s*\}\}")
"""An escaped pair of braces, or a name in braces."""


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
    """Returns a value as in the prompt of a cell.

    Raises:
        ConfigError: it has no text form.
    """
    try:
        return write_value(value)
    except NoText as error:
        problem = str(error)
    except Exception as error:  # of the value's own methods
        problem = f"cannot be converted to text: {one_line(words(error), 200)}"
    raise ConfigError(f"variable {quote(name)} {problem}", hint="give it a text value")
