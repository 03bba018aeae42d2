"""The agent loop, shared by root runs and children (D-1).

Source: A-7.*, A-8.*, A-10.*, A-13.*, D-2, D-8, D-10, D-15, D-17, D-31, D-35, D-65.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from copy import copy
from dataclasses import replace
from typing import Any

from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import check_confined, confine
from axe_nb.engine.call import PendingCall, inside_run
from axe_nb.engine.clock import TimeIsUp
from axe_nb.engine.conversation import Conversation
from axe_nb.engine.dispatch import Dispatch
from axe_nb.engine.meter import SlotPool
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.replay import CallOrder, order_child
from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError, ConfigError, RunError, words
from axe_nb.events import Emit, RunFinished, RunStarted, events_of
from axe_nb.messages import Response, ToolResult, dump
from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult, RunStopped, Status, make_metadata
from axe_nb.text import one_line, quote
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, WrongOutput
from axe_nb.tools.tool import Job, Tool, ToolError

MAX_ERROR = 2000
"""Maximum characters of a run's error, which models and people read."""

_settling = threading.Lock()
"""Held while a run gets its result, possibly from another thread that abandons the run."""

log = logging.getLogger("axe_nb")


class Run:
    """One run of an agent."""

    def __init__(self, plan: Plan) -> None:
        """Creates the run, without sending anything or emitting events."""
        self.plan = plan
        self.scope = plan.scope
        self.result: RunResult | None = None
        """Set when the run has ended, even if it was cancelled."""
        self.conversation = Conversation(plan)
        self.dispatch = Dispatch(plan, self.start_child)
        self._connect_calls()
        self._children: dict[CallOrder, Run | RunResult] = {}
        """Started children; a RunResult is a child taken over from the forked run."""
        self._slots = SlotPool(plan.agent.sub_agents_config.max_concurrent)
        """Slots for children."""
        self.warnings = list(plan.warnings)
        self.data: Any = None
        """The answer as data."""
        self._has_begun = False
        is_root = not self.scope.parent
        fork = self.scope.env.fork
        self._forked_at = fork.place if fork and is_root else ""
        self._undo_id = self.scope.env.kept.id if is_root else ""
        self._task = plan.job.task or plan.prompt
        self.conversation.say(plan.prompt, plan.pictures)
        self.dispatch.pictures.use(self.conversation.messages)

    def _connect_calls(self) -> None:
        """Adds the links of calls that the run needs and most runs do without."""
        scope, env, calls = self.scope, self.scope.env, self.dispatch
        if env.cassette or env.stepper or env.fork:
            from axe_nb.engine.replays import CassetteCalls, ForkCalls, StepCalls

            if env.cassette:
                calls.authorizer.next = CassetteCalls(scope, env.cassette, calls.run_tool).run
            if env.stepper:
                calls.next = StepCalls(scope, env.stepper, calls.authorizer.run).run
            if env.fork:
                calls.take_kept = ForkCalls(calls, env.fork, self.adopt).take

    async def execute(self) -> RunResult:
        """Runs the agent and returns the result, whatever its status.

        Raises:
            asyncio.CancelledError: the run was cancelled; `result` is already set.
            KeyboardInterrupt, SystemExit: raised by the provider; `result` is already set.
        """
        self._has_begun = True
        scope, agent = self.scope, self.plan.agent
        scope.env.emit(
            RunStarted(
                scope.id, scope.parent, scope.call_id, agent.name, agent.model, scope.depth,
                self._task, self.plan.prompt, self.plan.pictures, self._forked_at, self._undo_id,
            )
        )  # fmt: skip
        stop: RunStopped | None = None
        try:
            with inside_run():
                async with scope.clock.timeout:
                    for tool in self.plan.to_permit:
                        await self._permit_server_tool(tool)
                    stop = await self._run_turns()
                    if self.plan.job.closing:
                        await self.conversation.ask(self.plan.job.closing, closing=True)
                    elif self.plan.output:
                        await self._take_data(self.plan.output)
        except BaseException as fault:
            status, error = self._judge(fault)
            result = self._end(status, error, fault if isinstance(fault, AxeError) else None)
            if isinstance(fault, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
            return result
        return self._end(stop.status, str(stop)) if stop else self._end("completed", None)

    def _judge(self, fault: BaseException) -> tuple[Status, str]:
        """Returns the status and the error of a run that an exception has ended."""
        clock = self.scope.clock
        match fault:
            case RunStopped():
                return fault.status, str(fault)
            case TimeIsUp():
                return "timeout", str(clock.deadline)
            case asyncio.CancelledError() | TimeoutError() if clock.is_late:
                return "timeout", str(clock.deadline)
            case asyncio.CancelledError():
                return "cancelled", "cancelled"
            case AxeError():
                return "error", one_line(words(fault), MAX_ERROR)
            case RecursionError():
                return "error", "a value of this run is nested too deeply"
        status: Status = "cancelled"
        if not isinstance(fault, KeyboardInterrupt | SystemExit):
            status = "error"
            log.debug("%s ended with an unexpected exception", self.scope.id, exc_info=fault)
        return status, one_line(f"{type(fault).__name__}: {words(fault)}", MAX_ERROR)

    async def _permit_server_tool(self, tool: Tool) -> None:
        """Withholds a tool of the model's server that is not permitted, with a warning."""
        if reason := await self.dispatch.permit_server_tool(tool):
            talk = self.conversation
            self.warnings.append(f"{tool.name} was not offered to the model: {reason}")
            talk.tools = tuple(spec for spec in talk.tools if spec.name != tool.name)

    async def _run_turns(self) -> RunStopped | None:
        """Runs turns until a reply without calls: request, response, tool calls (A-8.1).

        Returns the limit that ended them if a last question follows it (D-17).
        """
        talk, has_tools, closing = (
            self.conversation,
            self.plan.toolset.is_needed,
            self.plan.job.closing,
        )
        is_over = False
        while not is_over:
            response = await talk.turn(
                talk.tools, with_calls=has_tools, output=not self.plan.asks_at_end
            )
            calls = response.tool_calls if has_tools else ()
            results: list[ToolResult | None] = [None] * len(calls)
            is_over = not (calls or response.is_paused)
            try:
                if not is_over:
                    self._check_limits(response)
                if calls:
                    await self.dispatch.run_all(talk.turns, calls, results)
            except RunStopped as stop:
                if not closing or stop.status == "cancelled":
                    raise
                return stop
            finally:
                talk.finish_turn(tuple(result for result in results if result is not None))
        talk.text = response.content
        if self.plan.output is None or closing:  # else an error says it
            self._warn_about(response)
        if response.tool_calls:
            names = ", ".join(sorted({call.name for call in response.tool_calls}))
            self.warnings.append(f"the model called {names}, but the agent has no tools")
        return None

    def _check_limits(self, response: Response) -> None:
        """Checks that the calls of a response may be run."""
        talk, limits = self.conversation, self.scope.limits
        if response.is_cut:
            when = " before its tool calls were complete"
            raise RunStopped("max_tokens", format_cut(response, when))
        if talk.turns >= limits.turns:
            turns = f"agent exceeded maximum conversation turns ({limits.turns})"
            raise RunStopped("max_turns", turns)
        if limits.tokens is not None and talk.count_context(response, talk.tools) > limits.tokens:
            raise RunStopped("max_tokens", f"agent exceeded its budget of {limits.tokens} tokens")

    def _warn_about(self, response: Response) -> None:
        if reason := tell_incomplete(response):
            self.warnings.append(reason)

    async def _take_data(self, output: Output) -> None:
        """Takes the last answer as data; requests a correction, once, if it does not fit (D-65).

        Raises RunError if it is not whole, still does not fit, or may not be asked for again.
        """
        talk = self.conversation
        schema = dump(dict(output.sent)).decode()
        mistakes = await self._read_answer(output)
        if mistakes and self.plan.asks_at_end:
            question = f"Now give your final answer as JSON that fits this JSON Schema:\n{schema}"
            await talk.ask(question, asked="output")
            mistakes = await self._read_answer(output)
        if mistakes and talk.turns >= self.scope.limits.turns:
            raise _make_output_error(mistakes, "no turn was left to repair it")
        if mistakes:
            question = (
                f"Your answer does not fit its JSON Schema:\n{mistakes}\nGive the whole answer "
                f"again, as JSON only, without these mistakes. The schema:\n{schema}"
            )
            await talk.ask(question, asked="repair")
            mistakes = await self._read_answer(output)
        if mistakes:
            raise _make_output_error(mistakes, "even after one repair")
        self._warn_about(talk.response)

    async def _read_answer(self, output: Output) -> str:
        """Reads the latest reply as data, in a thread: a check may take long; returns mistakes."""
        talk = self.conversation
        try:
            answer = await in_thread(output.read, talk.response.content)
        except WrongOutput as wrong:
            if reason := tell_incomplete(talk.response):
                raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
            return str(wrong)
        talk.text, self.data = answer.text, answer.value
        return ""

    async def start_child(self, call: PendingCall, job: Job, env: Env) -> RunResult:
        """Runs a child, one level deeper, to its end; see `StartChild`."""
        key = call.take_key(job.key)
        id = f"{self.scope.id}.{call.number}" + ("" if key == "0" else f"-{key}")
        try:
            async with self._slots.take():
                self.scope.admit(f"{id}/0")
                return await self._run_child(call, job, env, id)
        except RunStopped as stop:
            raise ToolError(f"not run: {stop}") from None
        finally:
            if order_child(id) not in self._children:  # it could not be started
                call.keys.discard(key)

    async def _run_child(self, call: PendingCall, job: Job, env: Env, id: str) -> RunResult:
        try:
            found = env.agents.load(job.agent) if isinstance(job.agent, str) else job.agent
        except ConfigError as error:
            name = quote(f"{job.agent}")
            raise ConfigError(f"failed to load agent {name}: {error}") from None
        agent = env.as_child(found)
        if env.fork:
            agent, job = env.fork.adapt(id, agent, job)
        agent = confine(agent, self.plan.briefing.workdir, env.workdir, env.defined)
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quote(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        scope = self.scope.child(agent, job, env, id=id, call_id=call.call.id, ahead=call.ahead)
        try:
            scope.clock.check()
            plan = await make_plan(scope, job)
            if plan.briefing.workdir != self.plan.briefing.workdir:
                check_confined(agent, plan.briefing.workdir, env.workdir, env.defined)
            await asyncio.sleep(0)  # all that are parallel begin before one of them ends
            child = self._children[order_child(id)] = Run(plan)
            return await child.execute()
        finally:
            scope.meter.settle()
            call.ahead = max(call.ahead, scope.clock.ahead)
            self.scope.clock.ahead = max(self.scope.clock.ahead, call.ahead)

    def adopt(self, child: RunResult) -> None:
        """Takes over a finished child of the forked run, with everything below it."""
        self._children[order_child(child.id)] = child
        for event in events_of(child, self.scope.id, self.scope.depth + 1):
            self.scope.env.emit(event)

    def _list_children(self) -> list[Run | RunResult]:
        """The started children, in call order; may be called from any thread."""
        children = self._children.copy()
        return [children[order] for order in sorted(children)]

    def break_off(self, status: Status, error: str, emit: Emit) -> RunResult:
        """Ends a run that cannot end on its own; may be called from any thread.

        Args:
            status: status of this run, and of its unfinished descendants.
            error: error of the same runs.
            emit: receives their `RunFinished` events; the run's own views receive no more events.

        Returns:
            The result so far.
        """
        children = tuple(
            one if isinstance(one, RunResult) else one.result or one.break_off(status, error, emit)
            for one in self._list_children()
        )
        return self._settle(self._make_result(status, error, None, children), emit)

    def _end(self, status: Status, error: str | None, cause: AxeError | None = None) -> RunResult:
        env = self.scope.env
        self.warnings += self.dispatch.describe_denials()
        self.warnings += self.dispatch.file_log.warnings
        if status == "completed":  # else the error names the cap
            self.warnings += self.scope.meter.describe_overshoots()
        if not self.scope.parent:
            self.warnings += env.finish(status)
        ended = (one if isinstance(one, RunResult) else one.result for one in self._list_children())
        children = tuple(result for result in ended if result is not None)
        result = self._make_result(status, error, cause, children)
        return self._settle(result, env.emit)

    def _settle(self, result: RunResult, emit: Emit) -> RunResult:
        """Returns the run's only result: the first one, if two threads end it at once."""
        with _settling:
            if self.result is not None:
                return self.result
            self.result = result
        if self._has_begun:
            emit(RunFinished(self.scope.id, result))
        return result

    def _make_result(
        self,
        status: Status,
        error: str | None,
        cause: AxeError | None,
        children: tuple[RunResult, ...],
    ) -> RunResult:
        scope, talk, files = self.scope, self.conversation, self.dispatch.file_log
        own = make_metadata(scope.id, scope.depth, talk.usage) if scope.parent else {}
        seconds = scope.clock.elapsed
        whole = Lap("run", round(scope.began, 6), round(scope.began + seconds, 6))
        result = RunResult(
            status=status, text=talk.text, data=self.data, agent=scope.agent.name,
            model=scope.agent.model, error=error, turns=talk.turns, tool_calls=self.dispatch.count,
            retries=sum(one.attempt > 1 for one in talk.exchanges), children=children,
            usage=talk.usage, stop_reason=talk.response.stop_reason,
            duration_ms=round(seconds * 1000), messages=tuple(talk.messages),
            files_read=tuple(files.files_read), files_modified=tuple(files.files_modified),
            warnings=tuple(self.warnings), log=tuple(talk.log), id=scope.id, call_id=scope.call_id,
            prompt=self.plan.prompt, pictures=self.plan.pictures, task=self._task,
            exchanges=tuple(talk.exchanges),
            cause=copy(cause),  # a copy: no traceback keeps the run alive
            metadata=own, times=(whole, *scope.times),
        )  # fmt: skip
        if not scope.parent:
            kept = scope.env.agents.describe(scope.agent)
            undo_id = self._undo_id if scope.env.kept.is_used else ""
            result = replace(result, origin=self._forked_at, definitions=kept, undo_id=undo_id)
        elif notes := self.plan.job.notes(result):
            result = replace(result, metadata={**own, **notes})
        return result


def tell_incomplete(response: Response) -> str:
    """Returns the reason why an answer is not whole, and the next step; empty if it is."""
    if response.is_cut:
        return format_cut(response)
    if not response.is_withheld:
        return ""
    who = "the model" if response.stop_reason == "refusal" else "a content filter"
    return f"{who} cut the reply short ({response.stop_reason}); rephrase the prompt"


def format_cut(response: Response, when: str = "") -> str:
    """Returns the reason why a limit cut a reply, and the next step."""
    reason = response.stop_reason
    if response.is_full:
        step = "start a new conversation, or shorten the prompt, files and results of tools"
        return f"the reply was cut because the model's context is full{when} ({reason}); {step}"
    if response.is_used_up:  # D-79
        step = "raise params.max_tokens, or lower params.thinking"
        return f"thinking used up the tokens of the answer ({reason}){when}; {step}"
    return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"


def _make_output_error(mistakes: str, when: str) -> RunError:
    reason = one_line(mistakes.replace("\n", "; "), MAX_ERROR // 2)
    return RunError(
        f"the answer does not match its schema ({when}): {reason}",
        exit_code=1,
        hint="its text is kept; simplify the schema, or clarify in the prompt what it leaves open",
    )
