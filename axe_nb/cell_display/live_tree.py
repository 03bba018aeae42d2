"""The tree of a cell while its runs go on: its rows in the browser, drawn once a frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from IPython.core.display_functions import DisplayHandle

from axe_nb.cell_display.answer import LiveAnswer
from axe_nb.cell_display.feed import Feed, News, pack_parts
from axe_nb.events import Event, TextDelta
from axe_nb.views import html
from axe_nb.views.live import draw_axis, draw_progress, draw_row, find_span
from axe_nb.views.rows import Outline, name_of
from axe_nb.views.transcript import Transcript
from axe_nb.views.tree import (
    Node,
    TreeNode,
    TurnNode,
    add_run,
    new_group,
    nodes_below,
    parent_row,
    row_of,
    rows_of,
)

EVERY = 0.1
"""Seconds between two updates."""

BEAT = 2.0
"""Seconds without updates after which the browser is told that the run is still going."""

TELL = 1.0
"""Seconds between updates of the lines shown when the page is reloaded."""

MAX_CHARS = 300
"""Characters of one text in the live tree."""

AGAIN_WHOLE = 20_000
"""Characters of the texts that rows cut which a snapshot repeats, the newest ones."""


class TreeFeed:
    """One tree in the browser. All times are in seconds since its run began."""

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
            name: the expression that gives the result, once it is there.
            place: the display to show it in; None = a new one.
            stop: stops the run, if the reader may.
        """
        self.next_at = now + EVERY
        """Time of the next update."""
        self._root, self._name = root, name
        self._outline, self._drawing = Outline(root, max_chars=MAX_CHARS), html.Drawing()
        self._answer = LiveAnswer(root)
        self._rows: dict[str, dict[str, Any]] = {}
        """Key → the fields of its row, as they were sent last."""
        self._columns: dict[str, int] = {}
        """Key of a row → the width of the names below it."""
        self._wholes: dict[str, int] = {}
        """Texts that rows cut → their numbers."""
        self._sent = 0
        """The last number that was sent."""
        self._head: tuple[str, float] = "", 0.0
        self._newest, self._now = root.key, now
        self._told_at = self._sent_at = now
        self._draw({thing.key: thing for thing in rows_of(root)})
        self._answer.update(now)
        bundle = html.waiting(root, name, now)
        self._feed = Feed(self._take_all, bundle, now, place=place, stop=stop, is_early=True)
        self._sent = len(self._wholes)
        self.place = self._feed.place
        """The display."""

    def update(self, changed: Mapping[str, TreeNode], newest: str, now: float) -> None:
        """Sends what has changed of the rows and of the answer.

        Args:
            changed: by key of the row.
            newest: key of the row to mark; empty = the run is over.
        """
        self._newest, self._now = newest, now
        rows, blocks = self._draw(changed), self._answer.blocks
        self._answer.update(now, is_over=not newest)
        self.next_at = max(now, self.next_at) + EVERY
        self._sent_at = now
        if newest:
            self._tell(now)
        news = {**self._describe(blocks), "rows": rows, "wholes": self._list_wholes(0)}
        self._feed.send(news, now, is_last=not newest)
        self._sent = len(self._wholes)

    def beat(self, newest: str, now: float) -> None:
        """Tells the browser that the run is still going, after BEAT seconds without updates."""
        self._tell(now)
        if now - self._sent_at >= BEAT:
            self._sent_at = self._now = now
            self._feed.send(self._describe(self._answer.blocks), now)

    def is_due(self, now: float) -> bool:
        """True if a snapshot is due, or a part of the answer that was put off."""
        return self._feed.is_due(now) or self._answer.owes(now)

    def close(self, bundle: dict[str, str] | None = None) -> None:
        """Releases the widget; the bundle takes its place."""
        self._feed.close(bundle)

    def _tell(self, now: float) -> None:
        """Updates the lines below the tree, for a page that is reloaded."""
        if self._feed.mark and now - self._told_at >= TELL:
            self._told_at = now
            self.next_at += EVERY  # it is one of the ten updates
            self._feed.redraw(html.waiting(self._root, self._name, now))

    def _take_all(self) -> News:
        rows = [{"key": key, **row} for key, row in self._rows.items()]
        self._head = "", 0.0
        return {**self._describe(()), "rows": rows, "wholes": self._list_wholes(AGAIN_WHOLE)}

    def _list_wholes(self, size: int) -> dict[str, str]:
        """The texts that were not sent yet, and of others as many characters as given."""
        wholes = {}
        for text, number in reversed(self._wholes.items()):
            size -= len(text) if number <= self._sent else 0
            if size < 0:
                break
            wholes[str(number)] = text
        return wholes

    def _describe(self, blocks: Iterable[str]) -> News:
        """The news of all but the rows, beginning from these blocks of the answer."""
        news = {
            "now": round(self._now, 2),
            "newest": self._newest,
            "is_earlier": self._answer.is_earlier,
            **pack_parts(list(blocks), self._answer.blocks),
        }
        head = draw_progress(self._root), find_span(self._now)
        if head != self._head:
            self._head = head
            news |= {"progress": head[0], "span": head[1], "axis": draw_axis(head[1])}
        return news

    def _draw(self, changed: Mapping[str, TreeNode]) -> list[dict[str, Any]]:
        """Draws rows, and returns the fields of each that have changed."""
        news = []
        for key, thing in _add_above({**changed, **self._widen(changed)}).items():
            above = parent_row(thing)
            column = self._columns.get(above.key, 0) if above else 0
            row = draw_row(thing, self._outline, self._drawing, column, self._keep)
            old = self._rows.get(key, {})
            self._rows[key] = row
            if fresh := {name: value for name, value in row.items() if old.get(name) != value}:
                news.append({"key": key, **fresh})
        return news

    def _widen(self, changed: Mapping[str, TreeNode]) -> dict[str, TreeNode]:
        """Returns the rows whose column of names changes its width, as there are new ones."""
        new = (thing for key, thing in changed.items() if key not in self._rows)
        grown = {above.key: above for thing in new if (above := parent_row(thing))}
        widened = dict[str, TreeNode]()
        for key, above in grown.items():
            below = nodes_below(above)
            column = html.find_column([name_of(thing) for thing in below])
            if self._columns.get(key, 0) != column:
                self._columns[key] = column
                widened |= {thing.key: thing for thing in below}
        return widened

    def _keep(self, text: str) -> int:
        return self._wholes.setdefault(text, len(self._wholes) + 1)


def _add_above(changed: Mapping[str, TreeNode]) -> dict[str, TreeNode]:
    """Returns the rows with those above them, which sum up what is below."""
    found = dict(changed)
    for thing in changed.values():
        above = parent_row(thing)
        while above and above.key not in found:
            found[above.key] = above
            above = parent_row(above)
    return found


class LiveTree:
    """The tree of a display while its runs are going; a second run makes it a group of runs."""

    def __init__(self, name: str, stop: Callable[[], None] | None = None) -> None:
        self._name = name
        self._stop = stop
        self._transcripts: list[Transcript] = []
        self._group: Node | None = None
        self._changed: dict[str, TreeNode] = {}
        """Key of a row → its node, for the rows that have changed since the last update."""
        self._newest = ""
        """Key of the row of the last event."""
        self._begins = False
        """True if a reply has begun to arrive since the last update."""
        self._feed: TreeFeed | None = None
        self._replaced: TreeFeed | None = None
        """The feed of the only run, until the group takes its place."""
        self._place: DisplayHandle | None = None
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    @property
    def root(self) -> Node | None:
        """The tree on display: the only run, or the group; None = no run has begun."""
        return self._group or (self._transcripts[0].root if self._transcripts else None)

    def apply(self, transcript: Transcript, event: Event) -> None:
        """Notes an event; the first one displays the tree, that of a second run a group."""
        changed = transcript.apply(event, self.now)
        self.note(changed)
        if isinstance(event, TextDelta):
            turns = (thing for thing in changed if isinstance(thing, TurnNode))
            self._begins |= any(turn.draft and turn.draft.begins for turn in turns)
            return
        if not any(transcript is known for known in self._transcripts) and transcript.root:
            self._add(transcript)
        if self._feed is None and self.root:
            self._feed = TreeFeed(self.root, self.now, self._name, self._place, self._stop)
            self._place = self._feed.place
        if self._replaced:
            self._replaced.close()
            self._replaced = None

    def note(self, changed: Iterable[TreeNode]) -> None:
        """Notes the nodes to send next."""
        for thing in changed:
            row = row_of(thing)
            self._changed[row.key] = row
            self._newest = row.key

    def _add(self, transcript: Transcript) -> None:
        self._transcripts.append(transcript)
        if len(self._transcripts) == 1:
            return
        joining = [transcript]
        if self._group is None:
            self._group = new_group()
            self._group.times.started = 0.0
            joining = self._transcripts
            self._changed.clear()
            self._feed, self._replaced = None, self._feed
        for one in joining:
            one.join(add_run(self._group))
        assert transcript.root
        self.note([transcript.root])

    def tick(self) -> None:
        """Sends the changes, if the last update is long enough ago."""
        now, feed = self.now, self._feed
        for transcript in self._transcripts:
            self.note(transcript.tick(now))
        # what begins to be written is shown at once, and the next update comes the later for it
        early = EVERY if self._begins else 0.0
        if feed is None or now < feed.next_at - early:
            return
        if not (self._changed or feed.is_due(now)):
            feed.beat(self._newest, now)
        else:
            feed.update(self._changed, self._newest, now)
            self._changed.clear()
            self._begins = False

    def close(self, bundle: dict[str, str]) -> None:
        """Replaces the tree with the bundle, and releases the widget."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.update(self._changed, "", self.now)
            self._changed.clear()
            feed.close(bundle)
