"""The tree in rows and texts, the same words for every view. Pure.

Source: design README (rows, "was told", "answered"); product.md "Notebook"; D-6, D-34.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from axe_nb.pictures.picture import Picture
from axe_nb.redaction import redact
from axe_nb.server_calls import Page
from axe_nb.text import clean, plural
from axe_nb.views import excerpts
from axe_nb.views.draft import Draft, DraftCall, Growing
from axe_nb.views.middle import asked_of, doing_of
from axe_nb.views.row import Row, make_row
from axe_nb.views.sources import format_lines
from axe_nb.views.tree import CallNode, Node, TreeNode, TurnNode, lay_out, nodes_below

MAX_ROWS = 500
"""Maximum number of rows of a twin; others are counted, not drawn."""

MAX_WARNINGS = 5
"""Maximum number of warnings of one run; others are counted."""

MAX_PICTURES = 8
"""Maximum number of pictures of one prompt or result; others are counted."""

MAX_CHARS = 5000
"""Characters that all texts of a tree share, so that long runs do not make huge notebooks."""

MAX_ROOMS = 10
"""Maximum multiple of MAX_CHARS for a group, each of whose runs adds MAX_CHARS."""

LEAST, MOST = 50, 1000
"""Maximum length of one text in characters: in a long run, and in the shortest."""

DRAFT = 1000
"""Characters that are shown at least of what a root thinks, or of a call that it writes."""

MAX_CALLS = 8
"""Maximum number of calls that are shown while a reply is being written: the latest ones."""

ANSWER = 20_000
"""Maximum length of the answer above the tree in characters."""

ENOUGH = 100
"""Characters; a run is long if the share of each text is less."""

WIDE = 120
"""Maximum length of a text beside its label in characters."""


THOUGHT = "thought"
"""Label of what a model thought: folded, and not in the text twin."""

MINOR = frozenset({"said", "arguments", "result", THOUGHT})
"""Labels of texts that a long run only points to, and that its text twin omits."""


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
        self._rows = 0
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
            whole = excerpts.indent_json(whole)
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

    def entry(self, thing: TreeNode) -> Entry:
        """A row and everything below it, up to `max_rows` in all."""
        self._rows += 1
        before, after = self.blocks(thing)
        rows: list[Entry] = []
        below = nodes_below(thing)
        for child in below:
            if self._rows >= self.max_rows:
                break
            rows.append(self.entry(child))
        return Entry(
            make_row(thing), before, tuple(rows), after, len(below) - len(rows), self._place(thing)
        )

    def _place(self, thing: TreeNode) -> str:
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
        return tuple(filter(_has_text, before)), tuple(filter(_has_text, after))

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
            self._make_block(
                "noted", excerpts.format_metadata(node.metadata), f"{node.path}.metadata"
            )
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
        parts = [
            ("thinks", draft.reasoning),
            ("writes", draft.text if turn.run.depth else Growing()),
            *((_name_arguments(draft, call), call.arguments) for call in draft.calls[-MAX_CALLS:]),
        ]
        size = self.max_chars if turn.run.depth else max(DRAFT, self.max_chars)
        return [
            Block(label, excerpts.cut_end(text.show_end(size + 1), size)) for label, text in parts
        ]

    def _collect_call(self, call: CallNode, asked: str) -> tuple[list[Block], list[Block]]:
        if call.served:
            given = excerpts.format_arguments(call.call)
            is_told = len(call.call.arguments) <= 1 and "…" not in asked
            arguments = self._make_block("arguments", given, f"{call.path}.arguments")
            pages = () if self.is_long else call.served.sources
            return [] if is_told else [arguments], [_list_pages("found", pages)]
        written = excerpts.format_arguments(call.call)
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
        shown, more = excerpts.cut_beginning(text, self.max_chars)
        if more and label in MINOR and self.is_long:
            shown, more = "", len(text)
        whole = clean(text).strip("\n") if more else ""
        return Block(label, shown, more, f"{self.name}{path}" if self.name else "", whole=whole)


def _list_pages(label: str, pages: tuple[Page, ...]) -> Block:
    return Block(label, format_lines(pages), links=pages)


def _name_arguments(draft: Draft, call: DraftCall) -> str:
    name = excerpts.line(call.tool, excerpts.WHO)
    return f"arguments of {name}" if name and len(draft.calls) > 1 else "arguments"


def _has_text(block: Block) -> bool:
    return bool(block.text or block.more)
