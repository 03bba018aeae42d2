"""The recorder of one root run: takes its events on the event loop, and enqueues references.

Source: product.md "Runs are recordings" (History); D-68.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message
from axe_nb.results import RunResult
from axe_nb.run_history.parts import Tree
from axe_nb.run_history.writer import RootLog, Writer

if TYPE_CHECKING:
    from axe_nb.recording.tape import RootTape

PATIENCE = 0.2
"""Seconds that the end of a run waits to learn whether it was written: of the first run, of one
after a failure, and of each while the disk is nearly full."""

LOW = 100_000_000
"""Bytes of free space below which a disk is nearly full: more than a burst of runs writes at once.
"""


class Recorder:
    """Implements `engine.recorder.Recorder`."""

    def __init__(
        self, writer: Writer, history: Sequence[Message] = (), tape: RootTape | None = None
    ) -> None:
        self._writer = writer
        self._tape = tape
        self._root = RootLog(Tree(history), time.time())
        self._held: list[tuple[RootLog, float, Event]] = []
        """Events before the first request that was not played."""

    def event(self, event: Event) -> None:
        """See `engine.recorder.Recorder`."""
        match event:
            case RunStarted() | TurnFinished() | ToolFinished():
                self._put(event)
            case RunFinished() if event.run != "0":  # the root's is passed to `finish`
                self._put(event)

    def _put(self, event: Event) -> None:
        self._held.append((self._root, time.time(), event))
        if self._tape is None or self._tape.has_asked:
            held, self._held = self._held, []
            for item in held:
                self._writer.put(item)

    def problem(self) -> str:
        """See `engine.recorder.Recorder`."""
        if self._held:
            return ""
        is_nearly_full = False
        with suppress(OSError):  # the folder may not exist yet
            is_nearly_full = shutil.disk_usage(self._writer.path.parent).free < LOW
        if is_nearly_full or not self._writer.is_fine:
            self._writer.flush(PATIENCE)
        lacks, late = self._writer.take_late()
        own = self._root.problem
        self._root.is_told = bool(own)
        return f"{own}; it {lacks}, too" if own and late else own or late

    def finish(self, result: RunResult) -> None:
        """See `engine.recorder.Recorder`."""
        self._put(RunFinished("0", result))
