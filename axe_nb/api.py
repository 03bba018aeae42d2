"""The Python face: `run`, `arun`, `stream`, `last`, `define`.

Source: product.md "Python"; D-2.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from axe_nb.agents.agent import Agent, Mode
from axe_nb.engine.loop import is_inside
from axe_nb.errors import AxeError, ConfigError
from axe_nb.events import Event, RunResult
from axe_nb.session.desk import Desk, by_input
from axe_nb.session.options import DEFAULT_TIMEOUT, Overrides
from axe_nb.session.portal import portal
from axe_nb.session.session import session
from axe_nb.session.watch import Blind, View, watched, watched_here
from axe_nb.tools.python_tool import tool_of
from axe_nb.tools.tool import Tool

Tools: TypeAlias = str | Tool | Callable[..., Any]
"""A tool: its name, itself, or a function marked with `@axe_nb.tool`."""


def run(
    agent: str | Agent,
    prompt: str = "",
    *,
    model: str | None = None,
    skill: str | None = None,
    workdir: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, Any] | None = None,
    agents_dir: str | None = None,
    tools: Sequence[Tools] | None = None,
    mode: Mode | None = None,
    continue_from: RunResult | None = None,
    display: bool = True,
) -> RunResult:
    """The result of a run, however it ended; blocks, also inside a running event loop.

    Args:
        agent: its name, or an Agent.
        prompt: blank = the task is in its instructions.
        timeout: seconds for the whole tree.
        tools: in place of the agent's.
        continue_from: an earlier result whose conversation goes on.
        display: whether a notebook shows it live.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
    """
    overrides = Overrides(
        model, skill, workdir, timeout, params or {}, agents_dir, _tools(tools), mode
    )
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


async def arun(
    agent: str | Agent,
    prompt: str = "",
    *,
    model: str | None = None,
    skill: str | None = None,
    workdir: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, Any] | None = None,
    agents_dir: str | None = None,
    tools: Sequence[Tools] | None = None,
    mode: Mode | None = None,
    continue_from: RunResult | None = None,
    display: bool = True,
) -> RunResult:
    """As `run`, for the caller's own event loop."""
    overrides = Overrides(
        model, skill, workdir, timeout, params or {}, agents_dir, _tools(tools), mode
    )
    desk = desk_of_person()
    consult = desk.consult_here if desk else None
    return await watched_here(
        lambda emit: session.ask(
            agent, prompt, overrides, emit, continue_from=continue_from, consult=consult
        ),
        view(display),
    )


async def stream(
    agent: str | Agent,
    prompt: str = "",
    *,
    model: str | None = None,
    skill: str | None = None,
    workdir: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, Any] | None = None,
    agents_dir: str | None = None,
    tools: Sequence[Tools] | None = None,
    mode: Mode | None = None,
    continue_from: RunResult | None = None,
) -> AsyncGenerator[Event, None]:
    """The events of a run as they happen; the last one carries the RunResult. Shows nothing.

    Leaving the loop early cancels the run.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
    """
    overrides = Overrides(
        model, skill, workdir, timeout, params or {}, agents_dir, _tools(tools), mode
    )
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


def _tools(given: Sequence[Tools] | None) -> tuple[str | Tool, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise ConfigError("tools must be a list of tools, not text", hint='as in tools=["grep"]')
    return tuple(t if isinstance(t, str) else tool_of(t) for t in given)


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
