"""Sessions: build runs from agents, settings and connections, and remember their results.

Source: A-7.3-9, A-7.3-10, D-25.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from axe_nb.agents.agent import DEFAULTS, DEFINED, Agent, check_agents_dir
from axe_nb.agents.names import check_name
from axe_nb.agents.prompt import find_workdir
from axe_nb.agents.user_config import Config, is_test
from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.limits import Budget, Clock, InFlight, UsageMeter
from axe_nb.engine.person import AskPerson
from axe_nb.engine.plan import Needed, Plan, make_plan, provider_for
from axe_nb.engine.scope import Env, RunScope
from axe_nb.engine.toolbox import SESSION
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, Event, discard
from axe_nb.mcp_servers.servers import Servers
from axe_nb.messages import Usage
from axe_nb.messages.exchanges import ASKED_NOW
from axe_nb.providers.prices import Prices
from axe_nb.providers.protocol import Provider
from axe_nb.recording.history_recorder import begin_recorder
from axe_nb.results import RunResult
from axe_nb.scripting.rules import ScriptFunction, functions
from axe_nb.session.prompts import describe
from axe_nb.session.root_job import BeginningFork, adapt, check_names, make_job
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.snapshot import Snapshot, describe_agents, find_script_dirs, find_source_dirs
from axe_nb.text import quote, suggestion
from axe_nb.tools.kept_files import KeptFiles
from axe_nb.tools.tool import Job, Tool, ToolTable

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from axe_nb.recording.cassette import Cassette
    from axe_nb.recording.playback import RootTape


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of one agent with one model in a session, as a root or a child."""

    runs: int = 0
    turns: int = 0
    usage: Usage = Usage()

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.runs + other.runs, self.turns + other.turns, self.usage + other.usage)


@dataclass
class Session:
    """The agents, results and settings of one Python process, such as a notebook."""

    agents: dict[str, Agent] = field(default_factory=dict)
    """Agents defined in this session; they take precedence over files."""
    conversations: dict[str, RunResult] = field(default_factory=dict)
    """Agent → its last root run here, which `--continue` continues."""
    last: RunResult | None = None
    """The last finished run, even if it failed or was interrupted."""
    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)
    """(agent, model) → usage of its runs, in order of first use."""
    texts: dict[str, str] = field(default_factory=dict)
    """Agent defined here → its TOML source, if any."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Option → default value for runs that do not set it; written by `%config AxeMagics`."""
    keeps_history: bool = True
    """False if runs are not recorded in the history; written by `%config AxeMagics`."""
    cassette: Cassette | None = None
    """Records and replays the exchanges of the session's runs; None = no cassette."""
    cassette_problem: ConfigError | None = None
    """The reason that a requested cassette is not in use; no run starts, as it might cost money."""
    budget: Budget = field(default_factory=Budget)
    """The dollars that the session's runs have spent, and the limit."""
    hosts: dict[str, None] = field(default_factory=dict)
    """Hosts that the person allowed the agents to reach, until the session ends (D-50)."""
    tools: ToolTable = field(default_factory=lambda: SESSION)
    """Tools made by `@axe_nb.tool`, shared by the whole process, as decorators belong to no
    session."""
    scripts: dict[str, ScriptFunction] = field(default_factory=lambda: functions)
    """Name → model made by `@axe_nb.script`; shared like the tools."""
    servers: Servers = field(default_factory=Servers, repr=False)
    """The MCP servers that were started; they end with the process."""
    meter: UsageMeter | None = None
    """Counts the requests of all runs of this session, within its caps; None = no caps."""
    in_flight: InFlight | None = None
    """Slots that all runs of this session share; None = each tree has its own."""
    handed: tuple[Tool, ...] = ()
    """Tools that came with a job from another process; they take precedence by name."""
    _remembering: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def define(self, agent: Agent, text: str = "") -> Agent:
        """Registers an agent, and its TOML source, for `%%axe`, `run` and others' `sub_agents`."""
        if not isinstance(agent, Agent):
            raise ConfigError(f"define takes an Agent, not {shown_value(agent)}")
        check_name(agent.name)
        self.agents[agent.name] = agent
        self.texts[agent.name] = text
        return agent

    def forget(self, name: str) -> None:
        self.agents.pop(name, None)
        self.texts.pop(name, None)

    def find(self, name: str, agents_dir: str | None = None) -> Agent:
        """The agent of that name, from this session or else from a file."""
        return self.agents.get(name) or Agent.from_file(name, agents_dir)

    def use_cassette(self, cassette: Cassette | None) -> None:
        """Replaces the cassette; the previous one is saved now, and this one at exit."""
        if self.cassette is not None:
            self.cassette.save()
            atexit.unregister(self.cassette.save_quietly)
        self.cassette, self.cassette_problem = cassette, None
        if cassette is not None:
            atexit.register(cassette.save_quietly)

    def open_cassette(self) -> Cassette | None:
        """Returns the cassette in use, possibly set by the environment; None = there is none."""
        if self.cassette_problem is not None:
            raise ConfigError(self.cassette_problem.message, hint=self.cassette_problem.hint)
        if self.cassette is None and (path := os.environ.get("AXE_CASSETTE")):
            from axe_nb.recording.cassette import Cassette

            self.use_cassette(Cassette(path))
        return self.cassette

    def start(self, request: RunRequest, on_claim: Callable[[], None] | None = None) -> RunHandle:
        """Creates the handle of a run; `on_claim` is called once the cassette knows the run."""
        make_plan = partial(self.plan, traced_in=find_context(), on_claim=on_claim)
        return RunHandle(request, make_plan, self.remember)

    async def plan(
        self,
        request: RunRequest,
        emit: Emit = discard,
        ask_person: AskPerson | None = None,
        streams: bool = False,
        *,
        traced_in: Context | None = None,
        is_dry: bool = False,
        on_claim: Callable[[], None] | None = None,
    ) -> Plan:
        """Resolves a run without sending anything; a dry run, shown to the user, needs no key."""
        options = request.overrides
        agents_dir = options.agents_dir
        clock = Clock(options.timeout)
        tape = self._begin_tape(on_claim, can_ask=ask_person is not None)
        needs: Needed = "nothing" if tape else "provider" if is_dry else "key"
        config, snapshot = self._read_settings(agents_dir, needs)
        find = partial(self.find, agents_dir=agents_dir)
        fork = BeginningFork(request, request.fork, find, snapshot) if request.fork else None
        if traced_in is not None:
            from axe_nb.recording.traces import with_spans

            emit = with_spans(emit, traced_in)
        recorder = begin_recorder(request.history, tape) if self.keeps_history else None

        def record(event: Event) -> None:
            if recorder is not None:
                recorder.event(event)
            emit(event)

        env = Env(
            agents=describe_agents(snapshot, options), defined=snapshot.defined, tools=self.handed,
            emit=record, recorder=recorder, describe=describe,
            ask_person=ask_person if tape is None or tape.may_ask else None,
            stepper=options.make_stepper(), cassette=tape, nest=self._nest,
            default_retries=config.retries, requires_sandbox=config.requires_sandbox,
            hosts=self.hosts, prices=snapshot.prices, budget=self.budget,
            servers=self.servers, server_tables=config.mcp_servers,
            kept=KeptFiles(is_quiet=is_test()), sources=find_source_dirs(agents_dir),
        )  # fmt: skip
        env = adapt(env, options)
        env = fork.adapt_env(env) if fork else env
        agent, job = fork.make_job() if fork else make_job(request, env)
        workdir = str(find_workdir(agent))
        streams = streams and agent.stream
        env = replace(env, workdir=workdir, streams=streams, wants_whole=not agent.stream)
        scope = RunScope.root(
            agent, job.limits, env, clock, has_mode=job.mode is not None, above=self.meter,
            in_flight=self.in_flight,
        )  # fmt: skip
        await snapshot.take(scope)
        if fork is None:
            check_names(request, agent, env)
        else:
            await fork.check_place(scope)
        return await make_plan(scope, job)

    def remember(self, result: RunResult) -> None:
        with self._remembering:
            self.last = self.conversations[result.agent] = result
            for one in result.walk():
                key, own = (one.agent, one.model), Spent(1, one.turns, one.usage)
                asked = [turn.usage for turn in one.log if turn.source in ASKED_NOW]
                if len(asked) != len(one.log):  # what no model was asked for does not count
                    own = Spent(int(bool(asked)), len(asked), sum(asked, Usage()))
                self.spent[key] = self.spent.get(key, Spent()) + own

    def conversation(self, agent: str | None, agents_dir: str | None = None) -> RunResult:
        """The agent's last run in this session; None = the last run without an agent."""
        if agent is None:
            if "" in self.conversations:
                return self.conversations[""]
            raise ConfigError(
                "nothing to continue: no model has been asked without an agent in this session",
                hint="name an agent, or name a model with -m and leave out -c",
            )
        names = [agent]
        with contextlib.suppress(ConfigError):
            names.append(self.find(agent, agents_dir).name)  # its file may set another name (D-26)
        for name in names:
            if name in self.conversations:
                return self.conversations[name]
        raise ConfigError(
            f"nothing to continue: agent {quote(agent)} has not run in this session",
            hint=suggestion(agent, self.conversations) or "run it once without -c",
        )

    def _begin_tape(self, on_claim: Callable[[], None] | None, *, can_ask: bool) -> RootTape | None:
        cassette = self.open_cassette()
        if cassette is None:
            return None
        from axe_nb.recording.modes import find_mode
        from axe_nb.recording.playback import RootTape

        mode = find_mode(cassette.mode, can_ask=can_ask)
        return None if mode == "live" else RootTape(cassette, mode, on_claim)

    def _read_settings(self, agents_dir: str | None, needs: Needed) -> tuple[Config, Snapshot]:
        config = Config.load()
        check_agents_dir(agents_dir)
        folders = find_script_dirs(agents_dir)
        made = provider_for(config, folders, needs=needs)

        def provider(name: str, model: str) -> Provider:
            if needs == "key" and self.cassette is None and config.provider(name).has_server:
                from axe_nb.recording.modes import check_sending

                check_sending()
            return made(name, model)

        return config, Snapshot(self.agents, agents_dir, provider, Prices(config))

    def _nest(self, request: RunRequest, env: Env) -> tuple[Job, Env]:
        """The job of a child that `axe_nb.run` starts in a tool, and its dependencies (D-57)."""
        folder = request.overrides.agents_dir
        if folder is not None:
            env.sources.update(find_source_dirs(folder))
            _, snapshot = self._read_settings(folder, "nothing" if env.cassette else "key")
            snapshot.defined = dict(env.defined)  # those of the start, not of now
            env = replace(env, agents=snapshot.source)
        below = adapt(env, request.overrides)
        stepper = request.overrides.make_stepper()
        if below.stepper is None and stepper is not None:
            below = replace(below, stepper=stepper)
            below.check_can_step()
        agent, job = make_job(request, below)
        check_names(request, agent, below)
        return job, below


def find_context() -> Context | None:
    """Returns the context for tracing the caller's run; None = tracing is not set up.

    OpenTelemetry is never imported here: a program that traces has imported it.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import context

    return context.get_current()


session = Session(agents=DEFINED, defaults=DEFAULTS)
