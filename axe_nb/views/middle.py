"""The middle column of a row: the work of a run, a turn or a call, and the outcome. Pure.

Source: design README "Second generation" (the middle column); D-6, D-11.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from axe_nb.events import PersonAsked
from axe_nb.results import name_run
from axe_nb.text import plural
from axe_nb.views import excerpts
from axe_nb.views.draft import Draft
from axe_nb.views.tree import WAITS, CallNode, Node, TreeNode, TurnNode

LAST_WORDS = 48
"""Characters of the last words in a row; its end must not be cut off where there is little room."""

GIVEN = 40
"""Characters of a call's arguments beside the cause of its failure."""


def finding_of(node: Node) -> str:
    """The work of a sub-agent, or what came of it: its answer's first line, or the cause.

    One that was stopped has its task.
    """
    if node.state == "running":
        return _format_work(node)
    if node.state == "completed":
        first, _, more = node.text.strip().partition("\n")
        return f"→ {excerpts.line(first + ' …' * bool(more))}" if first else "→ no text"
    if node.state == "cancelled":
        return excerpts.line(node.task)
    result = node.result
    cause = excerpts.line(result.error or "") if result else ""
    retried = f"retried {result.retries}×" if result and result.retries else ""
    return " · ".join(filter(None, (cause or node.state, retried)))


def find_wait(node: Node) -> str:
    """The wait of a run before a retry, or for the person; else empty."""
    if not node.turns or node.state != "running":
        return ""
    turn = node.turns[-1]
    if find_question(turn):
        return WAITS
    return turn.waits or next((call.waits for call in turn.calls if call.waits), "")


def find_question(thing: TreeNode) -> PersonAsked | None:
    """The question to the person that a run, a turn or a call waits for, of its own."""
    if isinstance(thing, Node):
        running = thing.state == "running" and thing.turns
        return find_question(thing.turns[-1]) if running else None
    if isinstance(thing, TurnNode) and not thing.asks:
        return next((call.asks for call in thing.calls if call.asks), None)
    if isinstance(thing, CallNode) and thing.child:
        return find_question(thing.child)
    return thing.asks


def _format_question(asked: PersonAsked) -> str:
    return f"asks you: {asked.words}" if asked.words else WAITS


def _format_work(node: Node) -> str:
    """The latest words, the wait, or the calls of a run; until there are any, its task."""
    turn = node.turns[-1] if node.turns else None
    if turn is None:
        return excerpts.line(node.task)
    if asked := find_question(node):
        return _format_question(asked)
    if wait := find_wait(node):
        return wait
    if turn.draft:
        return draft_line(turn.draft)
    if not turn.calls:
        # between two turns, what it was asked says more than that it waits
        return excerpts.line(node.task)
    going = [call for call in turn.calls if call.state == "running"]
    if not going or any(call.call.traits.delegates for call in going):
        return doing_of(turn)
    done = len(turn.calls) - len(going)
    number = f" · call {done + 1} of {len(turn.calls)}" if len(turn.calls) > 1 else ""
    return excerpts.line(f"{who_of(going[0])} {main_argument(going[0].call.arguments)}") + number


def main_argument(arguments: Mapping[str, Any]) -> str:
    """The arguments that say most, in a few words: the first two texts, else numbers."""
    plain = [value for value in arguments.values() if isinstance(value, str | int | float)]
    texts = [value for value in plain if isinstance(value, str)]
    return " ".join(excerpts.line(_format_value(value), GIVEN) for value in (texts or plain)[:2])


def _format_value(value: str | float) -> str:
    is_word = isinstance(value, str) and value and not any(map(str.isspace, value[:GIVEN]))
    return str(value) if is_word else json.dumps(value, ensure_ascii=False)


def asked_of(call: CallNode) -> str:
    """The request of a call, in one line; of one that failed, in short and with the cause.

    That is its task if it delegates, else its arguments.
    """
    if call.asks and call.asks.words:
        return _format_question(call.asks)
    if call.served:
        found = plural(len(call.served.sources), "source") if call.served.sources else ""
        outcome = call.served.error or found
        return excerpts.line(
            " → ".join(filter(None, (main_argument(call.call.arguments), outcome)))
        )
    task = _find_task(call)
    if call.result and call.result.is_error:
        given = excerpts.line(task or main_argument(call.call.arguments), GIVEN)
        cause = call.result.content.strip().partition("\n")[0]
        return excerpts.line(f"{given} → {cause}" if given else cause)
    return excerpts.line(task or _format_given(call))


def _find_task(call: CallNode) -> str:
    if call.call.traits.is_one_child:
        for name in ("task", "task_prompt"):
            if isinstance(value := call.call.arguments.get(name), str):
                return value
    return ""


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
    asked = find_question(turn) if turn.only_call or not turn.calls else None
    if asked and asked.words:
        return _format_question(asked)
    if not turn.calls:
        if turn.state == "running":
            return _format_drafting(turn.draft) or turn.waits or "waits for the model"
        if turn.state != "completed":
            return "no answer"
        answers = "answers" if turn.text.strip() else "answers without text"
        doing = _ASKED[turn.asked] if turn.asked else answers
        misfit = "still does not fit" if turn.asked else "does not fit the schema"
        return f"{doing}, {misfit}" if is_misfit(turn) else doing
    if turn.only_call:
        return excerpts.line(f"{who_of(turn.only_call)} {asked_of(turn.only_call)}")
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
    """True if the turn's answer was to be data, and does not fit its schema."""
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
    return start + excerpts.last_words(text.show_end(size + 1), size)


def _format_drafting(draft: Draft | None) -> str:
    """The part of a reply that is being written; its words are shown elsewhere."""
    match draft:
        case Draft(latest="reasoning"):
            return draft_line(draft)  # what it thinks is folded
        case Draft(latest="arguments"):
            names = [excerpts.line(call.tool, excerpts.WHO) or "a tool" for call in draft.calls]
            return f"calls {_format_names(names, 'tool')}"
        case Draft(latest="text"):
            return "writes"
        case _:
            return ""


def _format_names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)
