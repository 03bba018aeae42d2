"""Tool dispatch: runs the calls of a reply beside one another, with exactly one result each.

Source: A-8.2, A-11.*, D-5, D-35, D-51.
"""

from __future__ import annotations

import asyncio

from axe_nb.engine.authorize import Authorizer
from axe_nb.engine.call import CallLink, CallSlot, PendingCall
from axe_nb.engine.call_links import Authorised, RunCalls, Told, ToolRun, TopLink
from axe_nb.engine.children import Children
from axe_nb.engine.plan import Plan
from axe_nb.limits import RunStopped
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.threads import STRETCH, without_group
from axe_nb.tools.tool import FileLog, PermissionDenied, Tool

USED_UP = "the budget of tool calls is used up"

LATER = "make the other calls in later replies"
"""Ends of the reasons why a call of a reply was not made."""


def is_refused(result: ToolResult) -> bool:
    """True if a call was one too many: it was not made, and so has no number."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


class Dispatch:
    """Executes the tool calls of one run."""

    def __init__(self, plan: Plan, children: Children) -> None:
        self._scope = scope = plan.scope
        self._cap = scope.meter.cap_reply()
        workdir = plan.briefing.workdir
        self.made = RunCalls(
            scope=scope, toolset=plan.toolset, workdir=workdir, children=children,
            pictures=plan.make_room(), file_log=FileLog(kept=scope.env.kept),
            authorizer=Authorizer(scope, workdir),
        )  # fmt: skip
        self._chain = connect_calls(self.made)

    def describe_denials(self) -> list[str]:
        """Returns a warning for each tool that was denied as no one could be asked."""
        unasked = self.made.authorizer.unasked
        return [f"{name} was denied: {why}" for name, why in unasked.items()]

    async def permit_server_tool(self, tool: Tool) -> str:
        """Returns why a tool of the model's server must not be offered; empty if it may be.

        Raises:
            RunStopped: the person stopped the run.
        """
        try:
            await self.made.authorizer.authorize(tool, {})
        except PermissionDenied as denied:
            self.made.authorizer.unasked.pop(tool.name, None)
            return str(denied)
        return ""

    async def run_all(
        self, turn: int, calls: tuple[ToolCall, ...], results: list[ToolResult | None]
    ) -> None:
        """Runs the calls and stores each result in `results`, also when cancelled midway.

        Raises:
            RunStopped: there were more calls than the run may make; the others were answered.
        """
        clock, slots = self._scope.clock, self._scope.in_flight.calls
        most = self._scope.limits.tool_calls
        left = None if most is None else most - self.made.count
        allowed = self._refuse_calls(calls, results, left)
        self._scope.begin_calls(turn, calls)
        first, ahead = self.made.count + 1, clock.ahead
        parallel = self._scope.agent.sub_agents_config.parallel and len(allowed) > 1

        async def run(index: int, slot: CallSlot) -> None:
            call = allowed[index]
            results[index] = await self._chain.run(
                PendingCall(
                    call=call, number=first + index, turn=turn, index=index, count=len(calls),
                    ahead=ahead if parallel else clock.ahead, slot=slot, arguments=call.arguments,
                )
            )  # fmt: skip

        if parallel:
            with without_group():
                async with asyncio.TaskGroup() as group:
                    for index in range(len(allowed)):
                        if index % STRETCH == STRETCH - 1:
                            await asyncio.sleep(0)  # to those that have begun, and the timer
                            clock.check()
                        await slots.acquire()
                        slot = CallSlot(slots)
                        group.create_task(run(index, slot)).add_done_callback(slot.release)
        else:
            for index in range(len(allowed)):
                await slots.acquire()
                slot = CallSlot(slots)
                try:
                    await run(index, slot)
                finally:
                    slot.release()
        clock.forward(clock.ahead)
        if left is not None and len(calls) > left:
            raise RunStopped("max_tool_calls", f"agent exceeded its budget of {most} tool calls")

    def _refuse_calls(
        self, calls: tuple[ToolCall, ...], results: list[ToolResult | None], most: int | None
    ) -> tuple[ToolCall, ...]:
        """Returns the calls to run, after storing an error result for each of the others."""
        why = USED_UP
        cap, reached = self._cap
        if cap is not None and (most is None or cap < most):
            most, why = cap, f"{reached}; {LATER}"
        if most is None or len(calls) <= most:
            return calls
        text = f"Error: not run: {why}"
        results[most:] = [
            ToolResult(call.id, text, is_error=True, name=call.name) for call in calls[most:]
        ]
        return calls[:most]


def connect_calls(made: RunCalls) -> TopLink:
    """Returns the links to the tools of a run: only those that it needs."""
    scope, env = made.scope, made.scope.env
    link: CallLink = ToolRun(made)
    if env.cassette is not None:
        from axe_nb.engine.replays import CassetteCalls

        link = CassetteCalls(scope, env.cassette, link)
    link = Authorised(made, link)
    if env.stepper is not None:
        from axe_nb.engine.stepping import StepCalls

        link = StepCalls(scope, env.stepper, link)
    top: TopLink = Told(made, link)
    if env.fork is None:
        return top
    from axe_nb.engine.replays import ForkCalls

    return ForkCalls(made, env.fork, top)
