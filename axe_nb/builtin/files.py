"""read_file and list_dir: the contents of files and folders.

Source: D-20, D-83, X-30, X-32, X-33, X-37, X-38.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from axe_nb.builtin.paths import Spot, check_read, hold_place, kind, open_file, open_folder
from axe_nb.text import cut_bytes, cut_chars, printable
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import MAX_OUTPUT, ToolContext, ToolError

MAX_FILE = 10 * 1024 * 1024
"""Maximum bytes of a file that is read, searched or edited."""

PEEK = 8192
"""Bytes at the start of a file that are checked to detect binary content."""

MAX_LINES, MAX_LINE, NOTE_SIZE = 2000, 2000, 200
"""Lines per call; characters shown of a line; bytes reserved for the note about omitted lines."""

MAX_ENTRIES, MAX_SCANNED = 500, 10_000
"""Maximum names in a listing; maximum entries of a folder that are looked at."""


def read_file(ctx: ToolContext, path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
    """Read a text file in the working directory. Each line is preceded by its number and a tab.

    Args:
        path: the file, relative to the working directory
        offset: number of the first line to read, from 1
        limit: maximum number of lines to read
    """
    with hold_place(ctx.workdir, path) as spot:
        data = contents(spot)
        if not is_text(data):
            raise ToolError(f"Binary file: {path} is not text, and only text can be shown")
        ctx.file_log.files_read[spot.path] = None
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


def contents(spot: Spot) -> bytes:
    """Returns the bytes of a regular file; of a binary file, only the first ones.

    Raises ToolError if there is none, or it is too large or may hold keys; OSError if it cannot be
    read.
    """
    check_read(spot.names)
    with os.fdopen(open_file(spot), "rb") as file:
        data = file.read(PEEK)
        if is_text(data):
            data += file.read(MAX_FILE + 1 - PEEK)
    if len(data) > MAX_FILE:
        raise ToolError(
            f"File too large: {spot.path} has more than {MAX_FILE} bytes. "
            "Find a smaller file, or extract the part that you need with run_command"
        )
    return data


def is_text(data: bytes) -> bool:
    return b"\0" not in data[:PEEK]


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def decode_text(data: bytes) -> str:
    r"""Decodes a file with `\n` line ends; bytes that are not valid UTF-8 become U+FFFD."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def list_dir(ctx: ToolContext, path: str = ".") -> str:
    """List a folder in the working directory: folders first, then files with their sizes in bytes.

    Args:
        path: the folder, relative to the working directory
    """
    with hold_place(ctx.workdir, path) as spot:
        at = kind(spot)
        if at is not None and not stat.S_ISDIR(at.st_mode):
            raise ToolError(f"Not a folder: {path}. Use read_file to read it")
        with (
            open_folder(spot) as folder,
            os.scandir(spot.name if folder is None else folder) as found,
        ):
            entries = list(islice(found, MAX_SCANNED))
            is_cut = next(found, None) is not None
            entries.sort(key=lambda one: (not one.is_dir(follow_symlinks=False), one.name))
            shown = [_format_entry(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        count = f"more than {MAX_SCANNED}" if is_cut else f"{len(entries)}"
        shown.append(f"(the first {MAX_ENTRIES} of {count}; use find_files to search by name)")
    return cut_bytes("\n".join(shown), MAX_OUTPUT) or "(empty folder)"


def _format_entry(entry: os.DirEntry[str]) -> str:
    """Returns the line for an entry; links are shown, not followed."""
    name = printable(entry.name)
    if entry.is_symlink():
        return f"{name} (link)"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
    except OSError:  # removed since it was listed
        return name


TOOLS = {tool.name: tool for tool in (make_tool(read_file, "read"), make_tool(list_dir, "read"))}
