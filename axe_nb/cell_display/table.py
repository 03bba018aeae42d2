"""A table or progress line in a cell's output: live during the work, then static."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from IPython.core.getipython import get_ipython

from axe_nb.cell_display.display import install, remember
from axe_nb.cell_display.feed import Feed, pack_parts
from axe_nb.cell_display.output import show
from axe_nb.views.html import PLAIN
from axe_nb.views.table import format_bar, format_cell


class Table:
    """A table in the output of a cell, such as a grid."""

    def __init__(
        self,
        thing: object,
        draw: Callable[[str], dict[str, str]],
        list_parts: Callable[[str], list[str]],
        *,
        live: bool,
    ) -> None:
        """Creates the display of `thing`. If `live` is false, only the final state is shown."""
        if shell := get_ipython():
            install(shell)  # so that a later cell shows the grid again
        self._thing, self._draw, self._list_parts = thing, draw, list_parts
        self._is_live = live
        self._parts: list[str] = []
        self._feed: Feed | None = None
        self._next_at = 0.0

    def show(self, text: str, share: float = 0) -> None:
        now = time.monotonic()
        if not self._is_live or now < self._next_at:
            return
        before, self._parts = self._parts, [f"<div>{p}</div>" for p in self._list_parts(text)]
        if self._feed is None:
            self._feed = Feed(lambda: pack_parts((), self._parts), self._draw(text), now)
            return  # its duration, mostly for imports, says nothing about the next drawing
        if self._feed.is_due(now):
            self._feed.redraw(self._draw(text))
        news = pack_parts(before, self._parts)
        if news["parts"] or self._feed.is_due(now):
            self._feed.send(news, now)
        # at most a twentieth of the time is spent on drawing
        self._next_at = now + 20 * (time.monotonic() - now)

    def finish(self, text: str) -> None:
        twin = self._draw("")
        if self._feed is None:
            show(twin)
        else:
            # copies of the widget in other views are not replaced
            self._parts = [f"<div>{part}</div>" for part in self._list_parts(text)]
            self._feed.send({}, time.monotonic(), is_last=True)
            self._feed.close(twin)
        remember(self._thing)


class CellLine:
    """A progress line in the output of a cell, such as a map's."""

    def __init__(self, *, live: bool) -> None:
        self._is_live = live
        self._place: Any = None

    def show(self, text: str, share: float = 0) -> None:
        if self._is_live:
            self._update(text, format_bar(share))

    def finish(self, text: str) -> None:
        self._update(text)

    def _update(self, text: str, bar: str = "") -> None:
        lines = "".join(f"<div>{format_cell(line)}</div>" for line in text.split("\n"))
        bundle = {"text/html": f"<div class='{PLAIN}'>{bar}{lines}</div>", "text/plain": text}
        if self._place is None:
            self._place = show(bundle)
        else:
            self._place.update(bundle, raw=True)
