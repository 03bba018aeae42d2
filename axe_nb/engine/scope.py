"""The position of a run in its tree, and the state that all runs of the tree share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import McpServer
from axe_nb.agents.prompt import Briefing, Definitions
from axe_nb.engine.limits import Budget, Clock, InFlight, OverBudget, UsageMeter
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.person import ApprovalRequest, AskPerson, Decision, Question, Step, Stepper
from axe_nb.engine.replay import ForkedTree, PendingCall, Replay
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, Event, PersonAnswered, PersonAsked
from axe_nb.mcp_servers.servers import Servers
from axe_nb.messages.exchanges import Lap, LapKind
from axe_nb.providers.prices import Prices
from axe_nb.providers.protocol import Provider
from axe_nb.results import RunResult, RunStopped, Status, name_run
from axe_nb.text import format_dollars
from axe_nb.tools.kept_files import KeptFiles
from axe_nb.tools.tool import Job, Limits, Tool


def find_max_depth(tool: Tool, agents: Sequence[Agent]) -> int:
    """Returns the depth at which an agent can no longer use a delegation tool (A-9.3, D-3).

    `agents` are this agent and the agents above it. The root's `max_depth` applies to the whole
    tree, and agents below can only lower it.
    """
    own = [agent.sub_agents_config.max_depth for agent in agents]
    return min(own[-1] or tool.default_depth, *(depth or 5 for depth in own))


class Recorder(Protocol):
    """Records a root run and its tree; no method blocks or raises."""

    def event(self, event: Event) -> None: ...

    def problem(self) -> str:
        """Returns the reason why the run was not recorded, or an empty string. Called only once."""

    def finish(self, result: RunResult) -> None:
        """Records the result of the root run, whatever its status."""


@dataclass(slots=True)
class Halt:
    """Stop signal of a tree, which any thread can set and every run checks at each step."""

    stop: RunStopped | None = None
    """Error that ends every run of the tree as soon as possible; None until the tree is stopped."""
    cancel: Callable[[], None] = lambda: None
    """Cancels the runs of the tree; set by the tree's handle."""

    def end_tree(self, stop: RunStopped) -> RunStopped:
        """Ends all runs with `stop`, or with the error that was set earlier; returns that error."""
        self.stop = self.stop or stop
        return self.stop

    def check(self) -> None:
        if self.stop is not None:
            raise RunStopped(self.stop.status, str(self.stop))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """Functions that find the agents of a tree, their contexts and their providers."""

    load: Callable[[str], Agent]
    """Finds an agent by name. Raises ConfigError if the agent is missing or invalid."""
    provider_for: Callable[[str, str], Provider]
    """Returns the named provider for a model. Raises ConfigError if the provider is not set up."""
    knows: Callable[[str], bool] = lambda name: True
    """Returns False if no agent has this name, without the costly search of `load`."""
    brief: Callable[[Agent], Awaitable[Briefing]]
    """Reads an agent's context and assembles its system prompt. Raises ConfigError on failure."""
    describe: Callable[[Agent], Definitions | None] = lambda root: None
    """Returns the definitions of all agents in a root agent's tree, to save with the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Settings, services and state that the runs of a tree share."""

    agents: AgentSource
    emit: Emit
    tools: Sequence[Tool] = ()
    """Tools passed to this run as objects, in addition to tools found by name."""
    ask_person: AskPerson | None = None
    describe: Callable[[Question], PersonAsked] = lambda asked: PersonAsked("", asked.call_id)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock held while a run waits for the user, so that questions appear one at a time."""
    stepper: Stepper | None = None
    """Pauses the runs of the tree; None for a tree without pauses."""
    as_child: Callable[[Agent], Agent] = lambda agent: agent
    """Adapts an agent for use as a child in this tree, applying options such as `--model-all`."""
    retries: int | None = None
    """Maximum retries of each request in the tree; None to use the agent's setting."""
    default_retries: int = 0
    requires_sandbox: bool = False
    """True if commands and MCP servers of the tree must not run without a sandbox."""
    nest: Callable[[Any, Env], tuple[Job, Env]] | None = None
    """Returns the job and `Env` for a child that `axe_nb.run` starts inside a tool, given the run
    request and this `Env` (D-57). Raises ConfigError if the request is invalid. None if the run
    belongs to no session."""
    workdir: str = ""
    """Real path of the root's workdir, which children must not leave; empty for no limit (D-53)."""
    defined: Mapping[str, Agent] = field(default_factory=dict)
    """Agents defined in the session when the root run started, keyed by name."""
    hosts: dict[str, None] = field(default_factory=dict)
    """Hosts that the user has allowed agents to reach in this session (D-50)."""
    recorded_hosts: set[str] = field(default_factory=set)
    """Hosts that the agents of this tree may reach because a recorded answer allowed them."""
    servers: Servers = field(default_factory=Servers)
    server_tables: Mapping[str, McpServer] = field(default_factory=dict)
    """MCP servers in the settings when the root run started, keyed by name."""
    streams: bool = False
    """True if responses are shown as they arrive; the root agent and the view must support it."""
    wants_whole: bool = False
    cassette: Replay | None = None
    fork: ForkedTree | None = None
    recorder: Recorder | None = None
    kept: KeptFiles = field(default_factory=KeptFiles)
    prices: Prices = field(default_factory=Prices)
    budget: Budget = field(default_factory=Budget)
    halt: Halt = field(default_factory=Halt)
    sources: set[Path] = field(default_factory=set)
    """Real paths of the files and folders that the tree's agents were loaded from (D-83)."""

    @property
    def replays(self) -> Sequence[Replay]:
        """The replays that may answer instead of a model, a tool or the user."""
        return [one for one in (self.fork, self.cassette) if one is not None]

    @property
    def has_person(self) -> bool:
        """True if questions can be answered, by the user or from a recording."""
        return self.ask_person is not None or any(one.answers("question") for one in self.replays)

    def check_can_step(self) -> None:
        """Raises ConfigError if runs pause, but no user, step function or recording can decide."""
        stepper = self.stepper
        if stepper is None or stepper.function is not None or self.ask_person is not None:
            return
        if not any(one.answers("step") for one in self.replays):
            problem = "no one can be prompted here, and no decision is recorded"
            raise ConfigError(
                f"{stepper.flag} pauses the run: {problem}",
                hint="run it in a notebook or terminal, or pass step=function in Python",
            )

    def finish(self, status: Status) -> list[str]:
        """Ends the tree's recordings with the root's status; returns warnings about the tree."""
        told = (
            *(warning for replay in self.replays for warning in replay.finish(status)),
            self.recorder.problem() if self.recorder else "",
            *(self.stepper.describe_missed() if self.stepper else ()),
            *self.kept.describe_lost(),
        )
        return [warning for warning in told if warning]

    def walk_below(self, root: tuple[Agent, ...]) -> Iterator[tuple[Agent, ...]]:
        """Yields the sub-agents that an agent can reach, each with the agents above it."""
        waiting, seen = [(name, root) for name in root[0].sub_agents], set[str]()
        for name, above in waiting:  # the list grows
            if name in seen or not self.agents.knows(name):
                continue
            seen.add(name)
            with suppress(ConfigError):  # reported when the agent is started
                agents = (self.as_child(self.agents.load(name)), *above)
                waiting += [(below, agents) for below in agents[0].sub_agents]
                yield agents


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    env: Env
    agent: Agent
    limits: Limits
    policy: PermissionPolicy
    meter: UsageMeter
    in_flight: InFlight
    clock: Clock
    id: str = "0"
    """Dotted path: `0` is the root, `0.2` the child of the root's second call (D-59)."""
    parent: str = ""
    """Id of the parent run; empty for a root."""
    call_id: str = ""
    depth: int = 0
    began: float = 0.0
    times: list[Lap] = field(default_factory=list)
    """Start and end times of the run's finished requests, calls and waits."""

    @property
    def seconds(self) -> float:
        return self.began + self.clock.elapsed

    @property
    def origin(self) -> str:
        """The place in another tree that a root was forked from; empty for other runs."""
        fork = None if self.parent else self.env.fork
        return fork.place if fork else ""

    @property
    def undo_id(self) -> str:
        """Id of the old file contents stored for undo; empty for a child."""
        return "" if self.parent else self.env.kept.id

    def max_depth(self, tool: Tool) -> int:
        return find_max_depth(tool, self.policy.agents)

    @property
    def retries(self) -> int:
        if self.env.retries is not None:
            return self.env.retries
        own = self.agent.retry.max_retries
        return self.env.default_retries if own is None else own

    def admit(self, place: str) -> None:
        """Raises RunStopped if a cap refuses a turn, or the start of a child (turn 0).

        A recorded turn is admitted, unless a cap refused it in the recording and still applies.
        """
        replays = self.env.replays
        if any(replay.holds(place, self.meter.has_cap) for replay in replays):
            return
        try:
            self.meter.check()
        except RunStopped as stop:
            for replay in replays:
                replay.keep(place, stop)
            raise

    async def hold(self, dollars: float) -> float:
        """Reserves the price of a request in the session's budget, and returns the price.

        If the price would exceed the budget, the user is asked to raise the budget. Raises
        OverBudget if the budget stays too low.
        """
        budget = self.env.budget
        while not budget.try_hold(dollars):
            so_far = f"{format_dollars(budget.spent)} spent"
            so_far += f" and {format_dollars(budget.held)} in progress" if budget.held else ""
            why = (
                f"the budget of this notebook ({format_dollars(budget.amount)}) would be exceeded: "
                f"{so_far}, this request about {format_dollars(dollars)} or more"
            )
            missing = max(0.0, budget.spent + budget.held + dollars - budget.amount)
            higher = budget.amount + missing - missing % budget.step + budget.step
            step, is_raised = f"raise it with %axe budget {higher:.6g}", False
            if self.env.ask_person is not None:
                question = ApprovalRequest(
                    self.id, self.agent.name, "", {}, reason=why, raises=format_dollars(higher)
                )
                answer = await self.ask(question, lambda: budget.has_room(dollars))
                step, is_raised = f"you did not {step}", answer.choice == "yes"
            if not is_raised:
                raise self.env.halt.end_tree(OverBudget("error", f"{why}; {step}"))
            if not budget.has_room(dollars):
                budget.amount = max(budget.amount, higher)
        return dollars

    def note(
        self, kind: LapKind, began: float, turn: int = 0, call: PendingCall | None = None
    ) -> None:
        """Records the start and end of a request, call or wait that ends now."""
        turn, number = (call.turn, call.index + 1) if call and call.turn else (turn, 0)
        self.times.append(Lap(kind, round(began, 6), round(self.seconds, 6), turn, number))

    async def ask(
        self,
        question: Question,
        is_covered: Callable[[], bool] = lambda: False,
        call: PendingCall | None = None,
    ) -> Decision:
        """Returns the recorded answer to a question about this run, or else asks the user.

        If `is_covered` returns True, an earlier answer covers the question, and the answer is yes.
        The deadlines of the run and its ancestors are suspended while the question is open.
        Raises RunStopped if the user stops the tree or no one can be asked, and CassetteMiss if the
        answer must come from a recording, but is not recorded.
        """
        env, began = self.env, self.seconds
        is_asked = not (isinstance(question, Step) and env.stepper and env.stepper.function)
        asked = env.describe(question) if is_asked else PersonAsked("", question.call_id)
        try:
            with self.clock.paused():
                async with env.asking:
                    env.halt.check()
                    env.emit(replace(asked, run=self.id))
                    try:
                        decision = await self._find_answer(question, is_covered)
                    except RunStopped as stop:  # raised for a step function
                        raise env.halt.end_tree(stop) from None
                    env.emit(PersonAnswered(self.id, question.call_id, decision.choice))
        finally:
            self.note("person", began, call=call)
        if decision.choice == "stop":
            raise env.halt.end_tree(RunStopped("cancelled", "stopped by the user at a prompt"))
        return decision

    async def _find_answer(self, question: Question, is_covered: Callable[[], bool]) -> Decision:
        env, stepper = self.env, self.env.stepper
        if isinstance(question, Step) and stepper and stepper.is_over:  # by the previous answer
            return Decision("go")
        is_recorded = isinstance(question, Step) or not question.raises
        cassette = env.cassette if is_recorded else None
        found = await cassette.find(question) if cassette else None
        if isinstance(found, Decision):
            decision = found
        elif is_covered():
            decision = Decision("yes")
        elif isinstance(question, Step) and stepper and stepper.function:
            decision = await stepper.decide(question)
        elif env.ask_person is not None:
            decision = await env.ask_person(question)
        elif env.has_person:  # a recording without this answer
            decision = Decision("no", "no one can be asked, and no answer is recorded")
        else:
            flag = stepper.flag if stepper else "this"
            raise RunStopped("error", f"{flag} needs an answer, and no one can be prompted here")
        if cassette is not None:
            cassette.keep(question, decision)
        if stepper is not None and decision.choice == "end":
            stepper.is_over = True
        return decision

    @property
    def name(self) -> str:
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
        most = agent.limits.max_in_flight
        return cls(
            env=env, agent=agent, limits=limits,
            policy=PermissionPolicy(agent, agent.mode, mode_by="option" if has_mode else None),
            meter=UsageMeter(name_run(agent.name, agent.model), agent.limits, above, agent),
            in_flight=in_flight.below(most) if in_flight else InFlight(most),
            clock=clock,
        )  # fmt: skip

    def child(
        self, agent: Agent, job: Job, env: Env, *, id: str, call_id: str, ahead: float
    ) -> RunScope:
        """Creates the scope of a child that `admit` has accepted, and starts the child's clock.

        The child's limits, time, caps, depth and permissions are never laxer than those of this
        scope (D-1, D-3, D-10, D-19, D-47). `agents.prompt.confine` checks the child's workdir
        (D-53).
        """
        limits = job.limits.within(self.limits)
        clock = Clock(limits.seconds, self.clock, ahead, id)
        return RunScope(
            env=env, agent=agent, limits=limits,
            policy=self.policy.child(agent, job.mode, is_copy=job.is_copy),
            meter=self.meter.child(name_run(agent.name, agent.model), agent.limits, agent),
            in_flight=self.in_flight.below(agent.limits.max_in_flight),
            clock=clock, id=id, parent=self.id, call_id=call_id, depth=self.depth + 1,
            began=self.began + clock.started - self.clock.started,
        )  # fmt: skip
