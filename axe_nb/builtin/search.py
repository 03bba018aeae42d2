"""find_files and grep: search file names and lines, with limits on time and size.

Matching a pattern from a model might take forever. The package `regex` is used because, unlike
`re`, it supports a timeout and releases the GIL while it matches. Source: D-20, X-30, X-34, X-38.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from axe_nb.agents.globs import matches, parse_glob
from axe_nb.builtin.files import LEFT_OUT, contents, decode_text, is_text, lines_of
from axe_nb.builtin.paths import (
    errors_for_model,
    kind,
    locate,
    missing,
    scan_folder,
)
from axe_nb.conversion.patterns import compile_pattern
from axe_nb.errors import ConfigError
from axe_nb.paths import Names
from axe_nb.text import cut_chars, plural, printable, quote
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import PermissionDenied, ToolContext, ToolError

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 10
TOO_LONG = f"stopped after {MAX_SECONDS} s"
MAX_VISITED, MAX_DEPTH = 100_000, 64
MAX_FOUND, MAX_MATCHES = 500, 200
MAX_CONTEXT, MAX_LINE = 20, 300  # lines around a match, and characters of a line or pattern


@dataclass
class Search:
    """A walk through the files below a folder, with limits and with counts of skipped files."""

    unread: int = 0
    hidden: int = 0
    visited: int = 0
    ends: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    stopped: str = ""

    def files(self, top: Names) -> Generator[Names, None, None]:
        """Yields a file, or a limited number of files below a folder; does not follow links."""
        at = kind(top)
        if at is None:
            raise ToolError(missing(top))
        if not stat.S_ISDIR(at.st_mode):
            yield top
            return
        for names in self._below(top, 0):
            self.visited += 1
            if time.monotonic() > self.ends:
                self.stopped = TOO_LONG
                return
            if self.visited > MAX_VISITED:
                self.stopped = f"stopped after {MAX_VISITED} files"
                return
            yield names

    def _below(self, top: Names, depth: int) -> Generator[Names, None, None]:
        try:
            with scan_folder(top.real) as found:
                some = islice(found, MAX_VISITED)
                entries = [(one.name, one.is_dir(follow_symlinks=False)) for one in some]
        except OSError:
            self.unread += 1
            return
        for name, is_folder in sorted(entries):
            if not is_folder:
                yield top.child(name)
            elif name not in LEFT_OUT and depth < MAX_DEPTH:
                yield from self._below(top.child(name), depth + 1)

    def notes(self) -> list[str]:
        notes = {
            f"({self.unread} files or folders could not be read)": self.unread,
            f"(not searched: {plural(self.hidden, 'file')} that may hold keys)": self.hidden,
            f"({self.stopped}; choose a smaller folder to see the rest)": self.stopped,
        }
        return [note for note, is_needed in notes.items() if is_needed]


def find_files(ctx: ToolContext, pattern: str, path: str = ".") -> str:
    """Find files by name. Returns sorted paths relative to the working directory.

    Args:
        pattern: a glob such as *.py (at any depth) or docs/**/*.md (relative to path)
        path: the folder to search, relative to the working directory
    """
    parts = _parse_pattern(pattern)
    search, top = Search(), locate(ctx.workdir, path)
    with errors_for_model(path):
        files = search.files(top)
        named = (printable(names.path) for names in files if matches(_below(names, top), parts))
        found = list(islice(named, MAX_FOUND + 1))
    if not found:
        return "\n".join([f"No files found for {pattern} in {path}", *search.notes()])
    if len(found) > MAX_FOUND:
        found[-1] = f"(only the first {MAX_FOUND}; use a narrower pattern)"
    return "\n".join([*found, *search.notes()])


def _parse_pattern(pattern: str) -> tuple[str, ...]:
    try:
        return parse_glob(pattern)
    except ConfigError as error:
        raise ToolError(f"{error}. Use a pattern such as *.py or docs/**/*.md") from None


def _below(names: Names, top: Names) -> Sequence[str]:
    parts = names.path.split("/")
    skipped = 0 if top.path == "." else len(top.path.split("/"))
    return parts[skipped:] or parts[-1:]


def grep(ctx: ToolContext, pattern: str, path: str = ".", glob: str = "", context: int = 0) -> str:
    """Search text files line by line for a regular expression. Returns path:number:line.

    Args:
        pattern: a regular expression in Python syntax; a leading (?i) ignores case
        path: the file or folder to search, relative to the working directory
        glob: search only files that match this glob, as in find_files
        context: how many lines to show before and after each match
    """
    parts = _parse_pattern(glob) if glob.strip() else ("**",)
    if not pattern:
        raise ToolError("pattern is empty. Name what to search for")
    try:
        expression = compile_pattern(pattern, re.MULTILINE)
    except ConfigError as error:
        step = error.hint or "escape characters such as ( [ * that are meant literally"
        raise ToolError(
            f"invalid regular expression {quote(cut_chars(pattern, MAX_LINE))}: {error}. "
            f"{step[0].upper()}{step[1:]}"
        ) from None
    search, top = Search(), locate(ctx.workdir, path)
    shown: list[str] = []
    hits = 0
    with errors_for_model(path):
        for names in search.files(top):
            if not matches(_below(names, top), parts):
                continue
            lines = _read_lines(names, search, names.path == top.path)
            found = _find_matches(expression, lines, search, MAX_MATCHES - hits)
            if found:
                hits += len(found)
                ctx.file_log.files_read[names.path] = None
                around = min(max(context, 0), MAX_CONTEXT)
                shown += _format_matches(names.path, lines, found, around)
            if hits >= MAX_MATCHES:
                shown.append(f"(only the first {MAX_MATCHES} matches; use a narrower pattern)")
            if search.stopped or hits >= MAX_MATCHES:
                break
    if search.stopped == TOO_LONG and not hits:
        raise ToolError(
            f"the search {search.stopped} without a match. Use a simpler pattern, "
            "without nested repeats, or a smaller folder"
        )
    if not hits:
        shown.append(f"No matches found for {pattern} in {path}")
    return "\n".join([*shown, *search.notes()])


def _read_lines(names: Names, search: Search, is_named: bool) -> list[str]:
    try:
        at = kind(names)
        if at is not None and not stat.S_ISREG(at.st_mode) and not is_named:
            return []
        data = contents(names)
    except (OSError, ToolError) as error:
        if is_named:
            raise
        is_hidden = isinstance(error, PermissionDenied)
        search.hidden += is_hidden
        search.unread += not is_hidden
        return []
    if is_named and not is_text(data):
        raise ToolError(f"Binary file: {names.path} is not text, and only text can be searched")
    return lines_of(decode_text(data)) if is_text(data) else []


def _find_matches(
    expression: regex.Pattern[str], lines: Sequence[str], search: Search, most: int
) -> list[int]:
    found: list[int] = []
    try:
        for number, line in enumerate(lines):
            left = search.ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if expression.search(line, concurrent=True, timeout=left):
                found.append(number)
            if len(found) == most:
                break
    except TimeoutError:
        search.stopped = TOO_LONG
    return found


def _format_matches(
    path: str, lines: Sequence[str], found: Sequence[int], context: int
) -> list[str]:
    around = sorted({n for hit in found for n in range(hit - context, hit + context + 1)})
    shown: list[str] = []
    before = -1
    for number in (n for n in around if 0 <= n < len(lines)):
        if context and shown and number != before + 1:
            shown.append("--")
        before = number
        mark = ":" if number in found else "-"
        text = cut_chars(lines[number], MAX_LINE)
        shown.append(f"{printable(path)}{mark}{number + 1}{mark}{text}")
    return shown


TOOLS = {tool.name: tool for tool in (make_tool(find_files, "read"), make_tool(grep, "read"))}
