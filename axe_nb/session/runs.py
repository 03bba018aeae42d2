"""Run requests, and handles that execute a requested run, cancel it or wait for its result.

A front end passes a `RunRequest` to `Session.start`, and executes the returned handle, for example
with `drive`.
Source: D-2, D-8, D-58.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from axe_nb.agents.agent import Agent
from axe_nb.engine.call import blocking_call
from axe_nb.engine.loop import Run
from axe_nb.engine.person import AskPerson
from axe_nb.engine.plan import Plan
from axe_nb.errors import AxeError, ConfigError
from axe_nb.events import Emit, Event, RunFinished, RunStarted, discard
from axe_nb.messages import Message
from axe_nb.pictures.picture import Picture
from axe_nb.results import NO_AGENT, RunResult, RunStopped, Status
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import PUMP
from axe_nb.text import hide_in_tab, shown_value

if TYPE_CHECKING:
    from axe_nb.recording.fork import ForkPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    agent: str | Agent | None
    """Agent or its name; None for no agent or, in a fork, for the agent at its place."""
    prompt: str = ""
    pictures: tuple[Picture, ...] = ()
    """Pictures in the prompt, in the order of their markers: `[picture 1: …]`."""
    overrides: Overrides = Overrides()
    continue_from: RunResult | None = None
    fork: ForkPoint | None = None
    """Place at which to fork an earlier run; if `agent` is None, the agent at this place runs."""

    @property
    def history(self) -> Sequence[Message]:
        if self.fork is not None:
            return self.fork.history
        return self.continue_from.messages if self.continue_from else ()

    def __post_init__(self) -> None:
        for name, kinds, wanted in (
            ("agent", (str, Agent, type(None)), "a name or an Agent"),
            ("prompt", (str,), "text"),
            ("continue_from", (RunResult, type(None)), "a RunResult"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise ConfigError(f"{name} takes {wanted}, not {shown_value(value)}")


class Outlet:
    """Passes the events of all runs in a tree to `emit`, until the root run ends."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.emit: Emit = discard
        """Receiver of the events; `discard` once the root has ended or the outlet is closed."""
        self.open: set[str] = set()

    def pass_on(self, event: Event) -> None:
        with self.lock:
            emit = self.emit
            if emit is discard:
                return
            if isinstance(event, RunStarted):
                self.open.add(event.run)
            elif isinstance(event, RunFinished):
                self.open.discard(event.run)
                self.emit = discard if event.run == "0" else emit  # the last event (D-57)
            emit(event)


class RunHandle:
    """A requested run. One front end executes the run; any thread may cancel it or wait for it."""

    __dir__ = hide_in_tab(
        "abandon", "close", "events", "execute", "finished", "halt", "name", "overdue", "plan",
        "request",
    )  # fmt: skip

    def __init__(
        self,
        request: RunRequest,
        make_plan: Callable[[RunRequest, Emit, AskPerson | None, bool], Awaitable[Plan]],
        remember: Callable[[RunResult], None],
    ) -> None:
        """Creates a handle; `make_plan` takes the request, `emit`, `ask_person` and `streams`."""
        self.request = request
        self._make_plan = make_plan
        self._remember = remember
        self._outlet = Outlet()
        self._lock = self._outlet.lock
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._run: Run | None = None
        self._cancelled_at: float | None = None
        self._outcome: Future[RunResult] = Future()
        """The result, or the exception that kept the run from starting."""
        self._outcome.set_running_or_notify_cancel()  # waiters cannot cancel it

    @property
    def name(self) -> str:
        fork = self.request.fork
        agent = fork.root.agent if fork else self.request.agent
        return (agent.name if isinstance(agent, Agent) else agent) or NO_AGENT

    def __repr__(self) -> str:
        state = self.finished.status if self.finished else "failed" if self.done else "running"
        return f"<{self.name}: {state}; .result(), .cancel(), .done>"

    @property
    def done(self) -> bool:
        return self._outcome.done()

    @property
    def plan(self) -> Plan | None:
        """Plan of the run; None before its first event."""
        return self._run.plan if self._run else None

    @property
    def finished(self) -> RunResult | None:
        """Result of the run; None until it ends, or if it never starts."""
        has_result = self.done and self._outcome.exception() is None
        return self._outcome.result() if has_result else None

    def cancel(self) -> None:
        """Cancels the run. If it had begun, its result has all turns and calls finished so far."""
        self.halt()
        with self._lock:
            self._cancelled_at = self._cancelled_at or time.monotonic()
            if self._task is None:
                self._settle(self._make_never_begun())
            elif not self.done:
                loop, task = self._task
                loop.call_soon_threadsafe(task.cancel)

    def halt(self) -> None:
        """Stops the run and its descendants from sending requests, but does not end them yet."""
        if self.plan is not None:
            self.plan.scope.env.halt.end_tree(RunStopped("cancelled", "cancelled"))

    def result(self, timeout: float | None = None) -> RunResult:
        """Waits for the run to end and returns its result, even if it failed or was cancelled.

        An interrupt ends the wait, not the run. Raises TimeoutError if the run has not ended after
        `timeout` seconds (None waits without limit), and AxeError if it could not start.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not wait([self._outcome], max(0.0, min(until - time.monotonic(), PUMP))).done:
            if time.monotonic() >= until:
                raise TimeoutError(f"{self.name} is still running; .cancel() stops it")
        return self._outcome.result()

    def __await__(self) -> Generator[Any, None, RunResult]:
        """Waits for the result on the caller's event loop."""
        return (yield from asyncio.wrap_future(self._outcome))

    async def events(self) -> AsyncGenerator[Event, None]:
        """Executes the run and yields its events, the last of which carries the result.

        Closing the generator stops the run.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()

        async def run() -> None:
            try:
                await self.execute(queue.put_nowait, streams=True)
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(run())
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def execute(
        self, emit: Emit, ask_person: AskPerson | None = None, *, streams: bool = False
    ) -> RunResult:
        """Executes the run and returns the result. With `streams`, agents may stream replies."""
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._task is not None:
                raise RuntimeError(f"this run of {self.name} has already been started")
            if self.done:  # by `cancel`
                raise asyncio.CancelledError
            self._task = asyncio.get_running_loop(), task
            self._outlet.emit = emit
        try:
            plan = await self._make_plan(self.request, self._outlet.pass_on, ask_person, streams)
            plan.scope.env.check_can_step()
            if plan.scope.env.replays:
                plan.scope.env.halt.cancel = self.cancel
            self._run = Run(plan)
            result = await self._run.execute()
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            never_begun = self._make_never_begun() if is_cancelled else error
            self._settle((self._run and self._run.result) or never_begun)
            raise
        self._settle(result)
        return result

    def _make_never_begun(self) -> AxeError:
        return AxeError(f"the run of {self.name} was cancelled before it began")

    def close(self) -> None:
        with self._lock:
            self._outlet.emit = discard

    def _settle(self, outcome: RunResult | BaseException) -> None:
        with self._lock:
            if self.done:
                return
            if isinstance(outcome, BaseException):
                self._outcome.set_exception(outcome)
                return
            self._remember(outcome)
            recorder = self._run and self._run.scope.env.recorder
            if recorder:
                recorder.finish(outcome)
            self._outcome.set_result(outcome)

    def overdue(self) -> float:
        """Returns the seconds since a run's deadline or cancellation; 0.0 if it is not overdue."""
        if self._run is None or self.done:
            return 0.0
        now = time.monotonic()
        since = now - self._cancelled_at if self._cancelled_at is not None else 0.0
        return max(since, self._run.scope.clock.overdue(now))

    def abandon(self, emit: Emit, *, timed_out: bool = False) -> RunResult | None:
        """Ends a run whose event loop does not respond; any later work of the run is lost.

        `emit` receives a `RunFinished` event for each unfinished run. Returns the result so far,
        or None if the run never started.
        """
        self.close()
        run = self._run
        if run is None:
            self._settle(self._make_never_begun())
        elif not self.done:
            timed_out = timed_out and self._cancelled_at is None
            why = run.scope.clock.tell_timeout() if timed_out else "cancelled"
            blocking = blocking_call(self._task[0]) if self._task else ""
            if blocking:
                why += f"; {blocking} blocked the event loop: define it with def, not async def"
            ends: list[Event] = []
            status: Status = "timeout" if timed_out else "cancelled"
            self._settle(run.break_off(status, why, ends.append))
            for event in ends:  # after the result is set: a view that fails does not lose it
                if event.run in self._outlet.open:
                    emit(event)
        return self.finished
