"""The main functions of the Python API, such as `run`, `expect`, `history` and `load`.

Source: D-2, D-69.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, Unpack, get_args

from axe_nb.agents.agent import Agent
from axe_nb.agents.data_files import read_data
from axe_nb.cell_display.front_end import find_approver, find_variable, make_view, print_run
from axe_nb.conversion.toml_tables import is_number
from axe_nb.engine.call import calling, is_inside, refuse_in_tool
from axe_nb.errors import AxeError, ConfigError
from axe_nb.events import Event
from axe_nb.pictures.picture import Illustrated, split_prompt
from axe_nb.results import RunResult, Status
from axe_nb.session.drive import NullView, drive, drive_here
from axe_nb.session.overrides import Overrides, RunOptions, keep_for_tree, with_options_shown
from axe_nb.session.portal import portal
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.text import quote, shown_value
from axe_nb.tools.tool import ToolContext

if TYPE_CHECKING:  # not every run needs these: imported on first use
    from axe_nb.recording.cassette import Cassette
    from axe_nb.recording.modes import Mode
    from axe_nb.views.history import History

Prompt: TypeAlias = "str | Sequence[object]"
"""Prompt of a run: text, or a list of texts and pictures (bytes, paths, figures, images)."""


@with_options_shown
def run(
    agent: str | Agent | None = None,
    prompt: Prompt = "",
    *,
    continue_from: RunResult | None = None,
    display: bool = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Runs an agent and returns the result, whatever its status.

    Blocks, even inside a running event loop; in an async tool, use `arun`. Raises ConfigError if
    the configuration is invalid, before anything is sent; its `hint` suggests what to do. Raises
    ExpectationError if the run did not meet `expect`; `last()` then returns the result.

    Args:
        agent: the agent or its name; None sends the prompt directly to `model`.
        prompt: the task, or a list of texts and pictures; may be blank if the agent's instructions
            contain the task.
        continue_from: an earlier result, whose conversation is continued.
        display: if True, a notebook shows the run live.
        model: model to use for this run.
        model_all: model for all agents of the tree; `model` takes precedence for the root.
        skill: skill file to use instead of the agent's.
        workdir: folder for files and tools.
        timeout: time limit for the whole run in seconds (default 120); 0 or None for no limit.
        retries: how often to retry a request that fails temporarily (default 2).
        params: model parameters, merged into those of the agent.
        vars: values of `{{ name }}` in system prompts; sub-agents get the ones that they define.
        agents_dir: folder to search for agents first.
        tools: tools to use instead of the agent's: names, or functions.
        mode: permission for tools that write: plan, ask or auto.
        output: structured output for `result.data`: a JSON Schema, a dataclass, a TypedDict, a
            pydantic model, a list of one of these, or the path of a file with a schema.
        stream: if False, replies are never streamed.
        expect: expectations for the run, as in `researcher >= 2, parallel; no write_file`.
        step: pause before each request and call: True asks the user, a function gets each `Step`.
        break_at: pause only at these places: `tool:NAME`, `agent:NAME`, `depth:N`.
    """
    request = _make_request(agent, prompt, continue_from, options)
    refuse_inside_a_tool()
    if caller := calling():
        return _check(asyncio.run(_run_below(caller, request)), request)
    return _run_shown(request, display)


@with_options_shown
async def arun(
    agent: str | Agent | None = None,
    prompt: Prompt = "",
    *,
    continue_from: RunResult | None = None,
    display: bool = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Runs an agent like `run`, but on the caller's event loop, or as a child run in an async tool.

    Takes the same arguments, returns the same result and raises the same errors as `run`.
    Cancelling the task stops the run.
    """
    request = _make_request(agent, prompt, continue_from, options)
    if caller := calling():
        return _check(await _run_below(caller, request), request)
    return await _arun_shown(request, display)


@with_options_shown
async def stream(
    agent: str | Agent | None = None,
    prompt: Prompt = "",
    *,
    continue_from: RunResult | None = None,
    **options: Unpack[RunOptions],
) -> AsyncGenerator[Event, None]:
    """Yields the events of a run as they happen; the last one carries the RunResult.

    Nothing is displayed. Closing the generator stops the run. To stop the run as soon as a loop is
    left, use `async with contextlib.aclosing(axe_nb.stream(…)) as events:`.

    Raises ConfigError if the configuration is invalid, before anything is sent; AxeError if called
    inside a tool; and ExpectationError, after the last event, if the run did not meet `expect`.
    """
    request = _make_request(agent, prompt, continue_from, options)
    refuse_in_tool("stream")
    handle = session.start(request)
    async with aclosing(handle.events()) as events:
        async for event in events:
            yield event
    _check(handle.result(), request)


def expect(result: RunResult, expectations: str) -> RunResult:
    """Checks that a run met all expectations, and returns its result.

    `expectations` are separated by semicolons, as in `researcher >= 2, parallel; no write_file`.
    Raises ConfigError if they are invalid or cannot be decided, and ExpectationError if one is not
    met; the error's `place` says where in the run tree.
    """
    if not isinstance(result, RunResult):
        raise ConfigError(f"expect takes a RunResult, not {shown_value(result)}")
    return _check_met(result, expectations, session.defaults.get("agents_dir"))


@contextmanager
def cassette(path: str | os.PathLike[str], mode: Mode | None = None) -> Iterator[Cassette]:
    """Records the requests and replies of all runs in the `with` block, or replays them.

    Raises ConfigError if the file is not a cassette, or cannot be read or written.

    Args:
        path: the file; created if there is something to record.
        mode: `record`: call the models and replace what is recorded; `replay`: never call them;
            `auto`: call them only for what is missing; `live`: do not use the file. None means
            `auto` if someone can be prompted, otherwise `replay`.
    """
    from axe_nb.recording.cassette import Cassette

    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"cassette takes the path of a file, not {shown_value(path)}")
    if before := session.cassette:
        before.save_quietly()  # both may use the same file
    session.cassette = used = Cassette(path, mode)
    try:
        yield used
    except BaseException:
        used.save_quietly()  # the error of the block is more important
        raise
    else:
        used.save()
    finally:
        session.cassette = before


def last() -> RunResult | None:
    """Returns this session's last finished run, even if its cell failed; None if there is none."""
    return session.last


def history(
    words: str = "",
    *,
    status: str | None = None,
    since: str | date | None = None,
    until: str | date | None = None,
    limit: int = 100,
) -> History:
    """Returns the latest runs in the history, newest first; `load` returns the result of a run.

    A map or grid is one row, unless words or a status are given. Raises ConfigError if an argument
    is invalid or the history cannot be read.

    Args:
        words: words to find, ignoring case, in the agent, the model, the prompt's first line or the
            project's name; the id of a map or grid lists its runs.
        status: status of the runs, such as `completed`, `error` or `running`.
        since: earliest date of the runs, such as `2026-11-26`, `today` or `yesterday`.
        until: latest date of the runs.
        limit: maximum number of rows.
    """
    from axe_nb.views.history import list_history

    if not isinstance(words, str):
        raise ConfigError(f"history takes words, not {shown_value(words)}")
    if status not in (None, "running", *get_args(Status)):
        raise ConfigError(
            f"status takes one of {', '.join(get_args(Status))}, running, not {shown_value(status)}"
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 2**63:
        raise ConfigError(f"limit takes a whole number from 1, not {shown_value(limit)}")
    return list_history(words, status, since, until, limit=limit)


def load(saved: int | str | os.PathLike[str]) -> Any:
    """Loads a result from the history, or a result or grid from a file. Executes nothing.

    `saved` is the path of the file, or the id of a run in the history, as a number or text. Raises
    ConfigError if the run or file does not exist, or is neither saved nor exported.
    """
    from axe_nb.views.history import load_run

    if not isinstance(saved, SupportsIndex | str | os.PathLike):
        raise ConfigError(f"load takes a path or the id of a run, not {shown_value(saved)}")
    if isinstance(saved, SupportsIndex) or (isinstance(saved, str) and saved.isdecimal()):
        return load_run(min(int(saved), 2**63 - 1))  # SQLite's largest id
    if isinstance(saved, str) and not set(saved) & set("./\\"):
        raise ConfigError(
            f"{quote(saved)} is not a run id of the history",
            hint=f"run ids are numbers; to load a file with this name, write ./{saved}",
        )
    from axe_nb.exploring.grid import is_grid, load_grid

    if is_grid(saved):
        return load_grid(saved)
    return read_data(Path(saved), "run", RunResult.from_dict)


def define(agent: Agent) -> None:
    """Registers an agent in this session, where it overrides an agent file of the same name."""
    session.define(agent)


def replay(result: RunResult | int | str | os.PathLike[str], *, speed: float = 1.0) -> None:
    """Plays a finished run again in the live tree, with its recorded timing.

    `result` may also be an id or path, as for `load`. Nothing is sent or executed, and nothing
    changes. Blocks. Without a live tree, only the end is shown; outside a notebook, it is printed.
    With `speed=10`, ten seconds pass in one second. Raises ConfigError if there is no such run, or
    `speed` is not positive.
    """
    from axe_nb.session.played_run import play

    if isinstance(result, SupportsIndex | str | os.PathLike):
        result = load(result)
    if not isinstance(result, RunResult):
        raise ConfigError(
            f"replay takes the result of a run, not {shown_value(result)}",
            hint="axe_nb.load(ID) returns that of the history",
        )
    if not is_number(speed) or speed <= 0:
        raise ConfigError(f"speed takes a positive number, as in 10, not {shown_value(speed)}")
    view = make_view(True, find_variable(result), speed)
    play(view, result, speed)
    if isinstance(view, NullView):
        print_run(result)


def _run_shown(request: RunRequest, display: bool) -> RunResult:
    handle = session.start(request)
    view = make_view(display)
    return _check(drive(handle, view, find_approver(view)), request)


async def _arun_shown(request: RunRequest, display: bool) -> RunResult:
    handle = session.start(request)
    view = make_view(display)
    return _check(await drive_here(handle, view, find_approver(view)), request)


def fork(result: RunResult, place: str | int | None, /, **changes: Any) -> RunResult:
    return _run_shown(*_make_fork(result, place, changes))


async def afork(result: RunResult, place: str | int | None, /, **changes: Any) -> RunResult:
    return await _arun_shown(*_make_fork(result, place, changes))


def _make_fork(
    result: RunResult, place: str | int | None, changes: dict[str, Any]
) -> tuple[RunRequest, bool]:
    from axe_nb.recording.fork import CHANGES, make_point

    if is_inside():  # the fork would not be part of the tool's tree
        raise AxeError(
            "runs cannot be forked inside a tool",
            hint="fork it in a cell or a script; tools start agents with ctx.delegate",
        )
    display = changes.pop("display", True)
    given = {name: changes.pop(name) for name in CHANGES if name in changes}
    if (prompt := given.get("prompt")) is not None:
        given["prompt"] = Illustrated(*split_prompt(prompt))
    point = make_point(result, place, **given)
    options = Overrides.of(changes, keep_for_tree(session.defaults), CHANGES)
    return RunRequest(agent=None, overrides=options, fork=point), display


def _make_request(
    agent: str | Agent | None, prompt: Prompt, continue_from: RunResult | None, options: RunOptions
) -> RunRequest:
    text, pictures = split_prompt(prompt)
    overrides = Overrides.of(options, session.defaults)
    return RunRequest(
        agent=agent, prompt=text, pictures=pictures, overrides=overrides,
        continue_from=continue_from,
    )  # fmt: skip


def _check(result: RunResult, request: RunRequest) -> RunResult:
    given = request.overrides
    return result if given.expect is None else _check_met(result, given.expect, given.agents_dir)


def _check_met(result: RunResult, expectations: str, agents_dir: str | None) -> RunResult:
    from axe_nb.expectations import check

    name = "axe_nb.last()" if result is session.last else "the result"
    check(result, expectations, name=name, agents_dir=agents_dir)
    return result


async def _run_below(ctx: ToolContext, request: RunRequest) -> RunResult:
    """Runs the request as a child of the run that called the tool (D-57)."""
    if ctx.depth >= ctx.max_depth:
        raise ConfigError(
            f"maximum sub-agent depth ({ctx.max_depth}) reached",
            hint="raise sub_agents_config.max_depth of the root agent",
        )
    assert ctx.nest is not None, "every tool of a user has it"
    return await ctx.nest(request)


def refuse_inside_a_tool() -> None:
    """Raises AxeError if called inside an async tool, whose event loop a run would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if is_inside() or portal.is_here():
        raise AxeError(
            "axe_nb.run was called inside an async tool",
            hint="use `await axe_nb.arun(…)`, or `await ctx.delegate(…)` with a parameter "
            "`ctx: axe_nb.ToolContext`",
        )
