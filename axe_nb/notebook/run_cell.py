"""One run requested in a notebook: shown, bound to names, an error if it did not complete.

Source: B-8.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from axe_nb.cell_display.display import (
    ShownOnce,
    display_mode,
    install,
    notebook_view,
    remember,
)
from axe_nb.cell_display.view import CellDisplay, is_live
from axe_nb.commands.console import (
    StatusLine,
    TextView,
    check_end,
    is_expected,
    request_of,
    show_dry_run,
)
from axe_nb.commands.parser import Options, UsageError
from axe_nb.errors import AxeError, interrupted
from axe_nb.events import Event
from axe_nb.front_end import find_approver
from axe_nb.notebook.named_run import find_place
from axe_nb.pictures.picture import Illustrated
from axe_nb.results import RunResult
from axe_nb.session.drive import NullView, View, drive
from axe_nb.session.runs import GLANCE, RunHandle, RunRequest
from axe_nb.session.session import session

NOT_IN_BACKGROUND = {
    "json": "--json", "verbose": "--verbose", "quiet": "--quiet", "raises": "--raises",
    "expect": "--expect", "step": "--step", "break_at": "--break",
}  # fmt: skip
"""Options about the cell's own prompts, output or end, which a background run outlives."""


def run_cell(
    shell: InteractiveShell,
    options: Options,
    prompt: Callable[[], Illustrated],
    write: Callable[[str], None],
) -> RunResult | RunHandle | None:
    """Runs the cell and returns its value.

    Raises AxeError: the run could not begin, or did not end as expected.

    Args:
        prompt: () -> the prompt with its pictures. Raises ConfigError.
    """
    install(shell)
    try:
        if options.dry_run:
            streams = _is_streamed(shell, options)
            request = request_of(options, *prompt())
            show_dry_run(request, options, write, write, streams=streams)
            return None
        request = _make_request(shell, options, prompt())
        if options.background:
            return _start_in_background(shell, options, request)
        result = _run(shell, options, request, write)
    except AxeError as error:
        if not is_expected(error, options.raises):
            raise
        write(f"{type(error).__name__}: {error}")
        return None
    check_end(result, options.raises)
    overrides = options.overrides
    if overrides.expect is not None:
        from axe_nb.expectations.check import check  # most cells have none

        name = options.out or "axe_nb.last()"
        check(result, overrides.expect, name=name, agents_dir=overrides.agents_dir)
    # %%capture would keep an empty display of the value
    return None if isinstance(shell.display_pub, CapturingDisplayPublisher) else result


def _make_request(shell: InteractiveShell, options: Options, prompt: Illustrated) -> RunRequest:
    """The run that a cell asks for, or the fork of an earlier one.

    Raises ConfigError: there is no such conversation, run or place.
    """
    if options.fork_from is None:
        return request_of(options, *prompt)
    from axe_nb.recording.fork import make_point

    result, place = find_place(shell, options.fork_from)
    point = make_point(result, place, prompt=prompt)
    return RunRequest(agent=options.agent, overrides=options.overrides, fork=point)


def _run(
    shell: InteractiveShell,
    options: Options,
    request: RunRequest,
    write: Callable[[str], None],
) -> RunResult:
    """The result, shown; bound to `-o` even if the run failed or was stopped."""
    handle = session.start(request)
    view: View
    if options.json or options.verbose:
        piped, status = bool(request.prompt.strip()), StatusLine(None)
        view = ShownOnce(TextView(handle, options, write, write, piped=piped, status=status))
    else:
        view = notebook_view(options.out or "", quiet=options.quiet)
    try:
        return drive(handle, view, find_approver())
    except KeyboardInterrupt:
        if options.out and handle.finished:
            raise interrupted(f"stopped; {options.out} has the partial result") from None
        raise
    finally:
        if options.out and handle.finished:
            shell.user_ns[options.out] = handle.finished


def _is_streamed(shell: InteractiveShell, options: Options) -> bool:
    """True if a run with these options would be shown as its replies arrive."""
    mode = display_mode(shell)
    shows_tree = mode != "off" and not (options.json or options.verbose or options.quiet)
    return shows_tree and is_live(mode)


def _start_in_background(
    shell: InteractiveShell, options: Options, request: RunRequest
) -> RunHandle:
    """A handle of the run, bound to `-o`."""
    for field, flag in NOT_IN_BACKGROUND.items():
        if getattr(options, field, None) or getattr(options.overrides, field, None):
            raise UsageError(f"--bg and {flag} cannot be combined", hint="remove one of them")
    handle = session.start(request)
    _run_in_background(shell, handle, f"{options.out}.result()" if options.out else "")
    if options.out:
        shell.user_ns[options.out] = handle
    return handle


class _Noticed:
    """A view that signals its first event."""

    def __init__(self, inner: View, begun: threading.Event) -> None:
        self._inner = inner
        self.streams = inner.streams
        self.is_live = inner.is_live
        self._begun = begun

    def event(self, event: Event) -> None:
        """Takes each event."""
        self._inner.event(event)
        self._begun.set()

    def tick(self) -> None:
        """Draws when it is time to."""
        self._inner.tick()

    def finish(self, result: RunResult | None) -> None:
        """Shows the end."""
        self._inner.finish(result)


def _run_in_background(shell: InteractiveShell, handle: RunHandle, name: str) -> None:
    """Starts the run; returns once its view is in this cell or, without a live view, at the end.

    The view is driven from a thread of its own, which first shows it while the cell still runs, so
    that it lies in that cell on every kernel; later updates name the display or the widget. Raises
    ConfigError: invalid configuration, before anything is sent. Raises KeyboardInterrupt: the
    person stopped it while the cell still ran.

    Args:
        name: what the reader can type to get the result; empty = `axe_nb.last()`.
    """
    remember(handle)
    wanted = display_mode(shell)
    if wanted == "off":
        _start_in_thread(handle, NullView())
    elif is_live(wanted):
        shown = CellDisplay(name or "axe_nb.last()", live=True, stop=handle.cancel)
        _start_in_thread(handle, shown.add_run())
    else:
        drive(handle, notebook_view(name))
    if handle.error is not None:
        raise handle.error


def _start_in_thread(handle: RunHandle, shown: View) -> None:
    """Starts it, and waits until its view is in this cell."""
    begun = threading.Event()

    def work() -> None:
        with contextlib.suppress(BaseException):  # the handle has it
            drive(handle, _Noticed(shown, begun))

    # ipykernel 7 assigns outputs to cells by context
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name="axe-nb-view", daemon=True).start()
    try:
        while not (begun.wait(GLANCE) or handle.done):
            pass
    except BaseException:
        handle.cancel()
        raise
