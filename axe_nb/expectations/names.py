"""The names that expectations may use: agents and tools, of the tree and of this machine.

A name that is misspelt must not make `no writ_file` true.
Source: D-67.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from axe_nb.agents.agent import DEFINED, Agent
from axe_nb.agents.agent_files import list_agents
from axe_nb.errors import ConfigError
from axe_nb.expectations.clause import Subject
from axe_nb.expectations.grammar import parse
from axe_nb.expectations.table import MEASURES
from axe_nb.expectations.tree import Branch, name_of
from axe_nb.text import list_some, nearest, quote, suggestion
from axe_nb.toolbox import REGISTRY


class KnownNames:
    """The agents and tools that a tree and this session know."""

    def __init__(
        self, branches: Sequence[Branch], agents_dir: str | None, agents: Iterable[Agent] = ()
    ) -> None:
        self._agents = {*DEFINED, *list_agents(agents_dir)}
        self._tools = set(REGISTRY.known)
        for agent in (*DEFINED.values(), *agents):
            self._agents.add(agent.name)
            self._tools.update(agent.own_tools)
        for branch in branches:
            self._agents.update(filter(None, [branch.run.agent]))
            self._tools.update(call.name for turn in branch.run.log for call in turn.calls)

    def is_agent(self, subject: Subject) -> bool:
        """True if a subject is an agent, False if it is a tool.

        Raises:
            ConfigError: it could be both, or is neither.
        """
        name, kind = subject.name, subject.kind
        in_agents, in_tools = name in self._agents, name in self._tools
        if in_agents and in_tools and not kind:
            shown = name_of(name)
            raise ConfigError(
                f"{quote(shown)} is both an agent and a tool",
                hint=f"write agent:{shown} or tool:{shown}",
            )
        known = {"agent": self._agents, "tool": self._tools}.get(kind, self._agents | self._tools)
        if name not in known and (not kind or nearest(name, known)):
            raise self._explain_unknown(subject, known)
        return kind == "agent" or (kind != "tool" and in_agents)

    def check_spelling(self, subject: Subject) -> None:
        """Rejects an unknown name that resembles a known one.

        Raises:
            ConfigError: names the known one.
        """
        name, known = subject.name, self._agents | self._tools
        if subject.measure or subject.kind or name in known:
            return
        if suggestion(name, {*known, *MEASURES}):
            error = self._explain_unknown(subject, known)
            shown = name_of(name)
            error.hint += f" If not, write agent:{shown} or tool:{shown}"
            raise error

    def _explain_unknown(self, subject: Subject, known: Collection[str]) -> ConfigError:
        what = subject.kind or "agent, tool or measure"
        names = known if subject.kind else {*known, *MEASURES}
        agents = list_some(sorted(map(name_of, self._agents)), 5)
        step = f"agents: {agents}; for any other name write agent:NAME or tool:NAME"
        hint = suggestion(subject.name, sorted(names)) or step
        return ConfigError(f"unknown {what} {quote(name_of(subject.name))}", hint=hint)


def check_spelling(expectations: str, agents: Iterable[Agent], agents_dir: str | None) -> None:
    """Rejects a misspelt name before the run, which would be paid for and then not be judged.

    Other unknown names may be of an agent that a tool starts: the finished run tells.

    Args:
        expectations: as in `researcher >= 2, parallel; no write_file`.
        agents: the agents that the run can reach.
        agents_dir: folder to search for agents first.

    Raises:
        ConfigError: a name resembles a known one, or the expectations are invalid.
    """
    names = KnownNames((), agents_dir, agents)
    for clause in parse(expectations):
        for subject in clause.subjects:
            names.check_spelling(subject)


def check_argument(name: str, subject: Subject, used: Collection[str]) -> None:
    """Rejects an argument that no call had, and that the tool does not take.

    Raises:
        ConfigError: it is unknown.
    """
    tool = REGISTRY.find(subject.name)
    if tool is None or name in used or name in tool.parameters:
        return
    known = sorted(tool.parameters)
    raise ConfigError(
        f"{subject.name} has no argument {quote(name)}",
        hint=suggestion(name, known) or f"its arguments: {', '.join(known) or 'none'}",
    )
