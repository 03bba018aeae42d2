"""Events folded into the tree of a run, without secrets. Pure.

A text is filtered when it is complete, before it is cut: half a secret would not be recognised.
Nothing else of it is changed, but the seconds in the reports of this tree, so that two equal runs
are shown alike.
Source: D-6, D-24, docs/safety.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from axe_nb.conversion.jsonable import change_texts
from axe_nb.delegation.spawn_agent import REPORT, find_reports
from axe_nb.events import (
    Event,
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    events_of,
)
from axe_nb.messages import Page, ServerCall, ToolCall, ToolResult, is_link
from axe_nb.results import RunResult
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import format_seconds
from axe_nb.views.tree import (
    WAITS,
    CallNode,
    Draft,
    Node,
    Pause,
    State,
    Times,
    TreeNode,
    TurnNode,
    add_run,
    new_group,
)

Thing = TypeVar("Thing")

RESULT = ("content", "name", "note", "edited")
"""Fields of the result of a call that are shown."""


@dataclass
class Transcript:
    """A tree of runs as far as its events have come."""

    root: Node | None = None
    _nodes: dict[str, Node] = field(default_factory=dict)
    _calls: dict[tuple[str, str], CallNode] = field(default_factory=dict)
    _retries: list[tuple[float, TurnNode, str]] = field(default_factory=list)
    """(time of the next attempt, its turn, the words for it then)."""
    _reports: set[str] = field(default_factory=set)
    """Seconds in the reports of this tree."""
    _place: CallNode | None = None
    """Place of the tree in a group of runs; None = it is not in a group."""

    @classmethod
    def of(cls, result: RunResult) -> Transcript:
        """The tree of a finished run, folded from its events."""
        transcript = cls()
        for event in events_of(result):
            transcript.apply(event, 0.0)
        return transcript

    @property
    def whole(self) -> Node:
        """The tree of a run that has begun."""
        assert self.root is not None
        return self.root

    def apply(self, event: Event, now: float) -> tuple[TreeNode, ...]:
        """Applies the event in constant time; returns the changed nodes, its subject last.

        Args:
            event: the next one of this tree; its root's first.
            now: seconds of a monotonic clock, for the bars of the live view.
        """
        if isinstance(event, RunStarted):
            return self._begin(event, now)
        node = self._nodes.get(event.run)
        if node is None or node.times.ended is not None:
            return ()
        match event:
            case TurnStarted():
                node.turns.append(
                    TurnNode(
                        node, event.turn, event.messages, event.pending, event.closing,
                        asked=event.asked, data=event.data, times=Times(now),
                    )
                )  # fmt: skip
                return node, *node.turns[-2:]
            case TextDelta():
                return self._take_piece(node, event)
            case RetryScheduled():
                return self._wait(node, event, now)
            case TurnFinished():
                return self._finish_turn(node, event, now)
            case ToolStarted() | ToolFinished():
                return self._update_call(node, event, now)
            case PersonAsked() | PersonAnswered():
                return self._ask(node, event, now)
            case RunFinished():
                return self._end(node, event.result, now)
            case _:
                assert_never(event)

    @property
    def _filter(self) -> TreeFilter:
        return TreeFilter(find_filter(), self._reports)

    def join(self, place: CallNode) -> None:
        """Makes this tree one of a group of runs, with what is in it already."""
        self._place = place
        for node in self._nodes.values():
            self._settle(node)
        if self.root:
            place.turn.run.total += self.root.total

    def _settle(self, node: Node) -> None:
        """Gives a run its id and depth in the group, and the root its place there."""
        if self._place is None:
            return
        node.id = f"0.{self._place.index + 1}{node.id[1:]}"
        node.depth += 1
        if node.call is None:
            node.call = self._place
            self._place.children.append(node)

    def stop(self, now: float) -> tuple[TreeNode, ...]:
        """Ends all open nodes, as no more events of this tree follow; returns the changed ones."""
        return tuple(self._stop(self.root, now)) if self.root else ()

    def _begin(self, event: RunStarted, now: float) -> tuple[TreeNode, ...]:
        call = self._calls.get((event.parent, event.call_id))
        if self.root and (call is None or call.turn.run.times.ended is not None):
            return ()
        clean = self._filter.text
        node = Node(
            event.run, clean(event.agent), clean(event.model), event.depth, clean(event.task),
            clean(event.prompt), call, times=Times(now), pictures=event.pictures,
            origin=event.origin,
        )  # fmt: skip
        self._nodes[event.run] = node
        self._settle(node)
        if call is None:
            self.root = node
            return (node,)
        call.children.append(node)
        return call.turn, call, node

    def _take_piece(self, node: Node, event: TextDelta) -> tuple[TreeNode, ...]:
        if not node.turns or node.turns[-1].times.ended is not None:
            return ()
        turn = node.turns[-1]
        if turn.draft is None or turn.draft.attempt != event.attempt:
            turn.draft = Draft(event.attempt)  # a retry begins the reply anew (D-23)
            turn.waits = ""
        turn.draft.take(event)
        return (node, turn) if node.depth else (turn,)

    def _wait(self, node: Node, event: RetryScheduled, now: float) -> tuple[TreeNode, ...]:
        """Drops the reply of the failed attempt (D-23)."""
        if not node.turns:
            return ()
        turn = node.turns[-1]
        turn.draft = None
        seconds = format_seconds(math.ceil(event.seconds * 10) / 10)
        of = f", {event.attempt - 1} of {event.most}" if event.most else ""
        turn.pauses.append(Pause(now, now + event.seconds))
        turn.waits = f"retries in {seconds} s ({event.reason}){of}"
        self._retries.append((now + event.seconds, turn, f"tries again{of}"))
        return node, turn

    def _ask(
        self, node: Node, event: PersonAsked | PersonAnswered, now: float
    ) -> tuple[TreeNode, ...]:
        """Notes that a request or a call waits for the person, or no longer."""
        about: TurnNode | CallNode | None = node.turns[-1] if node.turns else None
        if event.call_id:
            about = self._calls.get((node.id, event.call_id))
        if about is None or self.root is None:
            return ()
        if isinstance(event, PersonAsked):
            about.waits, about.asks = WAITS, event
            about.pauses.append(Pause(now, for_person=True))
        else:
            about.waits, about.asks = "", None
            if about.pauses:
                about.pauses[-1].ended = now
        return self.root, node, about

    def tick(self, now: float) -> tuple[TreeNode, ...]:
        """Notes the attempts that begin, which no event tells; returns the changed nodes."""
        begun = [retry for retry in self._retries if retry[0] <= now]
        if not begun:
            return ()
        self._retries = [retry for retry in self._retries if retry[0] > now]
        changed: list[TreeNode] = []
        for _, turn, words in begun:
            if turn.waits and turn.draft is None:
                turn.waits = words
                changed += (turn.run, turn)
        return tuple(changed)

    def _finish_turn(self, node: Node, event: TurnFinished, now: float) -> tuple[TreeNode, ...]:
        turn = node.turns[-1]
        clean = self._filter
        turn.text, turn.usage, turn.parallel = clean.text(event.text), event.usage, event.parallel
        turn.reasoning = clean.text(event.reasoning)
        earlier = node.turns[-2].exchanges if len(node.turns) > 1 else 0
        turn.exchanges = earlier + len(event.exchanges)
        turn.stop_reason, turn.closing = event.stop_reason, event.closing
        turn.source = event.source
        turn.asked, turn.question = event.asked, clean.text(event.question)
        turn.server_calls = [
            _make_served(turn, i, served, clean) for i, served in enumerate(event.server_calls)
        ]
        turn.sources = _show_pages(event.sources, clean)
        turn.draft = turn.asks = None
        turn.waits = ""
        turn.times.ended = now
        # the calls of a closing turn are dropped (D-17)
        calls = () if event.closing or event.asked else event.calls
        shown = (_show(call, clean, "name", "arguments", "raw") for call in calls)
        turn.calls = [CallNode(turn, i, call) for i, call in enumerate(shown)]
        turn.waiting = len(turn.calls)
        turn.state = "running" if turn.calls else "completed"
        self._calls.update(((node.id, c.call.id), c) for c in turn.calls)
        above: list[Node] = []
        at: Node | None = node
        while at:
            at.total += event.usage
            above.append(at)
            at = at.parent
        return *reversed(above), turn, *turn.server_calls, *turn.calls

    def _update_call(
        self, node: Node, event: ToolStarted | ToolFinished, now: float
    ) -> tuple[TreeNode, ...]:
        if isinstance(event, ToolStarted):
            call = self._calls.get((node.id, event.call.id))
            if call is None:
                return ()
            call.times.started = now
            return (call,)
        call = self._calls.get((node.id, event.result.call_id))
        if call is None:
            return ()
        self._reports.update(find_reports(call.call.name, event.result.content))
        call.take(_show(event.result, self._filter, *RESULT))
        call.seconds, call.times.ended = event.seconds, now
        call.turn.waiting -= 1
        if not call.turn.waiting:
            call.turn.state = "completed"
        return call.turn, call

    def _end(self, node: Node, result: RunResult, now: float) -> tuple[TreeNode, ...]:
        node.result = show_run(result, self._filter)
        node.state, node.times.ended = result.status, now
        results = {r.call_id: r for turn in result.log for r in turn.results}
        answered = [turn for turn in node.turns if turn.times.ended is not None]
        closed = [thing for turn in node.turns for thing in self._close(turn, results, now)]
        node.turns = answered  # of a turn without a response the run's error says why
        return *closed, node

    def _stop(self, node: Node, now: float) -> Iterator[TreeNode]:
        """Ends a run that has sent no end event, and all runs below it."""
        if node.times.ended is None:
            node.state, node.times.ended = "cancelled", now
            for turn in node.turns:
                yield from self._close(turn, {}, now)
            yield node

    def _close(
        self, turn: TurnNode, results: Mapping[str, ToolResult], now: float
    ) -> Iterator[TreeNode]:
        """Ends all open calls in a turn whose run has ended."""
        if turn.state != "running":
            return
        if turn.times.ended is None:
            turn.state, turn.times.ended = turn.run.state, now
            yield turn
            return
        turn.state = "completed"
        yield turn
        for call in turn.calls:
            for child in call.children:
                yield from self._stop(child, now)
            if call.result is None:
                result = results.get(call.call.id)
                if result:
                    call.take(_show(result, self._filter, *RESULT))
                else:
                    has_begun = call.times.started is not None and not call.waits
                    call.state = "cancelled" if has_begun else "not run"
                call.times.ended = now if call.times.started is not None else None
                yield call


def _make_served(turn: TurnNode, index: int, call: ServerCall, clean: TreeFilter) -> CallNode:
    """The node of a call that the model's server has made; one that failed was not run (D-76)."""
    served = _show(call, clean, "name", "arguments", "error")
    served = replace(served, sources=_show_pages(call.sources, clean))
    state: State = "not run" if served.error else "completed"
    call_made = ToolCall(str(index), served.name, served.arguments)
    return CallNode(turn, index, call_made, state, served=served)


def group_of(results: Iterable[RunResult]) -> Node:
    """The tree of runs that a cell made side by side, in this order."""
    group = new_group()
    for result in results:
        Transcript.of(result).join(add_run(group))
    return group


@dataclass(frozen=True, slots=True)
class TreeFilter:
    """Removes secrets from the texts of a tree, and the seconds of its reports."""

    secrets: Filter
    reports: Set[str] = frozenset()
    """Matches of REPORT in reports of the tree; the same words of anyone else's stay."""

    def text(self, text: str) -> str:
        """The text as it is shown."""
        shown = self.secrets.text(text)
        return REPORT.sub(self._mask, shown) if self.reports else shown

    def json(self, value: Any) -> Any:
        """Nested JSON data as it is shown."""
        shown = self.secrets.json(value)
        if not self.reports:
            return shown
        return change_texts(shown, lambda text: REPORT.sub(self._mask, text))

    def _mask(self, match: re.Match[str]) -> str:
        return f"{match[1]}, …s" if match[0] in self.reports else match[0]


def show_run(result: RunResult, clean: TreeFilter) -> RunResult:
    """The run without secrets in its own texts; those of its turns and children stay."""
    return _show(
        result, clean, "agent", "model", "text", "error", "files_read", "files_modified",
        "metadata", "warnings",
    )  # fmt: skip


def _show_pages(pages: Iterable[Page], clean: TreeFilter) -> tuple[Page, ...]:
    """Pages without secrets; those of a damaged file may have no addresses."""
    return tuple(_show(page, clean, "title", "url") for page in pages if is_link(page.url))


def _show(thing: Thing, clean: TreeFilter, *names: str) -> Thing:
    """The dataclass without secrets in these fields."""
    shown = {name: clean.json(getattr(thing, name)) for name in names}
    for name, value in shown.items():
        if isinstance(value, list):
            shown[name] = tuple(value)
    return replace(thing, **shown)  # type: ignore[type-var]
