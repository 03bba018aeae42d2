"""From a model's calls to their results: found, permitted, run side by side, one result each.

Source: seed 000 §3.8 (A-8.2), §3.11 (A-11.*), §3.13; D-3, D-5, D-7, D-19, D-35, D-48.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.budget import Limits, Stop
from axe_nb.clock import Clock
from axe_nb.engine.permissions import Answer, Consult, Permit, Question
from axe_nb.engine.toolset import Toolset
from axe_nb.events import Emit, RunResult, ToolFinished, ToolStarted
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.output import limited, output_of
from axe_nb.tools.plain import copy_of
from axe_nb.tools.tool import Job, Ledger, Tool, ToolContext, ToolError, ToolOutput

Start: TypeAlias = Callable[[ToolCall, int, float, Job], Awaitable[RunResult]]
"""(call, its number in the run, virtual seconds so far, job) -> the child's result."""


@dataclass
class Dispatch:
    """Runs the calls of one run."""

    run: str
    """Place of the run in the tree."""
    agent: Agent
    depth: int
    toolset: Toolset
    workdir: Path
    permit: Permit
    consult: Consult | None
    """None = nobody can be asked."""
    emit: Emit
    clock: Clock
    start: Start
    limits: Limits
    calls: int = field(default=0, init=False)
    """Calls executed so far."""
    ledger: Ledger = field(default_factory=Ledger, init=False)

    def __post_init__(self) -> None:
        self._always: set[str] = set()
        self._asking = asyncio.Lock()

    async def run_all(
        self, calls: tuple[ToolCall, ...], results: list[ToolResult | None], most: int | None
    ) -> None:
        """Puts each call's result in its place in `results`, also when it is cancelled halfway.

        Args:
            calls: of one response, in order.
            results: as long as `calls`.
            most: how many of them may be run; the others are answered with an error (D-35).
        """
        allowed = calls if most is None else calls[:most]
        first, ahead = self.calls, self.clock.ahead
        parallel = self.agent.sub_agents_config.parallel and len(allowed) > 1

        async def one(index: int, call: ToolCall) -> None:
            at = ahead if parallel else self.clock.ahead
            results[index] = await self._call(call, first + index + 1, at)

        for index in range(len(allowed), len(calls)):
            results[index] = self._over_budget(calls[index])
        if parallel:
            try:
                async with asyncio.TaskGroup() as group:
                    for index, call in enumerate(allowed):
                        group.create_task(one(index, call))
            except BaseExceptionGroup as stops:  # a call itself never raises anything but Stop
                raise stops.exceptions[0] from None
        else:
            for index, call in enumerate(allowed):
                await one(index, call)
        self.clock.forward(self.clock.ahead)

    def _over_budget(self, call: ToolCall) -> ToolResult:
        text = "Error: not run: the budget of tool calls is used up"
        return ToolResult(call.id, text, is_error=True, name=call.name)

    async def _call(self, call: ToolCall, number: int, ahead: float) -> ToolResult:
        """The one result of a call; nothing that goes wrong in it leaves it (A-13.1)."""
        started = time.monotonic()
        self.calls += 1
        self.emit(ToolStarted(self.run, call))
        tool = self.toolset.find(call.name)
        if tool is None:
            output = ToolOutput(f"Unknown tool: {quote(call.name)}", is_error=True)
        else:
            output = await self._finished(self._output(tool, call, number, ahead))
        result = ToolResult(call.id, output.content, output.is_error, call.name)
        self.emit(ToolFinished(self.run, result, time.monotonic() - started))
        return result

    @staticmethod
    async def _finished(work: Awaitable[ToolOutput]) -> ToolOutput:
        """What the work comes to; a tool that ignores its cancelling does not undo it (D-8)."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        output = await work
        if task.cancelling() > before:
            raise asyncio.CancelledError
        return output

    async def _output(self, tool: Tool, call: ToolCall, number: int, ahead: float) -> ToolOutput:
        return limited(tool, await self._outcome(tool, call, number, ahead))

    async def _outcome(self, tool: Tool, call: ToolCall, number: int, ahead: float) -> ToolOutput:
        try:
            call = replace(call, arguments=copy_of(call.arguments))  # history keeps its own
            arguments = await self._permitted(tool, call.arguments)
            context = ToolContext(
                call, self.agent, self.depth, self.toolset.ceiling.of(tool), self.workdir,
                self.ledger, partial(self.start, call, number, ahead), self.toolset.names,
                self._answer if self.consult is not None and self.depth == 0 else None,
                self.limits,
            )  # fmt: skip
            return output_of(await tool.fn(context, arguments))
        except Stop:
            raise
        except ToolError as error:
            return ToolOutput(f"Error: {error}", is_error=True)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # a tool is the user's code: its faults are the model's to hear
            return ToolOutput(f"Error: {type(error).__name__}: {error}", is_error=True)

    async def _permitted(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments to run with, where the call may be run.

        Raises:
            ToolError: it may not; names the key to change.
            Stop: the person stopped the run.
        """
        decision, reason = self.permit.decide(tool)
        if decision == "allow":
            return arguments
        if decision == "ask" and self.consult is None:
            reason = f"it needs a yes, and nobody can be asked here; set {self.permit.keys(tool)}"
            decision = "deny"
        if decision == "deny":
            raise ToolError(f"permission denied for {tool.name}: {reason}")
        async with self._asking:
            if tool.name in self._always:  # perhaps said to the call before this one
                return arguments
            return await self._consented(tool, arguments)

    async def _consented(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments that the person agrees to.

        Raises:
            ToolError: they do not agree.
            Stop: they stopped the run.
        """
        detail = ""
        if tool.preview:  # it reads files
            detail = await in_thread(tool.preview, arguments, self.workdir)
        answer = await self._asked(
            Question(self.run, self.agent.name, tool.name, arguments, detail)
        )
        match answer.choice:
            case "yes":
                return arguments
            case "always":
                self._always.add(tool.name)
                return arguments
            case "edit":
                return answer.arguments
            case _:
                why = f": {answer.text}" if answer.text else ""
                raise ToolError(f"permission denied for {tool.name} by the person asked{why}")

    async def _answer(self, question: str) -> str:
        """The person's answer to a question of the model."""
        async with self._asking:
            asked = Question(self.run, self.agent.name, "", {}, question)
            return (await self._asked(asked)).text

    async def _asked(self, question: Question) -> Answer:
        assert self.consult is not None
        with self.clock.paused():
            answer = await self.consult(question)
        if answer.choice == "stop":
            raise Stop("cancelled", "stopped by the person who was asked")
        return answer
