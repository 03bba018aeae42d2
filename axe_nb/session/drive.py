"""Runs a handle with a view, which receives every event, regular ticks and the result.

Source: product.md "Notebook", "Python"; house style §4, §8; D-58.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError

from axe_nb.events import discard
from axe_nb.results import RunResult
from axe_nb.session.approval import Approver
from axe_nb.session.portal import PUMP, Unresponsive, pump
from axe_nb.session.runs import AlreadyStarted, RunHandle
from axe_nb.session.view import View


def drive(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Runs a handle in the portal's thread and shows it in this one; returns the result.

    Args:
        handle: the run.
        view: shows the run.
        approver: takes the run's questions, which are answered in this thread; None = no one can be
            prompted.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
        concurrent.futures.CancelledError: the run was cancelled before it started.
        AlreadyStarted: the handle has been driven before.
        KeyboardInterrupt: the user stopped the run; `handle.finished` is the result so far.
    """
    ask_person = approver.ask_person if approver else None

    def tick() -> None:
        view.tick()
        if approver is not None:
            approver.serve()

    try:
        return pump(
            lambda emit: handle.execute(emit, ask_person, streams=view.streams), view.event, tick,
            handle.overdue, handle.close, handle.halt,
        )  # fmt: skip
    except Unresponsive:
        result = handle.abandon(view.event, timed_out=True)
        assert result is not None
        return result
    except KeyboardInterrupt:
        handle.abandon(view.event)
        raise
    except AlreadyStarted:  # it is another's run
        raise
    except CancelledError:  # by `handle.cancel()`
        if handle.finished is None:
            raise
        return handle.finished
    except BaseException:  # of the view or the approver: no one watches the run any more
        handle.abandon(discard)
        raise
    finally:
        view.finish(handle.finished)


async def drive_here(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Like `drive`, on the caller's own event loop.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    ask_person = approver.ask_person_here if approver else None
    try:
        async with asyncio.TaskGroup() as group:  # a view that fails stops the run
            ticker = group.create_task(_tick(view))
            result = await handle.execute(view.event, ask_person, streams=view.streams)
            ticker.cancel()
        return result
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        view.finish(handle.finished)


async def _tick(view: View) -> None:
    while True:
        await asyncio.sleep(PUMP)
        view.tick()
