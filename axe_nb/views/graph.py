"""The delegation graph of an agent as a small picture in text.

Source: product.md "Notebook" (`%%axe_agent`, `%axe show`); D-3, D-44, A-E2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.engine.scope import DepthLimit
from axe_nb.errors import ConfigError
from axe_nb.toolbox import REGISTRY
from axe_nb.tools.tool import Tool
from axe_nb.views.appearance import LOOKS

MAX_LINES = 40
"""Maximum number of lines; a note replaces the others."""

Find: TypeAlias = Callable[[str], "Agent | ConfigError"]
Lines: TypeAlias = Iterator[str]


def picture(agent: Agent, find: Callable[[str], Agent]) -> str:
    """The agents below `agent`, one a line; missing ones, cycles and the depth limit are marked.

    Args:
        agent: the root of the picture.
        find: name -> agent. Raises ConfigError.
    """
    if not agent.sub_agents_config.enabled:
        return f"{agent.name}  (cannot delegate: sub_agents_config.enabled is false)"
    limit = DepthLimit(root=agent.sub_agents_config.max_depth)
    below = _list_below(agent, _cache_finds(find), (agent.name,), limit, "")
    deepest = _find_deepest(agent, limit)
    lines = [f"{agent.name}  (depth 0, max_depth {deepest})", *islice(below, MAX_LINES)]
    if next(below, None) is not None:
        lines.append("…  and more")
    return "\n".join(lines)


def _list_below(
    agent: Agent, find: Find, path: tuple[str, ...], limit: DepthLimit, indent: str
) -> Lines:
    names = dict.fromkeys(agent.sub_agents)
    copies = [tool.name for tool in _find_copying_tools(agent)]
    last = [*names, *copies][-1:]
    for name in names:
        branch, further = ("└─ ", "   ") if [name] == last else ("├─ ", "│  ")
        child, lower, note = _find_child(name, find, path, limit)
        yield f"{indent}{branch}{name}{note}"
        if child is not None:
            yield from _list_below(child, find, (*path, name), lower, indent + further)
    for tool in copies:
        yield f"{indent}{'└─ ' if [tool] == last else '├─ '}copies of itself, by {tool}"


def _find_copying_tools(agent: Agent) -> list[Tool]:
    """The agent's tools whose children are copies of it."""
    found = map(REGISTRY.find, dict.fromkeys(agent.tools))
    return [tool for tool in found if tool and tool.copies_caller]


def _find_deepest(agent: Agent, limit: DepthLimit) -> int:
    """The depth at which no delegation tool of the agent may be used any more (D-3)."""
    tools = _find_copying_tools(agent)
    if agent.sub_agents or not tools:
        tools += filter(None, [REGISTRY.find("call_agent")])
    return max(map(limit.of, tools))


def _find_child(
    name: str, find: Find, path: tuple[str, ...], limit: DepthLimit
) -> tuple[Agent | None, DepthLimit, str]:
    """(the agent to continue with, if any; the limit down to it; the note on it)."""
    child = find(name)
    if isinstance(child, ConfigError):
        return None, limit, f"  {LOOKS['error'].sign} {child}"
    lower = limit.lowered(child)
    may = child.sub_agents_config.enabled and (child.sub_agents or _find_copying_tools(child))
    if not may:
        return None, lower, ""
    deepest = _find_deepest(child, lower)
    if name in path:
        return None, lower, f"  ↺ cycle, ended by max_depth {deepest}"
    if len(path) >= deepest:
        return None, lower, f"  (depth {len(path)}: cannot delegate, max_depth {deepest})"
    return child, lower, ""


def _cache_finds(find: Callable[[str], Agent]) -> Find:
    """`find` called once for each name; its errors are returned."""

    @cache
    def found(name: str) -> Agent | ConfigError:
        try:
            return find(name)
        except ConfigError as error:
            return error

    return found
