"""Runs `%%axe` cells and `%axe run`, and finds earlier runs by variable name. Source: B-8, D-59."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from axe_nb.cell_display.display import RunView, display_mode, install, notebook_view, remember
from axe_nb.cell_display.front_end import find_approver
from axe_nb.commands import console
from axe_nb.commands.console import Write
from axe_nb.commands.option_table import RUN
from axe_nb.commands.parser import Options, UsageError, parse_run
from axe_nb.conversion.interpolation import prompt_of
from axe_nb.errors import AxeError, ConfigError, interrupted
from axe_nb.events import Event
from axe_nb.notebook.option_line import find_cell_source, read_words
from axe_nb.pictures.picture import Illustrated, Picture
from axe_nb.recording.find_exchange import find_run
from axe_nb.results import RunResult
from axe_nb.session.drive import NullView, View, drive
from axe_nb.session.portal import PUMP
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.session import session
from axe_nb.text import MAX_SHOWN, cut_chars, quote, suggestion

NOT_IN_BACKGROUND = {
    "json": "--json", "verbose": "--verbose", "quiet": "--quiet", "raises": "--raises",
    "expect": "--expect", "step": "--step", "break_at": "--break",
}  # fmt: skip
"""Option field → flag that cannot be combined with `--bg`, as it works only while the cell runs."""


def run_prompt(
    shell: InteractiveShell, line: str, cell: str, names: Mapping[str, Any], write: Write
) -> RunResult | RunHandle | None:
    """Runs a `%%axe` cell, whose body is a prompt with expressions; returns the cell's value."""
    options = parse_run(read_words(RUN, "cell", line, names), "cell", session.defaults, names)
    body, magic_line = find_cell_source(shell, "axe", cell)

    def prompt() -> Illustrated:
        pictures = list[Picture]()
        first, known = magic_line + 1, shell.user_ns
        text = prompt_of(body, known, raw=options.raw, first_line=first, pictures=pictures)
        return Illustrated(text, tuple(pictures))

    return run_cell(shell, options, prompt, write)


def run_cell(
    shell: InteractiveShell, options: Options, prompt: Callable[[], Illustrated], write: Write
) -> RunResult | RunHandle | None:
    """Runs a cell and returns its value. Binds the variable of `-o` even if the run fails."""
    install(shell)
    is_text = options.json or options.verbose
    try:
        if options.fork_from is None:
            request = console.request_of(options, *prompt())
        else:
            from axe_nb.recording.fork import make_point

            point = make_point(*find_place(shell, options.fork_from), prompt=prompt())
            request = RunRequest(agent=options.agent, overrides=options.overrides, fork=point)
        if options.dry_run:
            streams = not (is_text or options.quiet) and display_mode() == "live"
            console.show_dry_run(request, options, write, write, streams=streams)
            return None
        if options.background:
            return _start_in_background(shell, options, request)
        handle = session.start(request)
        if is_text:
            piped = bool(request.prompt.strip())
            view: View = console.TextView(handle, options, write, write, piped=piped)
        else:
            view = notebook_view(options.out or "", quiet=options.quiet)
        try:
            result = drive(handle, view, find_approver(view))
        except KeyboardInterrupt:
            if options.out and handle.finished:
                raise interrupted(f"stopped; {options.out} has the partial result") from None
            raise
        finally:
            if handle.finished and is_text:
                remember(handle.finished)  # its text is shown
            if handle.finished and options.out:
                shell.user_ns[options.out] = handle.finished
    except AxeError as error:
        if not console.is_expected(error, options.raises):
            raise
        write(f"{type(error).__name__}: {error}")
        return None
    console.check_end(result, options, options.out or "axe_nb.last()")
    # %%capture would keep an empty display of the value
    return None if isinstance(shell.display_pub, CapturingDisplayPublisher) else result


def _start_in_background(
    shell: InteractiveShell, options: Options, request: RunRequest
) -> RunHandle:
    """Starts a run, binds its handle to the variable of `-o`, and returns once it is displayed.

    A thread updates the view. The view is displayed while the cell still runs, as some kernels
    assign later outputs to other cells. With a static display, the cell waits for the run to end.
    """
    for field, flag in NOT_IN_BACKGROUND.items():
        if getattr(options, field, None) or getattr(options.overrides, field, None):
            raise UsageError(f"--bg and {flag} cannot be combined", hint="remove one of them")
    handle = session.start(request)
    remember(handle)
    mode = display_mode()
    name = f"{options.out}.result()" if options.out else "axe_nb.last()"
    shown: View = NullView()
    if mode == "live":
        shown = RunView(name, live=True, stop=handle.cancel)
    begun = threading.Event()

    class Noticed:
        streams, is_live = shown.streams, shown.is_live
        tick, finish = shown.tick, shown.finish

        def event(self, event: Event) -> None:
            shown.event(event)
            begun.set()

    def work() -> None:
        with contextlib.suppress(BaseException):  # the handle raises it, too
            drive(handle, Noticed())

    if mode == "static":
        drive(handle, notebook_view(name))
    else:
        # ipykernel 7 assigns outputs to cells by context
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(work,), name="axe-nb-view", daemon=True).start()
        try:
            while not (begun.wait(PUMP) or handle.done):
                pass
        except BaseException:
            handle.cancel()
            raise
    if handle.done:
        handle.result()  # raises the error that kept the run from starting
    if options.out:
        shell.user_ns[options.out] = handle
    return handle


def find_place(shell: InteractiveShell, text: str) -> tuple[RunResult, str]:
    """Parses `R@PLACE`, `@PLACE`, `PLACE` or `R`; `R` is a variable. Returns (run, place)."""
    name, _, place = ("", "", text) if text[:1].isdecimal() else text.partition("@")
    return find_result(shell, name), place


def find_tree(shell: InteractiveShell, text: str) -> RunResult:
    """Parses `R`, `R@0.2` or `0.2`; `R` is a variable. Returns the run with its descendants."""
    result, place = find_place(shell, text)
    return find_run(result, place.removeprefix("@"))


def find_result(shell: InteractiveShell, name: str) -> RunResult:
    """Returns the result held by the variable `name`, directly or through an ended run's handle.

    If `name` is empty, returns the last result. Raises ConfigError if there is no result.
    """
    value = shell.user_ns.get(name) if name else session.last
    if isinstance(value, RunHandle):
        if not value.done:
            raise ConfigError(f"{name} is still running", hint=f"wait for it: {name}.result()")
        value = value.result()
    if isinstance(value, RunResult):
        return value
    if not name:
        raise ConfigError("nothing has run yet", hint="run an agent first, or name a variable")
    if name in shell.user_ns:
        raise ConfigError(f"{name} is of type {type(value).__name__}, not the result of a run")
    results = [key for key, one in shell.user_ns.items() if isinstance(one, RunResult | RunHandle)]
    raise ConfigError(
        f"no variable {quote(cut_chars(name, MAX_SHOWN, '…'))}",
        hint=suggestion(name, results) or "bind a result with -o NAME, or omit the name",
    )
