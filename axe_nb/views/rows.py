"""The rows of a tree, in the same words for every view: name, work (`asked`), cost. Pure.

The texts that they open into are in `views/outline.py`; signs, colours and sizes in
`views/appearance.py`.
Source: D-6, D-11, D-34.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from axe_nb.events import PersonAsked
from axe_nb.messages import ToolCall, Usage
from axe_nb.results import name_run
from axe_nb.text import clean, format_dollars, one_line, plural
from axe_nb.views.appearance import LOOKS, Look, Tone
from axe_nb.views.transcript import (
    WAITS,
    CallNode,
    Draft,
    Node,
    State,
    TreeNode,
    TurnNode,
)

LINE, WHO = 72, 32
"""Maximum characters of a row's task or arguments, and of a name."""

GIVEN, LAST_WORDS = 40, 48
"""Maximum characters of a call's arguments beside the cause of its failure, and of the latest
words in a row, whose end must stay visible if space is short."""

POINTER = 60
"""Length of a pointer in characters; it never replaces a shorter text."""

LINES = 12
"""Maximum number of lines of a text."""

CUT_SHORT = {"not run": "not run", "cancelled": "interrupted while it ran"}
"""State of a call without a result → its description."""

TROUBLES: Mapping[State, str] = {
    "denied": "denied", "error": "failed", "cancelled": "interrupted", "not run": "not run",
}  # fmt: skip
"""State of calls that are counted in the head → its word there."""

ORDER: tuple[Tone, ...] = ("good", "bad", "limit", "off", "running")
"""Order of the parts of the bar below the head."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of the line that sums up a run."""

    text: str
    marks: tuple[tuple[str, Tone], ...] = ()
    """Parts that need attention, each with the tone of its colour; in brackets."""

    def __str__(self) -> str:
        marks = ", ".join(text for text, _ in self.marks)
        return " ".join(filter(None, (self.text, f"({marks})" if marks and self.text else marks)))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree."""

    kind: Literal["run", "turn", "call"]
    state: State
    who: str
    asked: str
    cost: str
    is_open: bool
    """True if the row opens by itself, as failures and the rows around them do; runs that were
    merely stopped do not."""
    facts: tuple[Fact, ...] = ()
    """The parts of `asked`, for the row of a root."""

    @property
    def look(self) -> Look:
        return LOOKS[self.state]


def make_row(thing: TreeNode) -> Row:
    """Makes the row of a run, a turn or a call; a call that is a child has the child's row."""
    if isinstance(thing, CallNode) and thing.child:
        thing = thing.child
    if isinstance(thing, Node):
        return _make_run_row(thing)
    if isinstance(thing, TurnNode):
        return _make_turn_row(thing)
    state: State = "asks" if thing.asks else thing.state
    who, asked, cost = who_of(thing), asked_of(thing), cost_of_call(thing)
    return Row("call", state, who, asked, cost, _needs_look(thing.state))


def _make_run_row(node: Node) -> Row:
    who, needs_look = name_node(node), _needs_look(node.state) or has_trouble(node)
    if node.depth:
        state: State = "asks" if find_question(node) else node.state
        return Row("run", state, who, finding_of(node), cost_of_run(node), needs_look)
    facts = tuple(facts_of(node))
    return Row("run", node.state, who, " · ".join(map(str, facts)), "", needs_look, facts)


def _needs_look(state: State) -> bool:
    return state not in ("completed", "running", "cancelled", "not run")


def _make_turn_row(turn: TurnNode) -> Row:
    states = [call.child.state if call.child else call.state for call in turn.calls]
    children = (child for call in turn.calls for child in call.children)
    needs_look = any(map(_needs_look, states)) or any(map(has_trouble, children))
    state = turn.only_call.state if turn.only_call else turn.state
    state = "error" if is_misfit(turn) else "asks" if find_question(turn) else state
    doing = doing_of(turn)
    return Row("turn", state, f"turn {turn.number}", doing, cost_of_turn(turn), needs_look)


def cost_of_call(call: CallNode) -> str:
    """The outcome of a call: the size of its result, or its failure."""
    if call.served:
        return "by the server"
    if call.result is None:
        return CUT_SHORT.get(call.state, call.waits)
    result, note = call.result, cut_line(call.result.note)
    if result.is_denied and note.startswith("denied"):
        return note
    lines = result.content.strip("\n").count("\n") + 1
    outcome = plural(lines, "line") if lines > 1 else plural(len(result.content), "character")
    outcome = outcome if result.content.strip() else "empty"
    if result.is_error:
        outcome = "denied" if result.is_denied else "" if result.is_skipped else "failed"
    elif result.pictures:
        outcome = plural(len(result.pictures), "picture")
    return " · ".join(filter(None, (outcome, note)))


def cost_of_turn(turn: TurnNode) -> str:
    """The tokens of a turn, its source, and the failure or note of its only call."""
    call, outcome = turn.only_call, ""
    if call and (call.state in ("error", "denied", *CUT_SHORT) or call.waits):
        outcome = cost_of_call(call)
    elif call and call.result:
        outcome = cut_line(call.result.note)
    facts = (outcome, turn.source, format_tokens(turn.usage))
    return " · ".join(filter(None, facts))


def cost_of_run(node: Node) -> str:
    """The end of a run, unless it completed, its source, turns and tokens."""
    ending = "" if node.state in ("completed", "running") else node.state
    turns = plural(len(node.turns), "turn") if node.turns else ""
    facts = (ending, node.source, turns, format_tokens(node.total))
    return " · ".join(filter(None, facts))


def finding_of(node: Node) -> str:
    """The work or outcome of a sub-agent: its answer's first line, cause of failure, or task."""
    if node.state == "running":
        return _format_work(node)
    if node.state == "completed":
        first, _, more = node.text.strip().partition("\n")
        return f"→ {cut_line(first + ' …' * bool(more))}" if first else "→ no text"
    if node.state == "cancelled":
        return cut_line(node.task)
    result = node.result
    cause = cut_line(result.error or "") if result else ""
    retried = f"retried {result.retries}×" if result and result.retries else ""
    return " · ".join(filter(None, (cause or node.state, retried)))


def find_wait(node: Node) -> str:
    """The current wait of a run, before a retry or for the person; else empty."""
    if not node.turns or node.state != "running":
        return ""
    turn = node.turns[-1]
    if find_question(turn):
        return WAITS
    return turn.waits or next((call.waits for call in turn.calls if call.waits), "")


def find_question(thing: TreeNode) -> PersonAsked | None:
    """The person's open question of a run, a turn or a call itself."""
    if isinstance(thing, Node):
        running = thing.state == "running" and thing.turns
        return find_question(thing.turns[-1]) if running else None
    if isinstance(thing, TurnNode) and not thing.asks:
        return next((call.asks for call in thing.calls if call.asks), None)
    if isinstance(thing, CallNode) and thing.child:
        return find_question(thing.child)
    return thing.asks


def question_of(thing: TreeNode) -> PersonAsked | None:
    """The open question inside a row: that of the call or turn that it shows."""
    if isinstance(thing, CallNode) and not thing.child:
        return thing.asks
    if isinstance(thing, TurnNode):
        return thing.asks or (thing.only_call.asks if thing.only_call else None)
    node = thing.child if isinstance(thing, CallNode) else thing
    hidden = (turn for turn in node.turns if turn.is_hidden) if node else ()
    return next((turn.asks for turn in hidden if turn.asks), None)


def _format_question(asked: PersonAsked) -> str:
    return f"asks you: {asked.words}" if asked.words else WAITS


def _format_work(node: Node) -> str:
    """The latest words, the wait, or the calls of a run; before there are any, its task."""
    turn = node.turns[-1] if node.turns else None
    if turn is None:
        return cut_line(node.task)
    if asked := find_question(node):
        return _format_question(asked)
    if wait := find_wait(node):
        return wait
    if turn.draft:
        return draft_line(turn.draft)
    if not turn.calls:
        # between two turns, what it was asked says more than that it waits
        return cut_line(node.task)
    going = [call for call in turn.calls if call.state == "running"]
    if not going or any(call.call.traits.delegates for call in going):
        return doing_of(turn)
    done = len(turn.calls) - len(going)
    number = f" · call {done + 1} of {len(turn.calls)}" if len(turn.calls) > 1 else ""
    return cut_line(f"{who_of(going[0])} {main_argument(going[0].call.arguments)}") + number


def main_argument(arguments: Mapping[str, Any]) -> str:
    """The most telling arguments in a few words: the first two texts, else numbers."""
    plain = [value for value in arguments.values() if isinstance(value, str | int | float)]
    texts = [value for value in plain if isinstance(value, str)]
    words = []
    for value in (texts or plain)[:2]:
        is_word = isinstance(value, str) and value and not any(map(str.isspace, value[:GIVEN]))
        words.append(str(value) if is_word else json.dumps(value, ensure_ascii=False))
    return " ".join(cut_line(word, GIVEN) for word in words)


def asked_of(call: CallNode) -> str:
    """The task or arguments of a call in one line; for a failed call, with the cause."""
    if call.asks and call.asks.words:
        return _format_question(call.asks)
    arguments = call.call.arguments
    if call.served:
        found = plural(len(call.served.sources), "source") if call.served.sources else ""
        outcome = call.served.error or found
        return cut_line(" → ".join(filter(None, (main_argument(arguments), outcome))))
    task = ""
    if call.call.traits.is_one_child:
        tasks = (arguments.get(name) for name in ("task", "task_prompt"))
        task = next((value for value in tasks if isinstance(value, str)), "")
    if call.result and call.result.is_error:
        given = cut_line(task or main_argument(arguments), GIVEN)
        cause = call.result.content.strip().partition("\n")[0]
        return cut_line(f"{given} → {cause}" if given else cause)
    edited = "(edited by the user) " if call.is_edited else ""
    return cut_line(task or f"{edited}{format_arguments(call.call)}")


def name_node(node: Node) -> str:
    """The name of a run in its row."""
    return cut_line(name_run(node.agent, node.model), WHO)


def who_of(call: CallNode) -> str:
    """The name of the callee: the sub-agent if there is one, else the tool."""
    if call.child:
        return name_node(call.child)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if call.call.traits.delegates and isinstance(value, str) and value.strip():
            return cut_line(value, WHO)
    return cut_line(call.call.name, WHO)


_ASKED = {"": "", "output": "gives its answer as JSON", "repair": "repairs its answer"}


def doing_of(turn: TurnNode) -> str:
    """The current activity of a turn, in a few words."""
    asked = find_question(turn) if turn.only_call or not turn.calls else None
    if asked and asked.words:
        return _format_question(asked)
    if not turn.calls:
        if turn.state == "running":
            return _format_drafting(turn.draft) or turn.waits or "waits for the model"
        if turn.state != "completed":
            return "no answer"
        answers = "answers" if turn.text.strip() else "answers without text"
        misfit = ", still does not fit" if turn.asked else ", does not fit the schema"
        return (_ASKED[turn.asked] or answers) + misfit * is_misfit(turn)
    if turn.only_call:
        return cut_line(f"{who_of(turn.only_call)} {asked_of(turn.only_call)}")
    agents = [who_of(c) for c in turn.calls if c.call.traits.delegates]
    tools = [who_of(c) for c in turn.calls if not c.call.traits.delegates]
    parts = [
        f"{verb} {_format_names(names, noun)}"
        for verb, names, noun in (("asks", agents, "agent"), ("calls", tools, "tool"))
        if names
    ]
    together = "" if len(turn.calls) == 1 else " in parallel" if turn.parallel else " one by one"
    return ", ".join(parts) + together


def is_misfit(turn: TurnNode) -> bool:
    """True if the turn's answer should have been data, and does not fit its schema."""
    turns = turn.run.turns
    if not turns or turns[-1].asked != "repair":
        return False
    failed = turn is turns[-1] and turn.state == "completed" and turn.run.state == "error"
    return failed or any(turn is before for before in turns[-2:-1])


def draft_line(draft: Draft | None, *, size: int = LAST_WORDS) -> str:
    """The last words of a reply that is being written, in at most `size` characters."""
    match draft:
        case Draft(latest="reasoning"):
            start, text = "thinks: ", draft.reasoning
        case Draft(latest="arguments"):
            start, text = f"{_format_drafting(draft)} ", draft.calls[-1].arguments
        case Draft(latest="text"):
            start, text = "", draft.text
        case _:
            return ""
    size -= len(start)
    return start + one_line(cut_end(text.show_end(size + 1), max(size - 2, 0)), max(size, 0))


def _format_drafting(draft: Draft | None) -> str:
    """The kind of the part of a reply being written; its words are shown elsewhere."""
    match draft:
        case Draft(latest="reasoning"):
            return draft_line(draft)  # what it thinks is folded
        case Draft(latest="arguments"):
            names = [cut_line(call.tool, WHO) or "a tool" for call in draft.calls]
            return f"calls {_format_names(names, 'tool')}"
        case Draft(latest="text"):
            return "writes"
        case _:
            return ""


def _format_names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)


def facts_of(node: Node) -> list[Fact]:
    """The non-empty parts of the line that sums up a run and everything below it."""
    facts = [*map(Fact, _list_progress(node)), *_count_parts(node)]
    return [fact for fact in facts if str(fact)]


def states_of(node: Node) -> list[State]:
    """The states of the sub-agents of a run, in call order."""
    calls = (call for turn in node.turns for call in turn.calls)
    return [child.state for call in calls for child in call.children]


def progress_of(node: Node) -> list[tuple[Tone, int]]:
    """Number of sub-agents in each tone of state: done, failed, running."""
    counts = Counter(LOOKS[child.state].tone for child in node.below())
    return [(tone, counts[tone]) for tone in ORDER if counts[tone]]


def _list_progress(node: Node) -> Iterator[str]:
    """Yields the model and the state, and the progress while it runs."""
    is_over = node.state != "running"
    # without an agent, the model is the name that stands before
    yield cut_line(node.model, 2 * WHO) if node.agent else ""
    runs = (node, *node.below())
    waiting = None if is_over else next((run for run in runs if find_wait(run) == WAITS), None)
    who = f"{name_node(waiting)} " if waiting and waiting is not node else ""
    yield node.state if is_over else f"{who}{WAITS}" if waiting else ""
    if node.origin:
        kept = sum(turn.source == "recorded" for turn in _list_turns(node))
        yield f"fork of {node.origin}" + (f" ({plural(kept, 'turn')} recorded)" if kept else "")
    if node.turns:
        yield plural(len(node.turns), "turn") if is_over else f"turn {node.turns[-1].number}"
    states = Counter(child.state for child in node.below())
    if states and not is_over:
        yield f"{states['completed']} of {plural(states.total(), 'sub-agent')} done"
        yield f"{states['running']} running" if states["running"] else ""


def _count_parts(node: Node) -> Iterator[Fact]:
    """Yields counts of the parts of its tree, and of those that need attention."""
    below = list(node.below())
    ended = Counter(n.state for n in below if n.state not in ("completed", "running"))
    if node.state == "running":
        yield Fact("", ((f"{ended.total()} failed", "bad"),) if ended else ())
    else:
        marks = tuple((f"{n} {state}", LOOKS[state].tone) for state, n in ended.items())
        yield Fact(plural(len(below), "sub-agent") if below else "", marks)
    calls = Counter(call.state for call in list_calls(node) if not call.children)
    troubles = tuple(
        (f"{calls[state]:,} {words}", LOOKS[state].tone)
        for state, words in TROUBLES.items()
        if calls[state]
    )
    yield Fact(plural(calls.total(), "tool call") if calls else "", troubles)
    repairs = sum(turn.asked == "repair" for turn in _list_turns(node))
    yield Fact(plural(repairs, "repair") if repairs else "")
    retries = sum(result.retries for result in node.result.walk()) if node.result else 0
    yield Fact("1 retry" if retries == 1 else f"{retries:,} retries" if retries else "")
    yield Fact(format_tokens(node.total))
    warnings = node.result.warnings if node.result else ()
    yield Fact("", ((plural(len(warnings), "warning"), "limit"),) if warnings else ())


def format_tokens(usage: Usage) -> str:
    """The number of tokens, how many came from a cache, and the price; empty if none are known."""
    if not usage.total:
        return ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return " · ".join(filter(None, (plural(usage.total, "token") + cached, format_cost(usage))))


def _list_turns(node: Node) -> Iterator[TurnNode]:
    for run in (node, *node.below()):
        yield from run.turns


def list_calls(node: Node) -> Iterator[CallNode]:
    """Yields the calls of a run and of all runs below it."""
    for turn in _list_turns(node):
        yield from turn.calls


def has_trouble(node: Node) -> bool:
    """True if a call of the run, or of one below it, was denied or has failed."""
    return any(call.result and call.result.is_error for call in list_calls(node))


def format_cost(usage: Usage) -> str:
    """Formats the price; `≥ $0.012` if it is unknown for some tokens, empty if for all."""
    if not usage.priced_tokens:
        return ""
    is_whole = usage.priced_tokens == usage.total
    return f"{'' if is_whole else '≥ '}{format_dollars(usage.dollars)}"


def indent_json(text: str) -> str:
    """Indents JSON text for reading; leaves any other text unchanged."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def cut_line(text: str, size: int = LINE) -> str:
    """The beginning of a text in one line."""
    return one_line(text[: 8 * size], size)


def cut_beginning(text: str, max_chars: int) -> tuple[str, int]:
    """The beginning of a text, and the number of characters left out; never just a few."""
    text = text.strip("\n")
    end = len(text) if len(text) <= max(max_chars * 5 // 4, max_chars + POINTER) else max_chars
    lines = text[: end + 1].split("\n", LINES)
    if len(lines) > LINES:
        end = min(end, sum(map(len, lines[:LINES])) + LINES - 1)
    return clean(text[:end]), len(text) - end


def cut_end(text: str, max_chars: int) -> str:
    """The end of a text that is still being written."""
    if len(text) <= max_chars:
        return clean(text).strip("\n")
    end = text[-max_chars:]
    words = re.split(r"\s", end, maxsplit=1)  # not from the middle of a word, unless it is huge
    return "… " + clean(words[-1] if len(words[-1]) > max_chars // 2 else end).strip("\n")


def format_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them (D-11)."""
    return call.raw or json.dumps(call.arguments, ensure_ascii=False)
