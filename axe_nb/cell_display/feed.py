"""A widget that receives fragments of HTML, at most ten times a second, and its place."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from IPython.core.display_functions import DisplayHandle
from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.messages import dump
from axe_nb.views.appearance import css_rules

STATIC = Path(__file__).parent / "static"

AGAIN = 1.5
"""Minimum seconds between two snapshots."""

News = dict[str, Any]
Bundle = dict[str, str]


class Feed:
    """The updates that the browser receives of one tree or table.

    A message may get lost, so now and then everything is sent again as one synchronised trait, a
    snapshot. In the page of a Jupyter server, the output is readable HTML only, which the widget
    covers while the kernel lives: a saved widget says "model not found" once its kernel is gone.
    """

    def __init__(
        self,
        take_all: Callable[[], News],
        bundle: Bundle,
        now: float,
        *,
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Displays the current state at `now`, in seconds of a clock that does not go back.

        With `stop`, the reader may stop what is shown, when the kernel is free to listen.
        """
        self._take_all = take_all
        self._number = 0
        self._is_stale = False
        """True if news were sent that no snapshot contains."""
        self._bytes = 0
        self._snapshot_at = now
        shell = get_ipython()
        # VS Code connects to Jupyter servers, too, and has no page that could be searched
        in_vscode = shell is not None and "__vsc_ipynb_file__" in shell.user_ns
        is_jupyter = "JPY_SESSION_NAME" in os.environ and not in_vscode
        self.mark = f"axe-nb-at-{secrets.token_hex(8)}" if is_jupyter else ""
        """Class by which the widget finds its place; empty = it has to be in the output."""
        self._widget = _load_widget_class()(
            snapshot=self._pack(now), mark=self.mark, can_stop=stop is not None
        )

        def hear(_: object, words: object, __: object) -> None:
            if stop is not None and words == {"stop": True}:  # messages from pages are untrusted
                stop()

        self._widget.on_msg(hear)
        data, metadata = ({}, {}) if self.mark else self._widget._repr_mimebundle_()
        self._place: DisplayHandle = display(  # type: ignore[no-untyped-call]  # IPython's own gap
            {**data, **self._add_mark(bundle)}, metadata=metadata, raw=True, display_id=True
        )

    def is_due(self, now: float) -> bool:
        """True if it is time for a snapshot; large ones are sent more rarely."""
        wait = max(AGAIN, self._bytes / 60_000)
        if now < AGAIN:  # the page is only beginning to listen
            wait = 0.5 if self._bytes > 20_000 else 0
        return self._is_stale and now - self._snapshot_at >= wait

    def send(self, news: News, now: float, *, is_last: bool = False) -> None:
        """Sends news; everything, if a snapshot is due, and at the end."""
        self._number += 1
        self._is_stale |= bool(news.get("rows") or news.get("parts"))
        with contextlib.suppress(Exception):  # errors of a front end must not affect the run
            if is_last or self.is_due(now):
                self._widget.snapshot = self._pack(now)
            else:
                self._widget.send({"number": self._number, **news})

    def redraw(self, bundle: Bundle) -> None:
        """Replaces the readable output, for notebooks that are saved and pages loaded now."""
        if self.mark:
            with contextlib.suppress(Exception):
                self._place.update(self._add_mark(bundle), raw=True)  # type: ignore[no-untyped-call]

    def close(self, bundle: Bundle) -> None:
        """Releases the widget; the bundle takes its place.

        The latest one is kept for pages that are reloaded: no update of the display reaches a page
        that was loaded since the work began, but the state of an open widget does.
        """
        global _retired
        self._place.update(bundle, raw=True)  # type: ignore[no-untyped-call]
        before = self._widget
        if self.mark:
            before, _retired = _retired, self._widget
        if before is not None:
            with contextlib.suppress(Exception):
                before.close()

    def _pack(self, now: float) -> str:
        text = dump({"number": self._number, **self._take_all()}).decode()
        self._snapshot_at, self._bytes, self._is_stale = now, len(text), False
        return text

    def _add_mark(self, bundle: Bundle) -> Bundle:
        if not self.mark:
            return bundle
        return {**bundle, "text/html": f"<div class='{self.mark}'>{bundle['text/html']}</div>"}


_retired: Any = None
"""The most recently closed widget."""


def pack_parts(before: Sequence[str], parts: Sequence[str]) -> News:
    changed = {
        str(at): html for at, html in enumerate(parts) if at >= len(before) or before[at] != html
    }
    return {"size": len(parts), "parts": changed}


@cache
def _load_widget_class() -> type[Any]:
    """Makes the widget class on first use, as its libraries are slow to import."""
    import anywidget
    import traitlets

    class Live(anywidget.AnyWidget):
        _esm = (STATIC / "live.js").read_text("utf-8")
        _css = css_rules() + (STATIC / "live.css").read_text("utf-8")
        # as text: the browser compares a trait's old and new value, which is slow for objects
        snapshot = traitlets.Unicode().tag(sync=True)
        # class of the element whose place it takes; empty = it has an output of its own
        mark = traitlets.Unicode().tag(sync=True)
        # True if the reader may stop what it shows
        can_stop = traitlets.Bool().tag(sync=True)

    return Live
