"""Formats an agent's settings and abilities. Source: A-5.7, A-E2.4, D-3, D-19, D-20, D-44."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import islice

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import names_of_servers
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.scope import find_max_depth
from axe_nb.engine.toolbox import REGISTRY, find_tools
from axe_nb.errors import ConfigError
from axe_nb.messages import dump
from axe_nb.messages.model_table import tell_end
from axe_nb.secrets import redact
from axe_nb.text import clean, format_seconds, one_line, plural
from axe_nb.tools.tool import Effect, Tool, Verdict
from axe_nb.views.appearance import COLOURS, LINE, LOOKS, MONO, MUTED, TEXT_PADDING
from axe_nb.views.axe_text import list_caps, text_of
from axe_nb.views.html import PLAIN, hide
from axe_nb.views.table import Listing

GRAPH = f"margin:.3em 0;line-height:1.4;white-space:pre-wrap;{MONO}"

VERDICTS: dict[Verdict, str] = {"allow": "Allowed", "ask": "Asks first", "deny": "Denied"}
SIGNS: dict[Verdict, str] = {"allow": "✓", "ask": "?", "deny": "✗"}

EFFECTS: dict[Effect, str] = {
    "read": "reads", "user": "yours", "network": "connects", "write": "writes",
    "delegate": "delegates",
}  # fmt: skip


def rows(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yields (label, value) for an agent's settings, except its limits and empty values."""
    settings = [
        ("Name", agent.name), ("Description", agent.description), ("Model", agent.model),
        ("Model Ends", ": ".join(filter(None, tell_end(agent.model, date.today())))),
        ("Skill", agent.skill), ("Files", ", ".join(agent.files)), ("Workdir", agent.workdir),
        ("Tools", ", ".join(agent.tools)),
        ("MCP Servers", ", ".join(names_of_servers(agent.mcp_servers))), ("Mode", agent.mode),
        ("Output", one_line(dump(dict(agent.output)).decode(), 200) if agent.output else ""),
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
    """Formats a label and its value as text (A-5.7). Continuation lines are indented."""
    indent = " " * 16
    return f"{label + ':':<16}" + clean(value).replace("\n", f"\n{indent}")


def abilities(agent: Agent, agents: Callable[[str], Agent]) -> str:
    """Formats an agent's tools, limits and sub-agents. Raises ConfigError if a tool is unknown."""
    lines = [line(label, value) for label, value in list_abilities(agent)]
    return "\n".join(filter(None, [*lines, draw_graph(agent, agents)]))


def list_abilities(agent: Agent) -> list[tuple[str, str]]:
    """Returns (label, value) for tools and limits. Raises ConfigError if a tool is unknown."""
    policy = PermissionPolicy(agent, agent.mode)
    decided: dict[Verdict, list[str]] = {verdict: [] for verdict in VERDICTS}
    for tool in _list_tools(agent):
        decided[policy.decide(tool)[0]].append(tool.name)
    found = [(VERDICTS[verdict], ", ".join(names)) for verdict, names in decided.items() if names]
    caps = list_caps(agent.limits)
    return found + [(label, f"{most} in the whole tree") for label, most in caps.items()]


def _list_tools(agent: Agent, of_servers: Sequence[Tool] | None = None) -> list[Tool]:
    return list(find_tools(agent, (), of_servers).values())


def all_tools(of_servers: Sequence[Tool] = ()) -> Listing:
    """Lists all tools that agents can use, and the toolsets."""
    sets = [one for source in REGISTRY.sources for one in source.sets.items()]
    rows = [*map(_describe, [*REGISTRY, *of_servers])]
    rows += [(name, "toolset", ", ".join(tools)) for name, tools in sets]
    return Listing(head=("tool", "effect", "description"), rows=rows, wide=2)


def tools_of(agent: Agent, of_servers: Sequence[Tool] = ()) -> Listing:
    """Lists an agent's tools with effect, permission and a short description."""
    policy, rows = PermissionPolicy(agent, agent.mode), []
    for tool in _list_tools(agent, of_servers):
        name, effect, about = _describe(tool)
        verdict = policy.decide(tool)[0]
        rows.append((name, effect, f"{SIGNS[verdict]} {VERDICTS[verdict].lower()}", about))
    return Listing(head=("tool", "effect", "permission", "description"), rows=rows, wide=3)


def _describe(tool: Tool) -> tuple[str, str, str]:
    about = tool.description.partition(". ")[0].rstrip(".")
    return tool.name, EFFECTS[tool.effect], one_line(about, 100)


def draw_graph(agent: Agent, find: Callable[[str], Agent]) -> str:
    """Draws the tree of an agent's sub-agents as text; empty if it has no tool for delegation.

    Missing agents, cycles and agents at the depth limit are marked.
    """
    if not agent.sub_agents and "delegate" not in {tool.effect for tool in _list_tools(agent)}:
        return ""
    if not agent.sub_agents_config.enabled:
        return f"{agent.name}  (cannot delegate: sub_agents_config.enabled is false)"
    below = _list_below((agent,), find, "")
    levels = plural(_find_deepest((agent,)), "level")
    lines = [f"{agent.name}  (up to {levels})", *islice(below, 40)]
    if next(below, None) is not None:
        lines.append("…  and more")
    return "\n".join(lines)


def _list_below(
    agents: tuple[Agent, ...], find: Callable[[str], Agent], indent: str
) -> Iterator[str]:
    """Yields lines for the tree below `agents[0]`; `agents[1:]` are its callers, nearest first."""
    names = list(dict.fromkeys(agents[0].sub_agents))
    copies = [f"copies of itself, by {tool.name}" for tool in _find_copying_tools(agents[0])]
    for number, name in enumerate([*names, *copies], 1):
        is_last = number == len(names) + len(copies)
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        if number > len(names):
            yield f"{indent}{branch}{name}"
            continue
        try:
            child = find(name)
        except ConfigError as error:
            yield f"{indent}{branch}{name}  {LOOKS['error'].sign} {error}"
            continue
        deepest, note = _find_deepest((child, *agents)), ""
        is_enabled = child.sub_agents_config.enabled
        if is_enabled and (child.sub_agents or _find_copying_tools(child)):
            if child.name in {one.name for one in agents}:
                note = f"  ↺ cycle, ends at level {deepest}"
            elif len(agents) >= deepest:
                note = f"  (level {len(agents)} of {deepest}: cannot delegate)"
        yield f"{indent}{branch}{name}{note}"
        if is_enabled and not note:
            yield from _list_below((child, *agents), find, indent + further)


def _find_copying_tools(agent: Agent) -> list[Tool]:
    found = map(REGISTRY.find, dict.fromkeys(agent.tools))
    return [tool for tool in found if tool and tool.copies_caller]


def _find_deepest(agents: tuple[Agent, ...]) -> int:
    """Returns the depth at which `agents[0]` can no longer use any delegation tool (D-3)."""
    tools = _find_copying_tools(agents[0])
    if agents[0].sub_agents or not tools:
        tools += filter(None, [REGISTRY.find("call_agent")])
    return max(find_max_depth(tool, agents) for tool in tools)


def draw_card(
    name: str,
    facts: Sequence[str],
    rows: Sequence[tuple[str, str]],
    *,
    graph: str,
    notes: Sequence[str],
    saved: Sequence[str],
) -> dict[str, str]:
    """Returns the MIME bundle of an agent's summary card; empty parts are left out."""
    lines = [f"{name}: {', '.join(facts)}", *(line(label, value) for label, value in rows)]
    text = "\n".join(filter(None, [*lines, graph, *(f"! {note}" for note in notes), *saved]))
    label_style = f"opacity:{MUTED};text-align:left;vertical-align:top"
    cells = "".join(
        f"<tr><td style='{label_style}'>{hide(label)}</td>"
        f"<td style='text-align:left'>{hide(value)}</td></tr>"
        for label, value in rows
    )
    html = f"<strong>{hide(name)}</strong> <span>{' · '.join(map(hide, facts))}</span>"
    html += f"<table style='margin:.3em 0'>{cells}</table>" if cells else ""
    html += f"<pre style='{GRAPH}'>{hide(graph)}</pre>" if graph else ""
    mark = f"<b style=color:{COLOURS['limit']}>!</b>"
    html += "".join(f"<div>{mark} {hide(note)}</div>" for note in notes)
    html += f"<pre style='{GRAPH}'>{hide(chr(10).join(saved))}</pre>" if saved else ""
    style = f"display:inline-block;border:1px solid {LINE};border-radius:6px;padding:{TEXT_PADDING}"
    return {
        "text/html": f"<div class='{PLAIN}' style='{style}'>{html}</div>",
        "text/plain": clean(redact(text)),
    }
