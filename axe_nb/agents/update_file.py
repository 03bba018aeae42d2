"""The text of an agent's file with changed values.

Source: D-70.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from axe_nb.agents.files import read_text
from axe_nb.conversion.toml_tables import make_table
from axe_nb.conversion.toml_update import update_text
from axe_nb.errors import ConfigError


def update_file(path: Path, table: Mapping[str, Any], parse: Callable[[str], object]) -> str:
    """Returns the text of the file with changed values; empty if it has to be written anew.

    Args:
        path: the file, which need not exist.
        table: its new values.
        parse: makes the agent from a text. Raises ConfigError.
    """
    with suppress(OSError, ConfigError, ValueError, RecursionError):
        text = read_text(path)
        updated = update_text(text, make_table(parse(text)), table)
        return updated if make_table(parse(updated)) == table else ""
    return ""
