"""The display of a run in a cell, or of runs side by side: live, and at the end the static twin."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable

from IPython.core.display_functions import DisplayHandle
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.cell_display.live_tree import LiveTree
from axe_nb.events import Event
from axe_nb.results import RunResult
from axe_nb.views import html
from axe_nb.views.transcript import Transcript


def is_live(wanted: str = "") -> bool:
    """True if runs are shown live.

    Args:
        wanted: "live" or "static" if the user chose one; otherwise AXE_NB_DISPLAY decides, and
            without it the kernel's ability to ask for input.
    """
    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    if shell is None or kernel is None:
        return False
    if isinstance(shell.display_pub, CapturingDisplayPublisher):
        return False
    if any(importlib.util.find_spec(name) is None for name in ("ipywidgets", "anywidget")):
        return False
    wanted = wanted or os.environ.get("AXE_NB_DISPLAY", "")
    if wanted in ("live", "static"):
        return wanted == "live"
    # headless runners do not allow input; pytest's mark is inherited by its kernels
    return bool(getattr(kernel, "_allow_stdin", False)) and "PYTEST_VERSION" not in os.environ


class CellDisplay:
    """One display for a run, or for the runs of a cell that are made side by side."""

    def __init__(
        self,
        name: str = "axe_nb.last()",
        *,
        live: bool,
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Creates a display without output.

        Args:
            name: expression for the result, if the cell has only one run.
            live: True = the tree is shown while the runs go on.
            stop: stops the run; a live tree has a button for it. None = it has none.
        """
        self.name = name
        """Expression for the result, if the cell has only one run."""
        self.is_live = live
        self._tree = LiveTree(name, stop) if live else None
        self._runs: list[RunView] = []
        self._place: DisplayHandle | None = None
        self._lock = threading.RLock()

    def takes_more(self) -> bool:
        """True if a run that begins here and now joins those that are already shown.

        One that follows another in the same thread and task is not. The place of the call decides,
        not the clock, so that a cell has the same displays each time.
        """
        [first, *others] = self._runs
        in_cell = threading.current_thread() is threading.main_thread()
        return bool(others) or not (first.is_over and in_cell and first.caller == _find_caller())

    def add_run(self) -> RunView:
        """The view of one more run."""
        with self._lock:
            self._runs.append(RunView(self))
            return self._runs[-1]

    def apply(self, run: RunView, event: Event) -> None:
        """Notes an event of one of the runs; one after its end is ignored."""
        with self._lock:
            if self._tree and not run.is_over:
                self._tree.apply(run.transcript, event)

    def tick(self) -> None:
        """Sends the changes, if the last update is long enough ago."""
        with self._lock:
            if self._tree:
                self._tree.tick()

    def finish(self, run: RunView, result: RunResult | None) -> None:
        """Notes the end of one of the runs; that of the last one shows the static twin."""
        with self._lock:
            run.is_over, run.result = True, result
            if self._tree and result is None:
                self._tree.note(run.transcript.stop(self._tree.now))
            if all(one.is_over for one in self._runs):
                self._show_end()

    def _show_end(self) -> None:
        results = [run.result for run in self._runs if run.result is not None]
        root = self._tree.root if self._tree else None
        if results:
            bundle = html.twins(results) if results[1:] else html.twin(results[0], name=self.name)
        elif root:
            bundle = html.page(root, self.name)
        else:
            return
        if self._tree and root:
            self._tree.close(bundle)
        elif self._place:
            self._place.update(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap
        else:
            self._place = display(  # type: ignore[no-untyped-call]  # IPython's own gap
                bundle, raw=True, display_id=True
            )


class RunView:
    """One run of a display."""

    def __init__(self, shown: CellDisplay) -> None:
        self.caller = _find_caller()
        self.transcript = Transcript()
        self.result: RunResult | None = None
        self.is_over = False
        self._display = shown
        self.streams = self.is_live = shown.is_live
        self.tick = shown.tick

    def event(self, event: Event) -> None:
        """Takes each event; the first one displays the tree if it is live."""
        self._display.apply(self, event)

    def finish(self, result: RunResult | None) -> None:
        """Takes the end; after that nothing more is shown of the run."""
        self._display.finish(self, result)


def _find_caller() -> tuple[threading.Thread, asyncio.Task[object] | None]:
    """The thread and the task that this is called in."""
    task = None
    with contextlib.suppress(RuntimeError):  # no event loop runs in this thread
        task = asyncio.current_task()
    return threading.current_thread(), task
