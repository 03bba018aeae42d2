"""`%axe env [FILE]`: reads a `.env` file on request; which keys are set. Names only, never values.

Source: product.md "Notebook" (`%axe`); issue "Models can do more than text".
"""

from __future__ import annotations

from axe_nb.agents.env_files import load_env
from axe_nb.text import list_some

MOST_NAMED = 30
"""Maximum number of names in one line."""


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
