"""The only loop, and the only way to start a child (D-1).

Source: seed 000 §3.7-3.13 (A-7.*, A-8.*, A-10.*..A-13.*); D-2, D-5, D-8, D-10, D-15, D-31, D-36.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from axe_nb.agent import Agent, parse_model, quoted
from axe_nb.budget import Deadline, Limits
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.events import (
    Emit,
    RunFinished,
    RunResult,
    RunStarted,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolCall,
    ToolResult,
    Usage,
    answered,
)
from axe_nb.prompt import NO_PROMPT, Briefing, brief
from axe_nb.providers.base import Provider
from axe_nb.threads import in_thread
from axe_nb.tool import Job, Ledger, ToolContext, ToolError, ToolOutput
from axe_nb.toolset import Ceiling, Toolset, assemble

RETRY_WAIT = 0.5
"""Seconds before the first retry where the server names none; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Seconds; no wait before a retry is longer, whatever a server asks."""


_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("axe_nb_inside", default=False)


def is_inside() -> bool:
    """Whether the caller was called by a run: by one of its tools or models."""
    return _inside.get()


@dataclass(frozen=True, slots=True)
class Env:
    """What a whole tree of runs shares."""

    load_agent: Callable[[str], Agent]
    """Name → agent. Raises ConfigError."""
    provider_for: Callable[[str], Provider]
    """Provider name → provider; its connections are shared. Raises ConfigError."""
    emit: Emit


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree a run stands."""

    id: str = "0"
    parent: str = ""
    call_id: str = ""
    depth: int = 0
    ceiling: Ceiling = Ceiling()


class _Stop(Exception):
    """Ends a conversation with another status than `completed`; never leaves this module."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status


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
    ahead: float = 0.0
    """Virtual seconds that script models on the virtual clock have taken so far (D-36)."""
    result: RunResult | None = field(default=None, init=False)
    """Set when the run has ended, also when it was cancelled."""
    messages: list[Message] = field(default_factory=list, init=False)
    log: list[Turn] = field(default_factory=list, init=False)
    children: dict[tuple[int, int], Run] = field(default_factory=dict, init=False)
    """(number of the call, number within the call) → child, whatever the order they end in."""
    text: str = field(default="", init=False)
    stop_reason: str = field(default="", init=False)
    turns: int = field(default=0, init=False)
    calls: int = field(default=0, init=False)
    usage: Usage = field(default=Usage(), init=False)
    ledger: Ledger = field(default_factory=Ledger, init=False)

    def __post_init__(self) -> None:
        self.warnings = [*self.agent.warnings, *self.briefing.warnings]
        self._delegations: dict[int, int] = {}
        cap = self.agent.sub_agents_config.max_concurrent
        self._slots = asyncio.Semaphore(cap) if cap else None

    @classmethod
    async def prepare(cls, agent: Agent, env: Env, place: Place | None = None) -> Run:
        """A run that has sent nothing yet.

        Raises:
            ConfigError: bad model, no key, no skill, bad glob, unknown tool.
        """
        place = place or Place(ceiling=Ceiling(root=agent.sub_agents_config.max_depth))
        provider_name, model = parse_model(agent.model)
        provider = env.provider_for(provider_name)
        briefing = await in_thread(brief, agent) if agent.files or agent.skill else brief(agent)
        toolset = assemble(agent, place.depth, place.ceiling)
        return cls(agent, env, place, provider, model, briefing, toolset)

    async def execute(
        self,
        prompt: str,
        *,
        task: str = "",
        limits: Limits | None = None,
        deadline: Deadline | None = None,
        history: Sequence[Message] = (),
    ) -> RunResult:
        """The run's result, however it ends; only cancelling raises, with `result` set before.

        Args:
            prompt: what the agent is told; blank = B-8's sentence.
            task: what it is asked, for people; empty = the prompt.
            deadline: of the parent; None = no limit above this run's own.
            history: an earlier conversation to go on with.
        """
        loop = asyncio.get_running_loop()
        inside = _inside.set(True)
        self._begin(prompt if prompt.strip() else NO_PROMPT, task, limits or Limits(), history)
        self._started = loop.time() + self.ahead
        own = self.limits.seconds
        mine = Deadline(self._started + own, own) if own is not None else None
        self.deadline = min(filter(None, (mine, deadline)), default=None)
        scope = self.deadline.at - self.ahead if self.deadline and self.deadline is mine else None
        status: Status = "completed"
        error: str | None = None
        cause: AxeError | None = None
        try:
            async with asyncio.timeout_at(scope) as self._scope:
                await self._converse()
        except _Stop as stop:
            status, error = stop.status, str(stop)
        except TimeoutError:
            status, error = "timeout", str(self.deadline)
        except ProviderError as failure:
            status, error, cause = "error", str(failure), failure
            self.text = failure.partial_text or self.text
        except asyncio.CancelledError:
            late = self.deadline is not None and loop.time() + self.ahead >= self.deadline.at
            self._end(
                "timeout" if late else "cancelled", str(self.deadline) if late else "cancelled"
            )
            raise
        finally:
            _inside.reset(inside)
        return self._end(status, error, cause)

    def _begin(self, prompt: str, task: str, limits: Limits, history: Sequence[Message]) -> None:
        self.prompt, self.task, self.limits = prompt, task or prompt, limits
        self.messages = [*answered(history), Message("user", prompt)]
        self._ids = CallIds(self.messages)
        place = self.place
        self.env.emit(
            RunStarted(
                place.id, place.parent, place.call_id, self.agent.name, self.agent.model,
                place.depth, self.task, prompt,
            )
        )  # fmt: skip

    async def _converse(self) -> None:
        """Sends and runs calls until an answer asks for none (A-8.1)."""
        while True:
            response = await self._turn()
            self.text = response.content or self.text
            calls = response.tool_calls if self.toolset.tools else ()
            if response.is_cut:
                self._cut(response, bool(calls))
            if not calls:
                self.text = response.content
                self._log(response, ())
                return
            if self.turns >= self.limits.turns:
                self._log(response, ())
                raise _Stop(
                    "max_turns",
                    f"agent exceeded maximum conversation turns ({self.limits.turns})",
                )
            await self._run_calls(response)

    async def _turn(self) -> Response:
        """One request and its response, appended to the conversation."""
        self.turns += 1
        last = self.messages[-1]
        place, agent = self.place, self.agent
        pending = len(last.tool_results)
        self.env.emit(TurnStarted(place.id, self.turns, len(self.messages), pending))
        request = Request(
            self.model, tuple(self.messages), self.briefing.system,
            self.toolset.offered, agent.params, agent.name,
        )  # fmt: skip
        try:
            response = await self._send(request)
        except BaseException:
            self.turns -= 1  # a turn is a request and its response
            raise
        calls = self._ids.settle(self.provider.name, response.tool_calls)
        response = replace(response, tool_calls=calls)
        self.usage += response.usage
        self.stop_reason = response.stop_reason
        kept = bool(self.toolset.tools) and not response.is_cut
        if response.content.strip() or (kept and calls):
            self.messages.append(response.message(calls=kept))
        self.env.emit(
            TurnFinished(
                place.id, self.turns, response.content, calls, response.stop_reason,
                response.usage, self._parallel,
            )
        )  # fmt: skip
        return response

    async def _send(self, request: Request) -> Response:
        """The provider's response, tried again as often as the agent's `[retry]` says (D-23)."""
        on_text = partial(self._on_text, self.place.id)
        for retry in range(self.agent.retry.max_retries + 1):
            try:
                response = await self.provider.send(request, on_text)
                break
            except ProviderError as error:
                if not error.retryable or retry == self.agent.retry.max_retries:
                    raise
                wait = error.retry_after or RETRY_WAIT * 2**retry
                await asyncio.sleep(min(wait, MAX_RETRY_WAIT))
        if response.seconds:
            self._pass(self.ahead + response.seconds)
        return response

    def _on_text(self, run: str, text: str) -> None:
        self.env.emit(TextDelta(run, text))

    def _pass(self, ahead: float) -> None:
        """Moves the virtual clock on; raises TimeoutError where the time is up by it (D-36)."""
        self.ahead = max(self.ahead, ahead)
        if not self.deadline:
            return
        if asyncio.get_running_loop().time() + self.ahead >= self.deadline.at:
            raise TimeoutError
        if self._scope.when() is not None:
            self._scope.reschedule(self.deadline.at - self.ahead)

    def _cut(self, response: Response, with_calls: bool) -> None:
        """What follows from a reply that the token limit cut (D-31)."""
        if with_calls:
            self._log(response, ())
            raise _Stop(
                "max_tokens",
                "the token limit cut the reply before its tool calls were whole; "
                "raise params.max_tokens",
            )
        self.warnings.append(
            f"the token limit cut the reply ({response.stop_reason}); raise params.max_tokens"
        )

    @property
    def _parallel(self) -> bool:
        return self.agent.sub_agents_config.parallel

    async def _run_calls(self, response: Response) -> None:
        """Runs the calls, side by side unless the agent says otherwise; results in call order.

        What has a result when the run is stopped is kept.
        """
        calls = response.tool_calls
        results: list[ToolResult | None] = [None] * len(calls)
        first, ahead = self.calls, self.ahead

        async def one(index: int, call: ToolCall) -> None:
            self.calls += 1
            at = ahead if self._parallel else self.ahead
            results[index] = await self._call(call, first + index + 1, at)

        try:
            if self._parallel and len(calls) > 1:
                async with asyncio.TaskGroup() as group:
                    for index, call in enumerate(calls):
                        group.create_task(one(index, call))
            else:
                for index, call in enumerate(calls):
                    await one(index, call)
        finally:
            done = tuple(r for r in results if r is not None)
            if done:
                self.messages.append(Message("tool", tool_results=done))
            self._log(response, done)
        self._pass(self.ahead)

    def _log(self, response: Response, results: tuple[ToolResult, ...]) -> None:
        self.log.append(
            Turn(
                self.turns, response.content, response.tool_calls, results,
                response.stop_reason, response.usage, self._parallel,
            )
        )  # fmt: skip

    async def _call(self, call: ToolCall, number: int, ahead: float) -> ToolResult:
        """The one result of a call; nothing that goes wrong in it leaves it (A-13.1)."""
        started = time.monotonic()
        self.env.emit(ToolStarted(self.place.id, call))
        output = await self._output(call, number, ahead)
        result = ToolResult(call.id, output.content, output.is_error, call.name)
        self.env.emit(ToolFinished(self.place.id, result, time.monotonic() - started))
        return result

    async def _output(self, call: ToolCall, number: int, ahead: float) -> ToolOutput:
        tool = self.toolset.tools.get(call.name)
        if tool is None:
            return ToolOutput(f"Unknown tool: {quoted(call.name)}", is_error=True)
        limit = self.place.ceiling.of(tool)
        start = partial(self._start, call, number, ahead)
        context = ToolContext(
            call, self.agent, self.place.depth, limit, self.briefing.workdir, self.ledger, start
        )
        try:
            answer = await tool.fn(context, call.arguments)
        except ToolError as error:
            return ToolOutput(f"Error: {error}", is_error=True)
        except Exception as error:  # a tool is the user's code: its faults are the model's to hear
            return ToolOutput(f"Error: {type(error).__name__}: {error}", is_error=True)
        return answer if isinstance(answer, ToolOutput) else ToolOutput(answer)

    async def _start(self, call: ToolCall, number: int, ahead: float, job: Job) -> RunResult:
        """Runs a child to its end.

        Raises:
            ConfigError: it cannot begin.
        """
        agent = self._named(job.agent) if isinstance(job.agent, str) else job.agent
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quoted(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        nth = self._delegations.get(number, 0)
        self._delegations[number] = nth + 1
        suffix = f"-{nth + 1}" if nth else ""
        place = Place(
            f"{self.place.id}.{number}{suffix}", self.place.id, call.id,
            self.place.depth + 1, self.place.ceiling.lowered(agent),
        )  # fmt: skip
        child = await Run.prepare(agent, self.env, place)
        child.ahead = ahead
        self.children[number, nth] = child
        if self._slots is None:
            return await self._finished(child, job)
        async with self._slots:
            return await self._finished(child, job)

    async def _finished(self, child: Run, job: Job) -> RunResult:
        try:
            return await child.execute(
                job.prompt, task=job.task, limits=job.limits, deadline=self.deadline
            )
        finally:
            self.ahead = max(self.ahead, child.ahead)

    def _named(self, name: str) -> Agent:
        try:
            return self.env.load_agent(name)
        except ConfigError as error:
            raise ConfigError(f"failed to load agent {quoted(name)}: {error}") from None

    def _end(self, status: Status, error: str | None, cause: AxeError | None = None) -> RunResult:
        place = self.place
        seconds = asyncio.get_running_loop().time() + self.ahead - self._started
        runs = (self.children[key] for key in sorted(self.children))
        self.result = RunResult(
            status=status, text=self.text, agent=self.agent.name, model=self.agent.model,
            error=error, turns=self.turns, tool_calls=self.calls,
            children=tuple(r.result for r in runs if r.result), usage=self.usage,
            stop_reason=self.stop_reason, duration_ms=round(seconds * 1000),
            messages=tuple(self.messages), metadata=self._metadata(),
            files_read=tuple(self.ledger.files_read),
            files_modified=tuple(self.ledger.files_modified),
            warnings=tuple(self.warnings), log=tuple(self.log), id=place.id,
            call_id=place.call_id, prompt=self.prompt, task=self.task, cause=cause,
        )  # fmt: skip
        self.env.emit(RunFinished(place.id, self.result))
        return self.result

    def _metadata(self) -> dict[str, str]:
        """What a delegation tool notes about its child (D-34); a root has none."""
        if not self.place.parent:
            return {}
        return {
            "task_id": self.place.id,
            "depth": str(self.place.depth),
            "token_estimate": str(self.usage.total),
        }
