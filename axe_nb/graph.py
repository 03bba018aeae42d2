"""Who may call whom: the delegation graph of an agent as a small picture in text.

Source: product.md "Notebook" (`%%axe_agent`, `%axe show`); D-3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axe_nb.agent import Agent
from axe_nb.errors import ConfigError

MAX_LINES = 100
"""Lines of a picture; the rest is counted."""

DEFAULT_DEPTH = 3
"""Of call_agent, where the root sets none."""


def picture(agent: Agent, find: Callable[[str], Agent]) -> str:
    """The agents below `agent`, one a line; missing ones, cycles and the depth limit are marked.

    Args:
        agent: the root of the picture.
        find: name -> agent. Raises ConfigError.
    """
    deepest = agent.sub_agents_config.max_depth or DEFAULT_DEPTH
    lines = [agent.name, *_below(agent, find, (agent.name,), deepest, "")]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more"]
    return "\n".join(lines)


def _below(
    agent: Agent, find: Callable[[str], Agent], path: tuple[str, ...], deepest: int, indent: str
) -> Iterator[str]:
    names = agent.sub_agents if agent.sub_agents_config.enabled else ()
    for name in names:
        is_last = name is names[-1]
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        child, note = _child(name, find, path, deepest)
        yield f"{indent}{branch}{name}{note}"
        if child is not None:
            lower = min(deepest, child.sub_agents_config.max_depth or deepest)
            yield from _below(child, find, (*path, name), lower, indent + further)


def _child(
    name: str, find: Callable[[str], Agent], path: tuple[str, ...], deepest: int
) -> tuple[Agent | None, str]:
    """The agent to go on with, if any, and what is to be said of it."""
    try:
        child = find(name)
    except ConfigError as error:
        return None, f"  ✗ {error.message}"
    if not child.sub_agents:
        return None, ""
    if len(path) >= deepest:
        return None, f"  (may not delegate here: max_depth {deepest})"
    if name in path:
        return None, "  ↺ cycle, ended by max_depth"
    return child, ""
