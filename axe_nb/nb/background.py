"""`--bg`: a run beside the next cells; its view stays in the cell that started it.

The view is driven from a thread of its own. That thread first shows it while the cell still runs,
so that it lies in that cell on every kernel; later updates name the display or the widget.
Source: product.md "Notebook" (`--bg`); jupyter-facts §1, §2.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading

from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.events import Emit, Event, RunResult
from axe_nb.nb import show, view
from axe_nb.session.watch import Blind, View, Work, watched

GLANCE = 0.05
"""Seconds between two looks; a bare `wait()` is not woken by an interrupt on Windows."""


class Background:
    """A run that goes on beside the next cells."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._ended = threading.Event()
        self._result: RunResult | None = None
        self.error: BaseException | None = None
        """What ended it other than its own end; None = nothing."""
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    @property
    def done(self) -> bool:
        """Whether the run has ended, however it did."""
        return self._ended.is_set()

    def result(self, timeout: float | None = None) -> RunResult:
        """The run's result, also of one that failed or was cancelled; waits for its end.

        An interrupt ends the waiting, not the run.

        Args:
            timeout: seconds to wait at most; None = to the end.

        Raises:
            TimeoutError: the run goes on.
        """
        left = float("inf") if timeout is None else max(timeout, 0.0)
        while not self._ended.wait(min(left, GLANCE)):
            left -= GLANCE
            if left <= 0:
                raise TimeoutError(f"{self._agent} is still running; .cancel() stops it")
        if self._result is None:
            raise self.error or RuntimeError(f"{self._agent} ended without a result")
        return self._result

    def cancel(self) -> None:
        """Stops the run; what is finished by then is its result."""
        if self._task is not None and not self.done:
            loop, task = self._task
            loop.call_soon_threadsafe(task.cancel)

    def __repr__(self) -> str:
        state = self._result.status if self._result else "failed" if self.done else "running"
        return f"<{self._agent}: {state}; .result(), .cancel(), .done>"

    def _ipython_display_(self) -> None:
        if not show.is_shown(self):
            display({"text/plain": repr(self)}, raw=True)  # type: ignore[no-untyped-call]

    def carry_out(self, work: Work, shown: View) -> None:
        """Runs it to its end, in the thread that calls."""

        async def noted(emit: Emit) -> RunResult:
            task = asyncio.current_task()
            assert task is not None
            self._task = asyncio.get_running_loop(), task
            return await work(emit)

        def keep(result: RunResult) -> None:
            self._result = result

        try:
            watched(noted, shown, keep)
        except concurrent.futures.CancelledError:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self._ended.set()


class _Noticed:
    """A view that says when it has been handed its first event."""

    def __init__(self, inner: View, begun: threading.Event) -> None:
        self._inner = inner
        self._begun = begun
        self.tick = inner.tick
        self.finish = inner.finish

    def event(self, event: Event) -> None:
        """Takes each event."""
        self._inner.event(event)
        self._begun.set()


def start(agent: str, work: Work, name: str = "") -> Background:
    """The handle of a run that has begun; of one that has ended, where nobody watches live.

    Args:
        agent: its name.
        work: runs it.
        name: what the reader can type to get the result; empty = `axe_nb.last()`.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
        KeyboardInterrupt: the person stopped it while the cell still ran.
    """
    shell = get_ipython()
    assert shell is not None
    handle = Background(agent)
    show.remember(handle)
    wanted = show.wanted(shell)
    if wanted == "off":
        _in_thread(handle, work, Blind())
    elif view.is_live(wanted):
        _in_thread(handle, work, view.LiveView(name or "axe_nb.last()"))
    else:
        handle.carry_out(work, show.notebook_view(name))
    if handle.error is not None:
        raise handle.error
    return handle


def _in_thread(handle: Background, work: Work, shown: View) -> None:
    """Starts it, and waits until its view is in this cell."""
    begun = threading.Event()
    # ipykernel 7 knows by the context which cell an output belongs to
    run = contextvars.copy_context().run
    threading.Thread(
        target=run, args=(handle.carry_out, work, _Noticed(shown, begun)),
        name="axe-nb-view", daemon=True,
    ).start()  # fmt: skip
    try:
        while not (begun.wait(GLANCE) or handle.done):
            pass
    except BaseException:
        handle.cancel()
        raise
