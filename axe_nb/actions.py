"""Commands shared by `%axe` and `axe-nb`; each formats the output in its own way.

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
    """Yields (name, agent or its error) for all agents found, sorted by name."""
    for name in sorted({*session.agents, *list_agents(agents_dir)}):
        try:
            yield name, session.find(name, agents_dir)
        except ConfigError as error:
            yield name, error


def format_agent(agent: Agent) -> list[str]:
    """Formats an agent's file, one line per key."""
    return [agent_summary.line(label, value) for label, value in agent_summary.rows(agent)]


def diagnose(agents_dir: str | None) -> list[Finding]:
    """Diagnoses configuration problems."""
    return run_and_wait(
        examine(agents_dir, session.agents, lambda name: session.find(name, agents_dir))
    )
