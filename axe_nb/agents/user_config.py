"""User settings: API keys, base URLs, prices and folders, and the loading of `.env` files.

Environment variables take precedence over `config.toml`, which overrides the defaults.
Source: B-3, B-6, D-33, D-60, D-81, D-83, docs/prompts.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from axe_nb.agents.agent_tables import KEY, McpServer, Retry, parse_server
from axe_nb.agents.files import display_path, expand_home, read_text, reason
from axe_nb.agents.provider_table import (
    NO_ADDRESS,
    PROVIDERS,
    ProviderInfo,
    check_table,
    describe_provider,
    is_http_url,
)
from axe_nb.conversion.toml_tables import (
    TOML_HINT,
    Source,
    WrongValue,
    build,
    check_types,
    parse_toml,
)
from axe_nb.errors import ConfigError
from axe_nb.messages import Usage
from axe_nb.text import nearest, quote

PROJECT_AGENTS = Path("axe") / "agents"  # agents of a project, relative to the current folder
TABLES = ("providers", "prices", "retry", "sandbox", KEY)  # keys of config.toml that are read
UNSET = -1.0  # value of a price that `config.toml` does not set

SCAFFOLD = """\
# API keys and servers for axe-nb. Environment variables take precedence over this file:
# ANTHROPIC_API_KEY, OPENAI_API_KEY, AXE_OPENAI_BASE_URL, …

# sandbox = "required"                  # refuse to run commands where no sandbox works

# [providers.openai]
# api_key = ""
# base_url = "https://api.openai.com"   # or any compatible server

# [providers.groq]                      # a named endpoint; its models are groq/MODEL
# protocol = "openai"                   # anthropic, openai or ollama
# base_url = "https://api.groq.com/openai/v1"
# api_key_env = "GROQ_API_KEY"

# [prices."groq/llama-3.3-70b-versatile"]  # if its price is unknown, or differs for you
# input = 0.59                          # US dollars per million tokens
# output = 0.79

# [retry]
# max_retries = 2                       # after a temporary failure (429, 5xx); 0 = none

# [mcp_servers.time]                    # its tools go to agents with mcp_servers = ["time"]
# command = ["uvx", "mcp-server-time"]
# network = true
"""


def is_test() -> bool:
    """True if this code runs under pytest, `axe-nb freeze` or `axe-nb check` (D-68)."""
    return not os.environ.keys().isdisjoint(
        ("PYTEST_VERSION", "PYTEST_CURRENT_TEST", "AXE_NB_TEST")
    )


def config_dir() -> Path:
    """Returns the config folder, `$XDG_CONFIG_HOME/axe`, by default `~/.config/axe`.

    The folder may not exist. A relative `XDG_CONFIG_HOME` is ignored, as it could point into a
    project.
    """
    home = expand_home(os.environ.get("XDG_CONFIG_HOME", "").strip())
    return (home if home.is_absolute() else expand_home("~/.config")) / "axe"


def config_path() -> Path:
    return config_dir() / "config.toml"


def state_dir() -> Path:
    """Returns the state folder, `$XDG_STATE_HOME/axe`, which may not exist.

    `XDG_STATE_HOME` defaults to `~/.local/state`, and on Windows to the local AppData folder.
    """
    home = expand_home(os.environ.get("XDG_STATE_HOME", "").strip())
    if not home.is_absolute():
        local = os.environ.get("LOCALAPPDATA", "") if os.name == "nt" else ""
        home = expand_home(local or "~/.local/state")
    return home / "axe"


def format_path(path: Path) -> str:
    """Formats a path for display, relative to the current, config or home folder if possible."""
    try:
        here, whole = Path.cwd(), path.absolute()
    except OSError:  # the current folder was deleted
        return display_path(path)
    if whole.is_relative_to(here):
        return whole.relative_to(here).as_posix()
    home = config_dir().parent
    if home != expand_home("~/.config") and whole.is_relative_to(home):
        return f"$XDG_CONFIG_HOME/{whole.relative_to(home).as_posix()}"
    return display_path(whole)


def format_path_or_name(path: Path) -> str:
    """Formats a path like `format_path`, or as its file name if the result would be absolute."""
    found = format_path(path)
    return path.name if Path(found).is_absolute() else found


def agent_dirs(agents_dir: str | Path | None = None) -> list[Path]:
    """Returns the folders to search for agents, in order; some may not exist."""
    given = [expand_home(agents_dir)] if agents_dir else []
    # `..` after a link depends on where the link leads, but trust is granted to a real folder
    given = [Path(os.path.realpath(one)) if ".." in one.parts else one for one in given]
    return [*given, PROJECT_AGENTS, config_dir() / "agents"]


def is_own(path: Path) -> bool:
    """True if a path lies in the user's config folder; a link into that folder does not count."""
    whole = os.path.abspath(path)  # noqa: PTH100 - without `..`, but with its links
    above, name = os.path.split(os.path.abspath(config_dir()))  # noqa: PTH100
    # the path of the current folder, which relative paths start with, contains no links
    places = (os.path.join(root, name, "") for root in (above, os.path.realpath(above)))  # noqa: PTH118
    return any(whole.startswith(place) for place in places)


def skill_paths(skill: str, agent_path: str) -> list[Path]:
    """Returns the paths to try for a skill: beside the agents' folder and in the config folder."""
    path = expand_home(skill)
    if path.is_absolute():
        return [path]
    home = Path(agent_path).parent.parent if agent_path else Path("axe")
    return [home / path, config_dir() / path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """`[prices."PROVIDER/MODEL"]`: the prices of a model, in US dollars per million tokens."""

    input: float = UNSET
    """Price of input tokens; required."""
    output: float = UNSET
    """Price of output tokens, including reasoning; required."""
    cached_input: float = UNSET
    """Price of input tokens read from the provider's prompt cache; defaults to `input`."""
    cache_write: float = UNSET
    """Price of input tokens written to the prompt cache; defaults to `input`."""
    search: float = UNSET
    """Price of 1,000 web searches by the provider; if unset, the cost is unknown."""

    def __post_init__(self) -> None:
        check_types(self)

    def cost_of(self, usage: Usage) -> float | None:
        """Returns a response's cost in US dollars; None if it has web searches without a price."""
        if usage.searches and self.search == UNSET:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        parts = (
            (usage.input_tokens - cached - written) * self.input,
            cached * (self.input if self.cached_input == UNSET else self.cached_input),
            written * (self.input if self.cache_write == UNSET else self.cache_write),
            usage.output_tokens * self.output,
        )
        return sum(parts) / 1_000_000 + usage.searches * max(self.search, 0.0) / 1000


@dataclass(frozen=True)
class Config:
    """Settings from the user's `config.toml` and from environment variables, with defaults."""

    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Provider tables, keyed by name; not in `repr`, as they may contain API keys."""
    prices: Mapping[str, PriceTable] = field(default_factory=dict)
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict, repr=False)
    """MCP servers for agents, keyed by name; not in `repr`, as they may contain keys."""
    retries: int = 2
    """Number of retries after a temporary failure, for agents that do not set one (D-72)."""
    requires_sandbox: bool = False
    """True if commands and MCP servers must not run without a sandbox."""

    @classmethod
    def load(cls) -> Config:
        """Reads `config.toml` and the environment variables that override it, anew on each call."""
        file, text = f"in {format_path(config_path())}", ""
        try:
            with suppress(FileNotFoundError):
                text = read_text(config_path())
            table = parse_toml(text)
        except (OSError, ValueError) as error:
            verb, hint = ("read", "") if isinstance(error, OSError) else ("parse", TOML_HINT)
            problem = f"failed to {verb} config file: {reason(error)}"
            raise ConfigError(problem, hint=hint, place=file) from None
        source = Source(text)
        try:
            settings = cls._read(table, source)
        except ConfigError as error:
            line = source.line(getattr(error, "key", ()))
            raise ConfigError(
                f"failed to parse config file: {error}",
                hint=error.hint,
                place=f"{file}, line {line}" if line else file,
            ) from None
        retries = _read_variable("AXE_NB_RETRIES", "a whole number", r"\d{1,9}")
        sandbox = _read_variable("AXE_NB_SANDBOX", "auto or required", "auto|required")
        return replace(
            settings,
            retries=int(retries) if retries else settings.retries,
            requires_sandbox=settings.requires_sandbox or sandbox == "required",
        )

    @classmethod
    def _read(cls, table: Mapping[str, Any], source: Source) -> Config:
        for name in table:  # `provider` is a misspelling; `servers` may belong to another program
            if name not in TABLES and (near := get_close_matches(name.lower(), TABLES, 1, 0.85)):
                meant = near[0] if near[0] == "sandbox" else f"[{near[0]}]"
                raise WrongValue((name,), "is an unknown table", hint=f"did you mean {meant}?")
        for name in ("providers", "prices", KEY):
            if not isinstance(table.get(name, {}), dict):
                raise WrongValue((name,), "must be tables", hint=f"write [{name}.NAME]")
        if table.get("sandbox", "auto") not in ("auto", "required"):
            raise WrongValue(("sandbox",), "must be auto or required")
        retry = build(Retry, table.get("retry", {}), source, ("retry",))
        prices = {}
        for name, entry in table.get("providers", {}).items():
            check_table(name, entry, source)
        for model, own in table.get("prices", {}).items():
            at = ("prices", model)
            if not all(map(str.strip, model.partition("/"))):
                step = 'write [prices."provider/model"]'
                raise WrongValue(at, "must be the price of a model", hint=step)
            prices[model] = price = build(PriceTable, own, source, at)
            for key in {"input": 0, "output": 0, **own}:
                if key not in own:
                    step = "US dollars per million tokens; 0 = free"
                    raise WrongValue((*at, key), "is missing", hint=step)
                if getattr(price, key) < 0:
                    raise WrongValue((*at, key), "must be non-negative")
        return cls(
            table.get("providers", {}),
            prices,
            {name: parse_server(name, own, source) for name, own in table.get(KEY, {}).items()},
            cls.retries if retry.max_retries is None else retry.max_retries,
            table.get("sandbox") == "required",
        )

    @cached_property
    def known(self) -> Mapping[str, ProviderInfo]:
        found = (describe_provider(name, table) for name, table in self.providers.items())
        return {**PROVIDERS, **{info.name: info for info in found if info}}

    def provider(self, name: str) -> ProviderInfo:
        if name in self.known:
            return self.known[name]
        file = format_path(config_path())
        if near := nearest(name.lower(), self.known):
            hint = f"did you mean {near}?"
        elif name in self.providers:
            hint = f'add protocol = "openai", or another one, under [providers.{name}] in {file}'
        else:
            table = f'[providers.{name}] with protocol = "openai" and base_url'
            hint = f"to use another server, add {table} to {file}"
        raise ConfigError(
            f"unsupported provider {quote(name)}: supported providers are {', '.join(self.known)}",
            hint=hint,
            exit_code=1,
        )

    def key_source(self, provider: str) -> str:
        """Returns the variable or file that holds a provider's key; empty if no key is set."""
        variable = self.provider(provider).key_variable
        if variable and os.environ.get(variable, "").strip():
            return variable
        table = self.providers.get(provider, {})
        is_here = table.get("key_command") or table.get("api_key", "").strip()
        return config_path().name if is_here else ""

    def api_key(self, provider: str) -> str:
        """Returns the provider's API key.

        If no key is set, the result is empty for providers that need none or have a `key_command`.
        Raises ConfigError for other providers, or if the key contains invalid characters.
        """
        info = self.provider(provider)
        variable = info.key_variable
        own = self.providers.get(provider, {}).get("api_key", "")
        key = os.environ.get(variable, "").strip() or own.strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f'the API key of provider "{provider}" contains invalid characters',
                hint=f"copy it again into {variable}, or into {format_path(config_path())}",
                exit_code=3,
            )
        if key or not info.needs_key or info.key_command:
            return key
        raise ConfigError(
            f'no API key for provider "{provider}": set {variable}, '
            f"or api_key under [providers.{provider}] in {format_path(config_path())}",
            hint="or try a script/… model, which needs no key",
            exit_code=3,
        )

    def base_url(self, provider: str) -> str:
        """Returns the URL of the provider's server. Errors omit it, as it may contain a key."""
        info = self.provider(provider)
        url = os.environ.get(info.url_variable, "").strip() or info.base_url
        if info.has_server and not is_http_url(url):
            raise ConfigError(
                f'base URL of provider "{provider}" {NO_ADDRESS}',
                hint=f"set {info.url_variable} or base_url in {format_path(config_path())}",
            )
        address, mark, query = url.partition("?")
        return address.rstrip("/") + mark + query


def _read_variable(name: str, wanted: str, pattern: str) -> str:
    value = os.environ.get(name, "").strip()
    if value and not re.fullmatch(pattern, value, re.ASCII):
        raise ConfigError(f"{name} must be {wanted}, not {quote(value)}")
    return value


SET, KEPT, EMPTY = "set", "already set, kept", "no value, not set"
UNKNOWN = "refused, because a file can set only keys and base URLs of providers"
KEY_ELSEWHERE = "refused, because a key from elsewhere would be sent there"


def load_env(file: str) -> dict[str, list[str]]:
    """Sets environment variables from a file of NAME=VALUE lines.

    Returns lists of variable names, keyed by outcome, such as `set`.

    The file may come with a project, so it can set only API keys of providers, and the base URL of
    a provider whose key the file also sets (D-81, D-83). Variables that already have a value are
    not changed; values are not expanded. Raises ConfigError, and sets nothing, if the file cannot
    be read or parsed.
    """
    path = expand_home(file)
    shown = format_path_or_name(path)
    try:
        values = _parse_env(read_text(path), shown)
    except OSError as error:
        raise ConfigError(
            f"cannot read {quote(shown)}: {reason(error)}",
            hint="pass a file of NAME=VALUE lines, as in %axe env .env",
        ) from None
    config, new = Config.load(), dict[str, str]()
    servers = [info for info in config.known.values() if info.has_server]
    addresses = {info.url_variable: info.key_variable for info in servers}
    with_own_key = {  # or with headers: the user's own secrets are already sent there
        info.url_variable
        for info in servers
        if config.key_source(info.name) or config.providers.get(info.name, {}).get("headers")
    }
    found: dict[str, list[str]] = {}
    for name, value in sorted(values.items(), key=lambda item: item[0] in addresses):
        if name not in addresses and name not in addresses.values():
            outcome = UNKNOWN
        elif not value:
            outcome = EMPTY
        elif name in with_own_key or (name in addresses and addresses[name] not in new):
            outcome = KEY_ELSEWHERE
        elif os.environ.get(name, "").strip():
            outcome = KEPT
        else:
            outcome, new[name] = SET, value
        found.setdefault(outcome, []).append(name)
    os.environ.update(new)
    return found


def _parse_env(text: str, file: str) -> dict[str, str]:
    """Parses NAME=VALUE lines; errors give the line number but not the text, which may be a key."""
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if not line or line.startswith("#"):
            continue
        pattern = r"(?:export\s+)?([A-Za-z_]\w{0,99})\s*=\s*(.*)"
        found = re.fullmatch(pattern, line, re.ASCII)
        written = found[2] if found else ""
        quoted = re.fullmatch(r"""(['"])(.*?)\1\s*(#.*)?""", written)
        if found is None or "\0" in line or (written.startswith(("'", '"')) and not quoted):
            raise ConfigError(
                "not a NAME=VALUE line",
                hint="fix the line, or close its quotes; nothing was set",
                place=f"in {file}, line {number}",
            )
        bare = re.split(r"(?:^|\s)#", written, maxsplit=1)[0].strip()
        values[found[1]] = quoted[2] if quoted else bare
    return values
