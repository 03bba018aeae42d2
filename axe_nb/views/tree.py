"""A run as a tree: runs, their turns, the calls of each turn, the runs below. Pure.

`views/transcript.py` makes it from events. A reply that is being written is a `Draft`, whose pieces
cost the same however much has arrived: views read its end, at most once for each frame.
Source: D-1, D-23, D-24, D-34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from axe_nb.events import DataForm, PersonAsked, TextDelta
from axe_nb.messages import CallTraits, Page, ServerCall, ToolCall, ToolResult, Usage
from axe_nb.messages.exchanges import Source
from axe_nb.pictures.picture import Picture
from axe_nb.results import FinalRequest, RunResult, Status
from axe_nb.secrets import redact

BEFORE = 500
"""Characters around a part of a text in which a secret may lie that reaches into it."""


@dataclass(slots=True)
class Growing:
    """A text that arrives in pieces."""

    size: int = 0
    """Characters so far."""
    _pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> None:
        """Appends a piece, in constant time."""
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def show_beginning(self, size: int) -> str:
        """The first `size` characters without secrets, as far as they have arrived whole."""
        most = size + BEFORE
        return redact("".join(self._pieces[:most])[:most])[:size]

    def show_end(self, size: int) -> str:
        """The last `size` characters, without the same, in time proportional to `size`."""
        most = size + BEFORE
        return redact("".join(self._pieces[-most:])[-most:])[-size:]

    def __str__(self) -> str:
        return "".join(self._pieces)


@dataclass(slots=True)
class DraftCall:
    """A call whose arguments arrive in pieces."""

    number: int
    """Position in the reply."""
    tool: str = ""
    """Name of its tool; empty if it is not known."""
    arguments: Growing = field(default_factory=Growing)


@dataclass(slots=True)
class Draft:
    """The pieces of one attempt at a reply."""

    attempt: int = 1
    """From 1."""
    text: Growing = field(default_factory=Growing)
    reasoning: Growing = field(default_factory=Growing)
    calls: list[DraftCall] = field(default_factory=list)
    """The calls, in the order in which they began."""
    latest: Literal["", "text", "reasoning", "arguments"] = ""
    """Kind of the last piece; empty = none yet."""

    begins: bool = False
    """True if the last piece is the first one of its part."""

    def take(self, event: TextDelta) -> None:
        """Adds a piece of this draft's attempt."""
        self.begins = event.kind != self.latest
        self.latest = event.kind
        if event.kind == "arguments":
            self._take_arguments(event)
        elif event.kind == "reasoning":
            self.reasoning.add(event.text)
        else:
            self.text.add(event.text)

    def _take_arguments(self, event: TextDelta) -> None:
        # pieces of calls may take turns; the last one is nearly always meant
        known = (call for call in reversed(self.calls) if call.number == event.call)
        call = next(known, None)
        if call is None:
            call = DraftCall(event.call)
            self.calls.append(call)
        call.tool = event.name or call.tool
        call.arguments.add(event.text)


State: TypeAlias = Status | Literal["running", "asks", "denied", "not run"]
"""State of a run, a turn or a call; a failed call is `error`, one that was interrupted while it ran
`cancelled`, one that did not begin `not run`. `asks` is only for rows: the run, turn or call waits
for the person."""

WAITS = "waits for you"
"""Label of anything that waits for the person."""

TURN = 2
"""Steps that a turn takes on the structural timeline."""

CALL = 1
"""Steps that a tool call without a child takes."""


@dataclass(slots=True)
class Times:
    """Start and end of a node's work, in seconds of one monotonic clock; live only."""

    started: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Pause(Times):
    """A wait of a request or a call."""

    for_person: bool = False
    """True if it waits for the person, else it is the wait before a retry."""


@dataclass(slots=True)
class Span:
    """A place on the structural timeline: the same for every run of the same shape."""

    begin: int = 0
    length: int = 0


@dataclass(slots=True)
class CallNode:
    """A tool call, and the runs that it started."""

    turn: TurnNode = field(repr=False)
    index: int
    """Index of the call in its turn, from 0."""
    call: ToolCall
    state: State = "running"
    result: ToolResult | None = None
    is_edited: bool = False
    """True if the person changed the arguments before it ran."""
    pauses: list[Pause] = field(default_factory=list)
    """Waits of the call for the person; live only."""
    waits: str = ""
    """The current wait, in a few words; live only."""
    asks: PersonAsked | None = None
    """The question to the person that it waits for; live only."""
    seconds: float = 0.0
    """Time that it took, as its run counts it."""
    children: list[Node] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    span: Span = field(default_factory=Span)
    path: str = ""
    """Below the root's RunResult: `.log[0].calls[1]`."""
    result_path: str = ""
    """`.log[0].results[1]`."""
    served: ServerCall | None = None
    """The same call as the model's server has made it; None = it was made here."""

    @property
    def key(self) -> str:
        return f"{self.turn.key}/{'server/' if self.served else ''}{self.index}"

    def take(self, result: ToolResult) -> None:
        """Sets the result; a call that the person edited is shown as it ran."""
        self.result = result
        failed: State = "denied" if result.is_denied else "error"
        self.state = failed if result.is_error else "completed"
        self.waits, self.asks = "", None
        if result.is_skipped:
            self.state = "not run"
        if result.edited is not None:
            self.call = replace(self.call, arguments=result.edited, raw="")
            self.is_edited = True

    @property
    def child(self) -> Node | None:
        """The run that this call is, if it is one."""
        return self.children[0] if self.children and self.call.traits.is_one_child else None


@dataclass(slots=True)
class TurnNode:
    """One request, its response and its calls."""

    run: Node = field(repr=False)
    number: int
    messages: int = 0
    """Messages in its request; live only."""
    pending: int = 0
    """Calls that its request brought results for; live only."""
    closing: bool = False
    """True if it is the summary at a subagent's end."""
    asked: FinalRequest = ""
    """Kind of request at the end of the run: the output, or its repair."""
    question: str = ""
    """Prompt of that request."""
    data: DataForm = ""
    """As in `TurnStarted`; live only."""
    state: State = "running"
    text: str = ""
    reasoning: str = ""
    """The text of its thinking."""
    exchanges: int = 0
    """Exchanges of its run up to its response."""
    draft: Draft | None = None
    """The reply so far, if it is streamed and has not ended."""
    pauses: list[Pause] = field(default_factory=list)
    """Its waits before further attempts, and for the person; live only."""
    waits: str = ""
    """The wait before the next attempt, or for the person, in a few words; else empty."""
    asks: PersonAsked | None = None
    """The question to the person about the request or the reply; live only."""
    calls: list[CallNode] = field(default_factory=list)
    waiting: int = 0
    """Calls that have no result yet."""
    server_calls: list[CallNode] = field(default_factory=list)
    """Calls that the model's server has made within the reply."""
    sources: tuple[Page, ...] = ()
    """The pages that the text cites."""
    usage: Usage = Usage()
    stop_reason: str = ""
    source: Source = ""
    parallel: bool = True
    times: Times = field(default_factory=Times)
    span: Span = field(default_factory=Span)
    path: str = ""
    """`.log[0]`."""

    @property
    def key(self) -> str:
        return f"{self.run.key}/{self.number}"

    @property
    def reasoning_path(self) -> str:
        """Below the root's RunResult: `.exchanges[0].response.reasoning`."""
        return f"{self.run.path}.exchanges[{self.exchanges - 1}].response.reasoning"

    @property
    def is_last(self) -> bool:
        """True if its text is the run's answer."""
        return not self.calls and bool(self.run.turns) and self.run.turns[-1] is self

    @property
    def is_hidden(self) -> bool:
        """True if it has no row: the only turn of a child, without calls, or that of a group."""
        if self.run.is_group:
            return True
        is_only = self.number == 1 and len(self.run.turns) <= 1
        return is_only and not self.calls and self.run.depth > 0

    @property
    def text_so_far(self) -> str:
        """Its text, also while it arrives; in time proportional to its size."""
        return str(self.draft.text) if self.draft else self.text

    @property
    def only_call(self) -> CallNode | None:
        """Its only call, if that is a plain tool: both share a row."""
        if len(self.calls) != 1 or self.calls[0].children or self.server_calls:
            return None
        return None if self.calls[0].call.traits.delegates else self.calls[0]


@dataclass(slots=True)
class Node:
    """One run."""

    id: str
    """Place in the tree, as `RunResult.id`."""
    agent: str
    model: str
    depth: int
    task: str
    prompt: str
    call: CallNode | None = field(default=None, repr=False)
    """The call that started it; None for a root."""
    state: State = "running"
    turns: list[TurnNode] = field(default_factory=list)
    total: Usage = Usage()
    """Tokens of this run and of all runs below it."""
    result: RunResult | None = None
    """Set when it has ended."""
    times: Times = field(default_factory=Times)
    span: Span = field(default_factory=Span)
    pictures: tuple[Picture, ...] = ()
    """The pictures of its prompt."""
    path: str = ""
    """Below the root's RunResult: `.children[0]`; empty for the root."""
    origin: str = ""
    """The place of the run that it forks; empty if it is not a fork."""
    is_group: bool = False
    """True if it is not a run but the parent of a cell's runs, with a call of its turn for each."""

    @property
    def key(self) -> str:
        return self.id

    @property
    def source(self) -> Source:
        """The source of all its answers; empty if a request of it was sent."""
        asked = self.result.exchanges if self.result else self.turns
        sources = {one.source for one in asked}
        return sources.pop() if len(sources) == 1 else ""

    @property
    def is_root(self) -> bool:
        """True if no other run started it."""
        return self.call is None or self.call.turn.run.is_group

    @property
    def parent(self) -> Node | None:
        """The run that delegated; None for a root."""
        return self.call.turn.run if self.call else None

    @property
    def text(self) -> str:
        """The answer, or the text so far."""
        if self.result:
            return self.result.text
        texts = (turn.text_so_far for turn in reversed(self.turns))
        return next(filter(None, texts), "")

    @property
    def draft(self) -> Draft | None:
        """The reply that it is receiving, if that is streamed."""
        return self.turns[-1].draft if self.turns and self.state == "running" else None

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.result.metadata if self.result else {}

    def below(self) -> Iterator[Node]:
        """Every run below this one, depth first in call order."""
        for turn in self.turns:
            for call in turn.calls:
                for child in call.children:
                    yield child
                    yield from child.below()


TreeNode: TypeAlias = Node | TurnNode | CallNode
"""A node that may have a row of its own."""


def row_of(thing: TreeNode) -> TreeNode:
    """The node whose row shows this one: itself, or the one that shares its row."""
    if isinstance(thing, CallNode):
        return thing.turn if thing.turn.only_call is thing else thing
    if isinstance(thing, TurnNode):
        return row_of(thing.run) if thing.is_hidden else thing
    return thing.call if thing.call and thing.call.child is thing else thing


def parent_row(thing: TreeNode) -> TreeNode | None:
    """The node whose row is this row's parent; None for the root's."""
    if isinstance(thing, CallNode):
        return row_of(thing.turn)
    return row_of(thing.run) if isinstance(thing, TurnNode) else thing.call


def nodes_below(thing: TreeNode) -> list[TreeNode]:
    """The nodes whose rows are directly below this row."""
    if isinstance(thing, TurnNode):
        return [] if thing.only_call else [*thing.server_calls, *thing.calls]
    if isinstance(thing, CallNode) and not thing.child:
        return list(thing.children)
    node = thing.child if isinstance(thing, CallNode) else thing
    assert node is not None
    below: list[TreeNode] = []
    for turn in node.turns:
        below += [*turn.server_calls, *turn.calls] if turn.is_hidden else [turn]
    return below


def rows_of(thing: TreeNode) -> Iterator[TreeNode]:
    """All nodes that have a row, from this row down."""
    yield thing
    for inner in nodes_below(thing):
        yield from rows_of(inner)


def new_group() -> Node:
    """A tree for runs that are made side by side; `add_run` makes room for each."""
    group = Node("0", "", "", 0, "", "", is_group=True)
    group.turns.append(TurnNode(group, 1))
    return group


def add_run(group: Node) -> CallNode:
    """The place of one more run in the group; `Transcript.join` puts its tree there."""
    [turn] = group.turns
    index = len(turn.calls)
    one_child = CallTraits(delegates=True, is_one_child=True)
    turn.calls.append(CallNode(turn, index, ToolCall(str(index), "run", traits=one_child)))
    return turn.calls[-1]


def lay_out(node: Node, begin: int = 0) -> int:
    """Sets span and path of everything in the tree; the step at which the run ends.

    Calls of one response start at the same step if they ran in parallel, else end to end.
    """
    at, children = begin, 0
    for index, turn in enumerate(node.turns):
        turn.path = f"{node.path}.log[{index}]"
        turn.span = Span(at, TURN)
        for number, call in enumerate(turn.server_calls):
            call.path, call.span = f"{turn.path}.server_calls[{number}]", turn.span
        start = at = at if node.is_group else at + TURN
        results = 0
        for number, call in enumerate(turn.calls):
            call.path = f"{turn.path}.calls[{number}]"
            call.result_path = f"{turn.path}.results[{results}]"
            results += call.result is not None
            first = start if turn.parallel else at
            end = first
            for child in call.children:
                child.path = f"[{number}]" if node.is_group else f"{node.path}.children[{children}]"
                children += 1
                end = lay_out(child, end)
            end = end if call.children else first + CALL
            call.span = Span(first, end - first)
            at = max(at, end)
    if node.state not in ("completed", "max_turns", "max_tool_calls", "max_tokens"):
        at += TURN  # the turn in which it ended has no response
    node.span = Span(begin, max(at - begin, TURN))
    return begin + node.span.length
