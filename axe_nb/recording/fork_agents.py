"""The agents of a fork: those of the forked run, even if they have changed since.

A saved run may come from a stranger. Its agents are data: one that differs from the user's own runs
restricted, as an agent file of a project without trust does.
Source: D-53, D-81, D-60, D-66, docs/safety.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent, NoAgent
from axe_nb.agents.prompt import TRUSTED, Context, Definition, Definitions, read_context
from axe_nb.agents.trust import restrict, trusts_all
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.toml_tables import make_table
from axe_nb.errors import ConfigError
from axe_nb.recording.same_request import is_same
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.text import list_some, quote

FILE = Path("axe", "agents", "agent.toml")
"""Path by whose rules an agent from a saved run is restricted."""

Find = Callable[[str], Agent]
"""Name → the user's current agent. Raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredAgents:
    """The agents of a recorded tree."""

    root: Agent
    """The root agent as it ran."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """Name → agent, as loaded."""
    changed: Mapping[str, Agent] = field(default_factory=dict)
    """Run id → its agent as changed by earlier forks."""
    contexts: Sequence[tuple[Agent, Context]] = ()
    """Agents with their texts."""
    warnings: tuple[str, ...] = ()
    """Warnings about differences from the current agents."""


def restore_agents(result: RunResult, find: Find) -> RestoredAgents:
    """Returns the agents of a recorded tree.

    Raises ConfigError: they were not kept, and the root's is gone; or they are damaged.
    """
    kept = result.definitions
    if kept is None:  # of a run whose process died
        if not result.agent:
            return RestoredAgents(root=NoAgent(name="", model=result.model))
        root = replace(find(result.agent), model=result.model)
        warning = "the agents of the forked run were not kept; the fork uses the current ones"
        return RestoredAgents(root=root, warnings=(warning,))
    known = {name: _try(find, name) for name in {*kept.agents, kept.root.name}}
    agents = {name: _restore(one, known[name], kept) for name, one in kept.agents.items()}
    now = known[kept.root.name]
    root = _restore(kept.root, now, kept)
    changed = {id: _restore(one, _try(find, one.name), kept) for id, one in kept.changed.items()}
    pairs = [(root, kept.root), *((agents[name], one) for name, one in kept.agents.items())]
    pairs += [(changed[id], one) for id, one in kept.changed.items()]
    warnings = (_compare(name, one, known[name]) for name, one in kept.agents.items())
    return RestoredAgents(
        root=root, agents=agents, changed=changed,
        contexts=[(agent, one.context) for agent, one in pairs],
        warnings=tuple(filter(None, warnings)),
    )  # fmt: skip


def _try(find: Find, name: str) -> Agent | None:
    try:
        return find(name) if name else None
    except ConfigError:
        return None


def _restore(kept: Definition, now: Agent | None, tree: Definitions) -> Agent:
    """Returns a recorded agent."""
    if kept.agent is not None:
        return kept.agent
    if now is not None and _is_same(kept.values, make_table(now)):
        return now
    is_free = trusts_all() or tree.memory.get(TRUSTED)
    if is_free:
        agent = kept.make_agent()
    else:  # without what it would need the user's trust for
        values = deepcopy(dict(kept.values))
        left_out = restrict(values, FILE.absolute())
        agent = replace(kept, values=values).make_agent()
        agent = replace(agent, is_restricted=True, warnings=(left_out,) if left_out else ())
    if now is not None:
        own = {name: tool for name, tool in now.own_tools.items() if name in agent.tools}
        agent = replace(agent, own_tools=own)
    return agent


def _is_same(kept: Any, now: Any) -> bool:
    clean = find_filter()
    return is_same(clean.json(jsonable(kept)), clean.json(jsonable(now)))


def _compare(name: str, kept: Definition, now: Agent | None) -> str:
    """Returns a warning if an agent has changed since it was recorded; else empty."""
    if now is None:
        return f"agent {quote(name)} no longer exists; the fork uses the recorded one"
    before, after = dict(kept.values), make_table(now)
    keys = [
        key for key in {**before, **after} if not _is_same(before.get(key, ""), after.get(key, ""))
    ]
    keys = keys or _list_changed_texts(kept, now)
    if not keys:
        return ""
    changed = list_some(keys, 5)
    return f"agent {quote(name)} has changed since ({changed}); the fork uses the recorded one"


def _list_changed_texts(kept: Definition, now: Agent) -> list[str]:
    """Returns the keys whose files have changed since they were recorded."""
    if not (now.skill or now.files):
        return []
    try:
        read = read_context(now)
    except ConfigError:
        return ["skill, files"]
    texts = {"skill": (kept.skill, read.skill), "files": (dict(kept.files), dict(read.files))}
    return [key for key, (before, after) in texts.items() if not _is_same(before, after)]
