"""Plain text output of runs, and the status line in a terminal. Source: B-9..B-11, A-C5, D-38."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

from axe_nb.commands.parser import Options
from axe_nb.errors import AxeError, ConfigError, ProviderError, RunError
from axe_nb.events import Event, RunStarted
from axe_nb.pictures.picture import Picture
from axe_nb.results import RunResult, describe_end, name_run
from axe_nb.secrets import find_filter
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.session import session
from axe_nb.text import count_columns, list_some, one_line, plural
from axe_nb.views import axe_text
from axe_nb.views.request import preview_request
from axe_nb.views.rows import draft_line, find_wait
from axe_nb.views.transcript import Transcript, show_run

Write: TypeAlias = Callable[[str], object]
"""A function that writes text of one or more lines, and adds a final newline."""


def request_of(options: Options, prompt: str, pictures: tuple[Picture, ...] = ()) -> RunRequest:
    overrides, earlier = options.overrides, None
    if options.goes_on:
        earlier = session.conversation(options.agent, overrides.agents_dir)
    return RunRequest(
        agent=options.agent, prompt=prompt, pictures=pictures, overrides=overrides,
        continue_from=earlier,
    )  # fmt: skip


def show_dry_run(
    request: RunRequest, options: Options, write: Write, note: Write, *, streams: bool
) -> None:
    """Shows a run's plan with `write`, and its warnings with `note`; sends nothing."""
    plan = run_and_wait(session.plan(request, streams=streams, is_dry=True))
    write(axe_text.dry_run(plan))
    if options.full:
        write(f"\n--- Request ---\n{preview_request(plan).format(whole=True)}")
    for warning in plan.warnings:
        note(f"warning: {warning}")


class TerminalLine:
    """A status line in a terminal, updated in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    @property
    def columns(self) -> int:
        try:
            return min(os.get_terminal_size(self._stream.fileno()).columns or 80, 100) - 1
        except OSError:
            return 79

    def show(self, text: str, share: float = 0) -> None:
        self._write(one_line(text, self.columns), "")

    def finish(self, text: str) -> None:
        self._write(text, "\n")

    def clear(self) -> None:
        if self._width:
            self._write("", "\r")
            self._width = 0

    def _write(self, text: str, end: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            first, newline, rest = text.partition("\n")
            width = count_columns(first)
            blank = " " * max(0, self._width - width)
            self._stream.write(f"\r{first}{blank}{newline}{rest}{end}")
            self._stream.flush()
            self._width = width


class TextView:
    """Shows a run as plain text: a status line or verbose lines, and then the result."""

    is_live = False

    def __init__(
        self, handle: RunHandle, options: Options, write: Write, note: Write, *,
        piped: bool, terminal: TextIO | None = None, pause: float = 0.25,
    ) -> None:  # fmt: skip
        """Creates the view; `pause` is the time in seconds between updates."""
        self._handle, self._options, self._write, self._note = handle, options, write, note
        self._piped, self._pause = piped, pause
        self._verbose = axe_text.VerboseLines(note) if options.verbose else None
        self._line: TerminalLine | None = None
        if terminal is not None and terminal.isatty() and not (options.verbose or options.quiet):
            self._line = TerminalLine(terminal)
        self.streams = self._line is not None
        self._transcript = Transcript()
        self._started = self._drawn = time.monotonic()

    def event(self, event: Event) -> None:
        if self._verbose is None:
            self._transcript.apply(event, time.monotonic())
            return
        if isinstance(event, RunStarted) and not event.parent and self._handle.plan:
            self._note(axe_text.verbose_header(self._handle.plan, piped=self._piped))
        self._verbose.show(event)

    def tick(self) -> None:
        now = time.monotonic()
        if self._line is None or now - self._drawn < self._pause:
            return
        self._drawn = now
        self._transcript.tick(now)
        root = self._transcript.root
        runs = [root, *root.below()] if root else []
        names = [name_run(run.agent, run.model) for run in runs if run.state == "running"]
        turns = [turn for run in runs for turn in run.turns]
        calls = sum(call.times.started is not None for turn in turns for call in turn.calls)
        at_work = " › ".join(filter(None, ("".join(names[:1]), list_some(names[1:], 5))))
        counts = f"{plural(len(turns), 'turn')} · {plural(calls, 'call')}"
        line = one_line(f"{at_work} · {counts} · {int(now - self._started)}s", self._line.columns)
        room = self._line.columns - count_columns(line) - len(" · ")
        drafts = [run.draft for run in runs if run.draft]
        words = next(filter(None, map(find_wait, reversed(runs))), "")
        if drafts and room > 0:
            words = draft_line(drafts[-1], size=room)
        self._line.show(f"{line} · {words}" if words else line)

    def clear(self) -> None:
        if self._line is not None:
            self._line.clear()

    def finish(self, result: RunResult | None) -> None:
        self.clear()
        if result is None:
            return
        result = show_run(result, find_filter().json)
        if self._verbose:
            self._note(axe_text.verbose_footer(result))
        for warning in result.warnings:
            self._note(f"warning: {warning}")
        if self._options.json:
            self._write(result.to_json())
        elif result.ok or result.text:
            self._write(result.text)


def is_expected(error: AxeError | None, raises: str | None) -> bool:
    """True if the error is of the kind that `--raises` expects: `config` or `provider`."""
    kinds = {"config": ConfigError, "provider": ProviderError}
    return isinstance(error, kinds.get(raises or "", ()))


def check_end(result: RunResult, options: Options, name: str) -> None:
    """Raises AxeError if the run did not end as expected; a hint calls the result `name`."""
    raises = options.raises
    if raises is None:
        result.raise_for_status()
    elif result.status != raises and not is_expected(result.cause, raises):
        message = f"the run ended with status {result.status}, expected {raises} (--raises)"
        failure = RunError(message, exit_code=1)
        failure.place = describe_end(result)
        raise failure
    if (expected := options.overrides.expect) is not None:
        from axe_nb.expectations import check  # late, as most runs have none

        check(result, expected, name=name, agents_dir=options.overrides.agents_dir)
