"""Builds the tree of a run from events: runs, their turns and calls, and child runs.

The pieces of an unfinished reply are collected in a `Draft`, each in constant time. Secrets are
removed from a complete text before it is cut, because half a secret would not be recognised. Run
times in the reports of sub-agents are masked, too, so that equal runs look alike. Source: D-1, D-6,
D-23, D-24, D-34, docs/safety.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import SEEK_END, StringIO
from typing import Any, Literal, TypeAlias, TypeVar

from axe_nb.conversion.jsonable import change_texts
from axe_nb.delegation.spawn_agent import REPORT, REPORTING
from axe_nb.events import (
    DataForm,
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
from axe_nb.messages import Page, ServerCall, ToolCall, ToolResult, Usage, is_link
from axe_nb.messages.exchanges import Source
from axe_nb.pictures.picture import Picture
from axe_nb.results import FinalRequest, RunResult, Status
from axe_nb.secrets import find_filter, redact
from axe_nb.text import format_seconds

BEFORE = 500
"""Number of characters read beyond an excerpt, to recognise a secret that crosses its edge."""


def read_beginning(text: StringIO, size: int) -> str:
    """Returns the first `size` characters of a text, without secrets."""
    text.seek(0)
    shown = redact(text.read(size + BEFORE))[:size]
    text.seek(0, SEEK_END)
    return shown


def read_end(text: StringIO, size: int) -> str:
    """Returns the last `size` characters of a text, without secrets, in time linear in `size`."""
    text.seek(max(0, text.tell() - size - BEFORE))
    return redact(text.read())[-size:]


@dataclass(slots=True)
class Draft:
    """An unfinished reply: the pieces of one attempt received so far."""

    attempt: int = 1
    text: StringIO = field(default_factory=StringIO)
    reasoning: StringIO = field(default_factory=StringIO)
    calls: dict[int, StringIO] = field(default_factory=dict)
    """Call number → arguments received so far, in the order in which the calls arrived."""
    tools: dict[int, str] = field(default_factory=dict)
    """Call number → name of the tool; empty if the name has not arrived yet."""
    latest: Literal["", "text", "reasoning", "arguments"] = ""
    """Kind of the latest piece; empty before the first piece."""

    def take(self, event: TextDelta) -> None:
        self.latest = event.kind
        if event.kind == "arguments":
            self.tools[event.call] = event.name or self.tools.get(event.call, "")
            self.calls.setdefault(event.call, StringIO()).write(event.text)
        else:
            (self.reasoning if event.kind == "reasoning" else self.text).write(event.text)


State: TypeAlias = Status | Literal["running", "asks", "denied", "not run"]
"""State of a run, turn or call. A call is `error` if it failed, `cancelled` if it was interrupted,
and `not run` if it did not start. A row is `asks` while its run, turn or call waits for the user's
answer."""


@dataclass(slots=True)
class Times:
    """Start and end of a node's work in seconds on a monotonic clock; used in live trees only."""

    started: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Pause(Times):
    """A wait during a request or a call."""

    for_person: bool = False
    """True if the wait is for the user's answer, False if it is for a retry."""


@dataclass(slots=True)
class CallNode:
    """A tool call and the runs that it started."""

    turn: TurnNode = field(repr=False)
    index: int
    call: ToolCall
    state: State = "running"
    result: ToolResult | None = None
    is_edited: bool = False
    """True if the user edited the arguments before the call ran."""
    pauses: list[Pause] = field(default_factory=list)
    asks: PersonAsked | None = None
    """The unanswered question to the user, if any; always None in saved trees."""
    seconds: float = 0.0
    """Duration in seconds, as measured by the run."""
    children: list[Node] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    served: ServerCall | None = None
    """The call to a server-side tool, as reported in the reply; None for other calls."""

    @property
    def key(self) -> str:
        return f"{self.turn.key}/{'server/' if self.served else ''}{self.index}"

    def find_path(self, name: str) -> str:
        """Returns a text's path in the root's RunResult, such as `.log[0].results[1].content`."""
        index, kind = self.index, "server_calls" if self.served else "calls"
        if name in ("content", "edited"):
            kind = "results"
            index = sum(call.result is not None for call in self.turn.calls[:index])
        return self.turn.find_path(f"{kind}[{index}].{name}")

    def take(self, result: ToolResult) -> None:
        """Sets the call's result and state, and the new arguments if the user edited them."""
        self.result, self.asks = result, None
        if result.is_skipped:
            self.state = "not run"
        elif result.is_error:
            self.state = "denied" if result.is_denied else "error"
        else:
            self.state = "completed"
        if result.edited is not None:
            self.call = replace(self.call, arguments=result.edited, raw="")
            self.is_edited = True

    @property
    def child(self) -> Node | None:
        """The only child run; None before it starts, or if the tool may start several."""
        return self.children[0] if self.children and self.call.traits.is_one_child else None


@dataclass(slots=True)
class TurnNode:
    """One turn: a request, its response and its tool calls."""

    run: Node = field(repr=False)
    number: int
    asked: FinalRequest = ""
    data: DataForm = ""
    question: str = ""
    """Final question to the model. Like `asked` and `data`, it is taken from the turn's events."""
    state: State = "running"
    text: str = ""
    reasoning: str = ""
    exchanges: int = 0
    """Number of the run's exchanges up to and including this turn."""
    draft: Draft | None = None
    """The part of a streamed reply that has arrived; None before and after the stream."""
    pauses: list[Pause] = field(default_factory=list)
    waits: str = ""
    """Describes the current wait before the next attempt, if any; always empty in saved trees."""
    asks: PersonAsked | None = None
    calls: list[CallNode] = field(default_factory=list)
    server_calls: list[CallNode] = field(default_factory=list)
    sources: tuple[Page, ...] = ()
    usage: Usage = Usage()
    source: Source = ""
    parallel: bool = True
    times: Times = field(default_factory=Times)

    @property
    def key(self) -> str:
        return f"{self.run.key}/{self.number}"

    def find_path(self, name: str) -> str:
        """Returns a text's attribute path in the root's RunResult, such as `.log[0].text`."""
        if name == "reasoning":  # only exchanges keep it
            return self.run.find_path(f"exchanges[{self.exchanges - 1}].response.reasoning")
        position = next(at for at, turn in enumerate(self.run.turns) if turn is self)
        return self.run.find_path(f"log[{position}].{name}")

    @property
    def is_last(self) -> bool:
        return not self.calls and bool(self.run.turns) and self.run.turns[-1] is self

    @property
    def is_hidden(self) -> bool:
        """True if the turn has no row: it has only calls, is still unfinished, or is the answer."""
        if self.asked or self.question or self.source not in ("", "recorded"):
            return False
        is_open = not self.calls and (self.is_last or self.state == "running")
        return is_open or not (self.text or self.reasoning)

    @property
    def text_so_far(self) -> str:
        """The turn's text, even if incomplete. Takes time linear in the length of the text."""
        return self.draft.text.getvalue() if self.draft else self.text


@dataclass(slots=True)
class Node:
    """One run in a run tree."""

    id: str
    """Id of the run, as in `RunResult`."""
    agent: str
    model: str
    depth: int
    task: str
    prompt: str
    call: CallNode | None = field(default=None, repr=False)
    """The call that started this run; None for the root run."""
    state: State = "running"
    turns: list[TurnNode] = field(default_factory=list)
    failed: list[TurnNode] = field(default_factory=list)
    """Turns without a response, moved here from `turns` when the run ends; drawn in live bars."""
    result: RunResult | None = None
    """The result; None until the run has ended."""
    times: Times = field(default_factory=Times)
    pictures: tuple[Picture, ...] = ()
    origin: str = ""
    """Place at which a fork departs from the original run; empty except in a fork's root."""

    @property
    def key(self) -> str:
        return self.id

    def find_path(self, name: str) -> str:
        """Returns a text's attribute path in the root's RunResult, such as `.children[0].text`."""
        if self.call is None:
            return f".{name}"
        parent = self.call.turn.run
        calls = [call for turn in parent.turns for call in turn.calls]
        siblings = [child for call in calls for child in call.children]
        position = next(at for at, child in enumerate(siblings) if child is self)
        return parent.find_path(f"children[{position}].{name}")

    @property
    def is_forked(self) -> bool:
        """True for a child run in which a fork departs from the original run."""
        root = self
        while root.call:
            root = root.call.turn.run
        return root is not self and root.origin.partition("/")[0] == self.id

    @property
    def total(self) -> Usage:
        runs = (self, *self.below())
        return sum((turn.usage for run in runs for turn in run.turns), Usage())

    @property
    def source(self) -> Source:
        """`Source` of a run's responses; empty if there are several, or if it is the model."""
        asked = self.result.exchanges if self.result else self.turns
        sources = {one.source for one in asked}
        return sources.pop() if len(sources) == 1 else ""

    @property
    def text(self) -> str:
        """The answer, or the text so far."""
        if self.result:
            return self.result.text
        texts = (turn.text_so_far for turn in reversed(self.turns))
        return next(filter(None, texts), "")

    @property
    def draft(self) -> Draft | None:
        return self.turns[-1].draft if self.turns and self.state == "running" else None

    def below(self) -> Iterator[Node]:
        """Yields all descendants of this run, depth first, in call order."""
        for turn in self.turns:
            for call in turn.calls:
                for child in call.children:
                    yield child
                    yield from child.below()


TreeNode: TypeAlias = Node | TurnNode | CallNode
"""A node of a run tree: a run, a turn or a call."""


def row_of(thing: TreeNode) -> TreeNode:
    """Returns the node whose row shows this node, which may be the node itself."""
    if isinstance(thing, TurnNode):
        return row_of(thing.run) if thing.is_hidden else thing
    is_call = isinstance(thing, Node) and thing.call and thing.call.child is thing
    return thing.call if is_call else thing  # type: ignore[return-value]


def parent_row(thing: TreeNode) -> TreeNode | None:
    """Returns the node whose row contains this node's row; None for the root."""
    if isinstance(thing, Node):
        return thing.call
    return row_of(thing.turn.run if isinstance(thing, CallNode) else thing.run)


def nodes_below(thing: TreeNode) -> list[TreeNode]:
    """Returns the nodes with the rows directly below this node's row: turns and calls, or runs."""
    if isinstance(thing, CallNode) and not thing.child:
        return list(thing.children)
    node = thing.child if isinstance(thing, CallNode) else thing
    if not isinstance(node, Node):
        return []
    below: list[TreeNode] = []
    for turn in node.turns:
        below += [*([] if turn.is_hidden else [turn]), *turn.server_calls, *turn.calls]
    return below


Thing = TypeVar("Thing")

Clean: TypeAlias = Callable[[Any], Any]
"""A function that removes secrets from text or JSON data."""


@dataclass
class Transcript:
    """A run tree, built from the events that have arrived so far."""

    root: Node | None = None
    _nodes: dict[str, Node] = field(default_factory=dict)
    _calls: dict[tuple[str, str], CallNode] = field(default_factory=dict)
    _retries: list[tuple[float, TurnNode, str]] = field(default_factory=list)
    """(time, turn, label) of each scheduled retry; the turn gets the label at that time."""
    _has_reports: bool = False
    """True if texts may quote reports of sub-agents, whose run times are masked when shown."""

    @classmethod
    def of(cls, result: RunResult) -> Transcript:
        transcript = cls()
        for event in events_of(result):
            transcript.apply(event, 0.0)
        return transcript

    @property
    def whole(self) -> Node:
        """The root node; the run must have started."""
        assert self.root is not None
        return self.root

    def apply(self, event: Event, now: float) -> tuple[TreeNode, ...]:
        """Applies an event at time `now`. Returns the changed nodes, the event's own node last."""
        if isinstance(event, RunStarted):
            return self._begin(event, now)
        node = self._nodes.get(event.run)
        if node is None or node.times.ended is not None:
            return ()
        turn = node.turns[-1] if node.turns else None
        match event:
            case TurnStarted():
                times = Times(now)
                node.turns.append(TurnNode(node, event.turn, event.asked, event.data, times=times))
                return node, *node.turns[-2:]
            case TextDelta() if turn and turn.times.ended is None:
                if turn.draft is None or turn.draft.attempt != event.attempt:
                    turn.draft = Draft(event.attempt)  # a retry begins the reply anew (D-23)
                    turn.waits = ""
                turn.draft.take(event)
                return (node, turn) if node.depth else (turn,)
            case RetryScheduled() if turn:
                seconds = format_seconds(math.ceil(event.seconds * 10) / 10)
                of = f", {event.attempt - 1} of {event.most}" if event.most else ""
                turn.draft = None  # what the failed attempt said is dropped (D-23)
                turn.pauses.append(Pause(now, now + event.seconds))
                turn.waits = f"retries in {seconds} s ({event.reason}){of}"
                self._retries.append((now + event.seconds, turn, f"tries again{of}"))
                return node, turn
            case TurnFinished() if turn:
                return self._finish_turn(turn, event, now)
            case ToolStarted() if call := self._calls.get((node.id, event.call.id)):
                call.times.started = now
                return (call,)
            case ToolFinished() if call := self._calls.get((node.id, event.result.call_id)):
                self._has_reports |= call.call.name in REPORTING
                call.take(self._show_result(event.result))
                call.seconds, call.times.ended = event.seconds, now
                is_waiting = any(one.result is None for one in call.turn.calls)
                call.turn.state = "running" if is_waiting else "completed"
                return call.turn, call
            case PersonAsked() | PersonAnswered():
                about = self._calls.get((node.id, event.call_id)) if event.call_id else turn
                if about:
                    if isinstance(event, PersonAsked):
                        about.asks = event
                        about.pauses.append(Pause(now, for_person=True))
                    elif about.pauses:
                        about.pauses[-1].ended = now
                    if isinstance(event, PersonAnswered) and event.choice != "stop":
                        about.asks = None  # after a stop, the call counts as not run
                    return self.whole, node, about
            case RunFinished(result=result):
                node.result = show_run(result, self._clean)
                node.state, node.times.ended = result.status, now
                results = {r.call_id: r for one in result.log for r in one.results}
                answered = [one for one in node.turns if one.times.ended is not None]
                node.failed = [one for one in node.turns if one.times.ended is None]
                closed = [thing for one in node.turns for thing in self._close(one, results, now)]
                node.turns = answered  # the run's error explains a turn without a response
                return *closed, node
        return ()

    def _begin(self, event: RunStarted, now: float) -> tuple[TreeNode, ...]:
        call = self._calls.get((event.parent, event.call_id))
        if self.root and (call is None or call.turn.run.times.ended is not None):
            return ()
        clean = self._clean
        node = Node(
            event.run, clean(event.agent), clean(event.model), event.depth, clean(event.task),
            clean(event.prompt), call, times=Times(now), pictures=event.pictures,
            origin=event.origin,
        )  # fmt: skip
        self._nodes[event.run] = node
        if call is None:
            self.root = node
            return (node,)
        call.children.append(node)
        return call.turn, call, node

    def _finish_turn(self, turn: TurnNode, event: TurnFinished, now: float) -> tuple[TreeNode, ...]:
        node, clean = turn.run, self._clean
        turn.text, turn.usage, turn.parallel = clean(event.text), event.usage, event.parallel
        turn.reasoning = clean(event.reasoning)
        earlier = node.turns[-2].exchanges if len(node.turns) > 1 else 0
        turn.exchanges = earlier + len(event.exchanges)
        turn.source, turn.asked = event.source, event.asked
        turn.question = clean(event.question)
        turn.sources = _show_pages(event.sources, clean)
        turn.draft, turn.asks, turn.waits, turn.times.ended = None, None, "", now
        for index, served in enumerate(event.server_calls):
            shown = _show(served, clean, "name", "arguments", "error")
            shown = replace(shown, sources=_show_pages(served.sources, clean))
            # a server call that failed was not run (D-76)
            state: State = "not run" if shown.error else "completed"
            made = ToolCall(str(index), shown.name, shown.arguments)
            turn.server_calls.append(CallNode(turn, index, made, state, served=shown))
        # the calls of a closing turn are dropped (D-17)
        for index, call in enumerate(() if event.closing or event.asked else event.calls):
            turn.calls.append(CallNode(turn, index, _show(call, clean, "name", "arguments", "raw")))
        turn.state = "running" if turn.calls else "completed"
        self._calls.update(((node.id, call.call.id), call) for call in turn.calls)
        return node, turn, *turn.server_calls, *turn.calls

    def tick(self, now: float) -> tuple[TreeNode, ...]:
        """Updates turns whose retry is due, as no event reports this. Returns the changed nodes."""
        changed: list[TreeNode] = []
        for _, turn, words in (retry for retry in self._retries if retry[0] <= now):
            if turn.waits and turn.draft is None:
                turn.waits = words
                changed += (turn.run, turn)
        self._retries = [retry for retry in self._retries if retry[0] > now]
        return tuple(changed)

    def stop(self, node: Node, now: float) -> Iterator[TreeNode]:
        """Marks a run as cancelled, and its open turns and calls as ended. Yields changed nodes."""
        if node.times.ended is None:
            node.state, node.times.ended = "cancelled", now
            for turn in node.turns:
                yield from self._close(turn, {}, now)
            yield node

    def _close(
        self, turn: TurnNode, results: Mapping[str, ToolResult], now: float
    ) -> Iterator[TreeNode]:
        """Marks a turn of an ended run, and its open calls, as ended. Yields the changed nodes."""
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
                yield from self.stop(child, now)
            if call.result is None:
                has_begun = call.times.started is not None
                if result := results.get(call.call.id):
                    call.take(self._show_result(result))
                else:
                    call.state = "cancelled" if has_begun and not call.asks else "not run"
                call.asks = None
                call.times.ended = now if has_begun else None
                yield call

    def _show_result(self, result: ToolResult) -> ToolResult:
        return _show(result, self._clean, "content", "name", "note", "edited")

    def _clean(self, value: Any) -> Any:
        """Removes secrets from text or JSON data, and masks run times in sub-agents' reports."""
        shown = find_filter().json(value)
        return change_texts(shown, partial(REPORT.sub, r"\1, …s")) if self._has_reports else shown


def show_run(result: RunResult, clean: Clean) -> RunResult:
    """Removes secrets from a result's texts. Its prompt, data, turns and children are unchanged."""
    return _show(
        result, clean, "agent", "model", "text", "error", "files_read", "files_modified",
        "metadata", "warnings",
    )  # fmt: skip


def _show_pages(pages: Iterable[Page], clean: Clean) -> tuple[Page, ...]:
    """Removes secrets from pages, and drops pages without a valid address."""
    return tuple(_show(page, clean, "title", "url") for page in pages if is_link(page.url))


def _show(thing: Thing, clean: Clean, *names: str) -> Thing:
    shown = {name: clean(getattr(thing, name)) for name in names}
    for name, value in shown.items():
        if isinstance(value, list):
            shown[name] = tuple(value)
    return replace(thing, **shown)  # type: ignore[type-var]
