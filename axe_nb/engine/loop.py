"""The agent loop of root runs and children (D-1): turns, answers, child runs and the result."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from axe_nb.agents.prompt import check_confined
from axe_nb.engine.attempts import Attempts, Send
from axe_nb.engine.call import inside_run, take_key
from axe_nb.engine.dispatch import Dispatch
from axe_nb.engine.limits import SlotPool, TimeIsUp, estimate_tokens
from axe_nb.engine.plan import Plan, find_child, make_plan
from axe_nb.engine.replay import PendingCall
from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError, ProviderError, RunError, words
from axe_nb.events import (
    DataForm,
    Emit,
    RunFinished,
    RunStarted,
    TurnStarted,
    events_of,
    finish_turn,
)
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolResult,
    ToolSpec,
    Usage,
    close_open_calls,
    dump,
)
from axe_nb.messages.answer_tool import OUTPUT
from axe_nb.messages.exchanges import ASKED_NOW, Exchange, FinalRequest, Lap, Turn
from axe_nb.pictures.picture import Picture
from axe_nb.results import CallOrder, RunResult, RunStopped, Status, make_metadata, order_child
from axe_nb.text import one_line
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, WrongOutput
from axe_nb.tools.tool import Job, ToolError

MAX_ERROR = 2000
_settling = threading.Lock()  # to set a result, as another thread may abandon the run
log = logging.getLogger("axe_nb")


class Run:
    """One run of an agent: its conversation with the model, and its result."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.scope = plan, plan.scope
        self.result: RunResult | None = None
        """Result of the run, even if it was cancelled; None until it has ended."""
        self.dispatch = Dispatch(plan, self.start_child)
        self._attempts = attempts = Attempts(plan)
        self.exchanges: Sequence[Exchange] = attempts.exchanges
        self._send: Send = attempts.send
        if plan.scope.env.stepper or plan.scope.env.replays:
            from axe_nb.engine.interceptors import connect

            self._send = connect(attempts, self.dispatch, self.adopt)
        self._encoded: dict[object, object] = {}
        self._ids: CallIds | None = None
        self.messages = close_open_calls(plan.job.history)
        self.tools: Sequence[ToolSpec] = plan.toolset.offered
        self.log: list[Turn] = []
        """Turns with a response; the last turn has no tool results while its calls run."""
        self.response = Response("")
        self.answer = ""
        """Text of the latest complete response."""
        self._children: dict[CallOrder, Run | RunResult] = {}
        """Started children; a RunResult is a finished child taken over from a forked run."""
        self._slots = SlotPool(plan.agent.sub_agents_config.max_concurrent)
        self.warnings = list(plan.warnings)
        self.data: Any = None
        self._task = plan.job.task or plan.prompt
        self.say(plan.prompt, plan.pictures)
        self.dispatch.pictures.use(self.messages)

    async def execute(self) -> RunResult:
        """Runs the agent and returns the result, whatever its status.

        Raises:
            asyncio.CancelledError: if the run was cancelled; `result` is already set.
            KeyboardInterrupt, SystemExit: if raised during the run; `result` is already set.
        """
        scope, plan = self.scope, self.plan
        scope.env.emit(
            RunStarted(
                scope.id, scope.parent, scope.call_id, plan.agent.name, plan.agent.model,
                scope.depth, self._task, plan.prompt, plan.pictures, scope.origin, scope.undo_id,
            )
        )  # fmt: skip
        try:
            with inside_run():
                async with scope.clock.timeout:
                    tools = (plan.toolset.tools[spec.name] for spec in self.tools if spec.entry)
                    refused = await self.dispatch.authorizer.find_refused(tools)
                    self.tools = tuple(spec for spec in self.tools if spec.name not in refused)
                    for name, why in refused.items():
                        self.warnings.append(f"{name} was not offered to the model: {why}")
                    stop = await self._run_turns()
                    if plan.job.closing:
                        await self.ask(plan.job.closing)
                    elif plan.output:
                        self.data = await self.take_data(plan.output)
        except BaseException as fault:
            status, error = self._judge(fault)
            result = self._end(status, error, fault if isinstance(fault, AxeError) else None)
            if isinstance(fault, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
            return result
        finally:
            self.dispatch.close()
        if reason := self.response.describe_cut():
            self.warnings.append(reason)
        return self._end(stop.status, str(stop)) if stop else self._end("completed", None)

    async def _run_turns(self) -> RunStopped | None:
        """Runs turns (request, response, tool calls) until a response has no calls (A-8.1).

        If a limit ends the turns, its error is returned if a final question remains to be asked
        (D-17), and raised otherwise.
        """
        limits, has_tools = self.scope.limits, bool(self.plan.toolset.tools)
        while True:
            response = await self.turn()
            calls = response.tool_calls if has_tools else ()  # one turn without tools
            if not (calls or response.is_paused):
                break
            results: list[ToolResult | None] = [None] * len(calls)
            try:
                if response.is_cut:
                    cut = response.describe_cut(" before its tool calls were complete")
                    raise RunStopped("max_tokens", cut)
                if self.turns >= limits.turns:
                    turns = f"agent exceeded maximum conversation turns ({limits.turns})"
                    raise RunStopped("max_turns", turns)
                if limits.tokens is not None and self.count_context(self.tools) > limits.tokens:
                    tokens = f"agent exceeded its budget of {limits.tokens} tokens"
                    raise RunStopped("max_tokens", tokens)
                await self.dispatch.run_all(self.turns, calls, results)
            except RunStopped as stop:
                if not self.plan.job.closing or stop.status == "cancelled":
                    raise
                return stop
            finally:
                done = tuple(result for result in results if result is not None)
                self.messages += [Message("tool", tool_results=done)] if done else []
                self.log[-1] = replace(self.log[-1], results=done)
        self.answer = response.content
        if response.tool_calls:
            names = ", ".join(sorted({call.name for call in response.tool_calls}))
            self.warnings.append(f"the model called {names}, but the agent has no tools")
        return None

    @property
    def text(self) -> str:
        """The model's latest text, even if its response is incomplete."""
        pieces = (delta.text for delta in self._attempts.deltas if delta.kind == "text")
        return "".join(pieces) or self.answer

    @property
    def turns(self) -> int:
        return len(self.log)

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.log), Usage())

    def say(self, prompt: str, pictures: tuple[Picture, ...] = ()) -> None:
        """Adds a user message. Earlier tool calls without a result are marked as interrupted."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = close_open_calls(self.messages)
        self.messages.append(Message("user", prompt, pictures=pictures))

    async def turn(
        self, *, closing: bool = False, asked: FinalRequest = "", question: str = ""
    ) -> Response:
        """Sends a request and adds the response to the conversation; raises the errors of `Send`.

        The arguments are for a final question, for which no tools are offered: `closing` for a
        closing answer, or `asked` and the `question` for structured data.
        """
        scope, plan, number = self.scope, self.plan, self.turns + 1
        scope.env.halt.check()
        scope.clock.check()
        opening = plan.job.open_turn(number)
        if opening is not None and opening.messages:  # empty if a file is damaged
            self.messages = list(opening.messages)
        scope.admit(f"{scope.id}/{number}")
        request = self.make_request(closing=closing, asked=asked)
        form: DataForm = ""
        if plan.output and request.output is not None:
            form = "value" if plan.output.is_wrapped else "object"
        sent, pending = len(self.messages), len(self.messages[-1].tool_results)
        scope.env.emit(TurnStarted(scope.id, number, sent, pending, closing, asked, form))
        before = len(self.exchanges)
        try:
            response = await self._send(request)
        except ProviderError as error:
            self.answer = error.partial_text or self.answer
            raise
        # even if the time is up before the response arrives on the virtual clock
        self._attempts.deltas.clear()
        if response.seconds:  # of a script with a virtual clock (D-36)
            scope.clock.forward(scope.clock.ahead + response.seconds)
        is_last = closing or bool(asked)
        response = self._add(response, has_calls=bool(plan.toolset.tools) and not is_last)
        source = self.exchanges[-1].source
        self.log.append(
            Turn(
                number, response.content, () if closing else response.tool_calls, (),
                response.stop_reason, response.usage, scope.agent.sub_agents_config.parallel,
                closing, asked, question or (opening.said if opening else ""), source,
                response.server_calls, response.sources,
            )
        )  # fmt: skip
        if source in ASKED_NOW:
            tokens = self.count_context(request.tools)
            scope.meter.charge(scope.name, tokens, response.usage.cost)
        scope.env.emit(finish_turn(scope.id, self.log[-1], self.exchanges[before:]))
        return response

    def _add(self, response: Response, *, has_calls: bool) -> Response:
        """Adds a response to the conversation, and returns it with unique ids for its tool calls.

        The calls are added only if `has_calls` is true and the response was not cut off.
        """
        if response.tool_calls:
            self._ids = self._ids or CallIds(self.messages)
            calls = self._ids.settle(self.plan.provider.name, response.tool_calls)
            calls = tuple(map(self.plan.toolset.describe, calls))
            response = replace(response, tool_calls=calls)
        self.response, self.answer = response, response.content or self.answer
        has_calls = has_calls and bool(response.tool_calls) and not response.is_cut
        if response.content.strip() or has_calls or response.is_paused:
            self.messages.append(response.message(calls=has_calls))
        return response

    async def ask(self, question: str, *, asked: FinalRequest = "") -> None:
        """Asks a final question, for data or text; an empty reply leaves `answer` unchanged."""
        before = self.answer
        self.say(question)
        await self.turn(closing=not asked, asked=asked, question=question if asked else "")
        if not self.response.content.strip():
            self.answer = before

    def make_request(self, *, closing: bool = False, asked: FinalRequest = "") -> Request:
        plan, agent, is_last = self.plan, self.scope.agent, closing or bool(asked)
        has_form = bool(asked) if is_last else not plan.asks_at_end
        ignores_form = asked == "repair" and "{" not in self.text
        return Request(
            plan.model, tuple(self.messages), plan.briefing.system, () if is_last else self.tools,
            agent.params, agent.name, f"{self.scope.id}/{self.turns + 1}",
            past_tools=self.tools if is_last else (), system_ends=plan.briefing.system_ends,
            output=plan.output.sent if plan.output and has_form else None,
            refused=frozenset({OUTPUT} if ignores_form else ()), encoded=self._encoded,
        )  # fmt: skip

    def count_context(self, tools: Sequence[ToolSpec]) -> int:
        """Returns the token count of the last request and response, estimated if unknown (D-18)."""
        system = self.plan.briefing.system
        return self.response.usage.total or estimate_tokens(system, tools, self.messages)

    async def take_data(self, output: Output) -> Any:
        """Returns the answer as data. If necessary, asks the model for JSON and for one correction.

        Raises RunError if the answer is incomplete, or still does not match its schema.
        """
        schema = dump(dict(output.sent)).decode()
        data, mistakes = await self._read_answer(output)
        if mistakes and self.plan.asks_at_end:
            question = f"Now give your final answer as JSON that fits this JSON Schema:\n{schema}"
            await self.ask(question, asked="output")
            data, mistakes = await self._read_answer(output)
        when = "even after one repair"
        if mistakes and self.turns >= self.scope.limits.turns:
            when = "no turn was left to repair it"
        elif mistakes:
            question = (
                f"Your answer does not fit its JSON Schema:\n{mistakes}\nGive the whole answer "
                f"again, as JSON only, without these mistakes. The schema:\n{schema}"
            )
            await self.ask(question, asked="repair")
            data, mistakes = await self._read_answer(output)
        if mistakes:
            reason = one_line(mistakes.replace("\n", "; "), 1000)
            if output.is_wrapped:  # the value alone is the data of the result
                reason = reason.replace("data.value", "data")
            raise RunError(
                f"the answer does not match its schema ({when}): {reason}",
                exit_code=1,
                hint="its text is kept; simplify the schema, or clarify in the prompt what it "
                "leaves open",
            )
        return data

    async def _read_answer(self, output: Output) -> tuple[Any, str]:
        try:
            answer = await in_thread(output.read, self.response.content)  # checks may take long
        except WrongOutput as wrong:
            if reason := self.response.describe_cut():
                raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
            return None, str(wrong)
        self.answer = answer.text
        return answer.value, ""

    def _judge(self, fault: BaseException) -> tuple[Status, str]:
        clock = self.scope.clock
        is_cancelled = isinstance(fault, asyncio.CancelledError)
        is_late = clock.is_late and (is_cancelled or isinstance(fault, TimeoutError))
        if is_late or isinstance(fault, TimeIsUp):
            return "timeout", clock.tell_timeout()
        if is_cancelled:
            return "cancelled", "cancelled"
        if isinstance(fault, RunStopped):
            return fault.status, str(fault)
        if isinstance(fault, AxeError):
            return "error", one_line(words(fault), MAX_ERROR)
        if isinstance(fault, RecursionError):
            return "error", "a value of this run is nested too deeply"
        log.debug("%s ended with an unexpected exception", self.scope.id, exc_info=fault)
        is_exit = isinstance(fault, KeyboardInterrupt | SystemExit)
        error = one_line(f"{type(fault).__name__}: {words(fault)}", MAX_ERROR)
        return "cancelled" if is_exit else "error", error

    async def start_child(self, call: PendingCall, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child and returns its result. Raises the errors of `StartChild`."""
        key, above, env = take_key(call, job.key), self.scope, env or self.scope.env
        id = f"{above.id}.{call.number}" + ("" if key == "0" else f"-{key}")
        try:
            async with self._slots.take():
                above.admit(f"{id}/0")
                agent, job = find_child(self.plan, job, env, id)
                scope = above.child(agent, job, env, id=id, call_id=call.call.id, ahead=call.ahead)
                try:
                    scope.clock.check()
                    plan = await make_plan(scope, job)
                    if plan.briefing.workdir != self.plan.briefing.workdir:
                        check_confined(agent, plan.briefing.workdir, env.workdir, env.defined)
                    await asyncio.sleep(0)  # parallel children begin before one of them ends
                    child = self._children[order_child(id)] = Run(plan)
                    return await child.execute()
                finally:
                    call.ahead = max(call.ahead, scope.clock.ahead)
                    above.clock.ahead = max(above.clock.ahead, call.ahead)
        except RunStopped as stop:
            raise ToolError(f"not run: {stop}") from None
        finally:
            if order_child(id) not in self._children:  # the child could not be started
                call.keys.discard(key)

    def adopt(self, child: RunResult) -> None:
        """Adds a finished child of the forked run to this run, and emits its events."""
        self._children[order_child(child.id)] = child
        for event in events_of(child, self.scope.id, self.scope.depth + 1):
            self.scope.env.emit(event)

    def _end(self, status: Status, error: str | None, cause: AxeError | None = None) -> RunResult:
        scope, dispatch = self.scope, self.dispatch
        denied = dispatch.authorizer.unasked.items()
        self.warnings += (f"{name} was denied: {why}" for name, why in denied)
        self.warnings += dispatch.file_log.warnings
        if status == "completed":  # otherwise the error mentions the cap
            self.warnings += scope.meter.describe_overshoots()
        if not scope.parent:
            self.warnings += scope.env.finish(status)
        return self.break_off(status, error, scope.env.emit, cause)

    def break_off(
        self, status: Status, error: str | None, emit: Emit, cause: AxeError | None = None
    ) -> RunResult:
        """Ends the run and all unfinished runs below it, and returns the run's result.

        Any thread may call this method for a run that cannot end on its own. If two threads end a
        run, only the first result counts.
        """
        children = self._children.copy()
        results = tuple(
            one if isinstance(one, RunResult) else one.result or one.break_off(status, error, emit)
            for _, one in sorted(children.items())
        )
        scope, files = self.scope, self.dispatch.file_log
        seconds = scope.clock.elapsed
        whole = Lap("run", round(scope.began, 6), round(scope.began + seconds, 6))
        result = RunResult(
            status=status, text=self.text, data=self.data, agent=scope.agent.name,
            model=scope.agent.model, error=error, turns=self.turns, tool_calls=self.dispatch.count,
            retries=sum(one.attempt > 1 for one in self.exchanges), children=results,
            usage=self.usage, stop_reason=self.response.stop_reason,
            duration_ms=round(seconds * 1000), messages=tuple(self.messages),
            files_read=tuple(files.files_read), files_modified=tuple(files.files_modified),
            warnings=tuple(self.warnings), log=tuple(self.log), id=scope.id, call_id=scope.call_id,
            prompt=self.plan.prompt, pictures=self.plan.pictures, task=self._task,
            exchanges=tuple(self.exchanges),
            cause=copy(cause),  # without the traceback, which would keep the run alive
            times=(whole, *scope.times), origin=scope.origin,
        )  # fmt: skip
        if scope.parent:
            own = make_metadata(scope.id, scope.depth, self.usage)  # D-34
            result = replace(result, metadata={**own, **self.plan.job.notes(result)})
        else:
            kept = scope.env.agents.describe(scope.agent)
            undo_id = scope.undo_id if scope.env.kept.is_used else ""
            result = replace(result, definitions=kept, undo_id=undo_id)
        with _settling:
            if self.result is not None:
                return self.result
            self.result = result
        emit(RunFinished(scope.id, result))
        return result
