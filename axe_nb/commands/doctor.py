"""Checks keys, servers, agents and versions, and suggests a fix for each problem.

The output never contains a key. Source: B-2, B-3, B-6, D-20, D-50, D-51, D-56, D-83, A-E2.4.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from axe_nb.agents.agent import Agent, creation_step, list_agents
from axe_nb.agents.agent_tables import parse_servers
from axe_nb.agents.files import expand_home
from axe_nb.agents.globs import check_glob
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import all_warnings, brief, fill_in
from axe_nb.agents.provider_table import PROVIDERS, ProviderInfo
from axe_nb.agents.user_config import Config, config_path, format_path
from axe_nb.engine.plan import Needed, make_server, provider_for
from axe_nb.engine.toolbox import find_tools
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.mcp_servers.servers import Servers
from axe_nb.messages.model_table import tell_end
from axe_nb.providers import wire
from axe_nb.providers.http import ask_server
from axe_nb.providers.key_command import fill_in_key
from axe_nb.providers.protocol import Server, find_secrets, without_login
from axe_nb.providers.reply_errors import masked_line
from axe_nb.recording.history_recorder import find_reason_against, history_path
from axe_nb.sandbox.find import find_sandbox
from axe_nb.sandbox.view import make_view
from axe_nb.secrets import redact
from axe_nb.session.session import Session
from axe_nb.text import list_some, nearest, plural, printable, quote
from axe_nb.threads import in_thread
from axe_nb.views.appearance import LOOKS

State = Literal["right", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    state: State
    what: str
    message: str
    next_step: str = ""

    @property
    def sign(self) -> str:
        signs = {"right": LOOKS["completed"].sign, "note": "·", "wrong": LOOKS["error"].sign}
        return signs[self.state]

    def __str__(self) -> str:
        first = f"{self.sign} {self.what:<16} {self.message}"
        return f"{first}\n{'':<19}→ {self.next_step}" if self.next_step else first


def make_failed_finding(what: str, error: AxeError, state: State = "wrong") -> Finding:
    place = f" ({error.place})" if error.place else ""
    return Finding(state, what, f"{error}{place}", error.hint)


async def examine(session: Session, agents_dir: str | None = None) -> list[Finding]:
    """Checks versions, settings, sandbox, history, agents, providers and MCP servers."""
    config, settings = _check_settings()
    agents, of_agents = await in_thread(_check_agents, session, agents_dir, config)
    used: dict[str, dict[str, list[str]]] = {}  # provider → model → agents
    for agent in agents:
        provider, _, model = agent.model.partition("/")
        if model.strip():
            used.setdefault(provider, {}).setdefault(model, []).append(agent.name)
    asked = [
        _check_provider(info, used.get(info.name, {}), config)
        for info in config.known.values()
        if info.has_server
    ]
    of_providers = await asyncio.gather(*asked)
    tried = await _try_servers(config, agents)
    history = Finding("right", "history", f"runs are kept in {format_path(history_path())}")
    if why := find_reason_against():
        history = Finding("note", "history", f"off: {why}")
    listed, missing = [f"Python {platform.python_version()}"], []
    for name in ("axe-nb", "ipython", "ipykernel", "ipywidgets", "anywidget", "httpx"):
        try:
            listed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            listed.append(f"{name} (not installed)")
            missing.append(name)
    step = f"to use notebooks: pip install {' '.join(missing)}" if missing else ""
    versions = Finding("note" if missing else "right", "versions", ", ".join(listed), step)
    first = [versions, settings, await in_thread(_check_sandbox), history]
    return [*first, *of_agents, *(row for rows in of_providers for row in rows), *tried]


def _check_sandbox() -> Finding:
    try:
        sandbox = find_sandbox("auto", make_view(Path.cwd()))
    except ConfigError as error:
        return make_failed_finding("sandbox", error)
    except OSError as error:
        return Finding("note", "sandbox", f"cannot be tried: {error.strerror or error}")
    if sandbox.level == "none":
        message = "no sandbox works here, so commands need approval"
        return Finding("note", "sandbox", message, "install bubblewrap, if your system has it")
    lacks = ", ".join(sandbox.method.not_promised)
    promises = ", ".join(sandbox.promises)
    message = f"{sandbox.level} ({sandbox.method.name}): a command {promises}"
    message += f". But {lacks}" if lacks else ""
    step = "install bubblewrap for a stronger sandbox" if sandbox.level == "files" else ""
    return Finding("right" if sandbox.level == "full" else "note", "sandbox", message, step)


def _check_settings() -> tuple[Config, Finding]:
    path = config_path()
    try:
        config = Config.load()
    except ConfigError as error:
        return Config(), make_failed_finding("settings", error)
    shown = format_path(path)
    if not path.exists():
        return config, Finding("note", "settings", f"{shown} does not exist; it is optional")
    has_keys = any(table.get("api_key") for table in config.providers.values())
    if os.name == "posix" and path.stat().st_mode & 0o077 and has_keys:
        message = f"{shown} contains keys and is readable by other users"
        return config, Finding("wrong", "settings", message, f"chmod 600 {shown}")
    return config, Finding("right", "settings", shown)


def _check_agents(
    session: Session, agents_dir: str | None, config: Config
) -> tuple[list[Agent], list[Finding]]:
    find = partial(session.find, agents_dir=agents_dir)
    names = sorted({*session.agents, *list_agents(agents_dir)})
    scripts = (expand_home(agents_dir).parent / "scripts",) if agents_dir else ()
    agents: list[Agent] = []
    findings: list[Finding] = []
    for name in names:
        try:
            agent = find(name)
        except ConfigError as error:
            findings.append(make_failed_finding(f"agent {printable(name)}", error))
            continue
        agents.append(agent)
        what = f"agent {name}"
        findings += [Finding("note", what, warning) for warning in all_warnings(agent)]
        info = config.known.get(agent.model.partition("/")[0])
        has_rows = info is not None and info.has_server  # separate findings cover its key
        for problem in problems(agent, find, config, scripts):
            is_missing = problem.key == ("model",) and not problem.is_mistake
            if is_missing and has_rows:
                continue
            # a cell may yet define a missing script, and an option a missing variable; a missing
            # sub-agent is only an error when it is called
            is_note = is_missing or problem.key in (("sub_agents",), ("system_prompt",))
            state: State = "note" if is_note else "wrong"
            findings.append(make_failed_finding(what, problem.error, state))
    failed = {finding.what for finding in findings if finding.state == "wrong"}
    message = f"{len(names)} found, {len(names) - len(failed)} without problems"
    step = "" if names else creation_step("NAME")
    state = "note" if failed else "right"
    return agents, [Finding(state, "agents", message, step), *findings]


async def _check_provider(
    info: ProviderInfo, models: Mapping[str, list[str]], config: Config
) -> list[Finding]:
    name, variable = info.name, info.key_variable
    what, source = f"{name} key", config.key_source(name)
    found = []
    for model, agents in models.items():
        message, step = tell_end(f"{name}/{model}", date.today())
        if message:
            needed = f"{message}, needed by {_format_agents(agents)}"
            found.append(Finding("note", f"model {name}/{model}", needed, step))
    if not source and info.needs_key:
        unset = f"{variable} is not set"
        if not models:
            return [Finding("note", what, f"{unset}; no agent here needs it")]
        users = _format_agents(agent for named in models.values() for agent in named)
        step = f"set {variable}, or api_key under [providers.{name}] in config.toml"
        return [*found, Finding("wrong", what, f"{unset}, needed by {users}", step)]
    try:
        asked = await fill_in_key(make_server(name, config))
    except (ConfigError, ProviderError) as error:
        return [*found, make_failed_finding(what if source else f"{name} server", error)]
    if command := asked.info.key_command:
        message = f"printed by {quote(Path(command[0]).name)} ({asked.info.key_place})"
    else:
        message = f"{variable} is not set; requests are sent without a key"
        message = f"set ({source})" if source else message
    found.append(Finding("right" if source else "note", what, message))
    if not (source or models or name not in PROVIDERS):
        return found
    what, where = f"{name} server", format_address(asked)
    try:
        names = await list_models(asked)
    except ProviderError as error:
        if error.status in (404, 405, 501):  # 404 can also mean that the path is wrong
            step = f"if requests fail, check {asked.info.url_setting}"
            message = f"answers at {where}, but does not list its models"
            return [*found, Finding("note", what, message, step)]
        is_refused = error.category == "auth"
        message = f"up at {where}, but it rejects the key" if is_refused else error.detail
        at = "" if without_login(asked.base_url) in message else f" ({where})"
        step = error.hint or "check its base_url"
        return [*found, Finding("wrong", what, f"{message}{at}", step)]
    found.append(Finding("right", what, f"up at {where}, {plural(len(names), 'model')}"))
    for model, agents in models.items():
        # Ollama adds `:latest`, Gemini `models/`
        if {model, f"{model}:latest", f"models/{model}"}.isdisjoint(names):
            step = f"it has {list_some(names, 5)}" if names else "choose another model"
            if pull := asked.info.pull:
                step = f"`{pull.format(model=shlex.quote(model))}`"
            elif near := nearest(model, names):
                step = f"did you mean {quote(near)}?"
            message = f"has no {quote(model)}, needed by {_format_agents(agents)}"
            found.append(Finding("wrong", what, message, step))
    return found


async def list_models(server: Server) -> Sequence[str]:
    """Returns the sorted names of a server's models. Raises ProviderError on failure."""
    try:
        async with asyncio.timeout(3.0):
            data = await ask_server(server, server.info.models_path)
    except TimeoutError:
        message = f"no answer from {format_address(server)} within 3s"
        raise ProviderError("timeout", message) from None
    field, key = server.info.models_keys
    entries = wire.tables(data.get(field), field)
    found = (masked_line(wire.text(entry.get(key)), 120) for entry in entries)
    return sorted({name for name in found if name})


def format_address(server: Server) -> str:
    """Formats the base address of a server's API, with login and keys removed."""
    find_secrets(server)
    query = server.info.query
    return redact(without_login(server.base_url) + server.info.api_path + (query and f"?{query}"))


def _format_agents(names: Iterable[str]) -> str:
    agents = sorted(set(names))
    return f"{'agent' if len(agents) == 1 else 'agents'} {list_some(agents, 3)}"


async def _try_servers(config: Config, agents: Iterable[Agent]) -> list[Finding]:
    """Starts each MCP server in the settings and agents once, lists its tools, and stops it."""
    tables = dict(config.mcp_servers)
    for agent in agents:
        tables |= {name: own for name, own in parse_servers(agent.mcp_servers).items() if own}
    servers = Servers()

    async def try_server(name: str) -> Finding:
        asked = Agent(name="doctor", model="script/doctor", mcp_servers=(name,))
        try:
            offered = await servers.open(asked, tables, Path.cwd().resolve())
        except ConfigError as error:
            return make_failed_finding(f"mcp {name}", error)
        tools = [tool.name.partition("__")[2] for tool in offered.tools]
        said = f"{plural(len(tools), 'tool')}: {list_some(tools, 5)}" if tools else "no tools"
        return Finding("right", f"mcp {name}", "; ".join([said, *offered.warnings]))

    try:
        return await asyncio.gather(*map(try_server, sorted(tables)))
    finally:
        await in_thread(servers.close)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that keeps an agent from running, or from calling a sub-agent."""

    key: tuple[str, ...]
    entry: str
    """The wrong entry in the key's list; empty if the value is not a list."""
    error: ConfigError
    is_mistake: bool
    """True if the TOML itself must change, False if something else is missing."""


def problems(
    agent: Agent, find: Callable[[str], Agent], config: Config, scripts: tuple[Path, ...] = (),
    needs: Needed = "key",
) -> list[Problem]:  # fmt: skip
    """Returns an agent's problems, those of its TOML first.

    `scripts` are folders with scripts, and `needs` are the settings that the model requires.
    """
    found: list[Problem] = []

    def check(
        key: str, entry: str, is_mistake: bool, run: Callable[..., object], *words: object
    ) -> None:
        try:
            run(*words)
        except ConfigError as error:
            found.append(Problem(tuple(key.split(".", 1)), entry, error, is_mistake))

    provider, _, name = agent.model.partition("/")
    check("model", "", True, parse_model, agent.model)
    if provider.strip() and name.strip():
        is_unknown = provider not in config.known
        check("model", "", is_unknown, provider_for(config, scripts, needs=needs), provider, name)
    check("system_prompt", "", False, fill_in, agent)
    bare = replace(agent, vars={}, tools=(), permissions={}, files=(), skill="", workdir="")
    for tool in agent.tools:
        check("tools", tool, True, find_tools, replace(bare, tools=(tool,)))
    for tool, decision in agent.permissions.items():
        own = (tool,) if tool in agent.tools else ()
        alone = replace(bare, tools=own, permissions={tool: decision})
        check(f"permissions.{tool}", "", True, find_tools, alone)
    for pattern in agent.files:
        check("files", pattern, True, check_glob, pattern)
    check("workdir", "", False, brief, replace(bare, workdir=agent.workdir))
    check("skill", "", False, brief, replace(bare, skill=agent.skill))
    for one in agent.sub_agents:
        check("sub_agents", one, False, find, one)
    return sorted(found, key=lambda problem: not problem.is_mistake)
