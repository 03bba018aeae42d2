"""Classes for tables of an agent file: delegation, limits, retries and MCP servers.

Source: A-5.1, A-5.4, D-18, D-23, D-27, D-36, D-46, D-56, D-81, D-82.
"""

from __future__ import annotations

import json
import keyword
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from axe_nb.agents.provider_table import NO_ADDRESS, SERVER_TOOLS, check_headers, is_http_url
from axe_nb.conversion.toml_tables import Source, WrongValue, build, check_choice, check_types
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import LEVELS
from axe_nb.secrets import is_secret_name, remember
from axe_nb.text import one_line, quote

Mode = Literal["plan", "ask", "auto"]
MODES = ("plan", "ask", "auto")
Ask = Literal["deny", "person"]

COMMON_PARAMS = ("temperature", "max_tokens", "thinking", "top_p", "top_k", "seed", "stop")
"""Keys of `[params]` that many models accept."""

NEGATIVE = "must be non-negative"


def _reject(*checks: tuple[str, bool, str]) -> None:
    for key, is_wrong, problem in checks:
        if is_wrong:
            raise WrongValue((key,), problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBudget:
    """`[sub_agents_config.budget]`: limits for children of spawn_agent and delegate_task (D-18)."""

    max_tool_calls: int = 15
    """Maximum number of tool calls of the child."""
    max_tokens: int = 8192
    """Maximum context size of the child: input plus output tokens of the latest response."""
    timeout_ms: int = 60000
    """Time limit of the child in milliseconds; at least 5000."""

    def __post_init__(self) -> None:
        check_types(self)
        _reject(
            ("max_tool_calls", self.max_tool_calls <= 0, "must be positive"),
            ("max_tokens", self.max_tokens <= 0, "must be positive"),
            ("timeout_ms", self.timeout_ms < 5000, "must be at least 5000"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentsConfig:
    """`[sub_agents_config]`: rules for delegation by this agent."""

    enabled: bool = True
    """If false, the agent has no delegation tools."""
    max_depth: int = 0
    """Maximum depth of agents below the root agent, up to 5; 0 for the tool's default, 2 or 3."""
    parallel: bool = True
    """If true, the tool calls of one response run concurrently."""
    timeout: float = 0
    """Time limit in seconds for each child of call_agent; 0 for the run's remaining time."""
    ask: Ask = "deny"
    """Policy for children's tool calls that need approval: `deny` refuses them, `person` asks the
    user."""
    max_concurrent: int = 0
    """Maximum number of concurrent children; 0 for no limit."""
    max_turns: int = 10
    """Maximum number of turns, 1 to 50, for a child started by the subagent tool."""
    output_limit: int = 4096
    """Maximum size of a result of the subagent tool in the parent's context, in UTF-8 bytes."""
    inherit_mode: bool = True
    """If true, children run in this agent's mode unless theirs is plan. If false, the stricter of
    both modes applies."""
    budget: ChildBudget = ChildBudget()

    def __post_init__(self) -> None:
        check_types(self)
        check_choice(("ask",), self.ask, get_args(Ask))
        _reject(
            ("max_depth", self.max_depth > 5, "cannot exceed 5"),
            ("max_depth", self.max_depth < 0, NEGATIVE),
            ("timeout", self.timeout < 0, NEGATIVE),
            ("max_concurrent", self.max_concurrent < 0, NEGATIVE),
            ("max_turns", not 1 <= self.max_turns <= 50, "must be between 1 and 50"),
            ("output_limit", self.output_limit <= 0, "must be positive"),
        )


NO_CONFIG = SubAgentsConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """`[limits]`: limits of a run and all runs below it; 0 for no limit."""

    max_requests: int = 1000
    """Maximum model requests in the tree of runs."""
    max_calls_per_reply: int = 256
    """Maximum number of tool calls run per response; further calls get an error result."""
    max_in_flight: int = 200
    """Maximum number of concurrent model requests, and of concurrent tool calls; others wait."""
    max_total_tokens: int = 0
    """Maximum input and output tokens in the tree of runs."""
    max_cost: float = 0
    """Maximum cost of the tree of runs in US dollars; requires the prices of all models."""
    max_picture_bytes: int = 5_000_000
    """Maximum bytes per picture; a request's pictures may total four times as much. Larger
    pictures are scaled down if Pillow is installed, otherwise refused."""

    def __post_init__(self) -> None:
        check_types(self)
        _reject(*((one.name, getattr(self, one.name) < 0, NEGATIVE) for one in fields(self)))


DEFAULT_LIMITS = TreeLimits()


@dataclass(frozen=True)
class AxeBudget:
    """`[budget]` of agent files for the Axe command line, converted to `[limits]` (D-27)."""

    max_tokens: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        _reject(("max_tokens", self.max_tokens < 0, NEGATIVE))


@dataclass(frozen=True, slots=True)
class Retry:
    """`[retry]`: retries of failed model requests; whole child runs are never retried (D-23)."""

    max_retries: int | None = None
    """Maximum retries after a temporary failure (408, 409, 425, 429, 5xx, no connection); 0 for
    none.

    Default: `AXE_NB_RETRIES`, else `[retry]` in config.toml, else 2.
    """

    def __post_init__(self) -> None:
        check_types(self)
        _reject(("max_retries", (self.max_retries or 0) < 0, NEGATIVE))


def check_params(params: Mapping[str, Any]) -> None:
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            problem = "must be valid JSON: no dates, nan or inf"
            raise WrongValue(("params", name), problem) from None
    asked = params.get("thinking")
    is_count = isinstance(asked, int) and not isinstance(asked, bool) and asked > 0
    if isinstance(asked, (str, int, float)) and asked not in LEVELS and not is_count:
        raise WrongValue(("params", "thinking"), f"must be {', '.join(LEVELS)} or a whole number")
    tools = params.get(SERVER_TOOLS, {})
    entries = tools.values() if isinstance(tools, Mapping) else [None]
    if any(not isinstance(one, Mapping) or {"type", "name"} & one.keys() for one in entries):
        problem = "must be a table of NAME = { options }, whose type and name follow from NAME"
        raise WrongValue(("params", SERVER_TOOLS), problem)


def keep_server_tools(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    given = params.get(SERVER_TOOLS, {})
    kept = {name: options for name, options in given.items() if name in names}
    others = {key: value for key, value in params.items() if key != SERVER_TOOLS}
    return {**others, SERVER_TOOLS: kept} if kept else others


def variable_problem(name: str) -> str:
    """Returns why a name cannot be used for a Python variable; empty if it can."""
    if not name.isidentifier():
        return "must have a name made of letters, digits and _ that does not start with a digit"
    return "must have another name: this one is a Python keyword" if keyword.iskeyword(name) else ""


KEY = "mcp_servers"


@dataclass(frozen=True, slots=True)
class McpServer:
    """`[mcp_servers.NAME]`: an MCP server; its tools are called `NAME__tool`."""

    command: tuple[str, ...] = ()
    """Program and arguments of a local server, started in the agent's workdir."""
    url: str = ""
    """URL of a remote server, instead of `command`."""
    transport: str = "streamable-http"
    """Transport of a remote server: streamable-http, or sse for older servers."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers for a remote server; `${VARIABLE}` stands for an environment variable."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for `command`, added to an environment without API keys; `${VARIABLE}`
    stands for an environment variable."""
    sandbox: str = "auto"
    """Sandbox for `command`: auto (the strongest that works here), off, or docker:IMAGE."""
    network: bool = False
    """If true, `command` can reach the network from its sandbox."""
    start_timeout: float = 30
    """Maximum seconds for the server to start and list its tools."""
    read_only: bool | tuple[str, ...] = False
    """Read-only tools, which need no approval: true for all, or a list of names."""

    def __post_init__(self) -> None:
        check_types(self)
        if bool(self.command) == bool(self.url.strip()):
            example = 'for example command = ["uvx", "…"]'
            raise WrongValue((), "needs either command or url", hint=example)
        if self.command and not self.command[0].strip():
            raise WrongValue(("command",), "must begin with a program")
        if self.url and not is_http_url(self.url):
            raise WrongValue(("url",), NO_ADDRESS)
        if not 0 < self.start_timeout <= 3600:
            raise WrongValue(("start_timeout",), "must be more than 0 and at most 3600 seconds")
        for variable, value in self.env.items():
            if not variable or "=" in variable or "\0" in variable + value:
                raise WrongValue(("env",), "must have names without `=`, and no NUL characters")
        check_choice(("transport",), self.transport, ("streamable-http", "sse"))
        check_sandbox(("sandbox",), self.sandbox)
        check_headers(("headers",), self.headers)

    def is_read_only(self, tool: str) -> bool:
        return self.read_only if isinstance(self.read_only, bool) else tool in self.read_only


def parse_servers(given: Any) -> Mapping[str, McpServer | None]:
    """Parses `mcp_servers` into servers keyed by name, with None for servers in `config.toml`.

    `given` is a list of names, a mapping of names to tables, or, as in files for the Axe command
    line, a list of tables with a `name` key. Raises ConfigError if a name, key or value is invalid.
    """
    if isinstance(given, Mapping):
        return {name: parse_server(name, table) for name, table in given.items()}
    found: dict[str, McpServer | None] = {}
    for entry in given:
        own = dict(entry) if isinstance(entry, Mapping) else None
        name = entry if own is None else own.pop("name", None)
        if not isinstance(name, str):
            raise WrongValue((KEY,), "must be names, or tables with a name")
        if name in found:
            raise WrongValue((KEY,), f"lists {quote(name)} twice")
        _check_server_name(name)
        found[name] = None if own is None else parse_server(name, own)
    return found


def check_sandbox(key: tuple[str, ...], setting: str) -> None:
    image = r"docker:[a-z0-9][\w./:@-]{0,254}"
    if setting not in ("auto", "off") and not re.fullmatch(image, setting, re.ASCII):
        word = quote(one_line(setting, 60))
        raise WrongValue(key, f"must be auto, off or docker:IMAGE, not {word}")


def parse_server(name: str, table: Any, source: Source | None = None) -> McpServer:
    _check_server_name(name)
    return build(McpServer, table, source or Source(""), (KEY, name))


def expand_variables(values: Mapping[str, str], name: str, key: str) -> dict[str, str]:
    """Replaces `${VARIABLE}` in the values of an MCP server's `env` or `headers`.

    Raises ConfigError if a variable is not set. Values whose names look like secrets are masked in
    recordings and displays from then on.
    """
    found, variable = {}, re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
    for own, value in values.items():
        missing = [v for v in variable.findall(value) if v not in os.environ]
        if missing:
            raise ConfigError(
                f"MCP server {quote(name)}: {key}.{own} names the variable {missing[0]}, "
                "which is not set",
                hint=f"set {missing[0]} before you start, or change {key}.{own}",
            )
        found[own] = variable.sub(lambda match: os.environ[match[1]], value)
        if is_secret_name(own):
            remember(found[own])
    return found


def names_of_servers(given: Any) -> Sequence[str]:
    if isinstance(given, Mapping):
        return tuple(given)
    return tuple(entry["name"] if isinstance(entry, Mapping) else entry for entry in given)


def keep_servers(given: Any, tools: Sequence[str]) -> Any:
    """Filters a valid `mcp_servers` value, keeping only the servers that `tools` refers to."""
    used = {tool.partition("__")[0] for tool in tools}
    if isinstance(given, Mapping):
        return {name: table for name, table in given.items() if name in used}
    return tuple(entry for entry in given if names_of_servers([entry])[0] in used)


def _check_server_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)", name):
        wanted = "use up to 31 letters, digits, `-` and single `_`"
        raise WrongValue((KEY,), f"contains the invalid name {quote(name)}: {wanted}")
