"""Makes the rows of a run's tree, worded alike in all views. Source: D-6, D-11, D-34."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from axe_nb.events import PersonAsked
from axe_nb.messages import ToolCall, Usage
from axe_nb.results import is_place, name_run
from axe_nb.text import clean, format_dollars, list_some, one_line, plural
from axe_nb.views.appearance import LOOKS, Look, Tone
from axe_nb.views.transcript import CallNode, Draft, Node, State, TreeNode, TurnNode, read_end

WAITS = LOOKS["asks"].word

LINE, WHO = 240, 32
"""Maximum length of a row's text and name, in characters; narrow windows cut the text further."""

GIVEN = 40
"""Maximum length of an argument in a row, and of all arguments of a failed call, in characters."""

POINTER = 60
"""Approximate length of the note that replaces the end of a long text. A text is cut to its maximum
length only if that removes more characters than this."""

LINES = 12
"""Maximum number of lines of a text shown before the rest is cut off."""

_MARKUP = (
    (r"^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+|\d{1,3}[.)]\s+)+", ""),
    (r"!?\[([^\]]*)\]\([^()\s]*\)", r"\1"),
    (r"(\*\*|__|~~|`+)(?=\S)(.+?)(?<=\S)\1", r"\2"),
    (r"(?<![\w*])([*_])(?=[^\s*_])([^*_]+)(?<=\S)\1(?![\w*])", r"\2"),
)
"""Patterns of Markdown syntax to remove from a row's text, and their replacements."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One part of a run's summary line."""

    text: str
    marks: tuple[tuple[str, Tone], ...] = ()
    """Details that need attention, in parentheses after the text, each with its colour class."""

    def __str__(self) -> str:
        marks = ", ".join(text for text, _ in self.marks)
        return " ".join(filter(None, (self.text, f"({marks})" if marks and self.text else marks)))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a run's tree."""

    kind: Literal["run", "turn", "call", "group", "rest"]
    """Kind of row. `group` combines rows that failed in the same way; `rest` counts hidden rows."""
    state: State
    who: str
    asked: str
    cost: str
    is_open: bool
    """True if the row is drawn unfolded: after a failure, and for a root run with sub-agents."""
    facts: tuple[Fact, ...] = ()
    """Parts of the summary line in the root's row; empty in other rows."""
    number: int = 0
    """Number of a call's turn, shown beside the tool's name; 0 if not shown."""
    states: tuple[State, ...] = ()
    """States of a running sub-agent's latest sub-agents; empty unless there are 2 to 60 of them."""
    retry: str = ""
    """First line of a cell that retries a failed run; empty for other rows."""
    place: str = ""
    """Id of a sub-agent's run, for commands such as `%axe request R@0.2`; empty for other rows."""

    @property
    def is_failed(self) -> bool:
        return _needs_look(self.state)

    @property
    def look(self) -> Look:
        return LOOKS[self.state]


def make_row(thing: TreeNode) -> Row:
    """Makes the row of a run, turn or call, or of the only sub-agent that a call always starts."""
    is_edited = isinstance(thing, CallNode) and thing.is_edited
    if isinstance(thing, CallNode) and thing.child:
        thing = thing.child
    state: State = "asks" if find_question(thing) else thing.state
    if isinstance(thing, CallNode):
        needs_look = _needs_look(state) or any(map(has_trouble, thing.children))
        asked, cost, number = asked_of(thing), cost_of_call(thing), thing.turn.number
        return Row("call", state, who_of(thing), asked, cost, needs_look, number=number)
    if isinstance(thing, TurnNode):
        if state != "asks":  # the calls have own rows
            state = "error" if is_misfit(thing) else "completed" if thing.calls else state
        cost = join_facts(thing.source, format_tokens(thing.usage))
        return Row("turn", state, f"turn {thing.number}", said_of(thing), cost, False)
    needs_look = _needs_look(thing.state) or has_trouble(thing)
    if not thing.depth:
        facts = tuple(facts_of(thing))
        told = " · ".join(map(str, facts))
        # a root's findings are visible without a click (D-80)
        is_open = needs_look or any(True for _ in thing.below())
        waits = any(fact.text.endswith(WAITS) for fact in facts) and thing.state == "running"
        state = "asks" if waits else thing.state
        return Row("run", state, name_node(thing), told, "", is_open, facts)
    is_told = state in ("completed", "running", "asks", "error", "timeout")
    source = thing.source or "forked here" * thing.is_forked or "task edited" * is_edited
    cost = join_facts("" if is_told else LOOKS[state].word, source, format_tokens(thing.total))
    calls = [call for turn in thing.turns[-1:] for call in turn.calls if len(turn.calls) > 1]
    below = [child.state for call in calls for child in call.children]
    states = tuple(below) if state == "running" and 1 < len(below) <= 60 else ()
    name, asked = name_node(thing), finding_of(thing)
    place = thing.id * is_place(f"{thing.id}/1")  # written into an attribute
    return Row("run", state, name, asked, cost, needs_look, states=states, place=place)


def _needs_look(state: State) -> bool:
    return state not in ("completed", "running", "cancelled", "not run")


def join_facts(*facts: str) -> str:
    return " · ".join(filter(None, facts))


def cost_of_call(call: CallNode) -> str:
    """Describes a call's outcome: the size of its result, its failure, or why it has no result."""
    if call.served:
        return "by the server"
    if call.result is None:
        ended = {"not run": "not run", "cancelled": "interrupted while it ran"}
        return ended.get(call.state, WAITS if call.asks else "")
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


def first_line(text: str) -> str:
    """Returns the first line below a text's headings, without Markdown; ` …` if more follow."""
    lines = [line for line in text[: 4 * LINE].splitlines() if line.strip(" \t`~=-|:")]
    own = [line for line in lines if not line.lstrip().startswith("```")]
    line = next((line for line in own if not re.match(r"\s*#{1,6}\s", line)), own[0] if own else "")
    line, more = line[: 2 * LINE], " …" if lines and lines[-1] is not line else ""
    for pattern, left in _MARKUP:
        line = re.sub(pattern, left, line)
    return cut_line(line + more)


def failure_of(node: Node) -> str:
    """Returns one line that says why a run failed, and how often requests were retried."""
    result, told = node.result, tell_error(node)
    retries = result.retries if result and "gave up" not in told else 0
    return join_facts(
        cut_line(told) or LOOKS[node.state].word, f"retried {retries}×" if retries else ""
    )


def tell_error(node: Node) -> str:
    """Returns a run's error, with the HTTP status of a failed request; or ""."""
    result = node.result
    told, last = result.error or "" if result else "", None
    if result and result.exchanges and (last := result.exchanges[-1].error):
        number = str(last.status or "")
        kind = f"{number * (number not in told)} {last.category.replace('_', ' ')}".strip()
        told = told.replace(f"{last.category}: ", f"{kind}: ", told.startswith(last.category))
    return re.sub(r" \((\d+) attempts\)$", r", gave up after \1 attempts", told)


def finding_of(node: Node) -> str:
    """Summarizes a sub-agent in one line by its answer, failure, current activity or task."""
    turn = node.turns[-1] if node.turns else None
    if node.state == "completed":
        calls = [call for one in node.turns for call in one.calls if call.result]
        allowed = sum("allowed by you" in call.result.note for call in calls if call.result)
        counts = {"allowed": allowed, "edited": sum(call.is_edited for call in calls)}
        said = [f"you {word} {plural(count, 'call')}" for word, count in counts.items() if count]
        return join_facts(first_line(node.text) or "no text", *said)
    if node.state != "running" and node.state != "cancelled":
        return failure_of(node)
    if turn is None or node.state == "cancelled":
        return cut_line(node.task)
    if asked := find_question(node):
        return word_question(asked)
    if wait := find_wait(node):
        return wait
    if not (turn.draft or turn.calls):
        return cut_line(node.task)  # says more than that it waits for the model
    return draft_line(turn.draft) or doing_of(turn)


def find_wait(node: Node) -> str:
    """Describes a run's wait for a retry or the user's answer; empty if it is not waiting."""
    if not node.turns or node.state != "running":
        return ""
    return WAITS if find_question(node.turns[-1]) else node.turns[-1].waits


def find_question(thing: TreeNode) -> PersonAsked | None:
    """Returns the unanswered question to the user in a run, turn or call; None if there is none."""
    if isinstance(thing, Node):
        running = thing.state == "running" and thing.turns
        return find_question(thing.turns[-1]) if running else None
    if isinstance(thing, TurnNode):
        return thing.asks or next((call.asks for call in thing.calls if call.asks), None)
    return find_question(thing.child) if thing.child else thing.asks


def question_of(thing: TreeNode) -> PersonAsked | None:
    """Returns the unanswered question that a row itself shows to the user; None if it has none."""
    if isinstance(thing, TurnNode) or (isinstance(thing, CallNode) and not thing.child):
        return thing.asks
    node = thing.child if isinstance(thing, CallNode) else thing
    hidden = (turn for turn in node.turns if turn.is_hidden) if node else ()
    return next((turn.asks for turn in hidden if turn.asks), None)


def word_question(asked: PersonAsked) -> str:
    words = asked.words if asked.choices else first_line(asked.words)  # a question of the model
    return f"asks you: {words}" if words else WAITS


def tell_arguments(arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Describes a call's arguments in a few words.

    The second return value is True if nothing except False and empty strings is left out or cut.
    """
    words, is_all, left = list[str](), True, dict(arguments)
    old, new = (left.get(name) for name in ("old_text", "new_text"))
    if isinstance(old, str) and isinstance(new, str):
        before, after = (Counter(text.splitlines()) for text in (old, new))
        counts = (after - before).total(), (before - after).total()
        left = {"path": left.get("path"), "": f"+{counts[0]} −{counts[1]}"}
        is_all = False
    for name, value in left.items():
        if isinstance(value, bool):
            words += [name] if value else []
        elif isinstance(value, int | float):
            words.append(str(value))
        elif isinstance(value, str) and (shown := one_line(value, GIVEN)):
            lines = value.strip("\n").count("\n") + 1
            is_all &= shown == value
            quoted = f'"{shown}"' if " " in shown and name else shown
            words.append(f"({lines} lines)" if lines > 1 else quoted)
        is_all &= isinstance(value, str | int | float)
    return " ".join(words), is_all


def asked_of(call: CallNode) -> str:
    """Describes a call by its question to the user, or by its task or arguments and any error."""
    if call.asks and call.asks.words and not call.asks.choices:
        return "asks you"  # the question stands below, whole
    arguments = call.call.arguments
    if call.served:
        found = plural(len(call.served.sources), "source") if call.served.sources else ""
        outcome = call.served.error or found
        return cut_line(" → ".join(filter(None, (tell_arguments(arguments)[0], outcome))))
    task = ""
    if call.call.traits.is_one_child:
        tasks = (arguments.get(name) for name in ("task", "task_prompt"))
        task = next((value for value in tasks if isinstance(value, str)), "")
    if call.result and call.result.is_error:
        given = cut_line(task or tell_arguments(arguments)[0], GIVEN)
        cause = call.result.content.strip().partition("\n")[0]
        if cause.startswith("Error: wrong arguments"):  # a name may be the mistake
            named = (f"{name}={one_line(str(value), GIVEN)}" for name, value in arguments.items())
            given = cut_line(" ".join(named), GIVEN)
        return cut_line(f"{given} → {cause}" if given else cause)
    edited = "(edited by you) " if call.is_edited else ""
    return cut_line(task or edited + (call.call.raw or tell_arguments(arguments)[0]))


def name_node(node: Node) -> str:
    return cut_line(name_run(node.agent, node.model), WHO)


def who_of(call: CallNode) -> str:
    """Returns the name or label of the sub-agent that a call starts, or the called tool's name."""
    if call.child:
        return name_node(call.child)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if call.call.traits.delegates and isinstance(value, str) and value.strip():
            return cut_line(value, WHO)
    return cut_line(call.call.name, WHO)


def said_of(turn: TurnNode) -> str:
    """Describes in one line what the model said or did in a turn."""
    if asked := find_question(turn):
        return word_question(asked)
    if turn.state == "running" and not turn.calls:
        return doing_of(turn)
    doing = {"output": "gives its answer as JSON", "repair": "repairs its answer"}.get(turn.asked)
    if is_misfit(turn):
        return f"{doing}, still does not fit" if doing else "answers, does not fit the schema"
    said = "" if turn.is_last else first_line(turn.text)
    return doing or said or ("thinks" if turn.reasoning else "answers")


def count_names(names: set[str]) -> str:
    """Returns the only name plus `s`, or `sub-agents` for several names or one such as `boss`."""
    name = next(iter(names)) if len(names) == 1 else ""
    return f"{name}s" if name.isalpha() and name[-1] not in "sxzhy" else "sub-agents"


def doing_of(turn: TurnNode) -> str:
    """Describes a turn's current activity in a few words."""
    if delegated := [call for call in turn.calls if call.call.traits.delegates]:
        done = sum(call.state != "running" for call in delegated)
        if len(delegated) > 1:
            names = count_names({who_of(call) for call in delegated})
            return f"{done} of {len(delegated)} {names} done"
    if len(turn.calls) == 1:
        return cut_line(f"{who_of(turn.calls[0])} {asked_of(turn.calls[0])}")
    if turn.calls:
        return f"calls {_format_names([who_of(call) for call in turn.calls], 'tool')}"
    match turn.draft:
        case Draft(latest="text"):
            return "writes"  # the words themselves are shown elsewhere
        case Draft(latest="arguments") as draft:
            return _format_calls(draft)
        case draft:
            waits = WAITS if turn.asks else turn.waits
            return draft_line(draft) or waits or "waits for the model"


def is_misfit(turn: TurnNode) -> bool:
    """True if an answer did not fit the output schema, and a repair followed or the run failed."""
    turns = turn.run.turns
    if not turns or turns[-1].asked != "repair":
        return False
    failed = turn is turns[-1] and turn.state == "completed" and turn.run.state == "error"
    return failed or any(turn is before for before in turns[-2:-1])


def draft_line(draft: Draft | None, *, size: int = 48) -> str:
    """Returns the last words of an unfinished reply, in at most `size` characters."""
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
    last = cut_end(read_end(text, size + 1), max(size - 2, 0))
    return start + one_line(re.sub(r"\*\*|`+|\n#+ ", " ", last), max(size, 0))


def _format_calls(draft: Draft) -> str:
    names = [cut_line(tool, WHO) or "a tool" for tool in draft.tools.values()]
    return f"calls {_format_names(names, 'tool')}"


def _format_names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)


def facts_of(node: Node) -> list[Fact]:
    """Returns the parts of the summary line for a run and its descendants, without empty parts."""
    is_over, below = node.state != "running", list(node.below())
    turns = [turn for run in (node, *below) for turn in run.turns]
    states = Counter(child.state for child in below)
    failed = {state: states[state] for state in LOOKS if states[state] and _needs_look(state)}
    kinds = ", ".join(plural(n, LOOKS[state].word) for state, n in failed.items())
    told = f"failed: {kinds}" if failed.keys() - {"error"} else "failed"
    ends = _count((states["cancelled"], "cancelled", "off"), (sum(failed.values()), told, "bad"))
    # without an agent, the name in front is the model's
    facts = [Fact(cut_line(node.model, 2 * WHO) if node.agent else "")]
    if is_over:
        facts.append(Fact(LOOKS[node.state].word))
    elif waiting := next((run for run in (node, *below) if find_wait(run) == WAITS), None):
        facts.append(Fact(WAITS if waiting is node else f"{name_node(waiting)} {WAITS}"))
    else:
        doing = doing_of(node.turns[-1]) if node.turns and not below else ""
        facts.append(Fact(find_wait(node) or doing))
    if node.origin:
        kept = sum(turn.source == "recorded" for turn in turns)
        recorded = f" ({plural(kept, 'turn')} recorded)" if kept else ""
        facts.append(Fact(f"fork of {one_line(node.origin, 80)}{recorded}"))
    if node.turns:
        number = f"turn {node.turns[-1].number}"
        facts.append(Fact(plural(len(node.turns), "turn") if is_over else number))
    if is_over:
        facts.append(Fact(plural(len(below), "sub-agent") if below else "", ends))
    elif below:
        facts.append(Fact(f"{states['completed']} of {plural(len(below), 'sub-agent')} done"))
        facts.append(Fact(f"{states['running']} running" if states["running"] else ""))
        facts.append(Fact("", ends))
    calls = Counter(call.state for turn in turns for call in turn.calls if not call.children)
    troubles: dict[State, str] = {
        "denied": "denied", "error": "failed", "cancelled": "interrupted", "not run": "not run",
    }  # fmt: skip
    marks = _count(*((calls[state], word, LOOKS[state].tone) for state, word in troubles.items()))
    facts.append(Fact(plural(calls.total(), "tool call") if calls else "", marks))
    repairs = sum(turn.asked == "repair" for turn in turns)
    facts.append(Fact(plural(repairs, "repair") if repairs else ""))
    results = list(node.result.walk()) if node.result else []
    retries = sum(result.retries for result in results)
    reasons = dict.fromkeys(
        str(first.error.status or first.error.category)
        for result in results
        for first, second in pairwise(result.exchanges)
        if second.attempt > 1 and first.error
    )
    why = f" ({list_some(list(reasons), 5)})" if reasons else ""
    facts.append(Fact(f"{retries:,} {'retry' if retries == 1 else 'retries'}{why}" * bool(retries)))
    facts.append(Fact(format_tokens(node.total)))
    warnings = node.result.warnings if node.result else ()
    facts.append(Fact("", ((plural(len(warnings), "warning"), "limit"),) if warnings else ()))
    return [fact for fact in facts if str(fact)]


def _count(*counts: tuple[int, str, Tone]) -> tuple[tuple[str, Tone], ...]:
    return tuple((f"{count:,} {word}", tone) for count, word, tone in counts if count)


def format_tokens(usage: Usage) -> str:
    """Formats tokens, cached tokens and cost; empty if there are no tokens."""
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
    """Formats a cost, as `≥ $0.012` if some tokens have no price; empty if no price is known."""
    if not usage.priced_tokens:
        return ""
    is_whole = usage.priced_tokens == usage.total
    return f"{'' if is_whole else '≥ '}{format_dollars(usage.dollars)}"


def indent_json(text: str) -> str:
    """Indents JSON text for reading, and leaves any other text unchanged."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def cut_line(text: str, size: int = LINE) -> str:
    return one_line(text[: 8 * size], size)


def cut_beginning(text: str, max_chars: int) -> tuple[str, int]:
    """Returns a text's beginning and the number of characters cut; short texts stay whole."""
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
