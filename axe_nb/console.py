"""One run in plain text: answer, `--json`, `--verbose`, `--dry-run`; its line on a terminal.

Source: B-9..B-11, A-C5, D-38; product.md "Command line".
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

from axe_nb.commands.parser import Options
from axe_nb.events import (
    Emit,
    Event,
    RunResult,
)
from axe_nb.session.desk import Desk
from axe_nb.session.portal import waited
from axe_nb.session.session import session
from axe_nb.session.watch import watched
from axe_nb.text import list_some, one_line, plural
from axe_nb.views import report
from axe_nb.views.transcript import Transcript

Write: TypeAlias = Callable[[str], object]
"""Takes one line, or a text of several, without its last newline."""


def show_dry_run(options: Options, prompt: str, write: Write) -> None:
    """Writes what would be sent.

    Raises:
        ConfigError: what is wrong beforehand.
    """
    prepared = waited(session.prepare(options.agent, options.overrides))
    write(report.dry_run(prepared, prompt, options.overrides.timeout))


def run_in_text(
    options: Options,
    prompt: str,
    write: Write,
    note: Write,
    *,
    piped: bool,
    status: StatusLine,
    keep: Callable[[RunResult], object] = id,
    desk: Desk | None = None,
) -> RunResult:
    """The run's result, after its answer (or JSON line) went to `write` and all else to `note`.

    Raises:
        ConfigError: what is wrong beforehand.
        KeyboardInterrupt: the person stopped it; the text so far has been written.
    """
    overrides = options.overrides
    earlier = session.conversation(options.agent, overrides.agents_dir) if options.goes_on else None

    async def work(emit: Emit) -> RunResult:
        consult = desk.consult if desk else None
        run = await session.prepare(options.agent, overrides, emit, consult)
        if options.verbose:
            note(report.verbose_header(run, overrides.timeout, piped=piped))
        return await session.carry_out(run, prompt, overrides, earlier)

    return watched(work, TextView(options, write, note, status), keep, desk)


class TextView:
    """A run in plain text: verbose lines or a status line while it runs, then what it came to."""

    def __init__(self, options: Options, write: Write, note: Write, status: StatusLine) -> None:
        self._options = options
        self._write = write
        self._note = note
        self._status = status
        self._verbose = report.VerboseLines(note) if options.verbose else None

    def event(self, event: Event) -> None:
        """Writes the event's verbose lines, or counts it for the status line."""
        if self._verbose:
            self._verbose.show(event)
        else:
            self._status.event(event)

    def tick(self) -> None:
        """Draws the status line when it is time to."""
        self._status.tick()

    def finish(self, result: RunResult | None) -> None:
        """Writes the answer or the JSON line, and the verbose footer."""
        self._status.clear()
        if result is None:
            return
        if self._verbose:
            self._note(report.verbose_footer(result))
        for warning in result.warnings:
            self._note(f"warning: {warning}")
        if self._options.json:
            self._write(result.to_json())
        elif result.ok or result.text:
            self._write(result.text)


class StatusLine:
    """One line on a terminal, written over and over: who is at work, and for how long."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._transcript = Transcript()
        self._started = self._drawn = time.monotonic()
        self._width = 0

    def event(self, event: Event) -> None:
        """Takes each event; draws nothing yet."""
        self._transcript.apply(event, time.monotonic())

    def tick(self) -> None:
        """Draws, at most four times a second."""
        now = time.monotonic()
        if self._stream is None or now - self._drawn < 0.25:
            return
        self._drawn = now
        root = self._transcript.root
        runs = [root, *root.below()] if root else []
        names = [run.agent for run in runs if run.state == "running"]
        turns = [turn for run in runs for turn in run.turns]
        calls = sum(call.times.started is not None for turn in turns for call in turn.calls)
        at_work = " › ".join(filter(None, ("".join(names[:1]), list_some(names[1:], 5))))
        seconds = int(now - self._started)
        counts = f"{plural(len(turns), 'turn')} · {plural(calls, 'call')}"
        line = one_line(f"{at_work} · {counts} · {seconds}s", _columns(self._stream) - 1)
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Takes the line away."""
        if self._stream is not None and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def _columns(stream: TextIO) -> int:
    try:
        return min(os.get_terminal_size(stream.fileno()).columns or 80, 100)
    except OSError:
        return 80
