"""The reach of agents: protected files of the current folder, hosts without approval, questions.

Source: D-50, D-83, D-56; docs/safety.md "File rules" and "Network".
"""

from __future__ import annotations

from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.hosts import ANY
from axe_nb.agents.protected import find_write_protection
from axe_nb.text import list_some, printable

LISTED = 8
"""Maximum number of files to name."""


def describe_protected() -> str:
    """Returns the protected files directly in the current folder in one line.

    Raises:
        OSError: the folder cannot be read.
    """
    here = Path.cwd().resolve()
    found = sorted(path.name for path in here.iterdir() if find_write_protection(path, here))
    rule = "tools can write to protected files only after you approve each path"
    return f"{rule}; here: {list_some([*map(printable, found)], LISTED) or 'none'}"


def find_open_hosts(agent: Agent) -> str:
    """Returns a note if an agent reaches every host without asking; empty otherwise."""
    if ANY not in agent.allowed_hosts:
        return ""
    return 'allowed_hosts = ["*"]: fetch and commands can reach every host without asking'


def find_questions(agent: Agent) -> str:
    """Returns a note if the sub-agents of an agent may ask the person; empty otherwise."""
    if not agent.sub_agents or agent.sub_agents_config.ask != "person":
        return ""
    return 'sub_agents_config.ask = "person": its sub-agents ask you, with their place in the tree'
