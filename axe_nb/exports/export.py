"""Export of a finished run, for people and programs that have no axe_nb.

Source: product.md "Traces" (`axe_nb.export`); D-60.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from axe_nb.agents.files import expand_home, write_whole
from axe_nb.errors import ConfigError
from axe_nb.exports.html_page import write_html
from axe_nb.exports.json_lines import write_json_lines
from axe_nb.exports.markdown_text import write_markdown
from axe_nb.results import RunResult
from axe_nb.text import quote

FORMATS: Mapping[str, Callable[[RunResult], str]] = {
    ".html": write_html,
    ".md": write_markdown,
    ".jsonl": write_json_lines,
}
"""Ending of a file's name → what writes its text."""


def export(result: RunResult, path: str | os.PathLike[str]) -> Path:
    """Writes a finished run, without secrets, to a file that needs no axe_nb to be read.

    `.html` is one page that opens offline, without scripts or anything from elsewhere; `.md` is the
    same as Markdown; `.jsonl` has a line of JSON for each run, turn and call of the tree.

    Args:
        result: the run, however it ended.
        path: the file, which is replaced if it exists; its ending is the format.

    Returns:
        The path.

    Raises:
        ConfigError: the ending is unknown, or the file cannot be written.
    """
    if not isinstance(result, RunResult):
        raise ConfigError(
            f"export takes a RunResult, not {type(result).__name__}",
            hint='for example axe_nb.export(axe_nb.last(), "run.html")',
        )
    target = expand_home(Path(path))
    write = FORMATS.get(target.suffix.lower())
    if write is None:
        raise ConfigError(
            f"no format for {quote(target.name)}",
            hint=f"the name of the file ends in {', '.join(FORMATS)}",
        )
    write_whole(target, write(result.without_secrets()))
    return target
