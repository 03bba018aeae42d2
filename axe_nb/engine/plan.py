"""The plan of a run, complete before the first request; a dry run prints the plan."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.files import expand_home
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import (
    NO_PROMPT,
    Briefing,
    Context,
    brief,
    confine,
    fill_in,
)
from axe_nb.agents.provider_table import SERVER_TOOLS
from axe_nb.agents.trust import COMMANDS
from axe_nb.agents.user_config import Config, config_dir
from axe_nb.engine.scope import Env, RunScope
from axe_nb.engine.toolbox import Toolset, find_tools
from axe_nb.errors import ConfigError
from axe_nb.mcp_servers.servers import ServerTools, find_servers
from axe_nb.messages import Message, Request, Response, ToolSpec
from axe_nb.pictures.picture import Illustrated, Picture, fit, format_bytes
from axe_nb.providers.prices import make_price_error
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.providers.server_tools import make_entry
from axe_nb.providers.thinking import THINKING, check_thinking, takes_long
from axe_nb.scripting.provider import ScriptProvider
from axe_nb.scripting.rules import Script, ScriptFunction, ScriptNotFound
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, make_output
from axe_nb.tools.tool import Job, Tool, ToolOutput

Needed: TypeAlias = Literal["key", "provider", "nothing"]
"""Settings that a plan requires: the API key for a run, the provider for a dry run, or nothing."""

OF_PROTOCOL = {"anthropic": 3_900_000}  # bytes of a picture: 5 MiB in base64


@dataclass(slots=True)
class PictureRoom:
    """Adds up the sizes of the pictures in the requests of a run, and limits them."""

    limit: int
    """Maximum size of one picture in bytes, from `limits.max_picture_bytes`; 0 for no limit."""
    protocol: str
    used: int = 0

    def use(self, messages: Iterable[Message]) -> None:
        self.used += sum(one.size for message in messages for one in message.all_pictures())

    async def admit(self, pictures: Iterable[Picture]) -> tuple[Picture, ...]:
        """Scales large pictures down. Raises ConfigError if a limit is exceeded."""
        fitted, size = list[Picture](), 0
        limits = (self.limit, OF_PROTOCOL.get(self.protocol, 0))
        most, whole = min(filter(None, limits), default=0), 4 * self.limit
        for picture in pictures:  # one by one, so that a stopped run leaves only one thread
            fitted.append(await in_thread(fit, picture, most))
            size += fitted[-1].size
            if 0 < whole < self.used + size:
                raise ConfigError(
                    f"the pictures in one request would be more than {format_bytes(whole)}, four "
                    "times limits.max_picture_bytes",
                    hint="send fewer, or start a new conversation",
                )
        self.used += size
        return tuple(fitted)

    async def admit_prompt(
        self, prompt: str, pictures: Sequence[Picture], files: Sequence[tuple[str, Picture]]
    ) -> Illustrated:
        """Returns a prompt with its `pictures`, followed by a line for each picture in `files`."""
        if not (pictures or files):
            return Illustrated(prompt)
        own = await self.admit(pictures)
        added = await self.admit(picture for _, picture in files)
        lines = [_with_marks(prompt, pictures, own), *([""] if files else [])]
        for (path, _), picture in zip(files, added, strict=True):
            lines.append(f"{path}: {picture.mark(len(own) + len(lines) - 1)}")
        return Illustrated("\n".join(lines), (*own, *added))

    async def admit_output(self, output: ToolOutput) -> ToolOutput:
        """Returns the output with large pictures scaled down, or an error if it exceeds a limit."""
        if not output.pictures:
            return output
        try:
            fitted = await self.admit(output.pictures)
        except ConfigError as error:
            return ToolOutput(f"Error: {error.message}; {error.hint}", is_error=True)
        content = _with_marks(output.content, output.pictures, fitted)
        return replace(output, content=content, pictures=fitted)


def _with_marks(text: str, before: Sequence[Picture], after: Sequence[Picture]) -> str:
    for number, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if new is not old:
            text = text.replace(old.mark(number), new.mark(number), 1)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    scope: RunScope
    job: Job
    provider: Provider
    model: str
    briefing: Briefing
    toolset: Toolset
    output: Output | None
    prompt: str
    """The complete prompt that the agent will receive (B-8)."""
    pictures: tuple[Picture, ...]
    missing: tuple[str, ...]

    @property
    def agent(self) -> Agent:
        return self.scope.agent

    @property
    def streams(self) -> bool:
        """True if responses are shown as they arrive; the root run and the agent must allow it."""
        return self.scope.env.streams and self.agent.stream

    @property
    def is_streamed(self) -> bool:
        """True if responses are requested as streams: for display, or for long responses (D-79)."""
        may_be = self.agent.stream and not self.scope.env.wants_whole
        return self.streams or (
            may_be and takes_long(self.provider.name, self.model, self.agent.params)
        )

    @property
    def asks_at_end(self) -> bool:
        """True if structured output needs a separate turn without tools at the end (D-65)."""
        return bool(self.toolset.tools) and getattr(self.provider, "answers_without_tools", False)

    @property
    def warnings(self) -> tuple[str, ...]:
        found = (*self.agent.warnings, *self.briefing.warnings, *self.missing)
        if self.scope.env.cassette or not isinstance(self.provider, Keyless):
            return found
        return (*found, self.provider.problem.message)  # a dry run needs no key


async def make_plan(scope: RunScope, job: Job) -> Plan:
    """Resolves the model, API key, skill, files and tools of a run. Raises ConfigError on failure.

    If the time is up before files are read or servers have started, the plan omits them, and the
    run ends before its first request.
    """
    agent, env = scope.agent, scope.env
    try:
        name, model = parse_model(agent.model)
        provider = env.agents.provider_for(name, model)
    except ConfigError as error:
        if isinstance(error, ScriptNotFound) or error.exit_code == 1:  # the name is wrong (D-22)
            error.place = error.place or find_place(agent, "model", agent.model)
        raise
    try:
        check_thinking(provider.name, model, agent.params)
    except ConfigError as error:
        error.place = find_place(agent, "params", THINKING)
        raise
    if scope.meter.caps_cost and not env.cassette:
        await env.prices.load(agent.model)
    _check_price(scope, agent)
    try:
        async with asyncio.timeout(scope.clock.left):
            briefing = await env.agents.brief(agent)
    except TimeoutError:
        briefing = brief(agent, Context("", (), ("not all files were read in time",), ()))
    env.sources.update(briefing.sources)
    if agent.path:
        env.sources.add(Path(os.path.realpath(agent.path)))  # noqa: ASYNC240  one name
    output = _find_output(agent, job)
    if env.requires_sandbox:
        await in_thread(_require_sandbox, env, scope.policy.agents, briefing.workdir)
    workdir = Path(env.workdir) if env.workdir else briefing.workdir  # a tree has each server once
    offered = ServerTools()
    if agent.mcp_servers:
        try:
            async with asyncio.timeout(scope.clock.left):
                offered = await env.servers.open(agent, env.server_tables, workdir, env.sources)
        except TimeoutError:
            offered = ServerTools(warnings=("the MCP servers did not start in time",))
    briefing = replace(briefing, warnings=(*briefing.warnings, *offered.warnings))
    toolset = _make_toolset(scope, provider, offered.tools)
    asked = job.asked
    if asked is None:  # a file's picture already in the conversation is not repeated
        room = PictureRoom(agent.limits.max_picture_bytes, provider.name)
        room.use(job.history)
        sent = {picture for message in job.history for picture in message.all_pictures()}
        new = tuple(pair for pair in briefing.pictures if pair[1] not in sent)
        prompt = job.prompt if job.prompt.strip() else NO_PROMPT
        asked = await room.admit_prompt(prompt, job.pictures, new)
    return Plan(
        scope=scope, job=job, provider=provider, model=model, briefing=briefing, toolset=toolset,
        output=output, prompt=asked.text, pictures=asked.pictures,
        missing=tuple(_find_missing(scope, toolset)),
    )  # fmt: skip


def _find_output(agent: Agent, job: Job) -> Output | None:
    given: Output | None = job.output
    if given is not None or job.is_copy or not agent.output:  # a copy answers its own task
        return given
    try:
        return make_output(agent.output, "[output]")
    except ConfigError as error:
        error.place = find_place(agent, "output", next(iter(agent.output)))
        error.place = error.place or find_place(agent, "output", "schema")
        raise


def _check_price(scope: RunScope, agent: Agent) -> None:
    if scope.meter.caps_cost and not scope.env.cassette and not scope.env.prices.knows(agent.model):
        error = make_price_error(agent.model, "limits.max_cost cannot be enforced")
        error.place = find_place(agent, "model", agent.model)
        raise error


def _require_sandbox(env: Env, agents: tuple[Agent, ...], workdir: Path) -> None:
    """Raises ConfigError if `agents[0]` could run programs without the required sandbox (D-82)."""
    agent, who = agents[0], f"agent {quote(agents[0].name)}"
    tables = find_servers(agent, env.server_tables).items()
    servers = [name for name, table in tables if table.command and table.sandbox == "off"]
    off = f"mcp_servers.{servers[0]}.sandbox" if servers else ""
    if not off and not COMMANDS.isdisjoint(agent.tools):
        from axe_nb.builtin.shell import choose_sandbox  # few runs need it

        found = choose_sandbox(agents, workdir, env.sources)
        off = "sandbox" if found.is_off else ""
        if found.level == "none" and not off:
            raise ConfigError(
                f"a sandbox is required, but {who} has run_command, and no sandbox works here",
                hint="install bubblewrap, or unset AXE_NB_SANDBOX and `sandbox` in config.toml",
            )
    if off:
        problem = f'a sandbox is required, but {off} = "off" of {who} is not allowed'
        raise ConfigError(problem, hint=f"remove the key {off}")


def _make_toolset(scope: RunScope, provider: Provider, of_servers: Sequence[Tool]) -> Toolset:
    agents = scope.env.agents

    def describe(name: str) -> str:
        with suppress(ConfigError):
            return agents.load(name).description if agents.knows(name) else ""
        return ""

    tools = find_tools(scope.agent, scope.env.tools, of_servers, describe)
    offered: list[ToolSpec] = []
    for tool in tools.values():
        is_too_deep = tool.effect == "delegate" and scope.depth >= scope.max_depth(tool)
        if is_too_deep or not scope.policy.offers(tool):
            continue
        spec = tool.spec
        if tool.by_server:
            model, prices = scope.agent.model, scope.env.prices
            is_priced = scope.env.cassette or prices.knows(model, tool.name)
            if scope.meter.caps_cost and not is_priced:
                problem = f"limits.max_cost cannot be enforced with {tool.name}"
                raise make_price_error(model, problem)
            options = scope.agent.params.get(SERVER_TOOLS, {}).get(tool.name, {})
            url = getattr(provider, "base_url", "")
            entry = make_entry(provider.name, url, tool.name, options)
            if not entry:
                raise _make_server_error(scope.agent, tool.name, provider)
            spec = replace(spec, entry=entry)
        offered.append(spec)
    return Toolset(tools, tuple(offered))


def _make_server_error(agent: Agent, tool: str, provider: Provider) -> ConfigError:
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


def _find_missing(scope: RunScope, toolset: Toolset) -> Iterator[str]:
    """Yields a warning for each sub-agent that is offered but cannot be started (A-E2.4)."""
    if not any(toolset.tools[spec.name].calls_sub_agents for spec in toolset.offered):
        return
    # not all of them, as the search for similar names takes milliseconds
    for name in islice(dict.fromkeys(scope.agent.sub_agents), 100):
        try:
            agent = scope.env.agents.load(name)
            fill_in(scope.env.as_child(agent))
            _check_price(scope, agent)
        except ConfigError as error:
            cause = "; ".join(filter(None, (error.message, error.hint)))
            yield f"sub-agent {quote(name)} cannot be called: {cause}"


def find_child(parent: Plan, job: Job, env: Env, id: str) -> tuple[Agent, Job]:
    """Returns a child's agent and job, with the options, fork and workdir of the tree applied.

    Raises ConfigError if the agent cannot be loaded, or its model or workdir is invalid.
    """
    try:
        agent = env.agents.load(job.agent) if isinstance(job.agent, str) else job.agent
    except ConfigError as error:
        name = quote(f"{job.agent}")
        raise ConfigError(f"failed to load agent {name}: {error}") from None
    agent = env.as_child(agent)
    if env.fork:
        agent, job = env.fork.adapt(id, agent, job)
    agent = confine(agent, parent.briefing.workdir, env.workdir, env.defined)
    try:
        parse_model(agent.model)
    except ConfigError as error:
        raise ConfigError(f"invalid model for agent {quote(agent.name)}: {error}") from None
    return agent, job


class Keyless:
    """Placeholder for a provider that is unknown or has no key, so that runs can be replayed."""

    def __init__(self, provider: Provider | None, problem: ConfigError) -> None:
        self.name = provider.name if provider else "unknown"
        self.base_url = getattr(provider, "base_url", "")
        self.answers_without_tools = getattr(provider, "answers_without_tools", False)
        self.problem = problem
        """Error that is raised for a request that is not replayed."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Raises ConfigError, because a request that is not replayed cannot be sent."""
        raise copy(self.problem)


def make_server(name: str, config: Config, model: str = "", key: str | None = None) -> Any:
    """Creates the client for a provider's server. Raises ConfigError if settings are missing."""
    info = config.provider(name)
    key = config.api_key(info.name) if key is None else key
    url = config.base_url(info.name)
    info = info.choose_api(url, model)
    base_url, info = info.locate(url)
    if any(info.certificates):
        ca_file, client_cert = (p and str(config_dir() / expand_home(p)) for p in info.certificates)
        info = replace(info, certificates=(ca_file, client_cert))
    if key:
        info = replace(info, key_command=())
    return import_module(info.module).PROVIDER(base_url, key, info)


def provider_for(
    config: Config,
    scripts: tuple[Path, ...] = (),
    *,
    needs: Needed = "key",
    sent: Mapping[str, ScriptFunction | Script] | None = None,
) -> Callable[[str, str], Provider]:
    """Returns a function that finds the provider for a provider name and a model name.

    The function raises ConfigError if settings in `needs` are missing; a request raises it if other
    settings are missing. `scripts` are the folders to search first for script models, and `sent`
    are the scripts that came with a job.
    """
    made: dict[tuple[str, str], Provider] = {}

    def make(name: str, model: str) -> Provider:
        try:
            info = config.provider(name)
        except ConfigError as error:
            if needs != "nothing":
                raise
            return Keyless(None, error)
        if not info.has_server:
            return ScriptProvider(scripts, sent)
        try:
            server: Provider = make_server(name, config, model)
        except ConfigError as error:
            if needs == "key":
                raise
            server = Keyless(make_server(name, config, model, key=""), error)
        return server

    def find(name: str, model: str) -> Provider:
        key = name, "" if name == "script" else model
        if key not in made:
            made[key] = make(name, model)
        provider = made[key]
        if isinstance(provider, ScriptProvider):
            provider.scripts.find(model)
        return provider

    return find
