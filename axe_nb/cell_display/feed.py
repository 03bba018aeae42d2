"""Updates of a growing tree for the browser: one widget, fed at most ten times a second.

Source: jupyter-facts §0.4-0.7, §2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

from IPython.core.display_functions import DisplayHandle
from IPython.display import display

from axe_nb.cell_display.answer import LiveAnswer
from axe_nb.cell_display.widget import (
    AGAIN,
    RATE,
    STATIC,
    join_bundle,
    make_mark,
    make_widget_class,
    retire,
)
from axe_nb.messages import dump
from axe_nb.pictures.scaled import Thumbnails
from axe_nb.views import html
from axe_nb.views.appearance import css_rules, define_looks
from axe_nb.views.outline import Block, Outline
from axe_nb.views.question import format_question
from axe_nb.views.row import make_row
from axe_nb.views.segments import segments_of
from axe_nb.views.summary import progress_of
from axe_nb.views.tree import CallNode, Node, Times, TreeNode, parent_row, rows_of

SCRIPTS = ("live.js", "answer.js", "question.js", "copy.js", "stop.js", "place.js")
"""Files that make one module, in this order."""

EVERY = 0.1
"""Seconds between two updates."""

BEAT = 2.0
"""Seconds without updates after which the browser is told that the run is still going."""

TELL = 1.0
"""Seconds between updates of the lines shown when the page is reloaded."""

MAX_CHARS = 300
"""Characters of one text in the live tree."""

MAX_WHOLE = 20_000
"""Characters of a text that can be copied."""

EARLY = 0.5
"""Seconds between two of the snapshots that show a tree to a page which is just beginning to
listen; small ones are sent with each update."""

SMALL = 20_000
"""Bytes of a small snapshot."""

AGAIN_WHOLE = 20_000
"""Characters of such texts that a snapshot repeats, those of the newest rows."""

NOTHING: tuple[object, ...] = (None, "", [])
"""Values of a row that are not sent; `EMPTY` in live.js has them."""


class Feed:
    """The updates of one tree that the browser receives.

    Rows are sent whole, each with its version, as messages. A message may get lost, so now and
    then all rows are sent again as one synchronised trait: without it, early content was lost in
    ten runs of ten (jupyter-facts §2).
    """

    def __init__(
        self,
        root: Node,
        now: float,
        name: str,
        place: DisplayHandle | None = None,
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Shows the tree as it is.

        Args:
            root: the tree.
            now: seconds since the first run of the display began.
            name: the expression that gives the result, once it is there.
            place: the display to show it in; None = a new one.
            stop: stops the run, if the reader may; called when the kernel is free to listen.
        """
        self.next_at = now + EVERY
        """Time of the next update; like all times here, in seconds since the run began."""
        self._root = root
        self._outline = Outline(root, max_chars=MAX_CHARS)
        self._rows: dict[str, dict[str, Any]] = {}
        self._wholes: dict[str, _Wholes] = {}
        """Key of a row → the texts that the row cuts."""
        self._thumbnails = Thumbnails()
        self._answer = LiveAnswer(root)
        self._number = 0
        self._snapshot_at = now
        self._is_stale = False
        """True if an update was sent that no snapshot contains."""
        self._bytes = 0
        self._update_rows({thing.key: thing for thing in rows_of(root)})
        self._answer.update(now)
        self._name = name
        self._told_at = self._sent_at = now
        self._mark = make_mark()
        self._widget = _load_widget_class()(
            snapshot=self._take_snapshot(root.key, now), mark=self._mark, can_stop=stop is not None
        )
        if stop is not None:
            self._widget.on_msg(partial(_hear, stop))
        first, metadata = join_bundle(self._widget, self._describe(now))
        self.place = place or display(  # type: ignore[no-untyped-call]  # IPython's own gap
            first, metadata=metadata, raw=True, display_id=True
        )
        """The display."""
        if place:
            place.update(first, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap

    def update(self, changed: Mapping[str, TreeNode], newest: str, now: float) -> None:
        """Sends the changed rows; all rows if a snapshot is due, and at the end.

        Args:
            changed: by key of the row.
            newest: key of the row to mark; empty = the run is over.
            now: seconds since the run began.
        """
        rows = self._update_rows(changed)
        answer = self._answer.update(now, is_over=not newest)
        self.next_at = max(now, self.next_at) + EVERY
        self._sent_at = now
        self._is_stale = True
        with contextlib.suppress(Exception):  # errors of a front end must not affect the run
            if newest:
                self._tell(now)
            if not newest or self._is_snapshot_due(now):
                self._widget.snapshot = self._take_snapshot(newest, now)
                return
            wholes = self._list_wholes(0)
            self._widget.send(
                {"now": now, "newest": newest, "rows": rows, "answer": answer, "wholes": wholes}
            )

    def beat(self, newest: str, now: float) -> None:
        """Tells the browser that the run is still going, after BEAT seconds without updates."""
        with contextlib.suppress(Exception):
            self._tell(now)
            if now - self._sent_at >= BEAT:
                self._sent_at = now
                self._widget.send({"now": now, "newest": newest, "rows": [], "answer": None})

    def is_due(self, now: float) -> bool:
        """True if a snapshot is due, or a part of the answer that was put off."""
        return self._is_snapshot_due(now) or self._answer.owes(now)

    def _is_snapshot_due(self, now: float) -> bool:
        wait = max(AGAIN, self._bytes / RATE)
        if now < AGAIN:
            wait = EARLY if self._bytes > SMALL else 0
        return self._is_stale and now - self._snapshot_at >= wait

    def close(self) -> None:
        """Closes the widget; something else is in its place by then."""
        self._widget.close()

    def retire(self) -> None:
        """Releases the widget at the end of the run."""
        retire(self._widget)

    def _describe(self, now: float) -> dict[str, str]:
        return html.waiting(self._root, self._name, now, self._mark)

    def _tell(self, now: float) -> None:
        """Updates the lines below the tree, for a page that is reloaded."""
        if self._mark and now - self._told_at >= TELL:
            self._told_at = now
            self.next_at += EVERY  # it is one of the ten updates
            self.place.update(self._describe(now), raw=True)

    def _take_snapshot(self, newest: str, now: float) -> str:
        self._snapshot_at = now
        self._is_stale = False
        rows = list(self._rows.values())
        answer = self._answer.whole()
        wholes = self._list_wholes(AGAIN_WHOLE)
        snapshot = {
            "now": now, "newest": newest, "rows": rows, "answer": answer, "wholes": wholes,
        }  # fmt: skip
        text = dump(snapshot).decode()
        self._bytes = len(text)
        return text

    def _update_rows(self, changed: Mapping[str, TreeNode]) -> list[dict[str, Any]]:
        """The changed rows, in the browser's format."""
        self._number += 1
        news = {key: self._format_row(key, thing) for key, thing in changed.items()}
        self._rows.update(news)
        return list(news.values())

    def _list_wholes(self, size: int) -> dict[str, Any]:
        """The texts that changed in this update, and of others as many characters as given.

        A message that got lost takes its texts with it; the browser then says how much it copies.
        """
        listed = dict[str, Any]()
        for key, (number, texts) in reversed(self._wholes.items()):
            if number != self._number:
                size -= sum(len(text[0]) for text in texts if text)
                if size < 0:
                    break
            listed[key] = [number, texts]
        return listed

    def _number_wholes(self, key: str, blocks: list[Block]) -> int:
        """The number of the update in which the cut texts of a row were new; 0 = none are cut."""
        texts = [_find_rest(block) if block.whole else None for block in blocks]
        known = self._wholes.get(key)
        if known and known[1] == texts:
            return known[0]
        self._wholes.pop(key, None)  # so that the newest are the last
        if not any(texts):
            return 0
        self._wholes[key] = self._number, texts
        return self._number

    def _format_block(self, block: Block) -> list[Any]:
        thumbnails = filter(None, map(self._thumbnails.find, block.pictures))
        return [block.label, block.text, block.rest, *thumbnails]

    def _format_row(self, key: str, thing: TreeNode) -> dict[str, Any]:
        before, after = self._outline.blocks(thing)
        over = parent_row(thing)
        times = _find_times(thing)
        row = {
            **make_row(thing).to_dict(),
            "key": key,
            "version": self._number,
            "times": [_round(times.started), _round(times.ended)],
            "segments": segments_of(thing),
            "progress": progress_of(self._root) if over is None else [],
            "question": format_question(thing),
            "wholes": self._number_wholes(key, [*before, *after]),
            "before": list(map(self._format_block, before)),
            "after": list(map(self._format_block, after)),
        }
        shown = {name: value for name, value in row.items() if value not in NOTHING}
        return {**shown, "above": over.key if over else None}


_Rest: TypeAlias = tuple[str, int, bool]
"""The text that follows that of a block; the number of characters that are left out even then;
False = it is the whole text instead."""

_Wholes: TypeAlias = tuple[int, list[_Rest | None]]
"""The number of the update in which they were new; None = nothing is cut."""


def _hear(stop: Callable[[], None], _: object, words: object, __: object) -> None:
    """Stops the run if a page asked for that; messages from pages are untrusted."""
    if words == {"stop": True}:
        stop()


def _find_rest(block: Block) -> _Rest:
    goes_on = block.whole.startswith(block.text)
    begin = len(block.text) if goes_on else 0
    return block.whole[begin:MAX_WHOLE], max(len(block.whole) - MAX_WHOLE, 0), goes_on


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def _find_times(thing: TreeNode) -> Times:
    child = thing.child if isinstance(thing, CallNode) else None
    return child.times if child else thing.times


@cache
def _load_widget_class() -> type[Any]:
    css = css_rules() + (STATIC / "live.css").read_text("utf-8")
    return make_widget_class(SCRIPTS, css, define_looks())
