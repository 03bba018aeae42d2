"""write_file and edit_file: files changed whole or not at all, and the difference that it makes.

Source: D-19, D-20; X-30, X-32, X-38; issue 4 (preview for the permission question).
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from axe_nb.builtin.files import MAX_FILE, contents, is_text
from axe_nb.builtin.paths import FILE, Spot, hold_place, kind, locate, missing, open_file
from axe_nb.text import cut_bytes
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.signature import check, signature
from axe_nb.tools.tool import ToolContext, ToolError

MAX_DIFFERENCE = 4096
"""Bytes of a difference that a result shows."""

MAX_COMPARED = 2000
"""Lines up to which the difference of two texts is worked out."""

BOM = "\ufeff"

_one_at_a_time = threading.Lock()
"""Reading, changing and writing is one step: side by side, one edit would undo another."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a call makes of a file."""

    path: str
    """Relative to the workdir."""
    old: str | None
    """None where there was no file, or no text in it."""
    new: str

    @property
    def difference(self) -> str:
        """The change as a unified difference; empty where nothing changes."""
        old, new = (self.old or "").splitlines(True), self.new.splitlines(True)
        if max(len(old), len(new)) > MAX_COMPARED:
            return f"(from {len(old)} to {len(new)} lines: too long to compare)"
        before = f"a/{self.path}" if self.old is not None else "/dev/null"
        lines = difflib.unified_diff(old, new, before, f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).rstrip("\n")


def write_file(ctx: ToolContext, path: str, content: str) -> str:
    """Write a text file of the working directory: a new one, or all of an existing one anew.

    Missing folders are made.

    Args:
        path: the file, relative to the working directory
        content: the whole new text of the file
    """
    with _one_at_a_time, hold_place(ctx.workdir, path, create=True) as spot:
        change = _written(spot, content)
        if change.new == change.old:
            return f"{spot.path} has this content already; nothing was changed"
        put(spot, change.new)
        ctx.file_log.files_modified[spot.path] = None
    size = f"{len(change.new.encode())} bytes"
    if change.old is None:
        return f"Wrote {spot.path} ({size})"
    return f"Replaced {spot.path} ({size})\n{_shown(change)}"


def edit_file(
    ctx: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False
) -> str:
    """Replace a text in a file of the working directory by another.

    The text must be in the file exactly as given, and only once unless replace_all is set.

    Args:
        path: the file, relative to the working directory
        old_text: the text to replace, without line numbers, with as many lines as make it unique
        new_text: what takes its place
        replace_all: replace every occurrence
    """
    with _one_at_a_time, hold_place(ctx.workdir, path) as spot:
        change = _edited(spot, old_text, new_text, replace_all)
        put(spot, change.new)
        ctx.file_log.files_modified[spot.path] = None
    return f"Edited {spot.path}\n{_shown(change)}"


def preview(name: str, arguments: Mapping[str, Any], workdir: Path) -> str:
    """The difference that a call of write_file or edit_file would make, or why it would fail.

    Args:
        name: of the tool.
        arguments: as the model gave them.
        workdir: absolute.
    """
    try:
        values = check(arguments, PARAMETERS[name])
        path = values.pop("path")
        root, real = locate(workdir, path)
        if name == "write_file" and not real.exists():
            return _shown(Change(real.relative_to(root).as_posix(), None, values["content"]))
        with hold_place(workdir, path) as spot:
            return _shown(CHANGES[name](spot, **values))
    except ToolError as error:
        return f"Error: {error}"


def _written(spot: Spot, content: str) -> Change:
    """The content in the manner of the file that is there: its line ends, its byte order mark."""
    if len(content) > MAX_FILE:
        raise ToolError(f"Content too large: more than {MAX_FILE} characters. Write less at once")
    if kind(spot) is None:
        return Change(spot.path, None, _sendable(content))
    old = _utf8(spot)
    if old is None:
        return Change(spot.path, None, _sendable(content))
    mark = BOM if old.startswith(BOM) and not content.startswith(BOM) else ""
    return Change(spot.path, old, mark + _with_ends_of(old, _sendable(content)))


def _utf8(spot: Spot) -> str | None:
    """The text of a file to the letter; None where it is none."""
    data = contents(spot)
    try:
        return data.decode("utf-8") if is_text(data) else None
    except UnicodeDecodeError:
        return None


def _edited(spot: Spot, old_text: str, new_text: str, replace_all: bool = False) -> Change:
    if kind(spot) is None:
        raise ToolError(missing(spot))
    text = _utf8(spot)
    if text is None:
        raise ToolError(f"Not UTF-8 text: {spot.path} cannot be edited without damage")
    if not old_text:
        raise ToolError("old_text is empty. Give the text to replace, or use write_file")
    old, new = old_text, _sendable(new_text)
    if old not in text:
        old, new = _with_ends_of(text, old), _with_ends_of(text, new)
    if old == new:
        raise ToolError("old_text and new_text are the same: nothing would change")
    count = text.count(old)
    if not count:
        raise ToolError(_not_there(spot, text, old_text))
    if count > 1 and not replace_all:
        lines = ", ".join(_lines_of(text, old)[:10])
        raise ToolError(
            f"old_text is {count} times in {spot.path} (lines {lines}). "
            "Add the lines around the one that you mean, or set replace_all"
        )
    return Change(spot.path, text, text.replace(old, new))


def _lines_of(text: str, part: str) -> list[str]:
    """The line numbers, from 1, at which a part of a text begins."""
    places: list[str] = []
    at = text.find(part)
    while at >= 0 and len(places) < 20:
        places.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + len(part))
    return places


def _not_there(spot: Spot, text: str, old_text: str) -> str:
    """Why a text was not found, as far as it shows."""
    problem = f"old_text is not in {spot.path}"
    if re.match(r"\s*\d+\t", old_text):
        return f"{problem}. Leave out the line numbers that read_file puts before each line"
    first = next((line.strip() for line in old_text.splitlines() if line.strip()), "")
    for number, line in enumerate(text.splitlines(), 1):
        if first and line.strip() == first:
            return (
                f"{problem}, but line {number} is like its first: compare spaces and what follows"
            )
    return f"{problem}. Read the file again and copy the text exactly"


def _with_ends_of(like: str, text: str) -> str:
    r"""The text with `\r\n` line ends where all those of `like` are such."""
    ends = like.count("\n")
    all_long = ends and like.count("\r\n") == ends
    return re.sub(r"\r?\n", "\r\n", text) if all_long else text


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text has half a character (a lone surrogate) at position {error.start}. "
            "Write it without"
        ) from None
    return text


def put(spot: Spot, text: str) -> None:
    """Puts a text in the place of a file, or where none is; the old one stays until it is whole."""
    before = kind(spot)
    if before is not None:
        os.close(open_file(spot, os.O_WRONLY))  # one that may not be written stays as it is
    temporary = replace(spot, name=_beside(spot))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
    descriptor = os.open(temporary.name, flags, 0o666, dir_fd=spot.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _keep_owner_and_mode(descriptor, temporary, before)
            file.write(text.encode())
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary.name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except BaseException:
        os.unlink(temporary.name, dir_fd=spot.folder)
        raise


def _beside(spot: Spot) -> str:
    name = f".axe-{secrets.token_hex(6)}.tmp"
    return name if spot.folder is not None else str(Path(spot.name).with_name(name))


def _keep_owner_and_mode(descriptor: int, temporary: Spot, before: os.stat_result) -> None:
    mode = stat.S_IMODE(before.st_mode)
    if hasattr(os, "fchown"):
        with suppress(OSError):  # only the owner of the machine may give files away
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, mode)
    else:
        Path(temporary.name).chmod(mode)


def _shown(change: Change) -> str:
    note = "\n... (the rest of the difference is left out)"
    return cut_bytes(change.difference, MAX_DIFFERENCE, note)


TOOLS = {
    function.__name__: replace(
        make_tool(function, "write"), preview=partial(preview, function.__name__)
    )
    for function in (write_file, edit_file)
}

PARAMETERS = {f.__name__: signature(f, f.__name__).parameters for f in (write_file, edit_file)}

CHANGES: Mapping[str, Callable[..., Change]] = {"write_file": _written, "edit_file": _edited}
