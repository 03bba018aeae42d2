"""Events folded into a tree, and the text twin of a finished run. Pure.

Source: product.md "Notebook"; house style §4, §8; D-24; goals.md "live view".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from axe_nb.events import (
    Event,
    RunFinished,
    RunResult,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.views.outline import Outline, as_lines
from axe_nb.views.tree import CallNode, Node, Thing, Times, TurnNode


@dataclass
class Transcript:
    """A tree of runs as far as its events have come."""

    root: Node | None = None
    _nodes: dict[str, Node] = field(default_factory=dict)
    _calls: dict[tuple[str, str], CallNode] = field(default_factory=dict)

    @classmethod
    def of(cls, result: RunResult) -> Transcript:
        """The tree of a finished run: what folding its events gives."""
        transcript = cls()
        for event in events_of(result):
            transcript.apply(event, 0.0)
        return transcript

    def apply(self, event: Event, now: float) -> tuple[Thing, ...]:
        """What the event changed, in constant time; what it is about comes last.

        Args:
            event: the next one of this tree; its root's first.
            now: seconds of a monotonic clock, for the bars of the live view.
        """
        if isinstance(event, RunStarted):
            return self._begin(event, now)
        node = self._nodes.get(event.run)
        if node is None:
            return ()
        match event:
            case TurnStarted():
                node.turns.append(TurnNode(node, event.turn, times=Times(now)))
                return node, *node.turns[-2:]
            case TextDelta():
                if not node.turns:
                    return ()
                node.turns[-1].pieces.append(event.text)
                return (node.turns[-1],)
            case TurnFinished():
                return self._answered(node, event, now)
            case ToolStarted() | ToolFinished():
                return self._called(node, event, now)
            case RunFinished():
                return self._end(node, event.result, now)
            case _:
                assert_never(event)

    def stop(self) -> None:
        """Marks what will never come to its end: nothing more is heard of this tree."""
        for node in self._nodes.values():
            if node.result is not None:
                continue
            node.state = "cancelled"
            if node.turns and node.turns[-1].state == "running":
                node.turns[-1].state = "cancelled"
        for call in self._calls.values():
            if call.result is None:
                call.state = "not run"

    def _begin(self, event: RunStarted, now: float) -> tuple[Thing, ...]:
        call = self._calls.get((event.parent, event.call_id))
        if self.root and not call:
            return ()
        node = Node(
            event.run, event.agent, event.model, event.depth, event.task, event.prompt, call,
            times=Times(now),
        )  # fmt: skip
        self._nodes[event.run] = node
        if call is None:
            self.root = node
            return (node,)
        call.children.append(node)
        return call.turn, call, node

    def _answered(self, node: Node, event: TurnFinished, now: float) -> tuple[Thing, ...]:
        turn = node.turns[-1]
        turn.text, turn.usage, turn.parallel = event.text, event.usage, event.parallel
        turn.pieces.clear()
        turn.times.ended = now
        turn.calls = [CallNode(turn, i, c) for i, c in enumerate(event.calls)]
        turn.waiting = len(turn.calls)
        turn.state = "running" if turn.calls else "completed"
        self._calls.update(((node.id, c.call.id), c) for c in turn.calls)
        above: list[Node] = []
        at: Node | None = node
        while at:
            at.total += event.usage
            above.append(at)
            at = at.parent
        return *reversed(above), turn, *turn.calls

    def _called(
        self, node: Node, event: ToolStarted | ToolFinished, now: float
    ) -> tuple[Thing, ...]:
        if isinstance(event, ToolStarted):
            call = self._calls.get((node.id, event.call.id))
            if call is None:
                return ()
            call.times.started = now
            return (call,)
        call = self._calls.get((node.id, event.result.call_id))
        if call is None:
            return ()
        call.result = event.result
        call.times.ended = now
        call.state = "error" if event.result.is_error else "completed"
        call.turn.waiting -= 1
        if not call.turn.waiting:
            call.turn.state = "completed"
        return call.turn, call

    def _end(self, node: Node, result: RunResult, now: float) -> tuple[Thing, ...]:
        node.result, node.state, node.times.ended = result, result.status, now
        if node.turns and node.turns[-1].state == "running":
            return *self._close(node, node.turns[-1], result, now), node
        return (node,)

    def _close(self, node: Node, turn: TurnNode, result: RunResult, now: float) -> list[Thing]:
        """Ends what was still open in a run that has ended."""
        if turn.times.ended is None:
            node.turns.pop()  # no response: the run's error says why
            turn.state, turn.times.ended = node.state, now
            return [turn]
        turn.state = "completed"
        answered = {r.call_id: r for r in result.log[-1].results} if result.log else {}
        open_calls = [c for c in turn.calls if c.result is None]
        for call in open_calls:
            call.result = answered.get(call.call.id)
            call.state = "error" if call.result else "not run"
            call.times.ended = now if call.times.started is not None else None
        return [turn, *open_calls]


def as_text(result: RunResult, *, name: str = "axe_nb.last()") -> str:
    """The text twin: the answer, then the tree, two spaces a level; the same for the same run.

    Args:
        result: a finished run, whatever its status.
        name: what the reader can type to get `result`; texts that are cut point below it.
    """
    root = Transcript.of(result).root
    assert root is not None
    return "\n".join(as_lines(Outline(root, name)))


def events_of(result: RunResult, parent: str = "", depth: int = 0) -> Iterator[Event]:
    """What happened in a finished run, in order, without pieces of text and times."""
    run = result.id
    yield RunStarted(
        run, parent, result.call_id, result.agent, result.model, depth, result.task, result.prompt
    )
    for turn in result.log:
        yield TurnStarted(run, turn.number, 0, 0)
        yield TurnFinished(
            run, turn.number, turn.text, turn.calls, turn.stop_reason, turn.usage, turn.parallel
        )
        results = {r.call_id: r for r in turn.results}
        for call in turn.calls:
            children = [c for c in result.children if c.call_id == call.id]
            if children or call.id in results:
                yield ToolStarted(run, call)
            for child in children:
                yield from events_of(child, run, depth + 1)
            if call.id in results:
                yield ToolFinished(run, results[call.id], 0.0)
    yield RunFinished(run, result)
