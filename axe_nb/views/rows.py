"""The rows of a run's tree, worded alike in every view. Source: D-6, D-11, D-34."""

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
    read_end,
)

LINE, WHO = 72, 32
"""Maximum characters of a row's task or arguments, and of a name."""

GIVEN = 40
"""Maximum characters of a failed call's arguments, which precede the cause of the failure."""

POINTER = 60
"""Characters of a pointer to a whole text; a text is not cut by less than that."""

LINES = 12
"""Maximum lines of a text."""

CUT_SHORT = {"not run": "not run", "cancelled": "interrupted while it ran"}
"""State of a call without a result → its description."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of a run's summary line."""

    text: str
    marks: tuple[tuple[str, Tone], ...] = ()
    """Parts in brackets that need attention, each with its tone."""

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
    """True if the row is drawn unfolded, as failures and the rows above them are."""
    facts: tuple[Fact, ...] = ()
    """The parts of `asked` in the root's row; empty in other rows."""

    @property
    def look(self) -> Look:
        return LOOKS[self.state]


def make_row(thing: TreeNode) -> Row:
    """Makes the row of a run, turn or call; a call of one sub-agent has the sub-agent's row."""
    if isinstance(thing, CallNode) and thing.child:
        thing = thing.child
    asks, state = find_question(thing), thing.state
    if isinstance(thing, CallNode):
        who, asked, cost = who_of(thing), asked_of(thing), cost_of_call(thing)
        return Row("call", "asks" if asks else state, who, asked, cost, _needs_look(state))
    if isinstance(thing, TurnNode):
        call, outcome = thing.only_call, ""
        if call and (call.state in ("error", "denied", *CUT_SHORT) or call.asks):
            outcome = cost_of_call(call)
        elif call and call.result:
            outcome = cut_line(call.result.note)
        state = "asks" if asks else call.state if call else state
        state = "error" if is_misfit(thing) else state
        cost = join_facts(outcome, thing.source, format_tokens(thing.usage))
        needs_look = any(
            _needs_look((inner.child or inner).state) or any(map(has_trouble, inner.children))
            for inner in thing.calls
        )
        return Row("turn", state, f"turn {thing.number}", doing_of(thing), cost, needs_look)
    needs_look = _needs_look(state) or has_trouble(thing)
    if not thing.depth:
        facts = tuple(facts_of(thing))
        told = " · ".join(map(str, facts))
        return Row("run", state, name_node(thing), told, "", needs_look, facts)
    ending = "" if state in ("completed", "running") else state
    turns = plural(len(thing.turns), "turn") if thing.turns else ""
    cost = join_facts(ending, thing.source, turns, format_tokens(thing.total))
    state = "asks" if asks else state
    return Row("run", state, name_node(thing), finding_of(thing), cost, needs_look)


def _needs_look(state: State) -> bool:
    return state not in ("completed", "running", "cancelled", "not run")


def join_facts(*facts: str) -> str:
    return " · ".join(filter(None, facts))


def cost_of_call(call: CallNode) -> str:
    """Describes the outcome of a call: the size of its result, or its failure."""
    if call.served:
        return "by the server"
    if call.result is None:
        return CUT_SHORT.get(call.state, WAITS if call.asks else "")
    result, note = call.result, cut_line(call.result.note)
    if result.is_error:
        if result.is_denied and note.startswith("denied"):
            return note
        outcome = "denied" if result.is_denied else "" if result.is_skipped else "failed"
        return join_facts(outcome, note)
    lines = result.content.strip("\n").count("\n") + 1
    outcome = plural(lines, "line") if lines > 1 else plural(len(result.content), "character")
    if result.pictures:
        outcome = plural(len(result.pictures), "picture")
    elif not result.content.strip():
        outcome = "empty"
    return join_facts(outcome, note)


def finding_of(node: Node) -> str:
    """Sums up a sub-agent by its answer, its failure, its current activity, or else its task."""
    turn = node.turns[-1] if node.turns else None
    if node.state == "completed":
        first, _, more = node.text.strip().partition("\n")
        return f"→ {cut_line(first + ' …' * bool(more))}" if first else "→ no text"
    if node.state != "running" and node.state != "cancelled":
        cause = cut_line(node.result.error or "") if node.result else ""
        retries = node.result.retries if node.result else 0
        return join_facts(cause or node.state, f"retried {retries}×" if retries else "")
    if turn is None or node.state == "cancelled":
        return cut_line(node.task)
    if asked := find_question(node):
        return _format_question(asked)
    if wait := find_wait(node):
        return wait
    if not (turn.draft or turn.calls):
        return cut_line(node.task)  # more informative than that it waits for the model
    return draft_line(turn.draft) or doing_of(turn)


def find_wait(node: Node) -> str:
    """Describes a run's current wait, for a retry or the person; empty if there is none."""
    if not node.turns or node.state != "running":
        return ""
    turn = node.turns[-1]
    return WAITS if find_question(turn) else turn.waits


def find_question(thing: TreeNode) -> PersonAsked | None:
    """Returns the open question to the person in a run, a turn or a call."""
    if isinstance(thing, Node):
        running = thing.state == "running" and thing.turns
        return find_question(thing.turns[-1]) if running else None
    if isinstance(thing, TurnNode) and not thing.asks:
        return next((call.asks for call in thing.calls if call.asks), None)
    if isinstance(thing, CallNode) and thing.child:
        return find_question(thing.child)
    return thing.asks


def question_of(thing: TreeNode) -> PersonAsked | None:
    """Returns the open question of the call or turn that a row shows, not of the rows below."""
    if isinstance(thing, CallNode) and not thing.child:
        return thing.asks
    if isinstance(thing, TurnNode):
        return thing.asks or (thing.only_call.asks if thing.only_call else None)
    node = thing.child if isinstance(thing, CallNode) else thing
    hidden = (turn for turn in node.turns if turn.is_hidden) if node else ()
    return next((turn.asks for turn in hidden if turn.asks), None)


def _format_question(asked: PersonAsked) -> str:
    return f"asks you: {asked.words}" if asked.words else WAITS


def main_argument(arguments: Mapping[str, Any]) -> str:
    """Shortens arguments to the first two strings, or two numbers if there are no strings."""
    plain = [value for value in arguments.values() if isinstance(value, str | int | float)]
    texts = [value for value in plain if isinstance(value, str)]
    words = []
    for value in (texts or plain)[:2]:
        is_word = isinstance(value, str) and value and not any(map(str.isspace, value[:GIVEN]))
        words.append(str(value) if is_word else json.dumps(value, ensure_ascii=False))
    return " ".join(cut_line(word, GIVEN) for word in words)


def asked_of(call: CallNode) -> str:
    """Formats the task or arguments of a call in one line, with the cause if it failed."""
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
    return cut_line(name_run(node.agent, node.model), WHO)


def who_of(call: CallNode) -> str:
    """Returns the name of the sub-agent that a call starts, or of its tool if there is none."""
    if call.child:
        return name_node(call.child)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if call.call.traits.delegates and isinstance(value, str) and value.strip():
            return cut_line(value, WHO)
    return cut_line(call.call.name, WHO)


def doing_of(turn: TurnNode) -> str:
    """Describes the current activity of a turn in a few words."""
    asked = find_question(turn) if turn.only_call or not turn.calls else None
    if asked and asked.words:
        return _format_question(asked)
    if turn.only_call:
        return cut_line(f"{who_of(turn.only_call)} {asked_of(turn.only_call)}")
    if turn.calls:
        agents = [who_of(c) for c in turn.calls if c.call.traits.delegates]
        tools = [who_of(c) for c in turn.calls if not c.call.traits.delegates]
        parts = [f"asks {_format_names(agents, 'agent')}"] if agents else []
        parts += [f"calls {_format_names(tools, 'tool')}"] if tools else []
        way = "" if len(turn.calls) == 1 else " in parallel" if turn.parallel else " one by one"
        return ", ".join(parts) + way
    if turn.state == "running":
        match turn.draft:
            case Draft(latest="text"):
                return "writes"  # the words themselves are shown elsewhere
            case Draft(latest="arguments") as draft:
                return _format_calls(draft)
            case draft:
                waits = WAITS if turn.asks else turn.waits
                return draft_line(draft) or waits or "waits for the model"
    if turn.state != "completed":
        return "no answer"
    if turn.asked:
        doing = "gives its answer as JSON" if turn.asked == "output" else "repairs its answer"
        return f"{doing}, still does not fit" if is_misfit(turn) else doing
    doing = "answers" if turn.text.strip() else "answers without text"
    return f"{doing}, does not fit the schema" if is_misfit(turn) else doing


def is_misfit(turn: TurnNode) -> bool:
    """True if a turn had to answer with data and its answer does not fit the output schema."""
    turns = turn.run.turns
    if not turns or turns[-1].asked != "repair":
        return False
    failed = turn is turns[-1] and turn.state == "completed" and turn.run.state == "error"
    return failed or any(turn is before for before in turns[-2:-1])


def draft_line(draft: Draft | None, *, size: int = 48) -> str:
    """Returns the last words of an unfinished reply, cut at the start to `size` characters."""
    match draft:
        case Draft(latest="reasoning"):
            start, text = "thinks: ", draft.reasoning
        case Draft(latest="arguments"):
            start, text = f"{_format_calls(draft)} ", [*draft.calls.values()][-1]
        case Draft(latest="text"):
            start, text = "", draft.text
        case _:
            return ""
    size -= len(start)
    return start + one_line(cut_end(read_end(text, size + 1), max(size - 2, 0)), max(size, 0))


def _format_calls(draft: Draft) -> str:
    names = [cut_line(tool, WHO) or "a tool" for tool in draft.tools.values()]
    return f"calls {_format_names(names, 'tool')}"


def _format_names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)


def facts_of(node: Node) -> list[Fact]:
    """Returns the non-empty parts of the summary line of a run and all runs below it."""
    is_over, below = node.state != "running", list(node.below())
    turns = [turn for run in (node, *below) for turn in run.turns]
    states = Counter(child.state for child in below)
    ended = {state: n for state, n in states.items() if state not in ("completed", "running")}
    # without an agent, the name in front is the model's
    facts = [Fact(cut_line(node.model, 2 * WHO) if node.agent else "")]
    if is_over:
        facts.append(Fact(node.state))
    elif waiting := next((run for run in (node, *below) if find_wait(run) == WAITS), None):
        facts.append(Fact(WAITS if waiting is node else f"{name_node(waiting)} {WAITS}"))
    if node.origin:
        kept = sum(turn.source == "recorded" for turn in turns)
        recorded = f" ({plural(kept, 'turn')} recorded)" if kept else ""
        facts.append(Fact(f"fork of {node.origin}{recorded}"))
    if node.turns:
        number = f"turn {node.turns[-1].number}"
        facts.append(Fact(plural(len(node.turns), "turn") if is_over else number))
    if is_over:
        marks = tuple((f"{n} {state}", LOOKS[state].tone) for state, n in ended.items())
        facts.append(Fact(plural(len(below), "sub-agent") if below else "", marks))
    elif below:
        facts.append(Fact(f"{states['completed']} of {plural(len(below), 'sub-agent')} done"))
        facts.append(Fact(f"{states['running']} running" if states["running"] else ""))
        failed = f"{sum(ended.values())} failed"
        facts.append(Fact("", ((failed, "bad"),) if ended else ()))
    calls = Counter(call.state for turn in turns for call in turn.calls if not call.children)
    troubles: dict[State, str] = {
        "denied": "denied", "error": "failed", "cancelled": "interrupted", "not run": "not run",
    }  # fmt: skip
    marks = tuple(
        (f"{calls[state]:,} {words}", LOOKS[state].tone)
        for state, words in troubles.items()
        if calls[state]
    )
    facts.append(Fact(plural(calls.total(), "tool call") if calls else "", marks))
    repairs = sum(turn.asked == "repair" for turn in turns)
    facts.append(Fact(plural(repairs, "repair") if repairs else ""))
    retries = sum(result.retries for result in node.result.walk()) if node.result else 0
    facts.append(Fact("1 retry" if retries == 1 else f"{retries:,} retries" if retries else ""))
    facts.append(Fact(format_tokens(node.total)))
    warnings = node.result.warnings if node.result else ()
    facts.append(Fact("", ((plural(len(warnings), "warning"), "limit"),) if warnings else ()))
    return [fact for fact in facts if str(fact)]


def format_tokens(usage: Usage) -> str:
    """Formats the tokens, those read from a cache, and the price; empty if there are no tokens."""
    if not usage.total:
        return ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return join_facts(plural(usage.total, "token") + cached, format_cost(usage))


def list_calls(node: Node) -> Iterator[CallNode]:
    for run in (node, *node.below()):
        for turn in run.turns:
            yield from turn.calls


def has_trouble(node: Node) -> bool:
    return any(call.result and call.result.is_error for call in list_calls(node))


def format_cost(usage: Usage) -> str:
    """Formats the price, as `≥ $0.012` if some tokens have no price; empty if none have one."""
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
    return one_line(text[: 8 * size], size)


def cut_beginning(text: str, max_chars: int) -> tuple[str, int]:
    """Returns the beginning of a text and the number of characters cut, never just a few."""
    text = text.strip("\n")
    end = len(text) if len(text) <= max(max_chars * 5 // 4, max_chars + POINTER) else max_chars
    lines = text[: end + 1].split("\n", LINES)
    if len(lines) > LINES:
        end = min(end, sum(map(len, lines[:LINES])) + LINES - 1)
    return clean(text[:end]), len(text) - end


def cut_end(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return clean(text).strip("\n")
    end = text[-max_chars:]
    words = re.split(r"\s", end, maxsplit=1)  # begins with a whole word, unless it is huge
    return "… " + clean(words[-1] if len(words[-1]) > max_chars // 2 else end).strip("\n")


def format_arguments(call: ToolCall) -> str:
    return call.raw or json.dumps(call.arguments, ensure_ascii=False)
