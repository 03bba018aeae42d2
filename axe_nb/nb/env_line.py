"""`%axe env [FILE]`: reads a `.env` file on request; which keys are set. Names only, never values.

Source: product.md "Notebook" (`%axe`); issue "Models can do more than text".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from axe_nb.agents.config import Config
from axe_nb.agents.env_files import load_env
from axe_nb.text import list_some

MOST_NAMED = 30
"""Maximum number of names in one line."""


class KeyState(NamedTuple):
    """One variable of a provider; never its value."""

    provider: str
    variable: str
    state: str


def load(file: str) -> str:
    """Loads a file into the environment, and returns a report on each of its names.

    Raises:
        ConfigError: it cannot be read, or a line is wrong; then nothing is set.
    """
    outcomes = load_env(file)
    lines = [f"{what}: {list_some(names, MOST_NAMED)}" for what, names in outcomes.items()]
    if any(what.startswith("refused") for what in outcomes):
        lines.append(
            "to set a refused one yourself, use %env NAME=VALUE, or set it before the kernel starts"
        )
    return "\n".join(lines) or "no variables found"


def list_keys() -> Iterator[KeyState]:
    """Yields the keys of all providers with their states, and the addresses that are set.

    Raises:
        ConfigError: the settings are invalid.
    """
    config = Config.load()
    for info in config.known.values():
        if info.has_server:
            source = config.key_source(info.name)
            state = "set" if source == info.key_variable else f"in {source}" if source else ""
            missing = "not set" if info.needs_key else "not set, not needed"
            yield KeyState(info.name, info.key_variable, state or missing)
            if os.environ.get(info.url_variable, "").strip():
                yield KeyState(info.name, info.url_variable, "set")
