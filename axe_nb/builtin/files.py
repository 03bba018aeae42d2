"""read_file, list_dir, write_file and edit_file: tools for files and folders in the workdir.

Source: D-19, D-20, D-83, X-30, X-32, X-33, X-37, X-38.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from axe_nb.builtin.paths import (
    check_read,
    check_write,
    errors_for_model,
    guard_edit,
    guard_write,
    kind,
    locate,
    may_read,
    missing,
    open_file,
    scan_folder,
)
from axe_nb.paths import Names, replace_file
from axe_nb.text import count_common, cut_bytes, cut_chars, printable
from axe_nb.tools.kept_files import KeptFiles
from axe_nb.tools.python_tool import PythonFunction, check, make_tool
from axe_nb.tools.tool import MAX_OUTPUT, ToolContext, ToolError

MAX_FILE = 10 * 1024 * 1024
PEEK = 8192
MAX_LINES, MAX_LINE, NOTE_SIZE = 2000, 2000, 200  # lines, characters of a line, bytes of a note
MAX_ENTRIES, MAX_SCANNED = 500, 10_000  # entries in a listing, and entries of a folder to read
MAX_DIFF, MAX_COMPARED = 4096, 2000  # bytes of a diff, and lines of a text with a minimal diff
BOM = "\ufeff"

edit_lock = threading.Lock()
"""Lock held while a tool changes a file, as concurrent edits could undo each other."""


def read_file(ctx: ToolContext, path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
    """Read a text file in the working directory. Each line is preceded by its number and a tab.

    Args:
        path: the file, relative to the working directory
        offset: number of the first line to read, from 1
        limit: maximum number of lines to read
    """
    names = locate(ctx.workdir, path)
    with errors_for_model(path):
        data = contents(names)
    if not is_text(data):
        raise ToolError(f"Binary file: {path} is not text, and only text can be shown")
    ctx.file_log.files_read[names.path] = None
    lines = lines_of(decode_text(data))
    if not lines:
        return "(empty file)"
    first = max(1, offset)
    if first > len(lines):
        raise ToolError(
            f"offset {offset} is beyond the end of {path}, which has {len(lines)} lines"
        )
    shown: list[str] = []
    room = MAX_OUTPUT - NOTE_SIZE
    most = min(max(1, limit), MAX_LINES)
    for number, line in enumerate(lines[first - 1 : first - 1 + most], first):
        text = f"{number:>6}\t{cut_chars(line, MAX_LINE, '... (line cut: {size} characters)')}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        shown.append(text)
    last = first + len(shown) - 1
    if last < len(lines):
        shown.append(f"(lines {first}-{last} of {len(lines)}; continue with offset {last + 1})")
    return "\n".join(shown)


def contents(names: Names) -> bytes:
    """Returns the content of a text file, or the first bytes of a binary file.

    Raises ToolError if the file is too large, is not a regular file, or must not be read.
    """
    check_read(names)
    with os.fdopen(open_file(names), "rb") as file:
        data = file.read(PEEK)
        if is_text(data):
            data += file.read(MAX_FILE + 1 - PEEK)
    if len(data) > MAX_FILE:
        raise ToolError(
            f"File too large: {names.path} has more than {MAX_FILE} bytes. "
            "Find a smaller file, or extract the part that you need with run_command"
        )
    return data


def is_text(data: bytes) -> bool:
    return b"\0" not in data[:PEEK]


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def decode_text(data: bytes) -> str:
    r"""Decodes a file's bytes, changing `\r\n` to `\n`; invalid UTF-8 becomes U+FFFD."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".ipynb_checkpoints"}
)
"""Names of folders that are skipped, unless the tool's `path` is such a folder or lies in one."""

UNSIZED = (".axe", ".ipynb")
"""Endings of files that change while a notebook is recorded; a listing omits their sizes."""


def list_dir(ctx: ToolContext, path: str = ".") -> str:
    """List a folder in the working directory: folders first, then files with their sizes in bytes.

    Args:
        path: the folder, relative to the working directory
    """

    def show(entry: os.DirEntry[str]) -> str:
        name = printable(entry.name)
        if entry.is_symlink():
            return f"{name} (link)"
        if entry.is_dir(follow_symlinks=False):
            return f"{name}/"
        if name.endswith(UNSIZED):
            return name
        try:
            return f"{name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
        except OSError:  # removed since it was listed
            return name

    names = locate(ctx.workdir, path)
    with errors_for_model(path):
        at = kind(names)
        if at is not None and not stat.S_ISDIR(at.st_mode):
            raise ToolError(f"Not a folder: {path}. Use read_file to read it")
        with scan_folder(names.real) as found:
            entries = [one for one in islice(found, MAX_SCANNED) if one.name not in LEFT_OUT]
            is_cut = next(found, None) is not None
            entries.sort(key=lambda one: (not one.is_dir(follow_symlinks=False), one.name))
            shown = [show(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        count = f"more than {MAX_SCANNED}" if is_cut else f"{len(entries)}"
        shown.append(f"(the first {MAX_ENTRIES} of {count}; use find_files to search by name)")
    return cut_bytes("\n".join(shown), MAX_OUTPUT) or "(empty folder)"


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    old: str | None
    """Old text of the file; None if the file did not exist, was not text, or may not be read."""
    new: str
    exists: bool = False
    """True if the file exists but `diff` does not show the old content."""

    @property
    def diff(self) -> str:
        """The whole change as a unified diff; empty if there is no difference."""
        old, new = (self.old or "").splitlines(True), self.new.splitlines(True)
        before = "/dev/null" if self.old is None and not self.exists else f"a/{self.path}"
        after = f"b/{self.path}"
        if max(len(old), len(new)) <= MAX_COMPARED:
            lines = [*difflib.unified_diff(old, new, before, after)]
        else:  # all lines from the first to the last difference, as a diff takes quadratic time
            start = count_common(old, new)
            end = count_common(old[start:][::-1], new[start:][::-1])
            removed, added = old[start : len(old) - end], new[start : len(new) - end]
            place = f"@@ -{start + 1},{len(removed)} +{start + 1},{len(added)} @@"
            lines = [f"--- {before}", f"+++ {after}", place] if removed or added else []
            lines += [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        if self.exists:
            lines.insert(0, "(the file exists; its content is not shown, and is replaced)")
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).rstrip("\n")

    @property
    def summary(self) -> str:
        return cut_bytes(self.diff, MAX_DIFF, "\n... (the rest of the diff is omitted)")


def write_file(ctx: ToolContext, path: str, content: str) -> str:
    """Write a text file in the working directory: create it, or replace its whole content.

    Missing folders are created.

    Args:
        path: the file, relative to the working directory
        content: the complete new text of the file
    """
    names = locate(ctx.workdir, path)
    check_write(names, ctx)
    with edit_lock, errors_for_model(path):
        change = _plan_write(names, content)
        if change.new == change.old:
            return f"{names.path} already has this content; nothing was changed"
        put(names, change.new.encode(), ctx.file_log.kept)
    ctx.file_log.files_modified[names.path] = None
    size = f"{len(change.new.encode())} bytes"
    if change.exists:
        return f"Replaced {names.path} ({size})"
    if change.old is None:
        return f"Wrote {names.path} ({size})"
    return f"Replaced {names.path} ({size})\n{change.summary}"


def edit_file(
    ctx: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False
) -> str:
    """Replace text in a file in the working directory.

    The file must contain the text exactly as given, and only once unless replace_all is set.

    Args:
        path: the file, relative to the working directory
        old_text: the text to replace, without line numbers, with enough lines to be unique
        new_text: the replacement
        replace_all: replace every occurrence
    """
    names = locate(ctx.workdir, path)
    check_write(names, ctx)
    with edit_lock, errors_for_model(path):
        change = _plan_edit(names, old_text, new_text, replace_all)
        put(names, change.new.encode(), ctx.file_log.kept)
    ctx.file_log.files_modified[names.path] = None
    return f"Edited {names.path}\n{change.summary}"


def _preview(function: Callable[..., str], arguments: Mapping[str, Any], workdir: Path) -> str:
    plan: Callable[..., Change] = _plan_write if function is write_file else _plan_edit
    try:
        values = check(arguments, PythonFunction(function, function.__name__).parameters)
        path = values.pop("path")
        with errors_for_model(path):
            change = plan(locate(workdir, path), **values)
            return change.diff or ("(new, empty)" if change.old is None else "(no change)")
    except ToolError as error:
        return f"Error: {error}"


def _plan_write(names: Names, content: str) -> Change:
    if len(content) > MAX_FILE:
        raise ToolError(f"Content too large: more than {MAX_FILE} characters. Write less per call")
    if kind(names) is None:
        return Change(names.path, None, content)
    old = _read_utf8(names) if may_read(names) else None
    if old is None:
        return Change(names.path, None, content, exists=True)
    mark = BOM if old.startswith(BOM) and not content.startswith(BOM) else ""
    return Change(names.path, old, mark + _match_line_ends(old, content))


def _read_utf8(names: Names) -> str | None:
    data = contents(names)
    try:
        return data.decode("utf-8") if is_text(data) else None
    except UnicodeDecodeError:
        return None


def _plan_edit(names: Names, old_text: str, new_text: str, replace_all: bool = False) -> Change:
    if kind(names) is None:
        raise ToolError(missing(names))
    text = _read_utf8(names)
    if text is None:
        raise ToolError(f"Not UTF-8 text: {names.path} cannot be edited safely")
    if not old_text:
        raise ToolError("old_text is empty. Pass the text to replace, or use write_file")
    old, new = old_text, new_text
    if old not in text:
        old, new = _match_line_ends(text, old), _match_line_ends(text, new)
    if old == new:
        raise ToolError("old_text and new_text are identical: nothing would change")
    count = text.count(old)
    if not count:
        numbered = re.match(r"\s*\d+\t", old_text)
        raise ToolError(
            f"old_text is not in {names.path}. Read the file again and copy the text exactly"
            + (", without the line numbers that read_file adds" if numbered else "")
        )
    if count > 1 and not replace_all:
        places = islice(re.finditer(re.escape(old), text), 10)
        lines = ", ".join(str(text.count("\n", 0, found.start()) + 1) for found in places)
        raise ToolError(
            f"old_text occurs {count} times in {names.path} (lines {lines}). "
            "Include more surrounding lines, or set replace_all"
        )
    if len(text) + count * (len(new) - len(old)) > MAX_FILE:
        raise ToolError(
            f"{names.path} would have more than {MAX_FILE} characters. Replace less, or by less"
        )
    return Change(names.path, text, text.replace(old, new))


def _match_line_ends(like: str, text: str) -> str:
    ends = like.count("\n")
    all_long = ends and like.count("\r\n") == ends
    return re.sub(r"\r?\n", "\r\n", text) if all_long else text


def put(names: Names, data: bytes, kept: KeptFiles | None = None, mode: int | None = None) -> None:
    """Writes a file atomically, in folders that are created if they are missing.

    If `kept` is given, the old content is first stored there.
    """
    if kind(names) is not None:
        os.close(open_file(names, os.O_WRONLY))  # fails if the file is not writable
    if kept is not None:
        kept.keep(names, data)
    made = len(names.real.parts) - len(names.folder.parts) - 1
    replace_file(names.real, data, mode, made)


TOOLS = {
    "read_file": make_tool(read_file, "read"),
    "list_dir": make_tool(list_dir, "read"),
    "write_file": replace(
        make_tool(write_file, "write"), preview=partial(_preview, write_file), guard=guard_write
    ),
    "edit_file": replace(
        make_tool(edit_file, "write"), preview=partial(_preview, edit_file), guard=guard_edit
    ),
}
