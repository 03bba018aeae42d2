"""A row of the tree, for a run, a turn or a call. Pure.

It is drawn by `_format_entry` in `views/html.py`, as text by `_format_inside` in
`views/outline.py`, live by class `Row` in `cell_display/static/live.js`; its sign, colour and sizes
are in `views/appearance.py`.
Source: product.md "Notebook"; design README (rows); D-6, D-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from axe_nb.messages import Usage
from axe_nb.results import name_run
from axe_nb.text import plural
from axe_nb.views import excerpts
from axe_nb.views.appearance import LOOKS, Look
from axe_nb.views.cost import format_cost
from axe_nb.views.draft import Draft
from axe_nb.views.tree import CallNode, Node, Span, State, TreeNode, TurnNode

LAST_WORDS = 48
"""Characters of the last words in a row; its end must not be cut off where there is little room."""


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
    """Failures open by themselves, and so does the way to a denied call."""

    @property
    def look(self) -> Look:
        return LOOKS[self.state]

    def to_dict(self) -> dict[str, Any]:
        """The fields that the live tree draws."""
        return {
            "kind": self.kind,
            "state": self.state,
            "sign": self.look.sign,
            "tone": self.look.tone,
            "who": self.who,
            "asked": self.asked,
            "cost": self.cost,
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
    states = [call.child.state if call.child else call.state for call in group.turns[0].calls]
    counts = ", ".join(f"{n} {state}" for state, n in Counter(sorted(states)).items())
    tokens = _format_tokens(group.total)
    failed = (state for state in states if state not in ("completed", "running"))
    state: State = "running" if "running" in states else next(failed, "completed")
    asked = " · ".join(filter(None, (counts, tokens)))
    return Row("run", state, plural(len(states), "run"), asked, "", group.span, True)


def _make_run_row(node: Node) -> Row:
    if node.is_group:
        return _make_group_row(node)
    needs_look = node.state not in ("completed", "running") or bool(_list_denied(node))
    # the root's row sums up the whole tree
    asked, cost = (
        (draft_line(node.draft) or excerpts.line(node.task), cost_of_run(node))
        if node.depth
        else (summary(node), "")
    )
    who = excerpts.line(name_run(node.agent, node.model), excerpts.WHO)
    return Row("run", node.state, who, asked, cost, node.span, needs_look)


def _make_turn_row(turn: TurnNode) -> Row:
    states = [call.child.state if call.child else call.state for call in turn.calls]
    has_failed = any(state not in ("completed", "running") for state in states)
    children = (child for call in turn.calls for child in call.children)
    needs_look = has_failed or any(map(_list_denied, children))
    state = turn.only_call.state if turn.only_call else turn.state
    state = "error" if _is_misfit(turn) else state
    who, doing = f"turn {turn.number}", doing_of(turn)
    return Row("turn", state, who, doing, cost_of_turn(turn), turn.span, needs_look)


def _make_call_row(call: CallNode) -> Row:
    who, asked, cost = who_of(call), asked_of(call), cost_of_call(call)
    return Row("call", call.state, who, asked, cost, call.span, call.state == "error")


def asked_of(call: CallNode) -> str:
    """The request of a call, in one line: its task if it delegates, else its arguments."""
    if call.call.traits.is_one_child:
        for name in ("task", "task_prompt"):
            if isinstance(value := call.call.arguments.get(name), str):
                return excerpts.line(value)
    return excerpts.line(_format_given(call))


def _format_given(call: CallNode) -> str:
    """The arguments of a call, marked if they are not the model's."""
    given = excerpts.format_arguments(call.call)
    return f"(edited by the user) {given}" if call.is_edited else given


def who_of(call: CallNode) -> str:
    """The name of the callee: the sub-agent if there is one, else the tool."""
    if call.child:
        return excerpts.line(name_run(call.child.agent, call.child.model), excerpts.WHO)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if call.call.traits.delegates and isinstance(value, str) and value.strip():
            return excerpts.line(value, excerpts.WHO)
    return excerpts.line(call.call.name, excerpts.WHO)


_ASKED = {"output": "gives its answer as JSON", "repair": "repairs its answer"}


def doing_of(turn: TurnNode) -> str:
    """The activity of a turn, in a few words."""
    if not turn.calls:
        if turn.state == "running":
            return _format_drafting(turn.draft) or turn.waits or "waits for the model"
        if turn.state != "completed":
            return "no answer"
        answers = "answers" if turn.text.strip() else "answers without text"
        doing = _ASKED[turn.asked] if turn.asked else answers
        misfit = "still does not fit" if turn.asked else "does not fit the schema"
        return f"{doing}, {misfit}" if _is_misfit(turn) else doing
    if turn.only_call:
        return excerpts.line(f"{who_of(turn.only_call)} {_format_given(turn.only_call)}")
    agents = [who_of(c) for c in turn.calls if c.call.traits.delegates]
    tools = [who_of(c) for c in turn.calls if not c.call.traits.delegates]
    parts = [
        f"{verb} {_format_names(names, noun)}"
        for verb, names, noun in (("asks", agents, "agent"), ("calls", tools, "tool"))
        if names
    ]
    together = "" if len(turn.calls) == 1 else " at once" if turn.parallel else " one by one"
    return ", ".join(parts) + together


def _is_misfit(turn: TurnNode) -> bool:
    """True if the turn's answer was to be data, and does not fit its schema."""
    turns = turn.run.turns
    if turns[-1].asked != "repair":
        return False
    failed = turn is turns[-1] and turn.state == "completed" and turn.run.state == "error"
    return failed or any(turn is before for before in turns[-2:-1])


def draft_line(draft: Draft | None, *, size: int = LAST_WORDS) -> str:
    """The last words of a reply that is being written, in at most `size` characters."""
    match draft:
        case Draft(latest="reasoning"):
            start, text = "thinks: ", draft.reasoning
        case Draft(latest="arguments"):
            start, text = f"{_format_drafting(draft)} ", draft.arguments
        case Draft(latest="text"):
            start, text = "", draft.text
        case _:
            return ""
    size -= len(start)
    return start + excerpts.last_words(text.show_end(size + 1), size)


def _format_drafting(draft: Draft | None) -> str:
    """The part of a reply that is being written; its words are shown below."""
    match draft:
        case Draft(latest="reasoning"):
            return "thinks"
        case Draft(latest="arguments"):
            return f"calls {excerpts.line(draft.tool, excerpts.WHO) or 'a tool'}"
        case Draft(latest="text"):
            return "writes"
        case _:
            return ""


def _format_names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)


def size_of(text: str) -> str:
    """The size of a tool's result."""
    lines = text.strip("\n").count("\n") + 1
    if not text.strip():
        return "empty"
    return plural(lines, "line") if lines > 1 else plural(len(text), "character")


def cost_of_call(call: CallNode) -> str:
    """The outcome of a call: its size, or its failure."""
    if call.result is None:
        return call.state if call.state == "not run" else ""
    failed = "denied" if call.result.is_denied else "failed"
    pictures = call.result.pictures
    size = plural(len(pictures), "picture") if pictures else size_of(call.result.content)
    outcome = failed if call.result.is_error else size
    return " · ".join(filter(None, (outcome, excerpts.line(call.result.note))))


def cost_of_turn(turn: TurnNode) -> str:
    """The tokens of a turn, its source, and of its only call the failure or the note."""
    tokens = _format_tokens(turn.usage)
    return " · ".join(filter(None, (_outcome_of_only_call(turn.only_call), turn.source, tokens)))


def _format_tokens(usage: Usage) -> str:
    """The number of tokens, how many came from a cache, and the price; empty if none are known."""
    if not usage.total:
        return ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return " · ".join(filter(None, (plural(usage.total, "token") + cached, format_cost(usage))))


def _outcome_of_only_call(call: CallNode | None) -> str:
    if call is None:
        return ""
    if call.state in ("error", "not run"):
        return cost_of_call(call)
    return excerpts.line(call.result.note) if call.result else ""


def cost_of_run(node: Node) -> str:
    """The ending of a run, unless it completed, its source, with its turns and tokens."""
    facts = (ending_of(node), _find_wait(node), node.source, *_format_counts(node))
    return " · ".join(filter(None, facts))


def _find_wait(node: Node) -> str:
    """The wait of a run before a retry; empty once its reply arrives."""
    turn = node.turns[-1] if node.turns and node.state == "running" else None
    return turn.waits if turn else ""


def _format_counts(node: Node) -> list[str]:
    """Turns and tokens, if there are any."""
    turns = plural(len(node.turns), "turn") if node.turns else ""
    return list(filter(None, (turns, _format_tokens(node.total))))


def ending_of(node: Node) -> str:
    """The ending of a run, in a word or two; empty if it completed or has not ended."""
    if node.state in ("completed", "running"):
        return ""
    error = node.result.error if node.result else None
    return error if error and node.state == "timeout" and len(error) <= 24 else node.state


def summary(node: Node) -> str:
    """The line that sums up a whole run."""
    below = list(node.below())
    ended = Counter(n.state for n in below if n.state not in ("completed", "running"))
    troubles = ", ".join(f"{n} {state}" for state, n in ended.items())
    calls = sum(len(t.calls) for t in node.turns) - sum(
        bool(c.children) for t in node.turns for c in t.calls
    )
    denied, failed = len(_list_denied(node)), _count_failed(node)
    facts = [
        # without an agent, the model is the name that stands before
        excerpts.line(node.model, 2 * excerpts.WHO) if node.agent else "",
        node.state,
        _format_origin(node, below),
        plural(len(node.turns), "turn") if node.turns else "",
        plural(calls, "tool call") if calls else "",
        plural(len(below), "sub-agent") + (f" ({troubles})" if troubles else "") if below else "",
        f"{plural(denied, 'call')} denied" if denied else "",
        f"{plural(failed, 'call')} failed" if failed else "",
        _format_repairs(node),
        _format_retries(node),
        _format_tokens(node.total),
        plural(len(node.result.warnings), "warning")
        if node.result and node.result.warnings
        else "",
    ]
    return " · ".join(filter(None, facts))


def _format_repairs(node: Node) -> str:
    """The number of answers that had to be repaired, in the whole tree."""
    turns = (turn for run in (node, *node.below()) for turn in run.turns)
    count = sum(turn.asked == "repair" for turn in turns)
    return plural(count, "repair") if count else ""


def _format_origin(node: Node, below: list[Node]) -> str:
    """The place of the run that it forks, and how many turns were not asked again."""
    if not node.origin:
        return ""
    kept = sum(turn.source == "recorded" for run in (node, *below) for turn in run.turns)
    return f"fork of {node.origin}" + (f" ({plural(kept, 'turn')} recorded)" if kept else "")


def _format_retries(node: Node) -> str:
    """The number of requests sent again, in the whole tree."""
    count = sum(result.retries for result in node.result.walk()) if node.result else 0
    return "" if not count else "1 retry" if count == 1 else f"{count:,} retries"


def _list_calls(node: Node) -> Iterator[CallNode]:
    """Yields the calls of a run and of all runs below it."""
    for run in (node, *node.below()):
        for turn in run.turns:
            yield from turn.calls


def _list_denied(node: Node) -> list[CallNode]:
    return [call for call in _list_calls(node) if call.result and call.result.is_denied]


def _count_failed(node: Node) -> int:
    """The number of failed calls, but for those that are sub-agents, which are counted as such."""
    return sum(
        bool(call.result and call.result.is_error and not call.result.is_denied)
        for call in _list_calls(node)
        if not call.children
    )
