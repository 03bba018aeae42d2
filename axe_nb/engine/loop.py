"""The agent loop, shared by root runs and children (D-1).

Source: seed 000 §3.7-3.13 (A-7.*, A-8.*, A-10.*..A-13.*); D-2, D-8, D-10, D-15, D-17, D-31, D-35.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from copy import copy
from dataclasses import replace
from typing import Any

from axe_nb.clock import TimeIsUp
from axe_nb.endings import make_metadata
from axe_nb.engine.answer import take_data
from axe_nb.engine.children import Children
from axe_nb.engine.conversation import Conversation
from axe_nb.engine.dispatch import Dispatch
from axe_nb.engine.incomplete import format_cut, tell_incomplete
from axe_nb.engine.nesting import InsideRun
from axe_nb.engine.plan import Plan
from axe_nb.errors import AxeError, words
from axe_nb.events import Emit, RunFinished, RunStarted
from axe_nb.limits import RunStopped
from axe_nb.messages import Response, ToolResult
from axe_nb.results import RunResult, Status
from axe_nb.text import one_line
from axe_nb.times import Lap

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
        self._has_begun = False
        self.children = Children(plan, Run)
        self.conversation = Conversation(plan)
        self.dispatch = Dispatch(plan, self.children)
        self.warnings = list(plan.warnings)
        self.data: Any = None
        """The answer as data."""
        self.conversation.say(plan.prompt, plan.pictures)
        self.dispatch.made.pictures.use(self.conversation.messages)

    @property
    def task(self) -> str:
        """The task as given, for display."""
        return self.plan.job.task or self.plan.prompt

    async def execute(self) -> RunResult:
        """Runs the agent and returns the result, whatever its status.

        Raises:
            asyncio.CancelledError: the run was cancelled; `result` is already set.
            KeyboardInterrupt, SystemExit: raised by the provider; `result` is already set.
        """
        self._begin()
        clock = self.scope.clock
        try:
            with InsideRun():
                async with clock.timeout:
                    status, error = await self._converse()
        except RunStopped as stop:
            return self._end(stop.status, str(stop))
        except TimeoutError as fault:
            if isinstance(fault, TimeIsUp) or clock.is_late:
                return self._end("timeout", str(clock.deadline))
            return self._end("error", _format_fault(fault))
        except AxeError as failure:
            return self._end("error", one_line(words(failure), MAX_ERROR), failure)
        except asyncio.CancelledError:
            if clock.is_late:
                self._end("timeout", str(clock.deadline))
            else:
                self._end("cancelled", "cancelled")
            raise
        except (KeyboardInterrupt, SystemExit) as stop:
            self._end("cancelled", _format_fault(stop))
            raise
        except BaseException as fault:
            log.debug("%s ended with an unexpected exception", self.scope.id, exc_info=fault)
            return self._end("error", _format_fault(fault))
        return self._end(status, error)

    def _begin(self) -> None:
        self._has_begun = True
        scope, agent = self.scope, self.plan.agent
        scope.env.emit(
            RunStarted(
                scope.id, scope.parent, scope.call_id, agent.name, agent.model, scope.depth,
                self.task, self.plan.prompt, self.plan.pictures, self._forked_at, self._undo_id,
            )
        )  # fmt: skip

    @property
    def _forked_at(self) -> str:
        return "" if self.scope.parent else self.scope.env.forked_at

    @property
    def _undo_id(self) -> str:
        return "" if self.scope.parent else self.scope.env.kept.id

    def break_off(self, status: Status, error: str, emit: Emit) -> RunResult:
        """Ends a run that cannot end on its own; may be called from any thread.

        Args:
            status: status of this run, and of its unfinished descendants.
            error: error of the same runs.
            emit: receives their `RunFinished` events; the run's own views receive no more events.

        Returns:
            The result so far.
        """
        children = self.children.break_off(status, error, emit)
        return self._settle(self._make_result(status, error, None, children), emit)

    async def _converse(self) -> tuple[Status, str | None]:
        """Runs turns until the end, then asks the closing question if the job has one (D-17)."""
        status: Status = "completed"
        error: str | None = None
        closing = self.plan.job.closing
        await self._permit_server_tools()
        try:
            while await self._run_turn():
                pass
        except RunStopped as stop:
            if not closing or stop.status == "cancelled":
                raise
            status, error = stop.status, str(stop)
        if closing:
            await self._ask_for_summary(closing)
        elif self.plan.output:
            answer = await take_data(self.conversation, self.plan, self.plan.output)
            self.conversation.text, self.data = answer.text, answer.value
            self._warn_about(self.conversation.last)
        return status, error

    async def _permit_server_tools(self) -> None:
        """Withholds the tools of the model's server that are not permitted, with a warning.

        Raises:
            RunStopped: the person stopped the run.
        """
        talk = self.conversation
        for tool in self.plan.to_permit:
            if reason := await self.dispatch.permit_server_tool(tool):
                self.warnings.append(f"{tool.name} was not offered to the model: {reason}")
                talk.tools = tuple(spec for spec in talk.tools if spec.name != tool.name)

    async def _run_turn(self) -> bool:
        """Runs one turn: request, response, tool calls; returns True to continue (A-8.1).

        Raises:
            RunStopped: a limit has been reached.
        """
        talk, toolset = self.conversation, self.plan.toolset
        response = await talk.turn(
            talk.tools, with_calls=toolset.is_needed, output=not self.plan.asks_at_end
        )
        calls = response.tool_calls if toolset.is_needed else ()
        if not calls and response.is_paused:
            stop = self._check_limits(response)
            talk.finish_turn(response)
            if stop:
                raise stop
            return True
        if not calls:
            talk.text = response.content
            if not self._takes_data:
                self._warn_about(response)
            if response.tool_calls:
                names = ", ".join(sorted({call.name for call in response.tool_calls}))
                self.warnings.append(f"the model called {names}, but the agent has no tools")
            talk.finish_turn(response)
            return False
        if stop := self._check_limits(response):
            talk.finish_turn(response)
            raise stop
        results: list[ToolResult | None] = [None] * len(calls)
        try:
            await self.dispatch.run_all(talk.turns, calls, results)
        finally:
            talk.finish_turn(response, tuple(r for r in results if r is not None))
        return True

    @property
    def _takes_data(self) -> bool:
        """True if the answer has to be data; an error then says why it is not whole."""
        return self.plan.output is not None and not self.plan.job.closing

    def _warn_about(self, response: Response | None) -> None:
        """Warns if the answer is not whole."""
        if response is not None and (reason := tell_incomplete(response)):
            self.warnings.append(reason)

    def _check_limits(self, response: Response) -> RunStopped | None:
        """The reason not to run the calls of a response; None = run them."""
        limits = self.scope.limits
        if response.is_cut:
            return RunStopped(
                "max_tokens", format_cut(response, " before its tool calls were complete")
            )
        if self.conversation.turns >= limits.turns:
            turns = f"agent exceeded maximum conversation turns ({limits.turns})"
            return RunStopped("max_turns", turns)
        if limits.tokens is not None and self.conversation.context_size(response) > limits.tokens:
            return RunStopped("max_tokens", f"agent exceeded its budget of {limits.tokens} tokens")
        return None

    async def _ask_for_summary(self, question: str) -> None:
        """Asks for the final summary in the same conversation, without tools; calls are dropped."""
        talk = self.conversation
        before = talk.text
        talk.say(question)
        response = await talk.turn((), with_calls=False, closing=True)
        talk.text = response.content if response.content.strip() else before
        talk.finish_turn(response, closing=True)

    def _end(self, status: Status, error: str | None, cause: AxeError | None = None) -> RunResult:
        env = self.scope.env
        self.warnings += self.dispatch.describe_denials()
        self.warnings += self.dispatch.made.file_log.warnings
        if status == "completed":  # else the error names the cap
            self.warnings += self.scope.meter.describe_overshoots()
        if not self.scope.parent:
            problems = (
                *(warning for replay in env.replays for warning in replay.finish(status)),
                env.recorder.problem() if env.recorder else "",
                *(env.stepper.describe_missed() if env.stepper else ()),
                *env.kept.describe_lost(),
            )
            self.warnings += filter(None, problems)
        result = self._make_result(status, error, cause, self.children.results())
        return self._settle(result, self.scope.env.emit)

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
        scope, talk, did = self.scope, self.conversation, self.dispatch.made
        own = make_metadata(scope.id, scope.depth, talk.usage) if scope.parent else {}
        seconds = scope.clock.elapsed
        whole = Lap("run", round(scope.began, 6), round(scope.began + seconds, 6))
        result = RunResult(
            status=status, text=talk.text, data=self.data, agent=scope.agent.name,
            model=scope.agent.model, error=error, turns=talk.turns, tool_calls=did.count,
            retries=talk.retries, children=children, usage=talk.usage, stop_reason=talk.stop_reason,
            duration_ms=round(seconds * 1000), messages=tuple(talk.messages),
            files_read=tuple(did.file_log.files_read),
            files_modified=tuple(did.file_log.files_modified), warnings=tuple(self.warnings),
            log=tuple(talk.log), id=scope.id, call_id=scope.call_id, prompt=self.plan.prompt,
            pictures=self.plan.pictures, task=self.task, exchanges=tuple(talk.exchanges),
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


def _format_fault(fault: BaseException) -> str:
    if isinstance(fault, RecursionError):
        return "a value of this run is nested too deeply"
    return one_line(f"{type(fault).__name__}: {words(fault)}", MAX_ERROR)
