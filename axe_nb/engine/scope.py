"""The position of a run in its tree, and the state it shares with the other runs.

Source: D-1, D-3, D-10, D-19, D-59; house style §3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.definitions import Definitions
from axe_nb.agents.prompt import Briefing, brief
from axe_nb.agents.servers import McpServer
from axe_nb.clock import Clock
from axe_nb.engine.budget import Purse
from axe_nb.engine.origin import Origin
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.questions import AskPerson, Question
from axe_nb.engine.recorder import Recorder
from axe_nb.engine.stepper import Stepper
from axe_nb.engine.tape import Tape
from axe_nb.engine.toolset import DepthLimit
from axe_nb.events import Emit, PersonAsked
from axe_nb.limits import InFlight, Limits, RunStopped, UsageMeter
from axe_nb.mcp_servers.servers import Servers
from axe_nb.messages import ToolCall
from axe_nb.prices import Prices
from axe_nb.providers.protocol import Provider
from axe_nb.results import name_run
from axe_nb.threads import in_thread
from axe_nb.times import Kind, Lap
from axe_nb.tools.kept_files import KeptFiles
from axe_nb.tools.tool import Job, Tool


async def brief_now(agent: Agent) -> Briefing:
    """Reads the agent's own context from disk.

    Raises:
        ConfigError: as for `brief`.
    """
    return await in_thread(brief, agent) if agent.files or agent.skill else brief(agent)


@dataclass(slots=True)
class Halt:
    """Set from any thread, at once, when the tree is stopped; cancelling reaches runs later."""

    is_set: bool = False
    """True if no further request may be sent."""
    stop: RunStopped | None = None
    """Ends every run of the tree: the person stopped it at a prompt, or a step function failed."""

    def end_tree(self, stop: RunStopped) -> RunStopped:
        """Ends all runs, each as soon as it can; returns the reason, to be raised."""
        self.is_set, self.stop = True, self.stop or stop
        return self.stop

    def check(self) -> None:
        """Checks that the tree may go on.

        Raises:
            RunStopped: it may not.
        """
        if self.stop is not None:
            raise RunStopped(self.stop.status, str(self.stop))
        if self.is_set:
            raise RunStopped("cancelled", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """The source of the agents that a tree can reach, with their contexts and models."""

    load: Callable[[str], Agent]
    """Name → agent. Raises ConfigError."""
    provider_for: Callable[[str, str], Provider]
    """(provider, model) → the provider; its connections are shared. Raises ConfigError."""
    knows: Callable[[str], bool] = lambda name: True
    """False if there is no agent of that name, without a search for the reason."""
    brief: Callable[[Agent], Awaitable[Briefing]] = brief_now
    """Agent → its own context. Raises ConfigError."""
    describe: Callable[[Agent, Mapping[str, Agent]], Definitions | None] = lambda root, changed: (
        None
    )
    """(root, run id → agent that a fork changed) → the agents of the tree, to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Dependencies shared by a whole tree of runs."""

    agents: AgentSource
    emit: Emit
    tools: Sequence[Tool] = ()
    """Tools passed to this run as objects, in addition to those found by name."""
    ask_person: AskPerson | None = None
    """Asks the user; None = no one can be prompted."""
    describe: Callable[[Question], PersonAsked] = lambda asked: PersonAsked("", asked.call_id)
    """Question → its event, for the views."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a question of the tree is open: they come one at a time."""
    stepper: Stepper | None = None
    """Steps through the tree; None = it runs without pauses."""
    as_child: Callable[[Agent], Agent] = lambda agent: agent
    """Agent → the agent as a child in this tree (`--model-all`)."""
    retries: int | None = None
    """Retries of each request of the tree that fails for now; None = as its agent says."""
    default_retries: int = 0
    """Those of agents that set none."""
    requires_sandbox: bool = False
    """True if no command and no MCP server of the tree may run without a sandbox."""
    nest: Callable[[Any, Env], tuple[Job, Env]] | None = None
    """(request of `axe_nb.run` in a tool, this) → the child's job, and the dependencies of the
    child and its descendants (D-57). Raises ConfigError. None = the run belongs to no session."""
    workdir: str = ""
    """Real workdir of the root, which the workdirs of children lie in; empty = anywhere (D-53)."""
    defined: Mapping[str, Agent] = field(default_factory=dict)
    """Name → agent of the session when the root started, whatever source a nested run has."""
    hosts: dict[str, None] = field(default_factory=dict)
    """Hosts that the person allowed in this session; answers add to it (D-50)."""
    servers: Servers = field(default_factory=Servers)
    """The MCP servers of the session."""
    server_tables: Mapping[str, McpServer] = field(default_factory=dict)
    """Name → table of the MCP servers in the settings, as they were when the root started."""
    streams: bool = False
    """True if replies are shown as they arrive: someone watches the tree, and its root does not
    forbid it."""
    wants_whole: bool = False
    """True if the root asks for whole replies."""
    tape: Tape | None = None
    """Records the tree's exchanges and decisions, or plays recorded ones; None = neither."""
    origin: Origin | None = None
    """The run that the tree forks; None = the tree is not a fork."""
    recorder: Recorder | None = None
    """Keeps the tree in the history; None = it is not kept."""
    kept: KeptFiles = field(default_factory=KeptFiles)
    """Keeps the files that tools of the tree change."""
    prices: Prices = field(default_factory=Prices)
    """The prices of models."""
    purse: Purse = field(default_factory=Purse)
    """Counts what is spent, within the budget of the session."""
    halt: Halt = field(default_factory=Halt)
    """Stops the tree's requests."""
    sources: set[Path] = field(default_factory=set)
    """Real files and folders that the tree was loaded from; plans add to it (D-83)."""

    def for_root(self, agent: Agent, *, streams: bool) -> Env:
        """Returns these for the tree of an agent, which may be shown as its replies arrive."""
        return replace(self, streams=streams and agent.stream, wants_whole=not agent.stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """Position and limits of one run in the tree."""

    env: Env
    agent: Agent
    """The agent to run, with this run's overrides applied."""
    limits: Limits
    policy: PermissionPolicy
    meter: UsageMeter
    in_flight: InFlight
    depth_limit: DepthLimit
    clock: Clock
    id: str = "0"
    """Dotted path: `0` is the root, `0.2` the child of its second call (D-59)."""
    parent: str = ""
    """Id of the parent run; empty for a root."""
    call_id: str = ""
    """Id of the parent's call that started the run; empty for a root."""
    depth: int = 0
    began: float = 0.0
    """Seconds since the root began."""
    times: list[Lap] = field(default_factory=list)
    """The times of its requests, calls and waits that are over."""
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Turn, and number in the turn, of each call that is being made, by id."""

    @property
    def seconds(self) -> float:
        """Seconds since the root began, virtual time included."""
        return self.began + self.clock.elapsed

    @property
    def retries(self) -> int:
        """Retries of each request of the run that fails for now."""
        if self.env.retries is not None:
            return self.env.retries
        own = self.agent.retry.max_retries
        return self.env.default_retries if own is None else own

    def begin_calls(self, turn: int, calls: Iterable[ToolCall]) -> None:
        """Has `note` know the calls of a turn."""
        self.calls.clear()
        self.calls.update((call.id, (turn, n)) for n, call in enumerate(calls, 1))

    def note(self, kind: Kind, began: float, turn: int = 0, call: str = "") -> None:
        """Notes the time of what ends now: a request of a turn, or a call by its id."""
        turn, number = self.calls.get(call, (turn, 0))
        self.times.append(Lap(kind, round(began, 6), round(self.seconds, 6), turn, number))

    @property
    def name(self) -> str:
        """The run's name, for people."""
        return name_run(self.agent.name, self.agent.model)

    @classmethod
    def root(
        cls,
        agent: Agent,
        limits: Limits,
        env: Env,
        clock: Clock,
        *,
        has_mode: bool = False,
        above: UsageMeter | None = None,
        in_flight: InFlight | None = None,
    ) -> RunScope:
        """The scope of a root run, whose clock has started.

        Args:
            agent: the agent, with this run's overrides applied.
            limits: those of the run.
            env: dependencies of the tree.
            clock: its clock.
            has_mode: True if an option of the run replaced the agent's mode.
            above: counts this tree and others; None = it is counted alone.
            in_flight: slots that this tree shares with others; None = it has its own.
        """
        most = agent.limits.max_in_flight
        return cls(
            env=env,
            agent=agent,
            limits=limits,
            policy=PermissionPolicy(agent, agent.mode, mode_by="option" if has_mode else None),
            meter=UsageMeter(
                name_run(agent.name, agent.model), agent.limits, above, path=agent.path
            ),
            in_flight=in_flight.below(most) if in_flight else InFlight.of(most),
            depth_limit=DepthLimit(root=agent.sub_agents_config.max_depth),
            clock=clock,
        )

    def child(
        self,
        agent: Agent,
        job: Job,
        env: Env,
        *,
        call_id: str,
        key: str,
        ahead: float,
        is_admitted: bool = False,
    ) -> RunScope:
        """The scope of a child; its clock starts now.

        Args:
            agent: the child.
            job: the child's task and limits.
            env: dependencies of the child.
            call_id: id of the call that starts the child.
            key: the last part of the child's id: the number of its call, with a suffix if the call
                has several children.
            ahead: virtual seconds already elapsed.
            is_admitted: True if no cap refuses its first request.

        Raises:
            RunStopped: the tree may not send as many requests.
        """
        limits = job.limits.within(self.limits)
        clock = Clock(limits.seconds, self.clock.deadline, ahead, f"{self.id}.{key}")
        return RunScope(
            env=env,
            agent=agent,
            limits=limits,
            policy=PermissionPolicy.below(self.policy, agent, job.mode, is_copy=job.is_copy),
            meter=self.meter.child(
                name_run(agent.name, agent.model),
                agent.limits,
                agent.path,
                is_admitted=is_admitted,
            ),
            in_flight=self.in_flight.below(agent.limits.max_in_flight),
            depth_limit=self.depth_limit.lowered(agent),
            clock=clock,
            id=f"{self.id}.{key}",
            parent=self.id,
            call_id=call_id,
            depth=self.depth + 1,
            began=self.began + clock.started - self.clock.started,
        )
