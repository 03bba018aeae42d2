"""The recorder of a root run that is kept: enqueues references to its events, on the event loop.

Source: D-68.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from axe_nb.agents.config import state_dir
from axe_nb.events import (
    Event,
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import Message
from axe_nb.recording.approvals import is_test
from axe_nb.results import RunResult

if TYPE_CHECKING:
    from axe_nb.recording.history_writer import RootLog, Writer
    from axe_nb.recording.tape import RootTape

VARIABLE = "AXE_NB_HISTORY"
"""Environment variable; `0` = no run is kept, `1` = also runs of tests are."""

PATIENCE = 0.2
"""Seconds that the end of a run waits to learn whether it was written: of the first run, of one
after a failure, and of each while the disk is nearly full."""

LOW = 100_000_000
"""Bytes of free space below which a disk is nearly full: more than a burst of runs writes at once.
"""


def history_path() -> Path:
    """Returns the path of the history; it need not exist."""
    return state_dir() / "runs.sqlite"


def find_reason_against() -> str:
    """Returns why runs are not kept; empty if they are."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted == "0":
        return f"{VARIABLE}=0"
    return "runs of tests are not kept" if wanted != "1" and is_test() else ""


def begin_recorder(history: Sequence[Message], tape: RootTape | None) -> Recorder | None:
    """Returns the recorder for a root run; None if it is not kept.

    Args:
        history: the conversation that the run goes on with.
        tape: that of the tree; what only plays is not kept.
    """
    if find_reason_against():
        return None
    from axe_nb.recording.history_writer import find_writer

    return Recorder(find_writer(history_path()), history, tape)


class Recorder:
    """Implements `engine.scope.Recorder`."""

    def __init__(
        self, writer: Writer, history: Sequence[Message] = (), tape: RootTape | None = None
    ) -> None:
        from axe_nb.recording.history_parts import Tree
        from axe_nb.recording.history_writer import RootLog

        self._writer = writer
        self._tape = tape
        self._root = RootLog(Tree(history), time.time())
        self._held: list[tuple[RootLog, float, Event]] = []
        """Events before the first request that was not played."""

    def event(self, event: Event) -> None:
        """See `engine.scope.Recorder`."""
        match event:
            case RunStarted() | TurnFinished() | ToolFinished():
                self._put(event)
            case RunFinished():
                if event.run != "0":  # the root's is passed to `finish`
                    self._put(event)
            case TurnStarted() | TextDelta() | RetryScheduled() | ToolStarted():
                pass
            case PersonAsked() | PersonAnswered():
                pass
            case _:
                assert_never(event)

    def _put(self, event: Event) -> None:
        self._held.append((self._root, time.time(), event))
        if self._tape is None or self._tape.has_asked:
            held, self._held = self._held, []
            for item in held:
                self._writer.put(item)

    def problem(self) -> str:
        """See `engine.scope.Recorder`."""
        if self._held:
            return ""
        is_nearly_full = False
        with suppress(OSError):  # the folder may not exist yet
            is_nearly_full = shutil.disk_usage(self._writer.path.parent).free < LOW
        if is_nearly_full or not self._writer.is_fine:
            self._writer.flush(PATIENCE)
        return self._root.problem

    def finish(self, result: RunResult) -> None:
        """See `engine.scope.Recorder`."""
        self._put(RunFinished("0", result))
