"""The agents that a tree of runs was made of, as data: kept with its result, for forks.

Source: D-53, D-61, D-66.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from axe_nb.agents.agent import Agent, NoAgent
from axe_nb.agents.prompt import Context
from axe_nb.conversion.toml_tables import make_table
from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import Picture
from axe_nb.text import one_line, quote

MAX_REASON = 200
"""Characters of the reason why an agent cannot be made."""

AGENT, TRUSTED = "agent", "trusted"
"""Keys of `Memory`: the agent itself; True if the definitions come from the user's own history."""


class Memory(dict[str, Any]):
    """Things that no file keeps, such as functions; a deep copy and a pickle are empty."""

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()


@dataclass(frozen=True, slots=True)
class Definition:
    """One agent, with the texts and pictures that it refers to."""

    values: Mapping[str, Any]
    """Its values by key, as in its file: those that differ from the defaults."""
    skill: str = field(default="", repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As in `Context`, and so are pictures."""
    pictures: Mapping[str, Picture] = field(default_factory=dict, repr=False)
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, agent: Agent, context: Context | None) -> Definition:
        """Returns the definition of an agent; its texts are empty if they were not read."""
        found = context or Context("", (), ())
        made = cls(make_table(agent), found.skill, dict(found.files), dict(found.pictures))
        made.memory[AGENT] = agent
        return made

    @property
    def agent(self) -> Agent | None:
        """The agent itself, with its functions; None if it was read from a file."""
        agent: Agent | None = self.memory.get(AGENT)
        return agent

    @property
    def name(self) -> str:
        """The agent's name; empty if it is none."""
        name = self.values.get("name")
        return name if isinstance(name, str) else ""

    @property
    def context(self) -> Context:
        """The texts and pictures that it refers to."""
        return Context(
            self.skill, tuple(self.files.items()), (), pictures=tuple(self.pictures.items())
        )

    def make_agent(self) -> Agent:
        """Returns the agent made of its values, without functions of the user.

        Raises ConfigError if a value is invalid.
        """
        kind = Agent if self.name else NoAgent
        try:
            if "schema" in self.values.get("output", {}):  # a file: it was read for the run
                raise ValueError("its output refers to a file")
            return kind(**{"name": "", "model": "", **self.values})
        except (TypeError, ValueError, AttributeError) as error:  # the file may be damaged
            reason = one_line(f"{error}", MAX_REASON)
            raise ConfigError(f"agent {quote(self.name)} of the run is damaged: {reason}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The agents of one tree, as they were when its root started (D-53)."""

    root: Definition
    """As it ran, with the options of its run."""
    agents: Mapping[str, Definition] = field(default_factory=dict)
    """Name → agent that the tree could reach, as it was loaded."""
    changed: Mapping[str, Definition] = field(default_factory=dict)
    """Id of a run → its agent, as forks have changed it."""
    model_all: str = ""
    """The options of the root that apply to all agents; empty = none."""
    vars: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None
    """JSON Schema that an option asked for; None = the agent's own."""
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)
