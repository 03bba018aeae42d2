"""The live tree of a run in a notebook cell, drawn as HTML fragments for `static/live.js`.

Rows are those of the saved tree, with a clock and a bar added. Bars have segments for models,
sub-agents, tools, and waiting for a retry or the user's answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html import escape
from typing import Any, TypeAlias

from axe_nb.cell_display.feed import Feed, News, pack_parts
from axe_nb.events import Event, PersonAsked
from axe_nb.results import RunResult
from axe_nb.text import clean, plural
from axe_nb.views import html
from axe_nb.views.markdown import render_blocks
from axe_nb.views.outline import ANSWER, Block, Outline
from axe_nb.views.rows import cut_end, indent_json, join_facts, question_of
from axe_nb.views.transcript import (
    CallNode,
    Node,
    Transcript,
    TreeNode,
    TurnNode,
    parent_row,
    read_beginning,
    read_end,
    row_of,
)

EVERY = 0.1
"""Minimum time between two updates, in seconds."""

MAX_SEGMENTS = 60
"""Maximum number of segments in a bar; only the latest segments of a longer run are drawn."""

PACE = 50_000
"""Maximum number of characters rendered per second; long answers are updated less often."""

END = 500
"""Number of characters shown from the end of an answer that is too long to show in full."""

Segment: TypeAlias = tuple[str, float, float | None]
"""A kind of work, and its start and end in seconds; the end is None while the work goes on."""


class LiveTree:
    """The live tree of one run. All times are in seconds since the run began."""

    def __init__(
        self, name: str, stop: Callable[[], None] | None = None, speed: float = 1.0
    ) -> None:
        """Creates a tree that displays nothing yet; its button calls `stop`, if given."""
        self._name, self._stop, self._speed = name, stop, speed
        self._transcript = Transcript()
        self._feed: Feed | None = None
        """The tree's display; None before the first event."""
        self._began = time.monotonic()
        self._changed: dict[str, TreeNode] = {}
        """Maps keys of rows that have changed since the last update to their nodes."""
        self._newest = ""
        """Key of the row that the last event changed; empty once the run is over."""
        self._drawing = html.Drawing()
        self._rows: dict[str, dict[str, Any]] = {}
        """Maps keys of rows to the fields of the row as last sent."""
        self._next_at = self._told_at = self._sent_at = 0.0

    @property
    def _now(self) -> float:
        return self._speed * self._elapsed

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def apply(self, event: Event) -> None:
        """Applies an event to the tree. The first event displays the tree."""
        self._note(self._transcript.apply(event, self._now))
        if isinstance(event, PersonAsked) and self._feed:  # a page without the widget shows it too
            self._feed.redraw(html.waiting(self._transcript.whole, self._name, self._now, event))
        if self._feed is None and self._transcript.root:
            root, now = self._transcript.root, self._elapsed
            self._outline, self._answer = Outline(root, max_chars=300), LiveAnswer(root)
            self._draw()
            bundle = html.waiting(root, self._name, self._now)
            self._feed = Feed(self._take_all, bundle, now, stop=self._stop)
            self._next_at, self._told_at, self._sent_at = now + EVERY, now, now

    def _note(self, changed: Iterable[TreeNode]) -> None:
        for thing in changed:
            row = row_of(thing)
            self._changed[row.key] = row
            self._newest = row.key

    def tick(self) -> None:
        now = self._elapsed
        self._note(self._transcript.tick(self._now))
        if self._feed is None or now < self._next_at:
            return
        if self._changed or self._feed.is_due(now) or self._answer.owes(now):
            self._next_at = now + EVERY
            self._send(self._feed, now)
        elif now - self._sent_at >= 2:  # a sign of life
            self._feed.send(self._describe(self._answer.blocks), now)
            self._sent_at = now
        if self._feed.mark and now - self._told_at >= 1:
            self._told_at = now
            self._next_at += EVERY  # it counts as an update
            self._feed.redraw(html.waiting(self._transcript.whole, self._name, self._now))

    def close(self, result: RunResult | None) -> bool:
        """Replaces the live tree with a static one. Returns False if no tree was displayed."""
        if self._feed is None:
            return False
        root = self._transcript.whole
        if result is None:
            self._note(self._transcript.stop(root, self._now))
        self._outline.name = self._name  # failures say how to try again
        self._note(run for run in root.below() if run.state not in ("completed", "running"))
        self._newest = ""
        # drawn before the page says that the run is over, as the notebook may be saved then
        bundle = html.twin(result, name=self._name) if result else html.page(root, self._name)
        self._send(self._feed, self._elapsed)
        self._feed.close(bundle)
        return True

    def _send(self, feed: Feed, now: float) -> None:
        is_last = not self._newest
        rows, blocks = self._draw(), self._answer.blocks
        self._answer.update(now, is_over=is_last)
        feed.send({**self._describe(blocks), "rows": rows}, now, is_last=is_last)
        self._sent_at = now

    def _take_all(self) -> News:
        rows = [{"key": key, **row} for key, row in self._rows.items()]
        return {**self._describe(()), "rows": rows}

    def _describe(self, blocks: Iterable[str]) -> News:
        """Returns an update of everything except rows; `blocks` are the answer blocks last sent."""
        return {
            "now": round(self._transcript.whole.times.ended or self._now, 2),
            "newest": self._newest,
            "is_earlier": self._answer.is_earlier,
            **pack_parts(list(blocks), self._answer.blocks),
        }

    def _draw(self) -> list[dict[str, Any]]:
        changed, self._changed = self._changed, {}
        for thing in [*changed.values()]:
            above = parent_row(thing)  # rows sum up those below them
            while above and above.key not in changed:
                changed[above.key] = above
                above = parent_row(above)
        news = []
        for key, thing in changed.items():
            row = draw_row(thing, self._outline, self._drawing)
            old = self._rows.get(key, {})
            self._rows[key] = row
            if fresh := {name: value for name, value in row.items() if old.get(name) != value}:
                news.append({"key": key, **fresh})
        return news


def draw_row(thing: TreeNode, outline: Outline, drawing: html.Drawing) -> dict[str, Any]:
    row, above = outline.make_row(thing), parent_row(thing)
    child = thing.child if isinstance(thing, CallNode) else None
    times, clock = (child or thing).times, "<time></time>"
    if times.started is not None:  # the page fills in the seconds
        until = "" if times.ended is None else f" data-to={times.ended:.2f}"
        clock = f"<time data-from={times.started:.2f}{until}></time>"
    if above is None:
        line, facts = html.format_head(row, clock), [*map(str, row.facts)]
    else:
        segments = list_segments(thing)
        if not segments and times.started is not None:  # no request; of a fork, a recorded failure
            kind = f"ended axe-nb-{row.look.tone}" if row.is_failed else "sub"
            segments = [(kind, times.started, times.ended)]
        bar = "<i class=axe-nb-bar>"
        for kind, start, end in segments:
            until = "" if end is None else f";--to:{end:.2f}"
            bar += f"<i class='axe-nb-{kind}' style=--from:{start:.2f}{until}></i>"
        bar += "</i>"
        # what a sub-agent costs is in the head and in the saved tree, its time only here
        shown = replace(row, cost="") if row.kind == "run" else row
        line, facts = html.format_line(shown, bar, clock), row.cost.split(" · ")
    # a screen reader tells the state once, with the name
    about = join_facts(*(fact for fact in facts if fact not in (row.look.word, "denied", "failed")))
    before, after = outline.blocks(thing)
    asked = question_of(thing)
    return {
        "above": above.key if above else "",
        "look": f"axe-nb-{row.kind} axe-nb-{row.look.tone}",
        "open": above is None,
        "line": line,
        "about": about,
        "before": [_draw_text(block, drawing) for block in before],
        "question": html.format_question(asked) if asked and asked.text else "",
        "after": [_draw_text(block, drawing) for block in after],
    }


def _draw_text(block: Block, drawing: html.Drawing) -> str:
    # what is drawn of an answer is not what was written
    source = block.whole or (block.text if block.label == "answer" else "")
    whole = f' data-whole="{escape(source[:20_000])}"' if source else ""
    return f"<div class=axe-nb-text{whole}>{drawing.block(block)}</div>"


def list_segments(thing: TreeNode) -> list[Segment]:
    if isinstance(thing, CallNode) and thing.child:
        thing = thing.child
    found: list[Segment] = []
    if isinstance(thing, CallNode):
        found += _split("sub" if thing.call.traits.delegates else "tool", thing)
        turns = []
    else:
        own = [*thing.turns, *thing.failed] if isinstance(thing, Node) else [thing]
        turns = own[-MAX_SEGMENTS:]
    for turn in turns:
        found += _split("model", turn)
        for call in turn.calls:
            found += _split("sub" if call.call.traits.delegates else "tool", call)
    joined: list[Segment] = []
    for kind, start, end in sorted(found, key=lambda segment: segment[1]):
        last_kind, first, last = joined[-1] if joined else (None, 0.0, 0.0)
        if kind != last_kind or (last is not None and start > last):
            joined.append((kind, start, end))
        elif last is not None:  # parallel calls are merged
            joined[-1] = kind, first, None if end is None else max(end, last)
    return joined[-MAX_SEGMENTS:]


def _split(kind: str, work: TurnNode | CallNode) -> Iterator[Segment]:
    at = work.times.started
    for pause in [*work.pauses, None]:
        end = pause.started if pause else work.times.ended
        if at is not None and (end is None or end > at):
            yield kind, at, end
        if pause is None or pause.started is None:
            return
        if pause.ended is None or pause.ended > pause.started:
            yield "person" if pause.for_person else "retry", pause.started, pause.ended
        if pause.ended is None:
            return
        at = pause.ended


class LiveAnswer:
    """The answer shown above a live tree."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self.blocks: list[str] = []
        """HTML of the answer's blocks, and a note about the omitted part of a long answer."""
        self._seen: tuple[object, ...] = ()
        """Turn, attempt and text length at the last update."""
        self._next_at = 0.0

    @property
    def is_earlier(self) -> bool:
        """True if the text shown is from a turn with tool calls, not from the last turn."""
        turn = _find_turn(self._root)
        return self._root.result is None and turn is not None and not turn.is_last

    def owes(self, now: float) -> bool:
        return now >= self._next_at and self._look() != self._seen

    def update(self, now: float, *, is_over: bool = False) -> None:
        """Renders the blocks if the text has changed, at a limited rate while it grows."""
        turn, seen = _find_turn(self._root), self._look()
        is_written = turn is not None and turn.draft is not None
        if seen != self._seen and (is_over or now >= self._next_at or not is_written):
            self._seen = seen
            self._next_at = now + self._draw(turn) / PACE

    def _look(self) -> tuple[object, ...]:
        if self._root.result:
            return ("the end",)
        turn = _find_turn(self._root)
        if turn is None:
            return ()
        draft = turn.draft
        return (turn.key, draft.attempt, draft.text.tell()) if draft else (turn.key, len(turn.text))

    def _draw(self, turn: TurnNode | None) -> int:
        """Renders the answer. Returns the number of characters rendered."""
        result = self._root.result
        draft = turn.draft if turn and not result else None
        text = self._root.text if draft is None else read_beginning(draft.text, ANSWER)
        size = draft.text.tell() if draft else len(text)
        is_json = text.lstrip()[:1] in ("{", "[")  # unlike a text before tool calls
        is_data = result.data is not None if result else bool(turn and turn.data and is_json)
        rest = []
        if size > ANSWER:
            end = read_end(draft.text, END + 1) if draft else text[-END - 1 :]
            end = html.safe(cut_end(end, END))
            more = plural(size - ANSWER, "more character")
            rest = [f"<p>… {more}</p>", f"<pre class=axe-nb-end>{end}</pre>"]
        elif result and is_data:
            text = indent_json(text)
        shown = clean(text[:ANSWER]).strip("\n")
        blocks = render_blocks(shown)
        if is_data and shown:
            blocks = [html.format_data(shown)]
        sources = self._root.turns[-1].sources if result and self._root.turns else ()
        self.blocks = [*blocks, *rest, *filter(None, [html.format_sources(sources)])]
        return len(shown)


def _find_turn(root: Node) -> TurnNode | None:
    """Returns the latest turn with text; this text would be the answer if the run ended now."""
    for turn in reversed(root.turns):
        if turn.text or (turn.draft and turn.draft.text.tell()):
            return turn
    return None
