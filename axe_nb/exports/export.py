"""Export of a finished run, a diff or a grid, for people and programs that have no axe_nb.

Source: product.md "Traces" (`axe_nb.export`); D-60.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from axe_nb.agents.files import expand_home, write_whole
from axe_nb.errors import ConfigError
from axe_nb.exports.html_page import Shown, write_html, write_shown_html
from axe_nb.exports.json_lines import write_json_lines
from axe_nb.exports.markdown_text import write_markdown, write_shown_markdown
from axe_nb.results import RunResult
from axe_nb.text import list_choices, quote

Write = TypeVar("Write")

FORMATS: Mapping[str, Callable[[RunResult], str]] = {
    ".html": write_html,
    ".md": write_markdown,
    ".jsonl": write_json_lines,
}
"""Ending of a file's name → what writes the text of a run."""

SHOWN: Mapping[str, Callable[[Shown], str]] = {
    ".html": write_shown_html,
    ".md": write_shown_markdown,
}
"""The same of a diff or a grid."""


def export(result: RunResult | Shown, path: str | os.PathLike[str]) -> Path:
    """Writes a finished run, without secrets, to a file that needs no axe_nb to be read.

    `.html` is one self-contained page, which opens offline and has no scripts; `.md` is the same as
    Markdown; `.jsonl` has a line of JSON for each run, turn and call of the tree. A diff or a grid
    is written as a notebook shows it, as `.html` or `.md`.

    Args:
        result: a run, however it ended, a diff of two runs, or a grid.
        path: the file, which is replaced if it exists; its ending selects the format.

    Returns:
        The path.

    Raises:
        ConfigError: the ending is unknown, or the file cannot be written.
    """
    target = expand_home(Path(path))
    ending = target.suffix.lower()
    if isinstance(result, RunResult):
        text = _find(FORMATS, ending, target)(result.without_secrets())
    elif isinstance(result, Shown) and not isinstance(result, type):
        text = _find(SHOWN, ending, target)(result)
    else:
        raise ConfigError(
            f"export takes a RunResult, a diff or a grid, not {type(result).__name__}",
            hint='for example axe_nb.export(axe_nb.last(), "run.html")',
        )
    write_whole(target, text)
    return target


def _find(formats: Mapping[str, Write], ending: str, target: Path) -> Write:
    if ending not in formats:
        raise ConfigError(
            f"unknown export format {quote(target.name)}",
            hint=f"the file name must end in {list_choices(tuple(formats))}",
        )
    return formats[ending]
