"""Sessions: builds runs from agents, settings and connections, and remembers their results.

Source: product.md "Agent files" and "Python"; A-7.3-9, A-7.3-10, D-25.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import DEFINED, Agent
from axe_nb.agents.agent_files import check_agents_dir
from axe_nb.agents.config import Config
from axe_nb.agents.names import check_name
from axe_nb.agents.trust import check_trust
from axe_nb.clock import Clock
from axe_nb.commands.overrides import Overrides, shown_value
from axe_nb.engine.confine import real_workdir
from axe_nb.engine.permissions import AskPerson
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.recorder import Recorder
from axe_nb.engine.scope import Env, RunScope
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, Event, discard
from axe_nb.imports import protect_imports
from axe_nb.limits import Limits
from axe_nb.make_provider import provider_for
from axe_nb.messages import Usage
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.modes import find_mode
from axe_nb.recording.tape import RootTape
from axe_nb.results import RunResult
from axe_nb.run_history.recorder import begin_recorder
from axe_nb.scripting.lookup import ScriptFunction, functions
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.snapshot import Snapshot
from axe_nb.text import quote, suggestion
from axe_nb.toolbox import SESSION
from axe_nb.tools.registry import ToolTable
from axe_nb.tools.tool import Job

CASSETTE = "AXE_CASSETTE"
"""Environment variable with the path of a cassette for the whole process."""

SIMPLE = [
    option.name
    for option in fields(Overrides)
    if option.name in {key.name for key in fields(Agent)} - {"params", "tools"}
]
"""Options that replace the agent's key of the same name."""


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
    """False if runs are not kept in the history; written by `%config AxeMagics`."""
    cassette: Cassette | None = None
    """Records the exchanges of the session's runs, and plays them; None = neither."""
    hosts: dict[str, None] = field(default_factory=dict)
    """Hosts that the person allowed the agents to reach, until the session ends (D-50)."""
    tools: ToolTable = field(default_factory=lambda: SESSION)
    """Tools made by `@axe_nb.tool`, shared by the whole process: decorators know no session."""
    scripts: dict[str, ScriptFunction] = field(default_factory=lambda: functions)
    """Name → model made by `@axe_nb.script`; shared like the tools."""
    _remembering: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the whole state, for `restore`."""
        return {
            "last": self.last,
            **{name: table.copy() for name, table in self._get_tables().items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restores a snapshot in place, so that other references to the tables see it too."""
        self.last = snapshot["last"]
        for name, table in self._get_tables().items():
            table.clear()
            table.update(snapshot[name])

    def clear(self) -> None:
        """Removes all definitions and results."""
        self.last = None
        for table in self._get_tables().values():
            table.clear()

    def _get_tables(self) -> dict[str, dict[str, Any]]:
        tables = {key.name: getattr(self, key.name) for key in fields(self)}
        tables["tools"] = self.tools.tools
        return {name: table for name, table in tables.items() if isinstance(table, dict)}

    def overrides(self, given: Mapping[str, Any]) -> Overrides:
        """The overrides given as keywords, on top of this session's defaults.

        Raises:
            ConfigError: an option is unknown, or its value is of the wrong type.
        """
        return Overrides.of(given, self.defaults)

    def define(self, agent: Agent, text: str = "") -> Agent:
        """Registers an agent by name, for `%%axe`, `run` and other agents' `sub_agents`.

        Args:
            agent: the agent.
            text: its TOML source, if any.
        """
        if not isinstance(agent, Agent):
            raise ConfigError(
                f"define takes an Agent, not {shown_value(agent)}",
                hint='for example axe_nb.define(axe_nb.Agent(name="lead", model="provider/model"))',
            )
        check_name(agent.name)
        self.agents[agent.name] = agent
        self.texts[agent.name] = text
        return agent

    def forget(self, name: str) -> None:
        """Reverses `define`: a file of that name is used again."""
        self.agents.pop(name, None)
        self.texts.pop(name, None)

    def find(self, name: str, agents_dir: str | None = None) -> Agent:
        """The agent of that name, from this session or else from a file.

        Raises:
            ConfigError: no such agent exists, or its file is invalid.
        """
        return self.agents.get(name) or Agent.from_file(name, agents_dir)

    def use_cassette(self, cassette: Cassette | None) -> None:
        """Replaces the cassette; the one before is written, and so is this one at the end."""
        if self.cassette is not None:
            self.cassette.save()
            atexit.unregister(self.cassette.save_quietly)
        self.cassette = cassette
        if cassette is not None:
            atexit.register(cassette.save_quietly)

    def start(self, request: RunRequest) -> RunHandle:
        """Creates the handle of a run; this session remembers its result."""
        return RunHandle(request, self.plan, self.remember)

    async def plan(
        self,
        request: RunRequest,
        emit: Emit = discard,
        ask_person: AskPerson | None = None,
        streams: bool = False,
    ) -> Plan:
        """Resolves a run without sending anything; a dry run prints the plan.

        Args:
            request: the requested run.
            emit: receives the events.
            ask_person: asks the user; None = no one can be prompted.
            streams: True if replies are shown as they arrive.

        Raises:
            ConfigError: invalid configuration.
        """
        clock = Clock(request.overrides.timeout)
        protect_imports()
        tape = self._begin_tape(can_ask=ask_person is not None)
        snapshot = self._begin_snapshot(request.overrides.agents_dir, needs_keys=tape is None)
        recorder = begin_recorder(request.continue_from, tape) if self.keeps_history else None
        env = Env(
            agents=snapshot.source,
            defined=snapshot.defined,
            emit=_record(recorder, emit),
            recorder=recorder,
            ask_person=ask_person,
            tape=tape,
            nest=self._nest,
            hosts=self.hosts,
            sources=_find_source_dirs(request.overrides.agents_dir),
        )
        env = _adapt(env, request.overrides)
        agent, job = _make_job(request, env)
        env = replace(env, workdir=real_workdir(agent), streams=streams and agent.stream)
        scope = RunScope.root(agent, job.limits, env, clock, has_mode=job.mode is not None)
        await snapshot.take(scope)
        return await make_plan(scope, job)

    def remember(self, result: RunResult) -> None:
        """Records a finished root run: its result, its conversation and its usage."""
        with self._remembering:
            self._remember(result)

    def _remember(self, result: RunResult) -> None:
        self.last = self.conversations[result.agent] = result
        for one in result.walk():
            key = (one.agent, one.model)
            own = Spent(1, one.turns, one.usage)
            self.spent[key] = self.spent.get(key, Spent()) + own

    def conversation(self, agent: str, agents_dir: str | None = None) -> RunResult:
        """The agent's last run in this session.

        Raises:
            ConfigError: the agent has not run yet.
        """
        names = [agent]
        with contextlib.suppress(ConfigError):
            names.append(self.find(agent, agents_dir).name)  # its file may set another name (D-26)
        for name in names:
            if name in self.conversations:
                return self.conversations[name]
        raise ConfigError(
            f"nothing to continue: agent {quote(agent)} has not run here",
            hint=suggestion(agent, self.conversations) or "run it once without -c",
        )

    def _begin_tape(self, *, can_ask: bool) -> RootTape | None:
        """The tape of a root run; None if there is no cassette, or it is not used."""
        if self.cassette is None and (path := os.environ.get(CASSETTE)):
            self.use_cassette(Cassette(path))
        if self.cassette is None:
            return None
        mode = find_mode(self.cassette.mode, can_ask=can_ask)
        return None if mode == "live" else RootTape(self.cassette, mode)

    def _begin_snapshot(self, agents_dir: str | None, *, needs_keys: bool = True) -> Snapshot:
        check_agents_dir(agents_dir)
        folders = _find_script_dirs(agents_dir)
        provider = provider_for(Config.load(), folders, needs_keys=needs_keys)
        return Snapshot(self.agents, agents_dir, provider)

    def _nest(self, request: RunRequest, env: Env) -> tuple[Job, Env]:
        """The job of a child that `axe_nb.run` starts in a tool, and its dependencies (D-57)."""
        folder = request.overrides.agents_dir
        if folder is not None:
            env.sources.update(_find_source_dirs(folder))
            snapshot = self._begin_snapshot(folder, needs_keys=env.tape is None)
            env = replace(env, agents=snapshot.source)
        below = _adapt(env, request.overrides)
        return _make_job(request, below)[1], below


def _record(recorder: Recorder | None, emit: Emit) -> Emit:
    """Returns what passes events to a recorder too."""
    if recorder is None:
        return emit

    def pass_to_both(event: Event) -> None:
        recorder.event(event)
        emit(event)

    return pass_to_both


def _adapt(env: Env, overrides: Overrides) -> Env:
    """The dependencies of a run with these overrides, and of its descendants."""
    as_child = env.as_child
    return replace(
        env,
        tools=(*env.tools, *(t for t in overrides.tools or () if not isinstance(t, str))),
        as_child=lambda child: as_child(_with_model(child, overrides.model_all)),
    )


def _make_job(request: RunRequest, env: Env) -> tuple[Agent, Job]:
    """The agent of a requested run, with the run's overrides applied, and its job."""
    overrides, earlier = request.overrides, request.continue_from
    found = env.agents.load(request.agent) if isinstance(request.agent, str) else request.agent
    check_trust(found.path, found.text, found.name)
    agent = apply_overrides(found, overrides)
    history = earlier.messages if earlier else ()
    limits = Limits(seconds=overrides.timeout)
    job = Job(agent, request.prompt, request.prompt, limits, mode=overrides.mode, history=history)
    return agent, job


def apply_overrides(agent: Agent, overrides: Overrides) -> Agent:
    """The agent with this run's overrides applied."""
    changes = {name: value for name in SIMPLE if (value := getattr(overrides, name)) is not None}
    if overrides.model is None:
        agent = _with_model(agent, overrides.model_all)
    if overrides.tools is not None:
        changes["tools"] = overrides.tools  # tools that are objects travel with the agent
    if not changes and not overrides.params:
        return agent
    return replace(agent, params={**agent.params, **overrides.params}, **changes)


def _with_model(agent: Agent, model: str | None) -> Agent:
    return agent if model is None else replace(agent, model=model)


def _find_script_dirs(agents_dir: str | None) -> tuple[Path, ...]:
    """Script folders that belong to a given agents folder."""
    return (Path(agents_dir).expanduser().parent / "scripts",) if agents_dir else ()


def _find_source_dirs(agents_dir: str | None) -> set[Path]:
    """The given folder of agents and those of their scripts, which no tool changes unasked."""
    folders = (Path(agents_dir).expanduser(), *_find_script_dirs(agents_dir)) if agents_dir else ()
    return {Path(os.path.realpath(folder)) for folder in folders}


session = Session(agents=DEFINED)
"""The session of this process, used by every front end."""
