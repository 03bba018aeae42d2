"""Updates of a table that fills, for the browser: what has changed, as messages to one widget.

Source: goals.md (at most ten updates a second); jupyter-facts §2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from IPython.core.display_functions import DisplayHandle
from IPython.display import display

from axe_nb.cell_display.widget import (
    AGAIN,
    RATE,
    join_bundle,
    make_mark,
    make_widget_class,
    retire,
)
from axe_nb.messages import dump
from axe_nb.views.appearance import LINE_HEIGHT

SCRIPTS = ("table.js", "place.js")
"""Files that make one module, in this order."""

STYLE = f"""\
.axe-nb-table {{ line-height: {LINE_HEIGHT}; }}
.axe-nb-table.jp-RenderedHTMLCommon table {{ margin-left: 0; margin-right: 0; }}
"""
"""The second rule is that of JupyterLab's own outputs, which other HTML of its page lacks."""

Draw = Callable[[], dict[str, str]]


class TableFeed:
    """The updates of one table that the browser receives.

    A message may get lost, so now and then all parts are sent again as one synchronised trait;
    the output below, which saved notebooks and pages loaded anew show, is drawn as often.
    """

    def __init__(self, parts: Sequence[str], draw: Draw, now: float) -> None:
        """Shows the table as it is.

        Args:
            parts: the HTML of its parts.
            draw: returns the whole table.
            now: seconds, by any clock that does not go back.
        """
        self._parts = list(parts)
        self._snapshot_at = now
        self._bytes = 0
        self._is_stale = False
        """True if a part was sent that no snapshot contains."""
        self._widget = _load_widget_class()(snapshot=self._take_snapshot(now), mark=make_mark())
        first, metadata = join_bundle(self._widget, self._mark(draw()))
        self._place: DisplayHandle = display(  # type: ignore[no-untyped-call]  # IPython's own gap
            first, metadata=metadata, raw=True, display_id=True
        )

    def update(self, parts: Sequence[str], draw: Draw, now: float) -> None:
        """Sends the parts that have changed; all parts if a snapshot is due."""
        news = {
            str(at): html
            for at, (html, before) in enumerate(zip(parts, self._parts, strict=True))
            if html != before
        }
        self._parts = list(parts)
        self._is_stale |= bool(news)
        is_due = self._is_stale and now - self._snapshot_at >= max(AGAIN, self._bytes / RATE)
        shown = self._mark(draw()) if is_due and self._widget.mark else {}
        with contextlib.suppress(Exception):  # errors of a front end must not affect the runs
            if is_due:
                self._widget.snapshot = self._take_snapshot(now)
            elif news:
                self._widget.send(news)
            if shown:
                self._bytes += sum(map(len, shown.values()))
                self._place.update(shown, raw=True)  # type: ignore[no-untyped-call]

    def close(self, parts: Sequence[str], bundle: dict[str, str]) -> None:
        """Replaces the table with the bundle, and releases the widget.

        The last parts are sent before: a view of the widget stays where nothing takes its place.
        """
        self._parts = list(parts)
        with contextlib.suppress(Exception):
            self._widget.snapshot = self._take_snapshot(self._snapshot_at)
        self._place.update(bundle, raw=True)  # type: ignore[no-untyped-call]
        with contextlib.suppress(Exception):
            retire(self._widget)

    def _take_snapshot(self, now: float) -> str:
        text = dump(self._parts).decode()
        self._snapshot_at, self._bytes, self._is_stale = now, len(text), False
        return text

    def _mark(self, bundle: dict[str, str]) -> dict[str, str]:
        """The bundle of a table that fills, with the class by which the widget finds it."""
        if not self._widget.mark:
            return bundle
        html = f"<div class='{self._widget.mark}'>{bundle['text/html']}</div>"
        return {**bundle, "text/html": html}


@cache
def _load_widget_class() -> type[Any]:
    return make_widget_class(SCRIPTS, STYLE)
