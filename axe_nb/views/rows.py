"""The rows of a tree and the texts that they open into, in the same words for every view. Pure.

A row has a name, the work of a run, a turn or a call (`asked`), and its cost. Rows and texts are
drawn by `views/html.py`, saved and live, and written by `views/text.py`; signs, colours and sizes
are in `views/appearance.py`.
Source: D-6, D-11, D-34.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_nb.events import PersonAsked
from axe_nb.messages import Page, ToolCall, Usage
from axe_nb.pictures.picture import Picture
from axe_nb.results import name_run
from axe_nb.secrets import redact
from axe_nb.text import clean, format_dollars, one_line, plural
from axe_nb.views.appearance import LOOKS, Look, Tone
from axe_nb.views.tree import (
    WAITS,
    CallNode,
    Draft,
    Node,
    Span,
    State,
    TreeNode,
    TurnNode,
    lay_out,
    nodes_below,
)

LINE, WHO = 72, 32
"""Maximum length of a row's task or arguments, and of a name, in characters."""

GIVEN, LAST_WORDS = 40, 48
"""Characters of a call's arguments beside the cause of its failure, and of the last words in a row,
whose end must not be cut off where there is little room."""

POINTER = 60
"""Length of a pointer in characters; it takes the place of no text that is shorter."""

LINES, WIDE = 12, 120
"""Maximum number of lines of a text, and length of one beside its label in characters."""

MAX_ROWS = 250
"""Maximum number of rows of a twin, which has a kilobyte for each; others are counted."""

MAX_WARNINGS, MAX_PICTURES = 5, 8
"""Maximum number of warnings of a run, and of pictures of a prompt or result; others are counted.
"""

MAX_CHARS = 5000
"""Characters that all texts of a tree share, so that long runs do not make huge notebooks."""

MAX_ROOMS = 10
"""Maximum multiple of MAX_CHARS for a group, each of whose runs adds MAX_CHARS."""

LEAST, MOST = 50, 1000
"""Maximum length of one text in characters: in a long run, and in the shortest."""

ENOUGH = 100
"""Characters; a run is long if the share of each text is less."""

DRAFT, MAX_CALLS = 1000, 8
"""Characters that are shown at least of what a root thinks, or of a call that it writes; calls of
that reply, the latest ones."""

ANSWER = 20_000
"""Maximum length of the answer above the tree in characters."""

MAX_LISTED, TITLE, ADDRESS = 10, 100, 200
"""Pages of one list, the others are counted; characters of a title, and of an address that is
written out: of a longer one, the host is."""

NOT_NOTED = frozenset({"task_id", "depth", "token_estimate", "duration_ms"})
"""Metadata that the tree shows elsewhere, or that differs between equal runs."""

THOUGHT, THINKS = "thought", "thinks"
"""Labels of what a model thought or thinks: folded, and not in the text twin."""

MINOR = frozenset({"said", "arguments", "result", THOUGHT})
"""Labels of texts that a long run only points to, and that its text twin omits."""

FIRST = ("answered", "error", "result")
"""Labels of the texts that are kept whole before others."""

CUT_SHORT = {"not run": "not run", "cancelled": "interrupted while it ran"}
"""State of a call without a result → its words."""

TROUBLES: Mapping[State, str] = {
    "denied": "denied", "error": "failed", "cancelled": "interrupted", "not run": "not run",
}  # fmt: skip
"""States of calls that are counted in the head → their words there."""

ORDER: tuple[Tone, ...] = ("good", "bad", "limit", "off", "running")
"""Order of the parts of the bar below the head."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of the line that sums up a run."""

    text: str
    marks: tuple[tuple[str, Tone], ...] = ()
    """Parts of it that need a look, each with the tone of its colour; in brackets."""

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
    span: Span
    is_open: bool
    """Failures open by themselves, and so does the way to a failed or denied call; what was merely
    stopped does not."""
    facts: tuple[Fact, ...] = ()
    """The parts of `asked`, for the row of a root."""

    @property
    def look(self) -> Look:
        return LOOKS[self.state]


@dataclass(frozen=True, slots=True)
class Block:
    """A text under a row: input or output."""

    label: str
    text: str
    more: int = 0
    """Characters that are left out."""
    pointer: str = ""
    """The Python expression for the whole text."""
    pictures: tuple[Picture, ...] = ()
    """Drawn below the text."""
    whole: str = ""
    """The whole text if some of it is left out; empty if nothing is, or if it is not available."""
    links: tuple[Page, ...] = ()
    """Pages that are drawn as links, where there are links, instead of the text that lists them."""

    @property
    def is_line(self) -> bool:
        """True if it fits beside its label."""
        return "\n" not in self.text and len(self.text) <= WIDE

    @property
    def rest(self) -> str:
        """The number of characters left out and their pointer; empty if there are none."""
        if not self.more:
            return ""
        where = f": {self.pointer}" if self.pointer else ""
        noun = "more character" if self.text else "character"
        return plural(self.more, noun) + where


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with all that it opens into, in reading order."""

    row: Row
    before: tuple[Block, ...]
    rows: tuple[Entry, ...]
    after: tuple[Block, ...]
    left_out: int = 0
    """Rows below this one that are not drawn."""
    place: str = ""
    """The place of a turn, for forks: `0.2/1`; empty if it is not one, or the run is long."""


@dataclass
class Outline:
    """A tree of runs as rows and texts."""

    root: Node
    name: str = ""
    """The Python expression for the root's RunResult; empty = texts are cut without a pointer."""
    max_chars: int = 0
    """Characters of one text; 0 = a share of MAX_CHARS."""
    max_rows: int = MAX_ROWS
    """Rows in all; others are counted, not drawn."""
    is_long: bool = field(init=False)
    """True if there is no room to quote arguments and results of successful calls."""
    steps: int = field(init=False)
    """Length of the structural timeline."""

    def __post_init__(self) -> None:
        self.steps = lay_out(self.root)
        self.is_long = False
        if not self.max_chars:
            runs = [self.root, *self.root.below()]
            turns = [turn for run in runs for turn in run.turns]
            texts = 2 * len(runs) + sum(
                1 + len(t.calls) + len(t.server_calls) + bool(t.reasoning) for t in turns
            )
            rooms = min(len(self.root.turns[0].calls), MAX_ROOMS) if self.root.is_group else 1
            share = min(MOST, rooms * MAX_CHARS // texts)
            self.is_long = share < ENOUGH
            self.max_chars = LEAST if self.is_long else share

    def answer(self) -> Block:
        """The answer above the tree."""
        whole, room = self.root.text, max(ANSWER, self.max_chars)
        is_data = self.root.result is not None and self.root.result.data is not None
        if is_data and len(whole) <= room:
            whole = indent_json(whole)
        text, more = clean(whole[:room]), len(whole) - room
        label = "data" if is_data else "answer"
        return Block(label, text.strip("\n"), max(more, 0), f"{self.name}.text")

    def sources(self) -> Block:
        """The pages that the answer cites."""
        turns = () if self.root.is_group or not self.root.result else self.root.turns[-1:]
        return _list_pages("Sources", turns[0].sources if turns else ())

    def warnings(self, node: Node) -> list[Block]:
        """The run's warnings; a root's stay outside the fold, so that they are seen (D-31)."""
        all_of_them = node.result.warnings if node.result else ()
        path = f"{node.path}.warnings"
        shown = [self._make_block("warning", w, f"{path}[{i}]") for i, w in enumerate(all_of_them)]
        left = len(shown) - MAX_WARNINGS
        if left <= 0:
            return shown
        rest = f"{plural(left, 'more warning')}: {self.name}{path}"
        return [*shown[:MAX_WARNINGS], Block("warning", rest)]

    @cached_property
    def tree(self) -> Entry:
        """The rows, with all that they open into, up to `max_rows` in all."""
        self._rows = 0
        return self._make_entry(self.root)

    def _make_entry(self, thing: TreeNode) -> Entry:
        self._rows += 1
        before, after = self.blocks(thing)
        rows: list[Entry] = []
        below = nodes_below(thing)
        for child in below:
            if self._rows >= self.max_rows:
                break
            rows.append(self._make_entry(child))
        place = self._find_place(thing)
        return Entry(make_row(thing), before, tuple(rows), after, len(below) - len(rows), place)

    def _find_place(self, thing: TreeNode) -> str:
        """The place of a turn, or of a sub-agent's only turn, which has no row of its own."""
        if isinstance(thing, CallNode):
            thing = thing.child.turns[0] if thing.child and len(thing.child.turns) == 1 else thing
        if not isinstance(thing, TurnNode) or self.is_long or self.root.is_group:
            return ""
        return f"{thing.run.id}/{thing.number}"

    def blocks(self, thing: TreeNode) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """The texts before and after the rows that a row opens into."""
        if isinstance(thing, Node):
            before, after = self._collect_run(thing, None)
        elif isinstance(thing, TurnNode):
            before, after = self._collect_turn(thing)
        elif thing.child:
            before, after = self._collect_run(thing.child, thing)
        else:
            before, after = self._collect_call(thing, asked_of(thing))
        first, last = (tuple(b for b in some if b.text or b.more) for some in (before, after))
        return first, last

    def _collect_run(self, node: Node, call: CallNode | None) -> tuple[list[Block], list[Block]]:
        result = node.result
        told = self._make_block("was told", node.prompt, f"{node.path}.prompt")
        before = [
            self._illustrate(told, node.pictures) if node.depth else self._show(node.pictures)
        ]
        if result is None:
            turn = node.turns[-1] if node.turns else None
            return before, self._collect_draft(turn) if turn and turn.is_hidden else []
        hidden = (turn for turn in node.turns if turn.is_hidden)
        before += [self._make_block(THOUGHT, t.reasoning, t.reasoning_path) for t in hidden]
        before += self.warnings(node) if node.depth else []
        answered = call.result.content if call and call.result else node.text
        after = self._collect_answers(node, call, answered) if node.depth else []
        if node.depth and node.turns and not self.is_long:
            after.append(_list_pages("sources", node.turns[-1].sources))
        if result.error and (not node.depth or result.error not in answered):
            # that of the root is what a reader looks for first
            (after if node.depth else before).append(
                self._make_block("error", result.error, f"{node.path}.error")
            )
        if node.is_root and result.cause and result.cause.hint:
            before.append(self._make_block("next", redact(result.cause.hint), f"{node.path}.cause"))
        after += [
            self._make_block(label, ", ".join(files), f"{node.path}.{key}")
            for label, key, files in (
                ("read", "files_read", result.files_read),
                ("changed", "files_modified", result.files_modified),
            )
        ]
        after.append(
            self._make_block("noted", format_metadata(node.metadata), f"{node.path}.metadata")
        )
        return before, after

    def _collect_answers(self, node: Node, call: CallNode | None, answered: str) -> list[Block]:
        """A child's output: the text its caller's model received, and its own if that says more."""
        own = self._make_block("text so far", node.text, f"{node.path}.text")
        if not (call and call.result):
            is_answer = node.state == "completed"
            return [replace(own, label="answered") if is_answer else own]
        path = f"{node.path}.text" if answered == node.text else f"{call.result_path}.content"
        heard = self._make_block("answered", answered, path)
        is_new = node.state != "completed" and node.text.strip() not in answered
        return [own, heard] if is_new else [heard]

    def _collect_turn(self, turn: TurnNode) -> tuple[list[Block], list[Block]]:
        """The turn's text, except for a last turn, which is its run's answer."""
        if turn.draft and turn.state == "running":
            return [], self._collect_draft(turn)
        said = self._make_block(
            "said", "" if turn.is_last else turn.text_so_far, f"{turn.path}.text"
        )
        question = "" if turn.asked == "output" else turn.question
        thought = self._make_block(THOUGHT, turn.reasoning, turn.reasoning_path)
        spoken = [self._make_block("asked", question, f"{turn.path}.question"), thought, said]
        if not turn.only_call:
            return spoken, []
        before, after = self._collect_call(turn.only_call, doing_of(turn))
        return [*spoken, *before], after

    def _collect_draft(self, turn: TurnNode) -> list[Block]:
        """The end of each part of a reply that is being written; a root's text is shown elsewhere.

        No expression points to the whole text yet.
        """
        draft = turn.draft
        if draft is None:
            return []
        parts = [(THINKS, draft.reasoning), *([("writes", draft.text)] if turn.run.depth else [])]
        for call in draft.calls[-MAX_CALLS:]:
            of = f" of {cut_line(call.tool, WHO)}" if call.tool and len(draft.calls) > 1 else ""
            parts.append((f"arguments{of}", call.arguments))
        size = self.max_chars if turn.run.depth else max(DRAFT, self.max_chars)
        return [Block(label, cut_end(text.show_end(size + 1), size)) for label, text in parts]

    def _collect_call(self, call: CallNode, asked: str) -> tuple[list[Block], list[Block]]:
        if call.served:
            given = format_arguments(call.call)
            is_told = len(call.call.arguments) <= 1 and "…" not in asked
            arguments = self._make_block("arguments", given, f"{call.path}.arguments")
            pages = () if self.is_long else call.served.sources
            return [] if is_told else [arguments], [_list_pages("found", pages)]
        written = format_arguments(call.call)
        shown = "" if asked.endswith(clean(written)) else written
        content = call.result.content if call.result else ""
        label = "error" if call.state in ("error", "denied") else "result"
        path = f"{call.result_path}.edited" if call.is_edited else f"{call.path}.arguments"
        result = self._make_block(label, content, f"{call.result_path}.content")
        pictures = call.result.pictures if call.result else ()
        return [self._make_block("arguments", shown, path)], [self._illustrate(result, pictures)]

    def _show(self, pictures: tuple[Picture, ...]) -> Block:
        """The pictures of a root's prompt, which is shown nowhere else in the tree."""
        text = "; ".join(picture.shown for picture in pictures[:MAX_PICTURES])
        if more := pictures[MAX_PICTURES:]:
            text += f"; {plural(len(more), 'more picture')}"
        return self._illustrate(Block("was shown", text), pictures)

    def _illustrate(self, block: Block, pictures: tuple[Picture, ...]) -> Block:
        """A text with its pictures; a long run does not draw them."""
        if not pictures or self.is_long:
            return block
        return replace(block, pictures=pictures[:MAX_PICTURES])

    def _make_block(self, label: str, text: str, path: str) -> Block:
        shown, more = cut_beginning(text, self.max_chars)
        if more and label in MINOR and self.is_long:
            shown, more = "", len(text)
        whole = clean(text).strip("\n") if more else ""
        return Block(label, shown, more, f"{self.name}{path}" if self.name else "", whole=whole)


def _list_pages(label: str, pages: tuple[Page, ...]) -> Block:
    return Block(label, format_lines(pages), links=pages)


def make_row(thing: TreeNode) -> Row:
    """The row of a run, a turn or a call; a call that is a child is that child's."""
    if isinstance(thing, CallNode) and thing.child:
        thing = thing.child
    if isinstance(thing, Node):
        return _make_run_row(thing)
    if isinstance(thing, TurnNode):
        return _make_turn_row(thing)
    state: State = "asks" if thing.asks else thing.state
    who, asked, cost = who_of(thing), asked_of(thing), cost_of_call(thing)
    return Row("call", state, who, asked, cost, thing.span, _needs_look(thing.state))


def _make_run_row(node: Node) -> Row:
    state, needs_look = node.state, _needs_look(node.state) or has_trouble(node)
    who = name_node(node)
    if node.is_group:
        states = states_of(node)
        failed = (state for state in states if state not in ("completed", "running"))
        state = "running" if "running" in states else next(failed, "completed")
        who, needs_look = plural(len(states), "run"), True
    elif node.depth:
        state = "asks" if find_question(node) else state
        return Row("run", state, who, finding_of(node), cost_of_run(node), node.span, needs_look)
    facts = tuple(facts_of(node))
    asked = " · ".join(map(str, facts))
    return Row("run", state, who, asked, "", node.span, needs_look, facts)


def _needs_look(state: State) -> bool:
    return state not in ("completed", "running", "cancelled", "not run")


def _make_turn_row(turn: TurnNode) -> Row:
    states = [call.child.state if call.child else call.state for call in turn.calls]
    children = (child for call in turn.calls for child in call.children)
    needs_look = any(map(_needs_look, states)) or any(map(has_trouble, children))
    state = turn.only_call.state if turn.only_call else turn.state
    state = "error" if is_misfit(turn) else "asks" if find_question(turn) else state
    doing = doing_of(turn)
    return Row("turn", state, name_of(turn), doing, cost_of_turn(turn), turn.span, needs_look)


def cost_of_call(call: CallNode) -> str:
    """The outcome of a call: the size of its result, or its failure."""
    if call.served:
        return "by the server"
    if call.result is None:
        return CUT_SHORT.get(call.state, call.waits)
    result, note = call.result, cut_line(call.result.note)
    if result.is_denied and note.startswith("denied"):
        return note
    outcome = _measure(result.content)
    if result.is_error:
        outcome = "denied" if result.is_denied else "" if result.is_skipped else "failed"
    elif result.pictures:
        outcome = plural(len(result.pictures), "picture")
    return " · ".join(filter(None, (outcome, note)))


def _measure(text: str) -> str:
    lines = text.strip("\n").count("\n") + 1
    if not text.strip():
        return "empty"
    return plural(lines, "line") if lines > 1 else plural(len(text), "character")


def cost_of_turn(turn: TurnNode) -> str:
    """The tokens of a turn, its source, and of its only call the failure or the note."""
    call, outcome = turn.only_call, ""
    if call and (call.state in ("error", "denied", *CUT_SHORT) or call.waits):
        outcome = cost_of_call(call)
    elif call and call.result:
        outcome = cut_line(call.result.note)
    facts = (outcome, _mark_fork(turn), turn.source, format_tokens(turn.usage))
    return " · ".join(filter(None, facts))


def _mark_fork(turn: TurnNode) -> str:
    """A mark for the turn at which a fork begins."""
    root = turn.run
    while not root.is_root and root.parent:
        root = root.parent
    return "forked here" if root.origin and root.origin == turn.key else ""


def cost_of_run(node: Node) -> str:
    """The ending of a run, unless it completed, its source, with its turns and tokens."""
    ending = "" if node.state in ("completed", "running") else node.state
    fork = _mark_fork(node.turns[0]) if node.turns and node.turns[0].is_hidden else ""
    turns = plural(len(node.turns), "turn") if node.turns else ""
    facts = (ending, fork, node.source, turns, format_tokens(node.total))
    return " · ".join(filter(None, facts))


def finding_of(node: Node) -> str:
    """The work of a sub-agent, or what came of it: its answer's first line, or the cause.

    One that was stopped has its task.
    """
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


def question_of(thing: TreeNode) -> PersonAsked | None:
    """The question to the person that a row opens into: that of the call or turn that it shows."""
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
    """The latest words, the wait, or the calls of a run; until there are any, its task."""
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
    """The arguments that say most, in a few words: the first two texts, else numbers."""
    plain = [value for value in arguments.values() if isinstance(value, str | int | float)]
    texts = [value for value in plain if isinstance(value, str)]
    words = []
    for value in (texts or plain)[:2]:
        is_word = isinstance(value, str) and value and not any(map(str.isspace, value[:GIVEN]))
        words.append(str(value) if is_word else json.dumps(value, ensure_ascii=False))
    return " ".join(cut_line(word, GIVEN) for word in words)


def asked_of(call: CallNode) -> str:
    """The request of a call, in one line; of one that failed, in short and with the cause.

    That is its task if it delegates, else its arguments, marked if they are not the model's.
    """
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


def name_of(thing: TreeNode) -> str:
    """The name in any row."""
    if isinstance(thing, TurnNode):
        return f"turn {thing.number}"
    return who_of(thing) if isinstance(thing, CallNode) else name_node(thing)


def who_of(call: CallNode) -> str:
    """The name of the callee: the sub-agent if there is one, else the tool."""
    if call.child:
        return name_node(call.child)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if call.call.traits.delegates and isinstance(value, str) and value.strip():
            return cut_line(value, WHO)
    return cut_line(call.call.name, WHO)


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
    return start + last_words(text.show_end(size + 1), size)


def _format_drafting(draft: Draft | None) -> str:
    """The part of a reply that is being written; its words are shown elsewhere."""
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
    """The parts of the line that sums up a run with all that is below it, none of them empty."""
    if node.is_group:
        counts = Counter(sorted(states_of(node)))
        states = ", ".join(f"{n} {state}" for state, n in counts.items())
        facts = [Fact(states), Fact(format_tokens(node.total))]
    else:
        facts = [*map(Fact, _list_progress(node)), *_count_parts(node)]
    return [fact for fact in facts if str(fact)]


def states_of(node: Node) -> list[State]:
    """The states of the sub-agents of a run, or of the runs of a cell, in call order."""
    calls = (call for turn in node.turns for call in turn.calls)
    if node.is_group:
        return [call.child.state if call.child else call.state for call in calls]
    return [child.state for call in calls for child in call.children]


def progress_of(node: Node) -> list[tuple[Tone, int]]:
    """Number of sub-agents in each tone of state: done, failed, running."""
    counts = Counter(LOOKS[child.state].tone for child in node.below())
    return [(tone, counts[tone]) for tone in ORDER if counts[tone]]


def _list_progress(node: Node) -> Iterator[str]:
    """The model and the state; while it runs, how far it has come."""
    is_over = node.state != "running"
    # without an agent, the model is the name that stands before
    yield cut_line(node.model, 2 * WHO) if node.agent else ""
    yield node.state if is_over else _find_waiting(node)
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
    """The parts of its tree, and how many of them need a look."""
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


def _find_waiting(node: Node) -> str:
    """The run that waits for the person, in the whole tree."""
    if find_wait(node) == WAITS:
        return WAITS
    waiting = next((run for run in node.below() if find_wait(run) == WAITS), None)
    return f"{name_node(waiting)} {WAITS}" if waiting else ""


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
    """The price; `≥ $0.012` if that of some tokens is unknown, empty if that of all is."""
    if not usage.priced_tokens:
        return ""
    is_whole = usage.priced_tokens == usage.total
    return f"{'' if is_whole else '≥ '}{format_dollars(usage.dollars)}"


def format_lines(pages: Sequence[Page]) -> str:
    """A numbered list of pages as text; titles and addresses come from the web."""
    lines = []
    for number, page in enumerate(pages[:MAX_LISTED], 1):
        address = page.url if len(page.url) <= ADDRESS else f"{find_host(page)}/…"
        title = one_line(page.title, TITLE)
        lines.append(f"{number}. {' — '.join(filter(None, (title, address)))}")
    return "\n".join(filter(None, (*lines, count_more(pages))))


def count_more(pages: Sequence[Page]) -> str:
    """The number of pages that are not listed, in words; empty if all are."""
    left = len(pages) - MAX_LISTED
    return f"… {left:,} more" if left > 0 else ""


def find_host(page: Page) -> str:
    return urlsplit(page.url).hostname or ""


def indent_json(text: str) -> str:
    """JSON text with an indentation that people read; what is not JSON stays as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def cut_line(text: str, size: int = LINE) -> str:
    """The beginning of a text in one line."""
    return one_line(text[: 8 * size], size)


def cut_beginning(text: str, max_chars: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters of it are left out.

    Args:
        max_chars: characters; a text that is hardly longer is shown whole.
    """
    text = text.strip("\n")
    end = len(text) if len(text) <= max(max_chars * 5 // 4, max_chars + POINTER) else max_chars
    lines = text[: end + 1].split("\n", LINES)
    if len(lines) > LINES:
        end = min(end, sum(map(len, lines[:LINES])) + LINES - 1)
    return clean(text[:end]), len(text) - end


def cut_end(text: str, max_chars: int) -> str:
    """The end of a text that is still being written.

    Args:
        text: output of a model; of a long one, its end is enough.
        max_chars: characters; what is left out is marked.
    """
    if len(text) <= max_chars:
        return clean(text).strip("\n")
    end = text[-max_chars:]
    words = re.split(r"\s", end, maxsplit=1)  # not from the middle of a word, unless it is huge
    return "… " + clean(words[-1] if len(words[-1]) > max_chars // 2 else end).strip("\n")


def last_words(text: str, size: int) -> str:
    """The end of a text that is still being written, in one line."""
    return one_line(cut_end(text, max(size - 2, 0)), max(size, 0))


def format_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them (D-11)."""
    return call.raw or json.dumps(call.arguments, ensure_ascii=False)


def format_metadata(metadata: Mapping[str, str]) -> str:
    """A child's metadata in one line, without entries that the tree shows or that vary by run."""
    return " · ".join(f"{key} {value}" for key, value in metadata.items() if key not in NOT_NOTED)
