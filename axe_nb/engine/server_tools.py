"""The tools of a run that its model's server runs: their entries, and the approval for them.

Source: D-76, D-50; product.md "Tools of the vendor".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.hosts import ANY, is_address
from axe_nb.agents.names import parse_model
from axe_nb.agents.tables import list_server_tools
from axe_nb.engine.scope import RunScope
from axe_nb.engine.toolset import Toolset
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.prices import make_price_error
from axe_nb.provider_table import SEARCH, SERVER_TOOLS
from axe_nb.providers.protocol import Provider
from axe_nb.providers.server_tools import make_entry
from axe_nb.text import quote
from axe_nb.tools.tool import Guard, Tool


def enter_server_tools(
    scope: RunScope, toolset: Toolset, provider: Provider
) -> tuple[Toolset, tuple[Tool, ...]]:
    """Returns the toolset with the entries of the server's tools, and those that need approval.

    Raises:
        ConfigError: the server has no such tool, or a limit of the cost cannot be enforced.
    """
    if not any(tool.by_server for tool in toolset.tools.values()):
        return toolset, ()
    offered: list[ToolSpec] = []
    to_permit: list[Tool] = []
    for spec in toolset.offered:
        tool = toolset.tools[spec.name]
        if not tool.by_server:
            offered.append(spec)
            continue
        _check_price(scope, tool)
        is_permitted, entries = _make_entries(scope, tool, provider)
        offered += [replace(spec, entry=entry) for entry in entries]
        to_permit += [] if is_permitted else [tool]
    return replace(toolset, offered=tuple(offered)), tuple(to_permit)


def _make_entries(
    scope: RunScope, tool: Tool, provider: Provider
) -> tuple[bool, list[Mapping[str, Any]]]:
    """Returns the entries of a tool, and True if it needs no approval.

    A search that can be limited to the hosts that the run may reach anyway needs none (D-50), but
    in plan mode.

    Raises:
        ConfigError: the server has no such tool.
    """
    policy, agent = scope.policy, scope.agent
    server = provider.name, getattr(provider, "base_url", "")
    given = [options for name, options in list_server_tools(agent.params) if name == tool.name]
    is_permitted = policy.decide(tool, Guard(host=ANY))[0] == "allow"
    if not is_permitted and tool.name == SEARCH and policy.mode != "plan":
        listed = dict.fromkeys(host for one in policy.agents for host in one.allowed_hosts)
        hosts = [one for one in listed if policy.decide(tool, Guard(host=one))[0] == "allow"]
        domains = list(filter(None, map(_find_domain, hosts)))
        limited = [make_entry(*server, SEARCH, options, domains) for options in given or [{}]]
        if domains and all(limited):
            return True, [entry for entry in limited if entry]
    entries = [make_entry(*server, tool.name, options) for options in given or [{}]]
    if not all(entries):
        raise _make_error(agent, tool.name, provider)
    return is_permitted, [entry for entry in entries if entry]


def check_search(agent: Agent, provider: Provider) -> None:
    """Checks that the model's server searches the web, if the agent's `tools` name that.

    Raises:
        ConfigError: it does not; a mistake in the agent's file has its place.
    """
    address = getattr(provider, "base_url", "")
    if SEARCH in agent.tools and make_entry(provider.name, address, SEARCH, {}) is None:
        raise _make_error(agent, SEARCH, provider)


def _find_domain(host: str) -> str:
    """Returns a host of `allowed_hosts` as a domain to search; empty if it cannot be one."""
    name = host.removeprefix("*.")
    return "" if is_address(name) or "." not in name else name


def _make_error(agent: Agent, tool: str, provider: Provider) -> ConfigError:
    """Makes the error for a tool that the model's server does not have."""
    listed = "tools" if tool in agent.tools else f"params.{SERVER_TOOLS}"
    name = parse_model(agent.model)[0]
    who = f"agent {quote(agent.name)}" if agent.name else f"model {quote(agent.model)}"
    step = "use a model of Anthropic, OpenAI, OpenRouter or Groq"
    if provider.name == "openai":  # Chat Completions, where a server may have Responses too
        step = f'set api = "responses" under [providers.{name}] if its server has that API'
    error = ConfigError(
        f"{who} cannot use {tool}: the model's server has to run it, and "
        f"{name} has no such tool in the protocol {provider.name}",
        hint=f"{step}, or remove {tool} from `{listed}`; `fetch` reads pages with any model",
    )
    error.place = find_place(agent, "tools", tool)
    return error


def _check_price(scope: RunScope, tool: Tool) -> None:
    """Checks that what the tool costs can be counted, if the cost of the run has a limit.

    Raises:
        ConfigError: its price is unknown.
    """
    model = scope.agent.model
    if not scope.meter.caps_cost or scope.env.tape or scope.env.prices.knows_call(model, tool.name):
        return
    raise make_price_error(model, f"limits.max_cost cannot be enforced with {tool.name}")
