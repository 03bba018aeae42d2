"""What `%axe` and `axe-nb` both do for a command; each face writes it in its own way.

Source: product.md "Notebook" and "Command line"; A-5.7, B-12.
"""

from __future__ import annotations

from collections.abc import Iterator

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import list_agents
from axe_nb.doctor.doctor import Finding, examine
from axe_nb.errors import ConfigError
from axe_nb.session.portal import run_and_wait
from axe_nb.session.session import session
from axe_nb.views import agent_summary


def load_agents(agents_dir: str | None) -> Iterator[tuple[str, Agent | ConfigError]]:
    """(name, agent or what is wrong with it) of all that can be found, sorted by name."""
    for name in sorted({*session.agents, *list_agents(agents_dir)}):
        try:
            yield name, session.find(name, agents_dir)
        except ConfigError as error:
            yield name, error


def format_agent(agent: Agent) -> list[str]:
    """An agent's file, a line per key."""
    return [agent_summary.line(label, value) for label, value in agent_summary.rows(agent)]


def diagnose(agents_dir: str | None) -> list[Finding]:
    """Problems of the configuration, and what is right."""
    return run_and_wait(
        examine(agents_dir, session.agents, lambda name: session.find(name, agents_dir))
    )
