"""The Python face: `run`, `arun`, `stream`, `last`, `define`.

Source: product.md "Python"; D-2.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Unpack

from axe_nb.agents.agent import Agent
from axe_nb.commands.overrides import RunOptions, shown_value, with_options_shown
from axe_nb.engine.loop import is_inside
from axe_nb.errors import AxeError, ConfigError
from axe_nb.events import Event, RunResult
from axe_nb.session.desk import Desk, by_input
from axe_nb.session.portal import portal
from axe_nb.session.session import session
from axe_nb.session.watch import Blind, View, watched, watched_here


@with_options_shown
def run(
    agent: str | Agent,
    prompt: str = "",
    *,
    continue_from: RunResult | None = None,
    display: bool = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """The result of a run, however it ended; blocks, also inside a running event loop.

    Args:
        agent: its name, or an Agent.
        prompt: blank = the task is in its instructions.
        continue_from: an earlier result whose conversation goes on.
        display: whether a notebook shows it live.
        options: those of the magic (docs/reference.md): `model`, `timeout` and so on.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
    """
    overrides = session.overrides(options)
    check_request(agent, prompt, continue_from)
    refuse_inside_a_tool()
    desk = desk_of_person()
    consult = desk.consult if desk else None
    return watched(
        lambda emit: session.ask(
            agent, prompt, overrides, emit, continue_from=continue_from, consult=consult
        ),
        view(display),
        desk=desk,
    )


@with_options_shown
async def arun(
    agent: str | Agent,
    prompt: str = "",
    *,
    continue_from: RunResult | None = None,
    display: bool = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """As `run`, for the caller's own event loop."""
    overrides = session.overrides(options)
    check_request(agent, prompt, continue_from)
    desk = desk_of_person()
    consult = desk.consult_here if desk else None
    return await watched_here(
        lambda emit: session.ask(
            agent, prompt, overrides, emit, continue_from=continue_from, consult=consult
        ),
        view(display),
    )


@with_options_shown
async def stream(
    agent: str | Agent,
    prompt: str = "",
    *,
    continue_from: RunResult | None = None,
    **options: Unpack[RunOptions],
) -> AsyncGenerator[Event, None]:
    """The events of a run as they happen; the last one carries the RunResult. Shows nothing.

    Leaving the loop early cancels the run.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
    """
    overrides = session.overrides(options)
    check_request(agent, prompt, continue_from)
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def ask() -> None:
        try:
            await session.ask(
                agent, prompt, overrides, events.put_nowait, continue_from=continue_from
            )
        finally:
            events.put_nowait(None)

    task = asyncio.create_task(ask())
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


def last() -> RunResult | None:
    """This session's last finished run, also of a cell that failed; None = none yet."""
    return session.last


def define(agent: Agent) -> None:
    """Makes an agent known in this session by its name, before any file of that name."""
    session.define(agent)


def check_request(agent: object, prompt: object, continue_from: object) -> None:
    """Refuses what a run cannot be asked with.

    Raises:
        ConfigError: names the argument.
    """
    for name, value, kinds, wanted in (
        ("agent", agent, (str, Agent), "a name or an Agent"),
        ("prompt", prompt, (str,), "text"),
        ("continue_from", continue_from, (RunResult, type(None)), "a RunResult"),
    ):
        if not isinstance(value, kinds):
            raise ConfigError(f"{name} takes {wanted}, not {shown_value(value)}")


def refuse_inside_a_tool() -> None:
    """Raises where a blocking run would stop the loop that an async tool runs on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if is_inside() or portal.is_here():
        raise AxeError(
            "axe_nb.run was called inside an async tool",
            hint="use `await ctx.delegate(…)`, with a parameter `ctx: axe_nb.ToolContext`",
        )


def desk_of_person() -> Desk | None:
    """Where a run can ask the person at the notebook or terminal; None = there is nobody."""
    if is_inside():
        return None
    if "IPython" in sys.modules:
        from axe_nb.nb.show import can_ask

        answered = can_ask()
    else:
        answered = sys.stdin is not None and sys.stdin.isatty()
    return Desk(by_input) if answered else None


def view(display: bool) -> View:
    """The notebook's display where there is one, else nothing; a run within a run has none."""
    if not display or is_inside() or "IPython" not in sys.modules:
        return Blind()
    from axe_nb.nb.show import notebook_view

    return notebook_view()
