"""Sends HTML fragments of a live tree or table to a widget in the browser."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from axe_nb.cell_display.output import show
from axe_nb.messages import dump
from axe_nb.views.appearance import css_rules

STATIC = Path(__file__).parent / "static"

AGAIN = 1.5
"""Minimum seconds between two snapshots of the whole display, except at the start."""

News = dict[str, Any]
Bundle = dict[str, str]


def is_jupyter_page() -> bool:
    """True if JupyterLab or Notebook shows the output; False in VS Code with a Jupyter server."""
    shell = get_ipython()
    in_vscode = shell is None or "__vsc_ipynb_file__" in shell.user_ns
    return "JPY_SESSION_NAME" in os.environ and not in_vscode


class Feed:
    """Sends the updates of one tree or table to the browser.

    Messages may get lost, so a snapshot of the whole display is sent from time to time, as a
    synchronised trait of the widget. On a page of a Jupyter server, the output is static HTML that
    the widget covers while the kernel is alive. A widget alone would say "model not found" once its
    kernel is gone.
    """

    def __init__(
        self,
        take_all: Callable[[], News],
        bundle: Bundle,
        now: float,
        *,
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Displays the tree or table at time `now`; if `stop` is given, a button calls it."""
        self._take_all = take_all
        self._number = 0
        self._is_stale = False
        """True if updates were sent since the last snapshot."""
        self._bytes = 0
        self._snapshot_at = now
        # VS Code also connects to Jupyter servers, but its page cannot be searched for a mark
        self.mark = f"axe-nb-at-{secrets.token_hex(8)}" if is_jupyter_page() else ""
        """CSS class of the static output under the widget; empty if the widget is the output."""
        self._widget = _load_widget_class()(
            snapshot=self._pack(now), mark=self.mark, can_stop=stop is not None
        )

        def hear(_: object, words: object, __: object) -> None:
            if stop is not None and words == {"stop": True}:  # messages from pages are untrusted
                stop()

        self._widget.on_msg(hear)
        self._place = show(self._add_mark(bundle), None if self.mark else self._widget)

    def is_due(self, now: float) -> bool:
        """True if it is time for a snapshot. Large snapshots are sent less often."""
        wait = max(AGAIN, self._bytes / 40_000)
        if now < AGAIN:  # the page has only begun to listen
            wait = 0.5 if self._bytes > 20_000 else 0
        return self._is_stale and now - self._snapshot_at >= wait

    def send(self, news: News, now: float, *, is_last: bool = False) -> None:
        """Sends `news`, or a snapshot if one is due or this is the last update."""
        self._number += 1
        self._is_stale |= bool(news.get("rows") or news.get("parts"))
        with contextlib.suppress(Exception):  # errors of a front end must not affect the run
            if is_last or self.is_due(now):
                self._widget.snapshot = self._pack(now)
            else:
                self._widget.send({"number": self._number, **news})

    def redraw(self, bundle: Bundle) -> None:
        """Updates the static output, for notebooks that are saved or loaded during the run."""
        if self.mark:
            with contextlib.suppress(Exception):
                self._place.update(self._add_mark(bundle), raw=True)

    def close(self, bundle: Bundle) -> None:
        """Displays the bundle in place of the widget, and closes the widget.

        On a page of a Jupyter server, the widget stays open until the next display ends: a page
        that was loaded during the run receives the state of open widgets, but no other updates.
        """
        global _retired
        self._place.update(bundle, raw=True)
        before = self._widget
        if self.mark:
            before, _retired = _retired, self._widget
        if before is not None:
            with contextlib.suppress(Exception):
                before.close()
                before.layout.close()

    def _pack(self, now: float) -> str:
        text = dump({"number": self._number, **self._take_all()}).decode()
        self._snapshot_at, self._bytes, self._is_stale = now, len(text), False
        return text

    def _add_mark(self, bundle: Bundle) -> Bundle:
        if not self.mark:
            return bundle
        return {**bundle, "text/html": f"<div class='{self.mark}'>{bundle['text/html']}</div>"}


_retired: Any = None
"""The widget of the last finished display if it is still open, otherwise None."""


def pack_parts(before: Sequence[str], parts: Sequence[str]) -> News:
    changed = {
        str(at): html for at, html in enumerate(parts) if at >= len(before) or before[at] != html
    }
    return {"size": len(parts), "parts": changed}


@cache
def _load_widget_class() -> type[Any]:
    """Creates the widget class on first use, as its libraries are slow to import."""
    import anywidget
    import traitlets

    class Live(anywidget.AnyWidget):
        _esm = (STATIC / "live.js").read_text("utf-8")
        _css = css_rules() + (STATIC / "live.css").read_text("utf-8")
        # a text, as the browser compares a trait's old and new value, which is slow for objects
        snapshot = traitlets.Unicode().tag(sync=True)
        mark = traitlets.Unicode().tag(sync=True)
        can_stop = traitlets.Bool().tag(sync=True)

    return Live
