"""A table in the output of a cell, such as a grid: live while it fills, then its static twin.

Source: product.md "Exploring"; goals.md (at most ten updates a second).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from IPython.core.display_functions import DisplayHandle
from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.cell_display import view
from axe_nb.cell_display.display import display_mode, is_shown, remember
from axe_nb.session.view import Line, NoLine

SHARE = 20
"""A table that took long to draw is drawn again after this many times as long."""


class Table:
    """A table in the output of a cell."""

    def __init__(self, thing: object, draw: Callable[[str], dict[str, str]], *, live: bool) -> None:
        """Creates a table without output.

        Args:
            thing: what it shows; as the cell's value, it is not shown a second time.
            draw: progress → its bundle; no progress = its static twin.
            live: False = only its last state is shown, which saved notebooks are compared by.
        """
        self._thing, self._draw = thing, draw
        self._is_live = live
        self._place: DisplayHandle | None = None
        self._next_at = 0.0

    def show(self, text: str) -> None:
        """See `Line`."""
        now = time.monotonic()
        if self._is_live and now >= self._next_at:
            self._put(self._draw(text))
            self._next_at = now + SHARE * (time.monotonic() - now)

    def finish(self, text: str) -> None:
        """See `Line`."""
        self._put(self._draw(""))
        remember(self._thing)

    def _put(self, bundle: dict[str, str]) -> None:
        if self._place is not None:
            self._place.update(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap
            return
        self._place = display(bundle, raw=True, display_id=self._is_live)  # type: ignore[no-untyped-call]


def find_table(thing: object, draw: Callable[[str], dict[str, str]]) -> Line:
    """Returns the table for a cell; see `Table`."""
    shell = get_ipython()
    if shell is None:
        return NoLine()
    wanted = display_mode(shell)
    if wanted == "off":
        return NoLine()
    return Table(thing, draw, live=view.is_live(wanted))


def show_again(thing: object, draw: Callable[[], dict[str, str]]) -> None:
    """Displays what is a cell's value, unless the cell has just shown it."""
    if not is_shown(thing):
        display(draw(), raw=True)  # type: ignore[no-untyped-call]
