"""An agent on one page: settings, abilities, sub-agents; all tools, one a line.

Source: A-5.7; D-19, D-20; product.md "Notebook" (`%%axe_agent`, `%axe show`, `%axe tools`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date

from axe_nb.agents.agent import Agent
from axe_nb.agents.servers import names_of_servers
from axe_nb.agents.tables import DEFAULT_LIMITS
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.scope import DepthLimit
from axe_nb.engine.toolset import assemble
from axe_nb.messages import dump
from axe_nb.model_table import tell_end
from axe_nb.text import clean, format_dollars, format_seconds, one_line
from axe_nb.toolbox import REGISTRY
from axe_nb.tools.tool import Effect, Tool, Verdict
from axe_nb.views.axe_text import text_of
from axe_nb.views.graph import picture

MAX_OUTPUT = 200
"""Characters of the schema of an answer."""

WIDTH = 100
"""Characters of a line about a tool."""

NAME_WIDTH, SHORTEST = 40, 20
"""Characters that names are aligned within, and that are left for a description."""

VERDICTS: dict[Verdict, str] = {"allow": "Allowed", "ask": "Asks first", "deny": "Denied"}

EFFECTS: dict[Effect, str] = {
    "read": "reads", "user": "yours", "network": "connects", "write": "writes",
    "delegate": "delegates",
}  # fmt: skip


def rows(agent: Agent) -> Iterator[tuple[str, str]]:
    """(label, value) of the settings in its file, without those it omits."""
    settings = [
        ("Name", agent.name), ("Description", agent.description), ("Model", agent.model),
        ("Model Ends", ": ".join(filter(None, tell_end(agent.model, date.today())))),
        ("Skill", agent.skill), ("Files", ", ".join(agent.files)), ("Workdir", agent.workdir),
        ("Tools", ", ".join(agent.tools)),
        ("MCP Servers", ", ".join(names_of_servers(agent.mcp_servers))), ("Mode", agent.mode),
        ("Output", one_line(dump(dict(agent.output)).decode(), MAX_OUTPUT) if agent.output else ""),
        ("Hosts", ", ".join(agent.allowed_hosts)), ("Stream", "" if agent.stream else "no"),
        ("Params", ", ".join(f"{k}={text_of(v)}" for k, v in agent.params.items())),
        ("Vars", ", ".join(f"{k}={text_of(jsonable(v))}" for k, v in agent.vars.items())),
        ("System Prompt", agent.system_prompt.strip()),
    ]  # fmt: skip
    if agent.sub_agents:
        deep = agent.sub_agents_config
        settings += [
            ("Sub-Agents", ", ".join(agent.sub_agents)),
            ("Max Depth", str(deep.max_depth or 3)),
            ("Parallel", "yes" if deep.parallel else "no"),
            ("Timeout", f"{format_seconds(deep.timeout)}s" if deep.timeout else "the run's own"),
        ]
    yield from ((label, value) for label, value in settings if value)


def line(label: str, value: str) -> str:
    """A row as text (A-5.7); further lines are indented, so that none looks like a row."""
    indent = " " * 16
    return f"{label + ':':<16}" + clean(value).replace("\n", f"\n{indent}")


def abilities(agent: Agent, agents: Callable[[str], Agent]) -> str:
    """The agent's tools, limits and graph of sub-agents; empty if it has none of them.

    Raises:
        ConfigError: it names an unknown tool.
    """
    lines = [line(label, value) for label, value in list_abilities(agent)]
    return "\n".join(filter(None, [*lines, draw_graph(agent, agents)]))


def list_abilities(agent: Agent) -> list[tuple[str, str]]:
    """(label, value) of the agent's tools and limits.

    Raises:
        ConfigError: it names an unknown tool.
    """
    found = [
        (VERDICTS[d], ", ".join(names)) for d, names in _group_by_verdict(agent).items() if names
    ]
    limits = agent.limits
    for label, most in (("Requests", limits.max_requests), ("Tokens", limits.max_total_tokens)):
        if most not in (0, DEFAULT_LIMITS.max_requests):
            found.append((label, f"at most {most} in the whole tree"))
    if limits.max_cost:
        found.append(("Cost", f"at most {format_dollars(limits.max_cost)} in the whole tree"))
    return found


def draw_graph(agent: Agent, agents: Callable[[str], Agent]) -> str:
    """The graph of its sub-agents; empty for an agent that cannot delegate."""
    if "delegate" in {tool.effect for tool in _list_tools(agent)} or agent.sub_agents:
        return picture(agent, agents)
    return ""


def _list_tools(agent: Agent, of_servers: Sequence[Tool] | None = None) -> list[Tool]:
    policy = PermissionPolicy(agent, agent.mode)
    depth_limit = DepthLimit(root=agent.sub_agents_config.max_depth)
    return list(assemble(agent, 0, depth_limit, policy, (), of_servers).tools.values())


def _group_by_verdict(agent: Agent) -> dict[Verdict, list[str]]:
    policy = PermissionPolicy(agent, agent.mode)
    decided: dict[Verdict, list[str]] = {decision: [] for decision in VERDICTS}
    for tool in _list_tools(agent):
        decided[policy.decide(tool)[0]].append(tool.name)
    return decided


def all_tools(of_servers: Sequence[Tool] = ()) -> str:
    """Every tool that an agent can name, one a line, and the names of tool sets.

    Args:
        of_servers: tools of the MCP servers that run.
    """
    sets = (
        f"{name} = {', '.join(tools)}"
        for source in REGISTRY.sources
        for name, tools in source.sets.items()
    )
    return "\n".join([*_format_tools([*REGISTRY, *of_servers]), "", *sets])


def tools_of(agent: Agent, of_servers: Sequence[Tool] = ()) -> str:
    """The agent's tools, one a line, with the effect of its mode and permissions.

    Args:
        agent: the agent.
        of_servers: tools of its MCP servers.

    Raises:
        ConfigError: it names an unknown tool.
    """
    policy = PermissionPolicy(agent, agent.mode)
    return "\n".join(
        _format_tools(
            _list_tools(agent, of_servers), lambda tool: VERDICTS[policy.decide(tool)[0]].lower()
        )
    )


def _format_tools(
    tools: Iterable[Tool], verdict_of: Callable[[Tool], str] = lambda tool: ""
) -> Iterator[str]:
    listed = list(tools)
    width = min(max((len(tool.name) for tool in listed), default=0), NAME_WIDTH)
    for tool in listed:
        start = f"{tool.name:<{width}}  {EFFECTS[tool.effect]:<9}  "
        start += f"{verdict_of(tool):<10}  " if verdict_of(tool) else ""
        about = tool.description.partition(". ")[0].rstrip(".")
        yield start + one_line(about, max(WIDTH - len(start), SHORTEST))
