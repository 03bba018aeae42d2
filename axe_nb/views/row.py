"""A row of the tree, for a run, a turn or a call. Pure.

It is drawn by `_format_entry` in `views/html.py`, as text by `_format_inside` in
`views/text_tree.py`, live by class `Row` in `cell_display/static/live.js`; its sign, colour and
sizes are in `views/appearance.py`.
Source: product.md "Notebook"; design README (rows); D-6, D-11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from axe_nb.results import name_run
from axe_nb.text import plural
from axe_nb.views import excerpts
from axe_nb.views.appearance import LOOKS, Look
from axe_nb.views.middle import (
    asked_of,
    doing_of,
    find_question,
    finding_of,
    is_misfit,
    who_of,
)
from axe_nb.views.summary import Fact, facts_of, format_tokens, has_trouble, states_of
from axe_nb.views.tree import CallNode, Node, Span, State, TreeNode, TurnNode

CUT_SHORT = {"not run": "not run", "cancelled": "interrupted while it ran"}
"""State of a call without a result → its words."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree."""

    kind: Literal["run", "turn", "call"]
    state: State
    who: str
    asked: str
    cost: str
    span: Span
    is_open: bool
    """Failures open by themselves, and so does the way to a failed or denied call; what was merely
    stopped does not."""
    facts: tuple[Fact, ...] = ()
    """The parts of `asked`, for the row of a root."""

    @property
    def look(self) -> Look:
        return LOOKS[self.state]

    def to_dict(self) -> dict[str, Any]:
        """The fields that the live tree draws; it has the looks of each state."""
        return {
            "kind": self.kind,
            "state": self.state,
            "who": self.who,
            "asked": self.asked,
            "cost": self.cost,
            "facts": [[fact.text, fact.marks] for fact in self.facts],
        }


def make_row(thing: TreeNode) -> Row:
    """The row of a run, a turn or a call; a call that is a child is that child's."""
    if isinstance(thing, Node):
        return _make_run_row(thing)
    if isinstance(thing, TurnNode):
        return _make_turn_row(thing)
    return _make_run_row(thing.child) if thing.child else _make_call_row(thing)


def _make_group_row(group: Node) -> Row:
    """The row that counts the runs of a cell by state; it is always open."""
    states = states_of(group)
    failed = (state for state in states if state not in ("completed", "running"))
    state: State = "running" if "running" in states else next(failed, "completed")
    return _make_root_row(group, plural(len(states), "run"), state, is_open=True)


def _make_root_row(node: Node, who: str, state: State, *, is_open: bool) -> Row:
    facts = tuple(facts_of(node))
    return Row("run", state, who, " · ".join(map(str, facts)), "", node.span, is_open, facts)


def _make_run_row(node: Node) -> Row:
    if node.is_group:
        return _make_group_row(node)
    needs_look = _needs_look(node.state) or has_trouble(node)
    who = excerpts.line(name_run(node.agent, node.model), excerpts.WHO)
    if not node.depth:
        return _make_root_row(node, who, node.state, is_open=needs_look)
    asked, cost = finding_of(node), cost_of_run(node)
    state: State = "asks" if find_question(node) else node.state
    return Row("run", state, who, asked, cost, node.span, needs_look)


def _needs_look(state: State) -> bool:
    return state not in ("completed", "running", "cancelled", "not run")


def _make_turn_row(turn: TurnNode) -> Row:
    states = [call.child.state if call.child else call.state for call in turn.calls]
    has_failed = any(map(_needs_look, states))
    children = (child for call in turn.calls for child in call.children)
    needs_look = has_failed or any(map(has_trouble, children))
    state = turn.only_call.state if turn.only_call else turn.state
    state = "error" if is_misfit(turn) else "asks" if find_question(turn) else state
    who, doing = f"turn {turn.number}", doing_of(turn)
    return Row("turn", state, who, doing, cost_of_turn(turn), turn.span, needs_look)


def _make_call_row(call: CallNode) -> Row:
    who, asked, cost = who_of(call), asked_of(call), cost_of_call(call)
    state: State = "asks" if call.asks else call.state
    return Row("call", state, who, asked, cost, call.span, _needs_look(call.state))


def size_of(text: str) -> str:
    """The size of a tool's result."""
    lines = text.strip("\n").count("\n") + 1
    if not text.strip():
        return "empty"
    return plural(lines, "line") if lines > 1 else plural(len(text), "character")


def cost_of_call(call: CallNode) -> str:
    """The outcome of a call: its size, or its failure."""
    if call.served:
        return "by the server"
    if call.result is None:
        return CUT_SHORT.get(call.state, call.waits)
    note = excerpts.line(call.result.note)
    if call.result.is_denied and note.startswith("denied"):
        return note
    failed = "denied" if call.result.is_denied else "" if call.result.is_skipped else "failed"
    pictures = call.result.pictures
    size = plural(len(pictures), "picture") if pictures else size_of(call.result.content)
    outcome = failed if call.result.is_error else size
    return " · ".join(filter(None, (outcome, note)))


def cost_of_turn(turn: TurnNode) -> str:
    """The tokens of a turn, its source, and of its only call the failure or the note."""
    outcome, fork = _outcome_of_only_call(turn.only_call), _mark_fork(turn)
    return " · ".join(filter(None, (outcome, fork, turn.source, format_tokens(turn.usage))))


def _mark_fork(turn: TurnNode) -> str:
    """A mark for the turn at which a fork begins."""
    root = turn.run
    while not root.is_root and root.parent:
        root = root.parent
    return "forked here" if root.origin and root.origin == turn.key else ""


def _outcome_of_only_call(call: CallNode | None) -> str:
    if call is None:
        return ""
    if call.state in ("error", "denied", *CUT_SHORT) or call.waits:
        return cost_of_call(call)
    return excerpts.line(call.result.note) if call.result else ""


def cost_of_run(node: Node) -> str:
    """The ending of a run, unless it completed, its source, with its turns and tokens."""
    fork = _mark_fork(node.turns[0]) if node.turns and node.turns[0].is_hidden else ""
    facts = (ending_of(node), fork, node.source, *_format_counts(node))
    return " · ".join(filter(None, facts))


def _format_counts(node: Node) -> list[str]:
    """Turns and tokens, if there are any."""
    turns = plural(len(node.turns), "turn") if node.turns else ""
    return list(filter(None, (turns, format_tokens(node.total))))


def ending_of(node: Node) -> str:
    """The ending of a run, in a word; empty if it completed or has not ended."""
    return "" if node.state in ("completed", "running") else node.state
