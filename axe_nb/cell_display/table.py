"""A table in the output of a cell, such as a grid: live while it fills, then its static twin.

Source: product.md "Exploring"; goals.md (at most ten updates a second).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.cell_display import view
from axe_nb.cell_display.display import display_mode, install, is_shown, remember
from axe_nb.cell_display.table_feed import TableFeed
from axe_nb.session.drive import Line, NoLine

SHARE = 20
"""A table is redrawn after this many times the time that drawing it took."""


class Table:
    """A table in the output of a cell."""

    def __init__(
        self,
        thing: object,
        draw: Callable[[str], dict[str, str]],
        list_parts: Callable[[str], list[str]],
        *,
        live: bool,
    ) -> None:
        """Creates a table without output.

        Args:
            thing: what it shows; as the cell's value, it is not shown a second time.
            draw: progress → its bundle; no progress = its static twin.
            list_parts: progress → the HTML of its parts, as many each time.
            live: False = only its last state is shown, which saved notebooks are compared by.
        """
        self._thing, self._draw, self._list_parts = thing, draw, list_parts
        self._is_live = live
        self._feed: TableFeed | None = None
        self._next_at = 0.0

    def show(self, text: str) -> None:
        """See `Line`."""
        now = time.monotonic()
        if not self._is_live or now < self._next_at:
            return
        parts = self._list_parts(text)
        if self._feed is None:
            self._feed = TableFeed(parts, partial(self._draw, text), now)
            return  # it took what is imported on first use, not what the next one takes
        self._feed.update(parts, partial(self._draw, text), now)
        self._next_at = now + SHARE * (time.monotonic() - now)

    def finish(self, text: str) -> None:
        """See `Line`."""
        twin = self._draw("")
        if self._feed is None:
            display(twin, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap
        else:
            self._feed.close(self._list_parts(text), twin)
        remember(self._thing)


def find_table(
    thing: object, draw: Callable[[str], dict[str, str]], list_parts: Callable[[str], list[str]]
) -> Line:
    """Returns the table for a cell; see `Table`."""
    shell = get_ipython()
    if shell is None:
        return NoLine()
    wanted = display_mode(shell)
    if wanted == "off":
        return NoLine()
    install(shell)  # the next cell shows the grid again
    return Table(thing, draw, list_parts, live=view.is_live(wanted))


def show_again(thing: object, draw: Callable[[], dict[str, str]]) -> None:
    """Displays what is a cell's value, unless the cell has just shown it."""
    if not is_shown(thing):
        display(draw(), raw=True)  # type: ignore[no-untyped-call]
