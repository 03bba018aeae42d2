"""`--bg`: a run beside the next cells; its view stays in the cell that started it.

The view is driven from a thread of its own. That thread first shows it while the cell still runs,
so that it lies in that cell on every kernel; later updates name the display or the widget.
Source: product.md "Notebook" (`--bg`); jupyter-facts §1, §2.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading

from IPython.core.getipython import get_ipython

from axe_nb.cell_display import display, view
from axe_nb.events import Event
from axe_nb.results import RunResult
from axe_nb.session.drive import NullView, View, drive
from axe_nb.session.runs import GLANCE, RunHandle


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


def run_in_background(handle: RunHandle, name: str = "") -> None:
    """Starts the run; returns once its view is in this cell or, without a live view, at the end.

    Args:
        handle: the run.
        name: what the reader can type to get the result; empty = `axe_nb.last()`.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
        KeyboardInterrupt: the person stopped it while the cell still ran.
    """
    shell = get_ipython()
    assert shell is not None
    display.remember(handle)
    wanted = display.display_mode(shell)
    if wanted == "off":
        _start_in_thread(handle, NullView())
    elif view.is_live(wanted):
        shown = view.CellDisplay(name or "axe_nb.last()", live=True, stop=handle.cancel)
        _start_in_thread(handle, shown.add_run())
    else:
        drive(handle, display.notebook_view(name))
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
