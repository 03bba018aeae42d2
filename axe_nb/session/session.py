"""Sessions, which build runs from requests, agents and settings, and remember their results.

Source: A-7.3-9, A-7.3-10, D-25, D-27, D-53, D-66.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axe_nb.agents.agent import DEFAULTS, DEFINED, Agent, NoAgent, check_agents_dir, list_agents
from axe_nb.agents.names import check_name
from axe_nb.agents.prompt import confine, find_names, find_workdir
from axe_nb.agents.user_config import Config, is_test
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
from axe_nb.messages.model_table import suggest_model
from axe_nb.providers.prices import Prices
from axe_nb.providers.protocol import Provider
from axe_nb.recording.history_recorder import MapRecorder, Recorder, find_reason_against
from axe_nb.results import RunResult
from axe_nb.scripting.rules import ScriptFunction, functions
from axe_nb.session.overrides import Overrides
from axe_nb.session.prompts import describe
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.snapshot import (
    Snapshot,
    describe_agents,
    find_output,
    find_script_dirs,
    find_source_dirs,
)
from axe_nb.text import list_some, quote, shown_value, suggestion
from axe_nb.tools.kept_files import KeptFiles
from axe_nb.tools.tool import Job, Limits, Tool, ToolTable

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from axe_nb.recording.cassette import Cassette
    from axe_nb.recording.fork import ForkPoint
    from axe_nb.recording.playback import RootTape


def find_agent(request: RunRequest, env: Env) -> Agent:
    """Returns a request's agent, or, if it has none, an agent that only sends the prompt."""
    if isinstance(request.agent, Agent):
        return request.agent
    options, earlier = request.overrides, request.continue_from
    model = options.model or options.model_all or ""
    if request.agent is None:
        if earlier and not earlier.agent:
            model = model or earlier.model
        if not model:
            raise ConfigError(
                "neither an agent nor a model is given",
                hint=f'for example axe_nb.run(None, prompt, model="{suggest_model("anthropic")}")',
            )
        return NoAgent(name="", model=model)
    try:
        return env.agents.load(request.agent)
    except ConfigError as error:
        is_there = request.agent in env.defined or request.agent in list_agents(options.agents_dir)
        if model and not is_there:  # the name may be the prompt
            alone = "to ask the model alone, omit AGENT: -p TEXT, a cell's body, or run(None, …)"
            error.hint = "; ".join(filter(None, [error.hint, alone][request.agent == "None" :]))
        raise


def check_names(request: RunRequest, agent: Agent, env: Env) -> None:
    """Raises ConfigError for an unknown name in `vars`, or a misspelt name in `expect`.

    Names in `expect` are not checked if an agent has MCP servers, whose tools are not known yet.
    """
    if given := request.overrides.vars:
        root = find_agent(request, env)
        known = {*find_names(root.system_prompt), *root.vars}
        if not given.keys() <= known:
            known.update(name for agents in env.walk_below((root,)) for name in agents[0].vars)
        if unknown := sorted(given.keys() - known):
            listed = f"known variables: {list_some(sorted(known), 5)}"
            step = listed if known else r"use {{ name }} in the system_prompt of an agent"
            raise ConfigError(
                f"no agent in this run has the variable {quote(unknown[0])}",
                hint=suggestion(unknown[0], known) or step,
            )
    expectations = request.overrides.expect
    if expectations is None:
        return
    from axe_nb.expectations import check_spelling

    agents = [agent, *(below[0] for below in env.walk_below((agent,)))]
    if not any(one.mcp_servers for one in agents):  # tools of MCP servers are not known yet
        check_spelling(expectations, agents, request.overrides.agents_dir)


def adapt(env: Env, overrides: Overrides) -> Env:
    """Returns the environment of a run, with the overrides that also affect its descendants."""
    as_child = env.as_child

    def adapt_child(agent: Agent) -> Agent:
        if overrides.model_all is not None:
            agent = replace(agent, model=overrides.model_all)
        if not overrides.vars.keys().isdisjoint(agent.vars):
            values = {name: overrides.vars.get(name, own) for name, own in agent.vars.items()}
            agent = replace(agent, vars=values)
        return as_child(agent)

    return replace(
        env,
        retries=env.retries if overrides.retries is None else overrides.retries,
        tools=(*env.tools, *(t for t in overrides.tools or () if not isinstance(t, str))),
        as_child=adapt_child,
    )


def make_job(request: RunRequest, env: Env) -> tuple[Agent, Job]:
    overrides, earlier = request.overrides, request.continue_from
    agent = apply_overrides(find_agent(request, env), overrides)
    chosen = overrides.model or overrides.model_all
    if earlier and earlier.agent == agent.name and not chosen and earlier.model != agent.model:
        changed = f"continued with {agent.model} instead of {earlier.model}"
        agent = replace(agent, warnings=(*agent.warnings, f"{changed}: to keep that, use -m"))
    job = Job(
        agent, request.prompt, request.prompt, Limits(seconds=overrides.timeout),
        mode=overrides.mode, history=earlier.messages if earlier else (),
        output=overrides.output, pictures=request.pictures,
    )  # fmt: skip
    return agent, job


def apply_overrides(agent: Agent, overrides: Overrides) -> Agent:
    same = ("model", "skill", "workdir", "mode", "stream")
    changes = {name: value for name in same if (value := getattr(overrides, name)) is not None}
    if overrides.model is None and overrides.model_all is not None:
        changes["model"] = overrides.model_all
    if overrides.tools is not None:
        changes["tools"] = overrides.tools  # tool objects stay with the agent
    for table in ("params", "vars"):
        if given := getattr(overrides, table):
            changes[table] = {**getattr(agent, table), **given}
    return replace(agent, **changes) if changes else agent


class BeginningFork:
    """Prepares a fork; restores the forked run's agents into the given snapshot."""

    def __init__(
        self,
        request: RunRequest,
        point: ForkPoint,
        find: Callable[[str], Agent],
        snapshot: Snapshot,
    ) -> None:
        from axe_nb.recording.fork import Fork, RestoredAgents  # few runs are forks

        self.request, self.point, self.snapshot = request, point, snapshot
        self.given = find(request.agent) if isinstance(request.agent, str) else request.agent
        self.restored = RestoredAgents(point.root, find, point.run.id if self.given else "")
        snapshot.restore(self.restored.agents, self.restored.contexts)
        self.fork = Fork(point, self._adapt, self.restored.changed)

    def adapt_env(self, env: Env) -> Env:
        """Returns the environment of the fork, with `model_all` and `vars` of the forked run."""
        fork, kept = self.fork, self.point.root.definitions
        agents = describe_agents(self.snapshot, self.request.overrides, kept, fork.changed)
        env = replace(env, agents=agents, fork=fork)
        if kept is None:
            return env
        own = Overrides(model_all=kept.model_all or None, vars=kept.vars, timeout=None)
        return adapt(env, own)

    def make_job(self) -> tuple[Agent, Job]:
        root, options = self.point.root, self.request.overrides
        agent = self.restored.root
        job = Job(
            agent, root.task, root.prompt, Limits(seconds=options.timeout),
            history=tuple(self.point.history), output=find_output(root.definitions),
            pictures=root.pictures,
        )  # fmt: skip
        if self.point.run.id == root.id:
            agent, job = self._adapt(agent, job)
        else:
            agent = apply_overrides(agent, Overrides(model_all=options.model_all, timeout=None))
        agent = replace(agent, warnings=(*agent.warnings, *self.restored.warnings))
        return agent, self.fork.open(root.id, replace(job, agent=agent))

    async def check_place(self, scope: RunScope) -> None:
        """Checks that the forked sub-agent, if any, can start with the fork's changes."""
        run = self.point.run
        if run.id == self.point.root.id:
            return
        runs = {one.id: one for one in self.point.root.walk()}
        agent, id = None, run.id
        while agent is None and id != self.point.root.id:  # a copy has the agent of its caller
            agent = self.restored.changed.get(id) or self.restored.agents.get(runs[id].agent)
            id = id.rpartition(".")[0]
        agent = agent or self.restored.root
        agent, job = self._adapt(agent, Job(agent, run.task, run.prompt, pictures=run.pictures))
        env = scope.env
        agent = confine(env.as_child(agent), Path(env.workdir), env.workdir, env.defined)
        below = scope.child(
            agent, job, env, id="0.check", call_id=run.call_id, ahead=scope.clock.ahead
        )
        await make_plan(below, job)

    def _adapt(self, agent: Agent, job: Job) -> tuple[Agent, Job]:
        point, options = self.point, self.request.overrides
        agent = apply_overrides(self.given or agent, options)
        if point.system_prompt is not None:
            agent = replace(agent, system_prompt=point.system_prompt)
        job = replace(job, mode=options.mode or job.mode, output=options.output or job.output)
        if point.prompt is not None and point.turn == 1:
            text, pictures = point.prompt
            prompt = text
            for prefix in ("Task: ", ""):  # keeps the text that a tool put around the task
                if job.prompt.startswith(prefix + job.task):
                    text = text.removeprefix(prefix)
                    after = job.prompt.removeprefix(prefix + job.task)
                    prompt = f"{prefix}{text}{after}"
                    break
            job = replace(job, task=text, prompt=prompt, pictures=pictures)
        return agent, job


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of one agent with one model in a session, both as root and as sub-agent."""

    runs: int = 0
    turns: int = 0
    usage: Usage = Usage()

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.runs + other.runs, self.turns + other.turns, self.usage + other.usage)


@dataclass
class Session:
    """The agents, results and settings of one Python process, such as a notebook."""

    agents: dict[str, Agent] = field(default_factory=dict)
    """Agents defined in this session, which take precedence over agent files."""
    conversations: dict[str, RunResult] = field(default_factory=dict)
    """Agent name → the agent's last root run in this session, which `--continue` continues."""
    last: RunResult | None = None
    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)
    """(agent, model) → usage of the agent's runs with the model, in order of first use."""
    texts: dict[str, str] = field(default_factory=dict)
    """TOML sources of agents that were defined in this session as TOML, keyed by name."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Option → value for runs that do not set the option; set with `%config AxeMagics`."""
    keeps_history: bool = True
    """False if runs are not recorded in the history; set with `%config AxeMagics`."""
    above: MapRecorder | None = None
    """Recorder of the map that this session's runs belong to; None outside a map."""
    cassette: Cassette | None = None
    """Cassette that records and replays the session's exchanges; None if none is in use."""
    cassette_problem: ConfigError | None = None
    """Why a requested cassette cannot be used; if set, no run starts, to avoid paid requests."""
    budget: Budget = field(default_factory=Budget)
    """Dollars that the session's runs have spent, and the spending limit."""
    hosts: dict[str, None] = field(default_factory=dict)
    """Hosts that the user has allowed agents to reach in this session (D-50)."""
    tools: ToolTable = field(default_factory=lambda: SESSION)
    """Tools created with `@axe_nb.tool`, shared by all sessions of the process."""
    scripts: dict[str, ScriptFunction] = field(default_factory=lambda: functions)
    """Name → model created with `@axe_nb.script`, shared by all sessions of the process."""
    servers: Servers = field(default_factory=Servers, repr=False)
    """MCP servers that were started; they are stopped when the process ends."""
    meter: UsageMeter | None = None
    """Usage meter for all runs of this session, with caps; None if there are no caps."""
    in_flight: InFlight | None = None
    """Request slots shared by all runs of this session; None if each run tree has its own slots."""
    handed: tuple[Tool, ...] = ()
    """Tools sent with a job from another process; they replace tools of the same name."""
    _remembering: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def define(self, agent: Agent, text: str = "") -> Agent:
        """Registers an agent, with its TOML source, for `%%axe`, `run` and `sub_agents`."""
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
        return self.agents.get(name) or Agent.from_file(name, agents_dir)

    def use_cassette(self, cassette: Cassette | None) -> None:
        """Replaces the cassette. Saves the previous cassette now, and the new one at exit."""
        if self.cassette is not None:
            self.cassette.save()
            atexit.unregister(self.cassette.save_quietly)
        self.cassette, self.cassette_problem = cassette, None
        if cassette is not None:
            atexit.register(cassette.save_quietly)

    def open_cassette(self) -> Cassette | None:
        """Returns the session's cassette. By default, opens the one in `AXE_CASSETTE`, if set."""
        if self.cassette_problem is not None:
            raise ConfigError(self.cassette_problem.message, hint=self.cassette_problem.hint)
        if self.cassette is None and (path := os.environ.get("AXE_CASSETTE")):
            from axe_nb.recording.cassette import Cassette

            self.use_cassette(Cassette(path))
        return self.cassette

    def start(self, request: RunRequest, on_claim: Callable[[], None] | None = None) -> RunHandle:
        """Creates a run's handle; `on_claim` is called once the run has claimed its recordings."""
        traced_in = None
        if "opentelemetry.trace" in sys.modules:  # imported if the program traces
            from opentelemetry import context

            traced_in = context.get_current()
        make_plan = partial(self.plan, traced_in=traced_in, on_claim=on_claim)
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
        """Returns the plan of a run without calling a model. If `is_dry`, no key is needed."""
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
        recorder = None
        if self.keeps_history and not find_reason_against():
            recorder = Recorder(request.history, tape, self.above)

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
                if len(asked) != len(one.log):  # turns without a request to a model do not count
                    own = Spent(int(bool(asked)), len(asked), sum(asked, Usage()))
                self.spent[key] = self.spent.get(key, Spent()) + own

    def conversation(self, agent: str | None, agents_dir: str | None = None) -> RunResult:
        """Returns an agent's last run in this session; None stands for runs without an agent."""
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
            hint=suggestion(agent, self.conversations)
            or f"run it without -c, or find its id with %axe history {agent}, and continue it with "
            f'axe_nb.run("{agent}", "…", continue_from=axe_nb.load(ID))',
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
        """Returns the job and `Env` for a child that `axe_nb.run` starts inside a tool (D-57)."""
        folder = request.overrides.agents_dir
        if folder is not None:
            env.sources.update(find_source_dirs(folder))
            _, snapshot = self._read_settings(folder, "nothing" if env.cassette else "key")
            snapshot.defined = dict(env.defined)  # the agents of the start, not the current ones
            env = replace(env, agents=snapshot.source)
        below = adapt(env, request.overrides)
        stepper = request.overrides.make_stepper()
        if below.stepper is None and stepper is not None:
            below = replace(below, stepper=stepper)
            below.check_can_step()
        agent, job = make_job(request, below)
        check_names(request, agent, below)
        return job, below


session = Session(agents=DEFINED, defaults=DEFAULTS)
