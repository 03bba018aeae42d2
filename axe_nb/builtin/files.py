"""read_file and list_dir: what is in a file, what is in a folder.

Source: D-20; X-30, X-32, X-33, X-37, X-38.
"""

from __future__ import annotations

import os
import stat

from axe_nb.builtin.paths import Spot, hold_place, kind, open_file, open_folder
from axe_nb.text import cut_bytes, cut_chars, printable
from axe_nb.tools.output import MAX_OUTPUT
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import ToolContext, ToolError

MAX_FILE = 10 * 1024 * 1024
"""Bytes; a larger file is neither read, searched nor edited."""

PEEK = 8192
"""Bytes at the start of a file that tell whether it is text."""

MAX_LINES = 2000
"""Lines that one call reads."""

MAX_LINE = 2000
"""Characters of a line that are shown."""

MAX_ENTRIES = 500
"""Names that one listing shows."""

NOTE_SIZE = 200
"""Bytes kept free for the note on what is not shown."""


def read_file(ctx: ToolContext, path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
    """Read a text file of the working directory. Every line comes with its number and a tab.

    Args:
        path: the file, relative to the working directory
        offset: number of the first line to read, from 1
        limit: how many lines to read at most
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
    return _numbered(lines, first, min(max(1, limit), MAX_LINES))


def contents(spot: Spot) -> bytes:
    """The bytes of a plain file; of one that is no text, only the first.

    Raises:
        ToolError: there is none, or it is too large.
        OSError: it may not be read.
    """
    with os.fdopen(open_file(spot), "rb") as file:
        data = file.read(PEEK)
        if is_text(data):
            data += file.read(MAX_FILE + 1 - PEEK)
    if len(data) > MAX_FILE:
        raise ToolError(
            f"File too large: {spot.path} has more than {MAX_FILE} bytes. "
            "Look for a smaller file, or take out the part that you need with run_command"
        )
    return data


def is_text(data: bytes) -> bool:
    """Whether the bytes of a file look like text."""
    return b"\0" not in data[:PEEK]


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def decode_text(data: bytes) -> str:
    r"""The text of a file with `\n` line ends; bytes that are no UTF-8 become U+FFFD."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _numbered(lines: list[str], first: int, limit: int) -> str:
    """Lines with their numbers, as many as fit, and a note where there are more."""
    shown: list[str] = []
    room = MAX_OUTPUT - NOTE_SIZE
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], first):
        shown_line = cut_chars(line, MAX_LINE, "... (line cut: {size} characters)")
        text = f"{number:>6}\t{shown_line}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        shown.append(text)
    last = first + len(shown) - 1
    if last < len(lines):
        shown.append(f"(lines {first}-{last} of {len(lines)}; go on with offset {last + 1})")
    return "\n".join(shown)


def list_dir(ctx: ToolContext, path: str = ".") -> str:
    """List a folder of the working directory: folders first, then files with their sizes in bytes.

    Args:
        path: the folder, relative to the working directory
    """
    with hold_place(ctx.workdir, path) as spot:
        at = kind(spot)
        if at is not None and not stat.S_ISDIR(at.st_mode):
            raise ToolError(f"Not a folder: {path}. Use read_file to see what is in it")
        with (
            open_folder(spot) as folder,
            os.scandir(spot.name if folder is None else folder) as found,
        ):
            entries = sorted(map(_entry, found))
    shown = [text for _, _, text in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        shown.append(f"(the first {MAX_ENTRIES} of {len(entries)}; find_files finds by name)")
    return cut_bytes("\n".join(shown), MAX_OUTPUT) or "(empty folder)"


def _entry(entry: os.DirEntry[str]) -> tuple[bool, str, str]:
    """(is no folder, name, line) of an entry; a link is shown as one, not followed."""
    name = printable(entry.name)
    if entry.is_symlink():
        return True, entry.name, f"{name} (link)"
    if entry.is_dir(follow_symlinks=False):
        return False, entry.name, f"{name}/"
    try:
        return True, entry.name, f"{name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
    except OSError:  # gone since it was listed
        return True, entry.name, name


TOOLS = {tool.name: tool for tool in (make_tool(read_file, "read"), make_tool(list_dir, "read"))}
