"""Diagnosis of keys, servers, agents and versions, with the next step for each problem.

Its output never contains a key.
Source: product.md "Notebook" (`%axe doctor`); B-3; issue "Working in the notebook".
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import creation_step, list_agents
from axe_nb.agents.config import Config, config_path, format_path
from axe_nb.agents.files import expand_home
from axe_nb.agents.prompt import all_warnings
from axe_nb.doctor.agent_problems import Problem, problems
from axe_nb.doctor.caps import describe_caps, find_lifted_caps
from axe_nb.doctor.finding import Finding, State, make_failed_finding
from axe_nb.doctor.lab import check_lab
from axe_nb.doctor.reach import find_open_hosts, find_questions
from axe_nb.doctor.servers import Tried, try_servers
from axe_nb.doctor.session import check_cassette, check_files, check_history, check_prices
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.make_provider import server
from axe_nb.model_table import tell_end
from axe_nb.provider_table import PROVIDERS, ProviderInfo
from axe_nb.providers import listing
from axe_nb.providers.key_command import fill_in_key
from axe_nb.recording.cassette import Cassette
from axe_nb.sandbox.find import find_sandbox
from axe_nb.sandbox.view import make_view
from axe_nb.text import list_some, plural, printable, quote
from axe_nb.threads import in_thread

PACKAGES = ("axe-nb", "ipython", "ipykernel", "ipywidgets", "anywidget", "httpx")
"""Packages whose versions are shown; not every environment has those of the notebook."""

NOT_FOUND = 404
"""Status of a server without a list of models, and of a wrong path."""

DOES_NOT_LIST = (405, 501)
"""Statuses of servers that are up but do not list their models."""

NO_KEY = 3
"""Exit code of a missing key (D-22)."""

Models: TypeAlias = dict[str, list[str]]
"""Model → agents that use it."""


async def examine(
    agents_dir: str | None,
    defined: Mapping[str, Agent],
    find: Callable[[str], Agent],
    cassette: Cassette | None = None,
) -> list[Finding]:
    """Returns all findings in reading order; servers are queried concurrently.

    Args:
        agents_dir: folder to search for agents first.
        defined: name → agent of this session, without a file.
        find: name -> agent, of the session or from a file. Raises ConfigError.
        cassette: that of the session.
    """
    config, settings = _check_settings()
    agents, of_agents = await in_thread(_check_agents, agents_dir, defined, find, config)
    used = _group_models(agents)
    known = [info for info in config.known.values() if info.has_server]
    names = [info.name for info in known if _is_worth_checking(info.name, used, config)]
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_check_server(name, used.get(name, {}), config)) for name in names
        ]
    keys = [await _check_key(info, used.get(info.name, {}), config) for info in known]
    servers = [finding for task in asked for finding in task.result()]
    sandbox = await in_thread(_check_sandbox)
    tried = [_make_server_finding(one) for one in await try_servers(config, agents)]
    caps = Finding("right", "caps", describe_caps())
    files = await in_thread(check_files)
    recordings = [*check_cassette(cassette), await in_thread(check_history)]
    prices = check_prices(config)
    ends = _list_ends(used)
    lab = await in_thread(check_lab)
    first = [_check_versions(), *lab, settings, sandbox, files, caps, prices, *recordings]
    return [*first, *of_agents, *ends, *keys, *servers, *tried]


def _check_versions() -> Finding:
    found = {name: _find_version(name) for name in PACKAGES}
    missing = [name for name, version in found.items() if not version]
    listed = (f"{name} {version or '(not installed)'}" for name, version in found.items())
    message = ", ".join([f"Python {platform.python_version()}", *listed])
    if not missing:
        return Finding("right", "versions", message)
    return Finding(
        "note", "versions", message, f"to use notebooks: pip install {' '.join(missing)}"
    )


def _check_sandbox() -> Finding:
    """Tries the sandbox of commands in the current folder."""
    try:
        sandbox = find_sandbox("auto", make_view(Path.cwd()))
    except ConfigError as error:
        return make_failed_finding("sandbox", error)
    except OSError as error:
        return Finding("note", "sandbox", f"cannot be tried: {error.strerror or error}")
    if sandbox.level == "none":
        step = "install bubblewrap, if your system has it" if os.name == "posix" else ""
        return Finding("note", "sandbox", "no sandbox works here, so commands need approval", step)
    name = f"{sandbox.level} ({sandbox.method.name}): a command "
    said = name + ", ".join(sandbox.promises)
    if not sandbox.method.not_promised:
        return Finding("right", "sandbox", said)
    message = f"{said}. But {', '.join(sandbox.method.not_promised)}"
    step = "install bubblewrap for a stronger sandbox" if sandbox.level == "files" else ""
    return Finding("note", "sandbox", message, step)


def _make_server_finding(tried: Tried) -> Finding:
    what = f"mcp {tried.name}"
    if tried.error is not None:
        return make_failed_finding(what, tried.error)
    return Finding("right", what, tried.message)


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _check_settings() -> tuple[Config, Finding]:
    """Returns the settings, empty if they are invalid, and the finding."""
    path = config_path()
    try:
        config = Config.load()
    except ConfigError as error:
        return Config(), make_failed_finding("settings", error)
    if not path.exists():
        return config, Finding(
            "note", "settings", f"{format_path(path)} does not exist; it is optional"
        )
    if os.name == "posix" and path.stat().st_mode & 0o077 and _has_keys(config):
        message = f"{format_path(path)} contains keys and is readable by other users"
        return config, Finding("wrong", "settings", message, f"chmod 600 {format_path(path)}")
    return config, Finding("right", "settings", format_path(path))


def _has_keys(config: Config) -> bool:
    return any(table.get("api_key") for table in config.providers.values())


def _check_agents(
    agents_dir: str | None,
    defined: Mapping[str, Agent],
    find: Callable[[str], Agent],
    config: Config,
) -> tuple[list[Agent], list[Finding]]:
    """Returns the agents that could be read, and the findings on all of them."""
    names = sorted({*defined, *list_agents(agents_dir)})
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
        reach = (find_lifted_caps(agent), find_open_hosts(agent), find_questions(agent))
        notes = filter(None, (*all_warnings(agent), *reach))
        findings += [Finding("note", f"agent {name}", note) for note in notes]
        findings += [
            _make_problem_finding(f"agent {name}", problem)
            for problem in problems(agent, find, scripts)
            if not _is_reported_elsewhere(problem, agent, config)
        ]
    failed = {finding.what for finding in findings if finding.state == "wrong"}
    message = f"{len(names)} found, {len(names) - len(failed)} without problems"
    step = "" if names else creation_step("NAME")
    state: State = "note" if failed else "right"
    return agents, [Finding(state, "agents", message, step), *findings]


def _make_problem_finding(what: str, problem: Problem) -> Finding:
    """Makes a finding; only a note if the agent runs all the same.

    A cell may still define a missing script, an option a variable; a missing sub-agent is an error
    when it is called.
    """
    found = make_failed_finding(what, problem.error)
    is_script = problem.key == ("model",) and not problem.is_mistake
    is_note = is_script or problem.key in (("sub_agents",), ("system_prompt",))
    return replace(found, state="note") if is_note else found


def _is_reported_elsewhere(problem: Problem, agent: Agent, config: Config) -> bool:
    """True if the rows of keys and servers report the same problem."""
    info = config.known.get(agent.model.partition("/")[0])
    return problem.key == ("model",) and not problem.is_mistake and bool(info and info.has_server)


def _group_models(agents: Iterable[Agent]) -> Mapping[str, Models]:
    used: dict[str, Models] = {}
    for agent in agents:
        provider, _, model = agent.model.partition("/")
        if model.strip():
            used.setdefault(provider, {}).setdefault(model, []).append(agent.name)
    return used


def _list_ends(used: Mapping[str, Models]) -> list[Finding]:
    """Returns the models that their vendors end soon."""
    findings = []
    for provider, models in used.items():
        for model, agents in models.items():
            message, step = tell_end(f"{provider}/{model}", date.today())
            if message:
                needed = f"{message}, needed by {_format_agents({model: agents})}"
                findings.append(Finding("note", f"model {provider}/{model}", needed, step))
    return findings


def _is_worth_checking(provider: str, used: Mapping[str, Models], config: Config) -> bool:
    """True for a server that an agent uses, that has a key, or that the settings define."""
    is_named = provider not in PROVIDERS
    return is_named or provider in used or bool(config.key_source(provider))


async def _check_key(info: ProviderInfo, models: Models, config: Config) -> Finding:
    provider, variable = info.name, info.key_variable
    what = f"{provider} key"
    if source := config.key_source(provider):
        try:
            asked = server(provider, config)
            await fill_in_key(asked)
        except (ConfigError, ProviderError) as error:
            return make_failed_finding(what, error)
        if command := asked.info.key_command:
            return Finding("right", what, f"printed by {quote(command.name)} ({command.place})")
        return Finding("right", what, f"set ({source})")
    if not info.needs_key:
        return Finding("note", what, f"{variable} is not set; requests are sent without a key")
    if not models:
        return Finding("note", what, f"{variable} is not set; no agent here needs it")
    step = f"set {variable}, or api_key under [providers.{provider}] in config.toml"
    return Finding(
        "wrong", what, f"{variable} is not set, needed by {_format_agents(models)}", step
    )


async def _check_server(provider: str, models: Models, config: Config) -> list[Finding]:
    """Checks that the server is up, accepts the key and has the models that agents use."""
    what = f"{provider} server"
    try:
        asked = await fill_in_key(server(provider, config))
    except ConfigError as error:
        has_no_key = error.exit_code == NO_KEY  # reported in the row of keys
        return [] if has_no_key else [make_failed_finding(what, error)]
    except ProviderError:  # its command prints no key: reported there too
        return []
    try:
        names = await listing.models(asked)
    except ProviderError as error:
        where = listing.address(asked)
        if error.status == NOT_FOUND:
            step = f"if requests fail, check {asked.info.url_setting}"
            message = f"answers at {where}, but does not list its models"
            return [Finding("note", what, message, step)]
        if error.status in DOES_NOT_LIST:
            return [Finding("note", what, f"up at {where}; it does not list its models")]
        is_refused = error.category == "auth"
        message = f"up at {where}, but it rejects the key" if is_refused else error.detail
        at = "" if listing.root(asked) in message else f" ({where})"
        return [Finding("wrong", what, f"{message}{at}", error.hint or "check its base_url")]
    up = Finding("right", what, f"up at {listing.address(asked)}, {plural(len(names), 'model')}")
    missing = [model for model in models if not listing.has(model, names)]
    return [
        up,
        *(
            Finding(
                "wrong", what,
                f"has no {quote(model)}, needed by {_format_agents({model: models[model]})}",
                listing.advice(asked.info, model, names) or "choose another model",
            )
            for model in missing
        ),
    ]  # fmt: skip


def _format_agents(models: Models) -> str:
    """Formats the names of the agents that need the models."""
    agents = sorted({agent for users in models.values() for agent in users})
    return f"{'agent' if len(agents) == 1 else 'agents'} {list_some(agents, 3)}"
