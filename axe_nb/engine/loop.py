"""The only loop, and the only way to start a child (D-1).

Source: seed 000 §3.7-3.13 (A-7.*, A-8.*, A-10.*..A-13.*); D-2, D-8, D-10, D-15, D-17, D-31, D-35.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from axe_nb.agents.agent import Agent
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import NO_PROMPT, Briefing, brief
from axe_nb.budget import Stop, Tally
from axe_nb.clock import Clock, Deadline
from axe_nb.engine.conversation import Conversation
from axe_nb.engine.dispatch import Dispatch
from axe_nb.engine.permissions import Consult, Permit
from axe_nb.engine.toolset import Ceiling, Toolset, assemble
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.events import Emit, RunFinished, RunResult, RunStarted, Status
from axe_nb.messages import Message, Response, ToolCall, ToolResult
from axe_nb.providers.base import Provider
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import Job, Tool

_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("axe_nb_inside", default=False)


def is_inside() -> bool:
    """Whether the caller was called by a run: by one of its tools or models."""
    return _inside.get()


@dataclass(frozen=True, slots=True)
class Env:
    """What a whole tree of runs shares."""

    load_agent: Callable[[str], Agent]
    """Name → agent. Raises ConfigError."""
    provider_for: Callable[[str, str], Provider]
    """(provider, model) -> the provider; its connections are shared. Raises ConfigError."""
    emit: Emit
    tools: Sequence[Tool] = ()
    """Tools handed to this run beside those that names stand for."""
    consult: Consult | None = None
    """Asks the person; None = nobody can be asked."""
    as_child: Callable[[Agent], Agent] = lambda agent: agent
    """Agent → as it runs below another one in this tree (`--model-all`)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree a run stands."""

    permit: Permit
    tally: Tally
    ceiling: Ceiling
    id: str = "0"
    parent: str = ""
    call_id: str = ""
    depth: int = 0

    @classmethod
    def root(cls, agent: Agent) -> Place:
        """The top of a tree."""
        return cls(
            Permit(agent, agent.mode),
            Tally(agent.name, agent.limits),
            Ceiling(root=agent.sub_agents_config.max_depth),
        )

    def below(self, call: ToolCall, key: str, agent: Agent, job: Job) -> Place:
        """The place of a child; `key` tells it from its siblings."""
        return Place(
            Permit.below(self.permit, agent, job.mode, is_copy=job.is_copy),
            Tally(agent.name, agent.limits, self.tally),
            self.ceiling.lowered(agent),
            f"{self.id}.{key}",
            self.id,
            call.id,
            self.depth + 1,
        )


@dataclass
class Run:
    """One agent at work. Made by `prepare`, which settles all that can be wrong beforehand."""

    agent: Agent
    env: Env
    place: Place
    provider: Provider
    model: str
    """Without the provider."""
    briefing: Briefing
    toolset: Toolset
    result: RunResult | None = field(default=None, init=False)
    """Set when the run has ended, also when it was cancelled."""
    children: dict[tuple[int, int], Run] = field(default_factory=dict, init=False)
    """(number of the call, number within the call) → child, whatever order they end in."""

    def __post_init__(self) -> None:
        self.warnings = [*self.agent.warnings, *self.briefing.warnings]
        self._delegations: dict[int, int] = {}
        self._ahead: dict[int, float] = {}  # call → virtual seconds when its last child ended
        cap = self.agent.sub_agents_config.max_concurrent
        self._slots = asyncio.Semaphore(cap) if cap else nullcontext()

    @classmethod
    async def prepare(cls, agent: Agent, env: Env, place: Place | None = None) -> Run:
        """A run that has sent nothing yet.

        Raises:
            ConfigError: bad model, no key, no skill, bad glob, unknown tool.
        """
        place = place or Place.root(agent)
        provider_name, model = parse_model(agent.model)
        provider = env.provider_for(provider_name, model)
        briefing = await in_thread(brief, agent) if agent.files or agent.skill else brief(agent)
        toolset = assemble(agent, place.depth, place.ceiling, place.permit, env.tools)
        return cls(agent, env, place, provider, model, briefing, toolset)

    async def execute(
        self,
        job: Job,
        *,
        above: Deadline | None = None,
        ahead: float = 0.0,
        history: Sequence[Message] = (),
    ) -> RunResult:
        """The run's result, however it ends; only cancelling raises, with `result` set before.

        Args:
            job: what is asked, and within which limits.
            above: the parent's deadline; None = no limit above this run's own.
            ahead: virtual seconds that have passed already.
            history: an earlier conversation to go on with.
        """
        self._begin(job, above, ahead, history)
        status: Status = "completed"
        error: str | None = None
        cause: AxeError | None = None
        inside = _inside.set(True)
        try:
            async with self.clock.scope():
                status, error = await self._converse()
        except Stop as stop:
            status, error = stop.status, str(stop)
        except TimeoutError:
            status, error = "timeout", str(self.clock.deadline)
        except ProviderError as failure:
            status, error, cause = "error", str(failure), failure
        except asyncio.CancelledError:
            late = self.clock.is_late
            status = "timeout" if late else "cancelled"
            self._end(status, str(self.clock.deadline) if late else status)
            raise
        except BaseException as fault:
            self._end("error", f"{type(fault).__name__}: {fault}")
            raise
        finally:
            _inside.reset(inside)
        return self._end(status, error, cause)

    def _begin(
        self, job: Job, above: Deadline | None, ahead: float, history: Sequence[Message]
    ) -> None:
        place, agent, env = self.place, self.agent, self.env
        self.job = job
        self.prompt = job.prompt if job.prompt.strip() else NO_PROMPT
        self.clock = Clock(job.limits.seconds, above, ahead)
        self.conversation = Conversation(
            place.id, agent, self.provider, self.model, self.briefing.system, env.emit,
            place.tally, self.clock, history,
        )  # fmt: skip
        self.dispatch = Dispatch(
            place.id, agent, place.depth, self.toolset, self.briefing.workdir, place.permit,
            env.consult, env.emit, self.clock, self._start, job.limits,
        )  # fmt: skip
        self.conversation.say(self.prompt)
        env.emit(
            RunStarted(
                place.id, place.parent, place.call_id, agent.name, agent.model, place.depth,
                job.task or self.prompt, self.prompt,
            )
        )  # fmt: skip

    async def _converse(self) -> tuple[Status, str | None]:
        """Turn after turn to the end, then the closing question where the job has one (D-17)."""
        status: Status = "completed"
        error: str | None = None
        try:
            while await self._turn():
                pass
        except Stop as stop:
            if not self.job.closing or stop.status == "cancelled":
                raise
            status, error = stop.status, str(stop)
        if self.job.closing:
            await self._close(self.job.closing)
        return status, error

    async def _turn(self) -> bool:
        """One request, its response, and its calls run; whether there is more to say (A-8.1).

        Raises:
            Stop: a limit is reached.
        """
        talk, limits = self.conversation, self.job.limits
        response = await talk.turn(self.toolset.offered, with_calls=self.toolset.is_needed)
        calls = response.tool_calls if self.toolset.is_needed else ()
        if not calls:
            talk.text = response.content
            if response.is_cut:
                self.warnings.append(f"{_cut(response)}; raise params.max_tokens")
            talk.finish_turn(response)
            return False
        if stop := self._refusal(response):
            talk.finish_turn(response)
            raise stop
        left = None if limits.tool_calls is None else limits.tool_calls - self.dispatch.calls
        results: list[ToolResult | None] = [None] * len(calls)
        try:
            await self.dispatch.run_all(calls, results, left)
        finally:
            talk.finish_turn(response, tuple(r for r in results if r is not None))
        if left is not None and len(calls) > left:
            most = limits.tool_calls
            raise Stop("max_tool_calls", f"agent exceeded its budget of {most} tool calls")
        return True

    def _refusal(self, response: Response) -> Stop | None:
        """Why the calls of a response are not run at all; None where they are."""
        limits = self.job.limits
        if response.is_cut:
            cut = f"{_cut(response)} before its tool calls were whole; raise params.max_tokens"
            return Stop("max_tokens", cut)
        if self.conversation.turns >= limits.turns:
            turns = f"agent exceeded maximum conversation turns ({limits.turns})"
            return Stop("max_turns", turns)
        if limits.tokens is not None and self.conversation.context_size(response) > limits.tokens:
            return Stop("max_tokens", f"agent exceeded its budget of {limits.tokens} tokens")
        return None

    async def _close(self, question: str) -> None:
        """Asks for the summary: without tools, in the same conversation; calls are dropped."""
        talk = self.conversation
        before = talk.text
        talk.say(question)
        response = await talk.turn((), with_calls=False, closing=True)
        talk.text = response.content if response.content.strip() else before
        talk.finish_turn(response, closing=True)

    async def _start(self, call: ToolCall, number: int, ahead: float, job: Job) -> RunResult:
        """Runs a child to its end.

        Raises:
            ConfigError: it cannot begin.
        """
        nth = self._delegations.get(number, 0)
        self._delegations[number] = nth + 1
        agent = self._named(job.agent) if isinstance(job.agent, str) else job.agent
        agent = self.env.as_child(agent)
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quote(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        key = f"{number}-{nth + 1}" if nth else str(number)
        child = await Run.prepare(agent, self.env, self.place.below(call, key, agent, job))
        self.children[number, nth] = child
        job = replace(job, limits=job.limits.within(self.job.limits))
        async with self._slots:
            ahead = max(ahead, self._ahead.get(number, ahead))
            try:
                return await child.execute(job, above=self.clock.deadline, ahead=ahead)
            finally:
                self._ahead[number] = max(child.clock.ahead, self._ahead.get(number, ahead))
                self.clock.ahead = max(self.clock.ahead, child.clock.ahead)

    def _named(self, name: str) -> Agent:
        try:
            return self.env.load_agent(name)
        except ConfigError as error:
            raise ConfigError(f"failed to load agent {quote(name)}: {error}") from None

    def _end(self, status: Status, error: str | None, cause: AxeError | None = None) -> RunResult:
        place, talk, did = self.place, self.conversation, self.dispatch
        runs = (self.children[key] for key in sorted(self.children))
        result = RunResult(
            status=status, text=talk.text, agent=self.agent.name, model=self.agent.model,
            error=error, turns=talk.turns, tool_calls=did.calls,
            children=tuple(r.result for r in runs if r.result), usage=talk.usage,
            stop_reason=talk.stop_reason, duration_ms=round(self.clock.elapsed * 1000),
            messages=tuple(talk.messages), files_read=tuple(did.ledger.files_read),
            files_modified=tuple(did.ledger.files_modified), warnings=tuple(self.warnings),
            log=tuple(talk.log), id=place.id, call_id=place.call_id, prompt=self.prompt,
            task=self.job.task or self.prompt, cause=cause,
        )  # fmt: skip
        if place.parent:
            result = result.with_metadata({"depth": str(place.depth), **self.job.notes(result)})
        self.result = result
        self.env.emit(RunFinished(place.id, result))
        return result


def _cut(response: Response) -> str:
    return f"the token limit cut the reply ({response.stop_reason})"
