"""Lays out a run's tree as rows with texts, or as plain text. Source: D-6, D-11, D-34."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from axe_nb.messages import Page
from axe_nb.pictures.picture import Picture
from axe_nb.results import NEXT_STEPS, RunResult, is_place
from axe_nb.secrets import redact
from axe_nb.text import clean, list_some, one_line, plural
from axe_nb.views.rows import (
    LINE,
    WHO,
    Row,
    asked_of,
    count_names,
    cut_beginning,
    cut_end,
    cut_line,
    finding_of,
    format_arguments,
    indent_json,
    join_facts,
    make_row,
    said_of,
    tell_arguments,
    tell_error,
)
from axe_nb.views.transcript import (
    CallNode,
    Node,
    Transcript,
    TreeNode,
    TurnNode,
    nodes_below,
    read_end,
)

MAX_ROWS = 250
"""Maximum number of rows in a saved tree, at about 1 kB each; further rows are only counted."""

MAX_WARNINGS, MAX_PICTURES = 5, 8
"""Maximum number of warnings shown per run, and of pictures per prompt or result."""

MAX_CHARS = 8000
"""Approximate maximum total length of a tree's texts, in characters, when all of them are cut."""

MAX_OPEN = 12
"""Maximum number of rows shown unfolded directly below a row, if any is a sub-agent's (D-80)."""

SHORT = 40
"""Number of characters of a row's text that are visible even in a narrow window."""

ANSWER = 20_000
"""Maximum length of the answer above the tree, in characters, unless a saved tree has less room."""

MAX_LISTED, TITLE = 10, 100
"""Maximum number of web pages in a list, and maximum length of a page title."""

THOUGHT, THINKS = "thought", "thinks"
"""Labels of finished and unfinished reasoning, which HTML folds."""

MINOR = frozenset({"said", "arguments", "result", THOUGHT, "fork", "see also"})
"""Labels of minor texts. In a long run, plain text omits them, and HTML shows only short ones."""

UNSAID = frozenset({THOUGHT, "fork", "see also"})
"""Labels of texts that plain text omits, except in an export."""

FIRST = ("answer", "text so far", "error", "result")
"""Labels of texts with priority when HTML chooses texts to show whole, most important first."""


@dataclass(frozen=True, slots=True)
class Block:
    """A labelled text below a row, such as the arguments or the result of a call."""

    label: str
    text: str
    more: int = 0
    """Number of characters that were cut."""
    pointer: str = ""
    """Python expression for the whole text, shown if the text was cut."""
    pictures: tuple[Picture, ...] = ()
    whole: str = ""
    """The whole text, which HTML shows if there is room; empty if nothing was cut."""
    links: tuple[Page, ...] = ()
    """Web pages, shown in HTML as links in place of the text."""
    in_row: bool = False
    """True if the row above already shows the whole text, unless the window is too narrow."""

    @property
    def is_line(self) -> bool:
        return "\n" not in self.text and len(self.text) <= 120

    @property
    def rest(self) -> str:
        if not self.more:
            return ""
        where = f": {self.pointer}" if self.pointer else ""
        noun = "more character" if self.text else "character"
        return plural(self.more, noun) + where


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with the texts and rows below it, in reading order."""

    row: Row
    before: tuple[Block, ...]
    rows: tuple[Entry, ...]
    after: tuple[Block, ...]
    left_out: int = 0
    """Number of rows directly below this row that are not drawn."""


@dataclass
class Outline:
    """A run tree, laid out as rows and texts."""

    root: Node
    name: str = ""
    """Python expression for the root's RunResult; if empty, cut texts do not name the rest."""
    max_chars: int = 0
    """Approximate maximum length of a text, in characters; 0 becomes a share of MAX_CHARS."""
    max_rows: int = MAX_ROWS
    """Maximum number of rows; further rows are only counted."""
    max_answer: int = ANSWER
    """Maximum length of the answer, in characters."""
    max_line: int = LINE
    """Maximum length of a row's text in HTML, in characters, except of a failure."""
    is_long: bool = field(init=False)
    """True if the tree has so many texts that the share of each is below 100 characters."""
    count: int = field(init=False, default=0)
    """Number of rows in the tree when it was last laid out."""

    def __post_init__(self) -> None:
        self.is_long = False
        if not self.max_chars:
            runs = [self.root, *self.root.below()]
            turns = [turn for run in runs for turn in run.turns]
            texts = 2 * len(runs) + sum(
                1 + len(t.calls) + len(t.server_calls) + bool(t.reasoning) for t in turns
            )
            share = min(1000, MAX_CHARS // texts)
            self.is_long = share < 100
            self.max_chars = max(share, SHORT)

    def answer(self) -> Block:
        whole, room = self.root.text, max(self.max_answer, self.max_chars)
        is_data = self.root.result is not None and self.root.result.data is not None
        if is_data and len(whole) <= room:
            whole = indent_json(whole)
        text, more = clean(whole[:room]), len(whole) - room
        label = "data" if is_data else "answer"
        return Block(label, text.strip("\n"), max(more, 0), f"{self.name}.text")

    def sources(self) -> Block:
        turns = self.root.turns[-1:] if self.root.result else ()
        return _list_pages("Sources", turns[0].sources if turns else ())

    def warnings(self, node: Node) -> list[Block]:
        """Returns a run's warnings. HTML shows a root run's warnings below the tree, unfolded."""
        texts = node.result.warnings if node.result else ()
        shown = [
            self._make_block("warning", text, node, f"warnings[{n}]")
            for n, text in enumerate(texts)
        ]
        left = len(shown) - MAX_WARNINGS
        if left <= 0:
            return shown
        rest = f"{plural(left, 'more warning')}: {self.name}{node.find_path('warnings')}"
        return [*shown[:MAX_WARNINGS], Block("warning", rest)]

    @property
    def tree(self) -> Entry:
        self.count = 0
        return self._make_entry(self.root)

    def _make_entry(self, thing: TreeNode) -> Entry:
        self.count += 1
        row, (before, after) = self.make_row(thing), self.blocks(thing)
        if not row.is_failed and thing is not self.root:
            row = replace(row, asked=one_line(row.asked, max(self.max_line, 160)))
        rows, below = list[Entry](), nodes_below(thing)
        room = self.max_rows - self.count
        if len(below) > room:
            some = [(make_row(one), one) for one in below]
            first = {f: one for row, one in reversed(some) if (f := _find_failure(row))}
            some.sort(key=lambda pair: not pair[0].is_open)
            # equal failures come last, as the row of their first one counts them
            some.sort(key=lambda pair: first.get(_find_failure(pair[0]), pair[1]) is not pair[1])
            below = [one for _, one in some]
        for child in below:
            if self.count >= self.max_rows:
                break
            rows.append(self._make_entry(child))
        folded, left_out = _fold(rows, [make_row(child) for child in below[len(rows) :]])
        return Entry(row, before, folded, after, left_out)

    def make_row(self, thing: TreeNode) -> Row:
        """Makes a node's row. A failed sub-agent's row says how to retry it."""
        row = make_row(thing)
        node = thing.child if isinstance(thing, CallNode) else thing
        if row.kind != "run" or not row.is_failed or not isinstance(node, Node) or not node.call:
            return row
        place = f"{node.call.turn.run.id}/{node.call.turn.number}"
        if node.result and node.result.exchanges:
            place = f"{node.id}/{node.result.exchanges[-1].turn}"
        return replace(row, retry=self.name_place(place))

    def name_place(self, place: str) -> str:
        """Returns the cell, or without magics the call, that forks a run at a place; or ""."""
        forms = {"(result)": 'result.fork("{}")', "axe_nb.last()": "%%axe --from {}"}
        named = f"%%axe --from {self.name}@{{}}" * self.name.isidentifier()
        return forms.get(self.name, named).format(place) * is_place(place)

    def blocks(self, thing: TreeNode) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """Returns the texts to show above and below the rows nested in a row."""
        node = thing.child if isinstance(thing, CallNode) else thing
        call = thing if isinstance(thing, CallNode) else None
        if isinstance(node, Node):
            shown = (one for one in node.turns[-1:] if one.is_hidden and not one.calls)
            found, turn = self._collect_run(node, call), next(shown, None)
        elif isinstance(node, TurnNode):
            found, turn = self._collect_turn(node), node
        else:
            assert call
            found, turn = self._collect_call(call), call.turn
            turn = turn if turn.is_hidden and call is [*turn.server_calls, *turn.calls][0] else None
        is_root = node is self.root and any(True for _ in node.below())
        if is_root and (name := self.name).isidentifier() and self.root.result:
            commands = (
                f'%axe time {name} · %axe replay {name} · axe_nb.export({name}, "{name}.html")'
            )
            found[1].append(Block("see also", commands))
        has_room = not self.is_long and not is_root and self.name.isidentifier()
        if turn and has_room and not self.make_row(thing).is_failed:
            found[1].append(Block("fork", self.name_place(f"{turn.run.id}/{turn.number}")))
        before, after = (tuple(b for b in some if b.text or b.more) for some in found)
        return before, after

    def _collect_run(self, node: Node, call: CallNode | None) -> tuple[list[Block], list[Block]]:
        result = node.result
        if node.depth:
            told = self._make_block("task", node.prompt.removeprefix("Task: "), node, "prompt")
        else:  # the pictures of a root's prompt are shown nowhere else in the tree
            names = [picture.shown for picture in node.pictures[:MAX_PICTURES]]
            left = len(node.pictures) - MAX_PICTURES
            names += [plural(left, "more picture")] if left > 0 else []
            told = Block("was shown", "; ".join(names))
        before, after = [self._illustrate(told, node.pictures)], list[Block]()
        if result is None:
            turn = node.turns[-1] if node.turns else None
            return before, self._collect_draft(turn) if turn and turn.is_hidden else []
        hidden = [turn for turn in node.turns if turn.is_hidden][: self.max_rows]
        before += [self._make_block(THOUGHT, t.reasoning, t, "reasoning") for t in hidden]
        answered = call.result.content if call and call.result else node.text
        if node.depth:
            before += self.warnings(node)
            after += self._collect_answers(node, call, answered)
            if node.turns and not self.is_long:
                after.append(_list_pages("sources", node.turns[-1].sources))
        error = self._make_block("error", tell_error(node), node, "error")
        if not node.depth:  # what a reader looks for first
            hint = result.cause.hint if result.cause else NEXT_STEPS.get(result.status, "")
            before += [error, self._make_block("next", redact(hint), node, "cause")]
        elif (error.more or "\n" in error.text) and (result.error or "") not in answered:
            after.append(error)
        noted = (  # other keys are shown elsewhere in the tree, or differ between equal runs
            f"{key} {value}"
            for key, value in result.metadata.items()
            if key not in ("task_id", "depth", "token_estimate", "duration_ms")
        )
        after += [
            self._make_block(label, text, node, key)
            for label, key, text in (
                ("read", "files_read", ", ".join(result.files_read)),
                ("changed", "files_modified", ", ".join(result.files_modified)),
                ("noted", "metadata", " · ".join(noted)),
            )
        ]
        return before, after

    def _collect_answers(self, node: Node, call: CallNode | None, answered: str) -> list[Block]:
        """Returns a sub-agent's answer as the caller's model received it.

        If the sub-agent did not complete, returns its text so far and the error that the caller's
        model received. Either is left out if it repeats a text that is shown.
        """
        own = self._make_block("text so far", node.text, node, "text")
        if node.state == "completed":
            where = (node, "text") if answered == node.text else (call or node, "content")
            answer = self._make_block("answer", answered, *where)
            line = " ".join(answered.split())
            is_said = len(line) <= max(self.max_line, 160) and finding_of(node).startswith(line)
            return [replace(answer, in_row=is_said)]
        is_new = node.text.strip() not in answered
        if not call or not call.result or (node.result and (node.result.error or " ") in answered):
            return [own]
        heard = self._make_block("error", answered, call, "content")
        return [own, heard] if is_new else [heard]

    def _collect_turn(self, turn: TurnNode) -> tuple[list[Block], list[Block]]:
        """Returns a turn's texts, except the text of a run's last turn, which is the answer."""
        if turn.draft and turn.state == "running":
            return [], self._collect_draft(turn)
        question = "" if turn.asked == "output" else turn.question
        text = "" if turn.is_last else turn.text_so_far
        return [
            self._make_block("asked", question, turn, "question"),
            self._make_block(THOUGHT, turn.reasoning, turn, "reasoning"),
            replace(self._make_block("said", text, turn, "text"), in_row=said_of(turn) == text),
        ], []

    def _collect_draft(self, turn: TurnNode) -> list[Block]:
        """Returns the last characters of an unfinished reply's reasoning, text and arguments.

        The root run's text is left out, because it is shown above the tree.
        """
        draft = turn.draft
        if draft is None:
            return []
        parts = [(THINKS, draft.reasoning), *([("writes", draft.text)] if turn.run.depth else [])]
        for number, arguments in [*draft.calls.items()][-8:]:
            tool = cut_line(draft.tools[number], WHO) if len(draft.calls) > 1 else ""
            parts.append((f"arguments of {tool}" if tool else "arguments", arguments))
        size = self.max_chars if turn.run.depth else max(1000, self.max_chars)
        return [Block(label, cut_end(read_end(text, size + 1), size)) for label, text in parts]

    def _collect_call(self, call: CallNode) -> tuple[list[Block], list[Block]]:
        is_told = tell_arguments(call.call.arguments)[1] and not call.call.raw
        is_told = bool(call.asks) or (is_told and not call.call.traits.delegates)
        given = "" if is_told else format_arguments(call.call)
        key = "edited" if call.is_edited else "arguments"
        arguments = self._make_block("arguments", given, call, key)
        if call.served:
            pages = () if self.is_long else call.served.sources
            return [arguments], [_list_pages("found", pages)]
        content = call.result.content if call.result else ""
        label = "error" if call.state in ("error", "denied") else "result"
        result = self._make_block(label, content, call, "content")
        is_said = label == "error" and asked_of(call).endswith(content.strip())
        pictures = call.result.pictures if call.result else ()
        return [arguments], [self._illustrate(replace(result, in_row=is_said), pictures)]

    def _illustrate(self, block: Block, pictures: tuple[Picture, ...]) -> Block:
        return block if self.is_long else replace(block, pictures=pictures[:MAX_PICTURES])

    def _make_block(self, label: str, text: str, thing: TreeNode, key: str) -> Block:
        shown, more = cut_beginning(text, self.max_chars)
        if more and label in MINOR and self.is_long:
            shown, more = "", len(text)
        whole = clean(text).strip("\n") if more else ""
        pointer = self.name and more and f"{self.name}{thing.find_path(key)}"
        return Block(label, shown, more, pointer or "", whole=whole)


def _find_failure(row: Row) -> tuple[str, ...]:
    """Returns the state, tool and cause of a failed call or sub-agent; empty for other rows."""
    if not row.is_failed or row.kind not in ("run", "call"):
        return ()
    if row.kind == "run":
        return row.state, "", row.asked.partition(" · retried ")[0]
    return row.state, row.who, row.asked.rpartition(" → ")[2]


def _fold(entries: Sequence[Entry], others: Sequence[Row]) -> tuple[tuple[Entry, ...], int]:
    """Groups rows that failed with the same cause; if there are many rows, folds the least urgent.

    `others` are rows that are not drawn; also returns how many of them no returned row counts.
    """
    shown, drawn = list[Entry](), dict[tuple[str, ...], list[Entry]]()
    alike = defaultdict[tuple[str, ...], list[Row]](list)
    for entry in entries:
        drawn.setdefault(_find_failure(entry.row), []).append(entry)
    for row in (*(entry.row for entry in entries), *others):
        alike[_find_failure(row)].append(row)
    for entry in entries:
        failure = _find_failure(entry.row)
        rows, same = drawn[failure], alike[failure]
        if len(same) < 2 or not failure:
            shown.append(entry)
        elif rows[0] is entry:
            _, tool, cause = failure
            who = f"{len(same):,} {count_names({row.who for row in same})}"
            who = f"{tool} ×{len(same):,}" if tool else who
            told = join_facts(cause, _list_names(same))
            group = Row("group", entry.row.state, who, told, "", False)
            shown.append(Entry(group, (), tuple(rows), (), len(same) - len(rows)))
    others = [row for row in others if (_find_failure(row) or None) not in drawn]
    if len(shown) <= MAX_OPEN or all(entry.row.kind in ("call", "turn") for entry in entries):
        return tuple(shown), len(others)
    shown.sort(key=lambda one: (not one.row.is_failed, not one.row.is_open, one.row.kind != "run"))
    first, rest = shown[:MAX_OPEN], shown[MAX_OPEN:]
    hidden = list[Row]()
    for one in rest:
        is_group = one.row.kind == "group"
        hidden += alike[_find_failure(one.rows[0].row)] if is_group else [one.row]
    signs = Counter(row.look.sign for row in (*hidden, *others))
    told = ", ".join(f"{n:,} {sign}" for sign, n in signs.items())
    told = f"all {next(iter(signs))}" if len(signs) == 1 else told
    told = ": ".join(filter(None, (told, _list_names((*hidden, *others)))))
    row = Row("rest", "completed", f"… {signs.total():,} more", told, "", False)
    return (*first, Entry(row, (), tuple(rest), (), len(others))), 0


def _list_names(rows: Sequence[Row]) -> str:
    """Lists the first names of folded rows; empty if all rows have the same name."""
    names = [*dict.fromkeys(row.who for row in rows)]
    return cut_line(list_some(names, 8)) if names[1:] else ""


def _list_pages(label: str, pages: tuple[Page, ...]) -> Block:
    return Block(label, format_lines(pages), links=pages)


def format_lines(pages: Sequence[Page]) -> str:
    """Formats up to 10 web pages as a numbered list. Long titles and addresses are shortened."""
    lines = []
    for number, page in enumerate(pages[:MAX_LISTED], 1):
        address = page.url if len(page.url) <= 200 else f"{find_host(page)}/…"
        title = one_line(page.title, TITLE)
        lines.append(f"{number}. {' — '.join(filter(None, (title, address)))}")
    return "\n".join(filter(None, (*lines, count_more(pages))))


def count_more(pages: Sequence[Page]) -> str:
    left = len(pages) - MAX_LISTED
    return f"… {left:,} more" if left > 0 else ""


def find_host(page: Page) -> str:
    return urlsplit(page.url).hostname or ""


def as_text(result: RunResult, *, name: str = "axe_nb.last()") -> str:
    """Formats a run as reproducible text: its answer, then its indented tree."""
    return "\n".join(as_lines(Outline(Transcript.of(result).whole, name)))


def as_lines(outline: Outline) -> Iterator[str]:
    answer = outline.answer()
    if answer.text:
        yield answer.text
        if answer.rest:
            yield f"… {answer.rest}"
        yield ""
    if (sources := outline.sources()).text:
        yield from _format_block(sources, "")
        yield ""
    yield from list_tree(outline, MINOR | {"task"} if outline.is_long else UNSAID)


def list_tree(outline: Outline, left_out: frozenset[str] = frozenset()) -> Iterator[str]:
    root = outline.tree
    yield f"{root.row.look.sign} {root.row.who} · {root.row.asked}"
    for warning in outline.warnings(outline.root):
        yield from _format_block(warning, "")
    yield from _format_inside(root, "  ", left_out)


def _format_inside(entry: Entry, indent: str, left_out: frozenset[str]) -> Iterator[str]:
    def tell(blocks: Sequence[Block]) -> Iterator[str]:
        for block in blocks:
            if block.label not in left_out and not block.in_row:
                yield from _format_block(block, indent)

    yield from tell(entry.before)
    for inner in entry.rows:
        row = inner.row
        if row.kind == "rest":
            yield f"{indent}{row.who}, {row.asked}"
        else:
            retry = f"retry {row.retry}" if row.retry else ""
            who = f"{row.who} {row.asked}".strip() if row.kind == "call" else row.who
            asked = "" if row.kind == "call" else row.asked
            yield f"{indent}{row.look.sign} {join_facts(who, asked, retry, row.cost)}"
        yield from _format_inside(inner, indent + "  ", left_out)
    if entry.left_out:
        yield f"{indent}… {plural(entry.left_out, 'more row')}"
    yield from tell(entry.after)


def _format_block(block: Block, indent: str) -> Iterator[str]:
    label = f"! {block.label}" if block.label == "warning" else block.label
    if block.is_line and not block.rest:
        yield f"{indent}{label}: {block.text}"
        return
    yield f"{indent}{label}:"
    for line in block.text.split("\n"):
        yield f"{indent}  {line}".rstrip()
    if block.rest:
        yield f"{indent}  … {block.rest}"
