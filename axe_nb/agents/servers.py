"""The table of one MCP server, in `config.toml` or in an agent's file.

Source: D-46, D-81, D-82.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from axe_nb.agents.provider_table import NO_ADDRESS, is_address
from axe_nb.conversion.toml_tables import (
    Source,
    WrongValue,
    build,
    check_choice,
    check_types,
    clear_arguments,
)
from axe_nb.errors import ConfigError
from axe_nb.secrets import is_secret_name, remember
from axe_nb.text import one_line, quote

KEY = "mcp_servers"

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)")
"""A server's name: the part of its tools' names before `__`."""

IMAGE = re.compile(r"docker:[a-z0-9][\w./:@-]{0,254}", re.ASCII)
"""A value of `sandbox` that names an image."""

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

NO_SOURCE = Source("")

TRANSPORTS = ("streamable-http", "sse")


@clear_arguments
@dataclass(frozen=True, slots=True)
class McpServer:
    """`[mcp_servers.NAME]`: an MCP server; its tools are called `NAME__tool`."""

    command: tuple[str, ...] = ()
    """Program and arguments of a server to start here, in the agent's workdir."""
    url: str = ""
    """URL of a server that runs elsewhere, instead of `command`."""
    transport: str = "streamable-http"
    """Protocol of `url`: streamable-http, or sse for older servers."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of requests to it; `${VARIABLE}` stands for an environment variable of yours."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of `command`, which otherwise gets none of your keys; `${VARIABLE}`
    stands for an environment variable of yours."""
    sandbox: str = "auto"
    """Sandbox of `command`: auto (the strongest that works here), off, or docker:IMAGE."""
    network: bool = False
    """If true, `command` can reach the network from its sandbox."""
    start_timeout: float = 30
    """Seconds that it may take to start and list its tools."""
    read_only: bool | tuple[str, ...] = False
    """True = none of its tools changes anything; or the names of those that do not. They need no
    approval."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("command", "read_only"):
            if isinstance(given := getattr(self, name), list):
                object.__setattr__(self, name, tuple(given))

    def is_read_only(self, tool: str) -> bool:
        """True if the user says that a tool of the server changes nothing."""
        return self.read_only if isinstance(self.read_only, bool) else tool in self.read_only


def parse_servers(given: Any, source: Source = NO_SOURCE) -> Mapping[str, McpServer | None]:
    """Returns name → table of the servers that `mcp_servers` names; None = that of `config.toml`.

    Args:
        given: names; tables by name; or a list of tables, each with its `name`, as in the files of
            the Axe command line.
        source: the text that it comes from.

    Raises:
        ConfigError: a table has an unknown key.
        WrongValue: a name or a value is invalid.
    """
    if isinstance(given, Mapping):
        return {name: parse_server(name, table, source) for name, table in given.items()}
    found: dict[str, McpServer | None] = {}
    for entry in given:
        is_table = isinstance(entry, Mapping)
        name = entry.get("name") if is_table else entry
        if not isinstance(name, str):
            raise WrongValue((KEY,), "must be names, or tables with a name")
        if name in found:
            raise WrongValue((KEY,), f"lists {quote(name)} twice")
        _check_server_name(name)
        table = {key: value for key, value in entry.items() if key != "name"} if is_table else None
        found[name] = None if table is None else parse_server(name, table, source)
    return found


def check_sandbox(key: tuple[str, ...], setting: str) -> None:
    """Raises WrongValue for a `sandbox` that is neither a known word nor an image."""
    if setting not in ("auto", "off") and not IMAGE.fullmatch(setting):
        word = quote(one_line(setting, 60))
        raise WrongValue(key, f"must be auto, off or docker:IMAGE, not {word}")


def parse_server(name: str, table: Any, source: Source = NO_SOURCE) -> McpServer:
    """Returns the table of one server.

    Raises:
        ConfigError: it has an unknown key.
        WrongValue: a value is invalid.
    """
    at = (KEY, name)
    _check_server_name(name)
    server = build(McpServer, table, source, at)
    if bool(server.command) == bool(server.url.strip()):
        raise WrongValue(
            at, "needs either command or url", hint='for example command = ["uvx", "…"]'
        )
    if server.command and not server.command[0].strip():
        raise WrongValue((*at, "command"), "must begin with a program")
    if server.url and not is_address(server.url):
        raise WrongValue((*at, "url"), NO_ADDRESS)
    check_choice((*at, "transport"), server.transport, TRANSPORTS)
    check_sandbox((*at, "sandbox"), server.sandbox)
    if not 0 < server.start_timeout <= 3600:
        raise WrongValue((*at, "start_timeout"), "must be more than 0 and at most 3600 seconds")
    for header in server.headers:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", header):
            raise WrongValue(
                (*at, "headers"), "must have names made of letters, digits, `-` and `_` only"
            )
    for variable in server.env:
        if not variable or "=" in variable or "\0" in variable + server.env[variable]:
            raise WrongValue((*at, "env"), "must have names without `=`, and no NUL characters")
    return server


def expand_variables(values: Mapping[str, str], name: str, key: str) -> dict[str, str]:
    """Returns headers or environment variables with `${VARIABLE}` replaced.

    Those with names of secrets are kept out of all that is recorded or shown from now on.

    Args:
        values: as written.
        name: the server.
        key: `env` or `headers`.

    Raises:
        ConfigError: a variable is not set.
    """
    found = {}
    for own, value in values.items():
        missing = [v for v in VARIABLE.findall(value) if v not in os.environ]
        if missing:
            raise ConfigError(
                f"MCP server {quote(name)}: {key}.{own} names the variable {missing[0]}, "
                "which is not set",
                hint=f"set {missing[0]} before you start, or change {key}.{own}",
            )
        found[own] = VARIABLE.sub(lambda match: os.environ[match[1]], value)
        if is_secret_name(own):
            remember(found[own])
    return found


def names_of_servers(given: Any) -> Sequence[str]:
    """Returns the names in a valid `mcp_servers`."""
    if isinstance(given, Mapping):
        return tuple(given)
    return tuple(entry["name"] if isinstance(entry, Mapping) else entry for entry in given)


def keep_servers(given: Any, tools: Sequence[str]) -> Any:
    """Returns a valid `mcp_servers` without the servers of which no tool is named."""
    used = {tool.partition("__")[0] for tool in tools}
    if isinstance(given, Mapping):
        return {name: table for name, table in given.items() if name in used}
    return tuple(entry for entry in given if names_of_servers([entry])[0] in used)


def _check_server_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise WrongValue(
            (KEY,),
            f"contains the invalid name {quote(name)}: use up to 31 letters, digits, `-` and "
            "single `_`",
        )
