"""The source typed into a cell below its magic, and its line: IPython passes on less than that.

It strips `>>>` and `...` from the beginnings of lines, even within a prompt, and does not report
blank lines and other magics above.
Source: product.md "Notebook" (the body passes unchanged); D-41.
"""

from __future__ import annotations

import re

from IPython.core.interactiveshell import InteractiveShell

_PROMPTS = re.compile(
    r"^\s*((>>>|\.\.\.)[ \t]?|(\[(nav|ins)\] )?(In \[\d+\]|\.{3,}): ?)?\s*", re.MULTILINE
)
"""Prompts that IPython may strip from the beginning of a line."""


def find_cell_source(shell: InteractiveShell, magic: str, body: str) -> tuple[str, int]:
    """Returns (the body as typed, line number of the magic as an editor counts).

    Blank lines at the end are left out: IPython adds one, and its history has none.

    Args:
        magic: its name.
        body: the body as IPython passes it, used if the magic was not typed in a cell.
    """
    history = shell.history_manager
    raw = history.input_hist_raw[-1] if history is not None else ""
    head = re.search(rf"^%%{magic}(?!\w).*(?:\n|\Z)", raw, re.MULTILINE)
    if head is None:
        return body.rstrip("\n"), 1
    whole = raw[head.end() :]
    if _strip_prompts(whole) != _strip_prompts(body):
        return body.rstrip("\n"), 1
    return whole.rstrip("\n"), raw.count("\n", 0, head.start()) + 1


def _strip_prompts(text: str) -> str:
    return _PROMPTS.sub("", text).rstrip()
