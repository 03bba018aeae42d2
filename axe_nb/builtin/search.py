"""find_files and grep: files by name, lines by pattern; both within bounds of time and size.

Patterns come from a model, so they may be made to run for ever: `regex` matches with a time limit
and lets other threads go on meanwhile, which the `re` of the standard library does not.
Source: D-20; X-30, X-34, X-38.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from axe_nb.builtin.files import contents, decode_text, is_text, lines_of
from axe_nb.builtin.paths import Spot, hold_place, kind, missing, open_folder
from axe_nb.errors import ConfigError
from axe_nb.globs import matches, parse_glob
from axe_nb.text import cut_chars, printable, quote
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import ToolContext, ToolError

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 10.0
"""Time of one search."""

TOO_LONG = f"stopped after {MAX_SECONDS:.0f} s"

MAX_VISITED = 100_000
"""Files that one search looks at."""

MAX_FOUND = 500
"""Files that find_files names."""

MAX_MATCHES = 200
"""Matching lines that grep shows."""

MAX_CONTEXT = 20
"""Lines around a match that grep shows."""

MAX_LINE = 300
"""Characters of a line that grep shows."""

MAX_PATTERN = 1000
"""Characters of a pattern."""

GLANCE = 0.05
"""Seconds for the first look at a whole file."""

BLIND = re.compile(r"\(\?(!|<!|>)|\\[AZzG]|[+*?}]\+|\(\*")
"""Parts of an expression that may keep it from matching a text of which a line would match."""

MAX_DEPTH = 64
"""Folders within folders that are entered."""

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".ipynb_checkpoints"}
)
"""Folders that are not searched unless the path names them: nobody wrote what is in them."""


@dataclass
class Search:
    """One walk through the files below a folder, and what it had to leave out."""

    unread: int = 0
    """Files and folders that could not be read."""
    visited: int = 0
    ends: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    """On the monotonic clock, in seconds."""
    stopped: str = ""
    """Why the walk ended before all was seen; empty if it did not."""

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.ends - time.monotonic()

    def files(self, top: Spot) -> Generator[Spot, None, None]:
        """The file at a place, or every file below the folder there; no link is followed."""
        at = kind(top)
        if at is None:
            raise ToolError(missing(top))
        if not stat.S_ISDIR(at.st_mode):
            yield top
            return
        for spot in self._below(top, 0):
            self.visited += 1
            if self.visited > MAX_VISITED or self.left < 0:
                self.stopped = f"stopped after {MAX_VISITED} files" if self.left > 0 else TOO_LONG
                return
            yield spot

    def _below(self, top: Spot, depth: int) -> Generator[Spot, None, None]:
        try:
            with open_folder(top) as folder:
                with os.scandir(top.name if folder is None else folder) as found:
                    entries = [
                        (entry.name, entry.is_dir(follow_symlinks=False))
                        for entry in islice(found, MAX_VISITED)
                    ]
                for name, is_folder in sorted(entries):
                    if not is_folder:
                        yield top.child(name, folder)
                    elif name not in LEFT_OUT and depth < MAX_DEPTH:
                        yield from self._below(top.child(name, folder), depth + 1)
        except OSError:
            self.unread += 1

    def notes(self) -> list[str]:
        """What was left out, one line each."""
        unread = f"({self.unread} files or folders could not be read)" if self.unread else ""
        stopped = f"({self.stopped}; name a smaller folder to see the rest)" if self.stopped else ""
        return [note for note in (unread, stopped) if note]


def find_files(ctx: ToolContext, pattern: str, path: str = ".") -> str:
    """Find files by name. Returns their paths relative to the working directory, sorted.

    Args:
        pattern: a glob such as *.py (at any depth) or docs/**/*.md (relative to path)
        path: the folder to search, relative to the working directory
    """
    parts = _names(pattern)
    search = Search()
    with hold_place(ctx.workdir, path) as top, closing(search.files(top)) as files:
        named = (printable(spot.path) for spot in files if matches(_below(spot, top), parts))
        found = list(islice(named, MAX_FOUND + 1))
    if not found:
        return "\n".join([f"No files found for {pattern} in {path}", *search.notes()])
    if len(found) > MAX_FOUND:
        found[-1] = f"(only the first {MAX_FOUND}; make the pattern narrower)"
    return "\n".join([*found, *search.notes()])


def _names(pattern: str) -> tuple[str, ...]:
    """A glob name by name."""
    try:
        return parse_glob(pattern)
    except ConfigError as error:
        raise ToolError(f"{error}. Write something like *.py or docs/**/*.md") from None


def _below(spot: Spot, top: Spot) -> Sequence[str]:
    """The names from a folder down to a file in it; of a file that is the top itself, its own."""
    names = spot.path.split("/")
    skipped = 0 if top.path == "." else len(top.path.split("/"))
    return names[skipped:] or names[-1:]


def grep(ctx: ToolContext, pattern: str, path: str = ".", glob: str = "", context: int = 0) -> str:
    """Search the lines of text files for a regular expression. Returns path:number:line.

    Args:
        pattern: a regular expression as in Python; (?i) at its start ignores case
        path: the file or folder to search, relative to the working directory
        glob: search only files with such names, as in find_files
        context: how many lines to show before and after each match
    """
    parts = _names(glob) if glob.strip() else ("**",)
    return search_file(ctx, compile_pattern(pattern), parts, path, context, Search())


def search_file(
    ctx: ToolContext,
    expression: regex.Pattern[str],
    parts: Sequence[str],
    path: str,
    context: int,
    search: Search,
) -> str:
    """What grep answers."""
    shown: list[str] = []
    hits = 0
    with hold_place(ctx.workdir, path) as top, closing(search.files(top)) as files:
        for spot in files:
            if not matches(_below(spot, top), parts):
                continue
            text = _text(spot, search, spot.path == top.path)
            lines = lines_of(text) if may_match(expression, text) else []
            found = _found(expression, lines, search, MAX_MATCHES - hits)
            if found:
                hits += len(found)
                ctx.file_log.files_read[spot.path] = None
                shown += _printed(spot.path, lines, found, min(max(context, 0), MAX_CONTEXT))
            if hits >= MAX_MATCHES:
                shown.append(f"(only the first {MAX_MATCHES} matches; make the pattern narrower)")
            if search.stopped or hits >= MAX_MATCHES:
                break
    if search.stopped and not hits and search.left < 0:
        raise ToolError(
            f"the search {search.stopped} without a match. Use a simpler pattern, "
            "without repeats inside repeats, or a smaller folder"
        )
    if not hits:
        shown.append(f"No matches found for {expression.pattern} in {path}")
    return "\n".join([*shown, *search.notes()])


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    import regex

    if not pattern or len(pattern) > MAX_PATTERN:
        raise ToolError(f"invalid regular expression: empty or over {MAX_PATTERN} characters")
    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise ToolError(
            f"invalid regular expression {quote(pattern)}: {error}. Escape characters such as "
            "( [ * that you mean as they are"
        ) from None


def _text(spot: Spot, search: Search, is_named: bool) -> str:
    """The text of a file; none where it is no text or cannot be read and nobody named it."""
    try:
        at = kind(spot)
        if at is not None and not stat.S_ISREG(at.st_mode) and not is_named:
            return ""
        data = contents(spot)
    except (OSError, ToolError):
        if is_named:
            raise
        search.unread += 1
        return ""
    if is_named and not is_text(data):
        raise ToolError(f"Binary file: {spot.path} is not text, and only text can be searched")
    return decode_text(data) if is_text(data) else ""


def _found(
    expression: regex.Pattern[str], lines: Sequence[str], search: Search, most: int
) -> list[int]:
    """Which lines match, from 0; where the time is up, those before."""
    found: list[int] = []
    try:
        for number, line in enumerate(lines):
            left = search.left
            if left <= 0:
                raise TimeoutError
            if expression.search(line, concurrent=True, timeout=left):
                found.append(number)
                if len(found) == most:
                    break
    except TimeoutError:
        search.stopped = TOO_LONG
    return found


def may_match(expression: regex.Pattern[str], text: str) -> bool:
    """Whether a line of the text may match: most files are passed over with one look.

    What matches in a line also matches in the text, unless the expression looks at what is not
    there. A look that takes long is given up.
    """
    if BLIND.search(expression.pattern):
        return True
    try:
        return bool(expression.search(text, concurrent=True, timeout=GLANCE))
    except TimeoutError:
        return True


def _printed(path: str, lines: Sequence[str], found: Sequence[int], context: int) -> list[str]:
    """The matching lines as path:number:line, those around them as path-number-line."""
    hits = set(found)
    wanted = sorted({n for hit in found for n in range(hit - context, hit + context + 1)})
    shown: list[str] = []
    before: deque[int] = deque([-1], 1)
    for number in (n for n in wanted if 0 <= n < len(lines)):
        if context and shown and number != before[0] + 1:
            shown.append("--")
        before.append(number)
        line = lines[number]
        text = cut_chars(line, MAX_LINE)
        mark = ":" if number in hits else "-"
        shown.append(f"{printable(path)}{mark}{number + 1}{mark}{text}")
    return shown


TOOLS = {tool.name: tool for tool in (make_tool(find_files, "read"), make_tool(grep, "read"))}
