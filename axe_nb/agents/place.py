"""The place of a value in the file of an agent, for error messages (D-27)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import format_path
from axe_nb.conversion.toml_tables import Source


def find_place(agent: Agent, key: str, value: str) -> str:
    """Returns the file and line of a value, or of an entry of a list or table.

    Empty if the agent has no file, or the value is not from it but from an option of the run.
    """
    if not agent.path or not agent.text:
        return ""
    written: Any = tomllib.loads(agent.text).get(key)
    if written != value and (isinstance(written, str) or value not in (written or ())):
        return ""
    path = (key, value) if isinstance(written, dict) else (key,)
    return Source(agent.text, format_path(Path(agent.path))).place(path, value)
