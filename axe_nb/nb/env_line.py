"""`%axe env [FILE]`: reads a `.env` file on request; which keys are set. Names only, never values.

Source: product.md "Notebook" (`%axe`); issue "Models can do more than text".
"""

from __future__ import annotations

from axe_nb.agents.env_files import list_keys, load_env
from axe_nb.text import list_some

MOST_NAMED = 30
"""Maximum number of names in one line."""


def describe_keys() -> list[tuple[str, str, str]]:
    """Returns (provider, variable, state) of all keys.

    Raises:
        ConfigError: the settings are invalid.
    """
    return [(found.provider, found.variable, found.state) for found in list_keys()]


def load(file: str) -> str:
    """Loads a file into the environment, and returns a report on each of its names.

    Raises:
        ConfigError: it cannot be read, or a line is wrong; then nothing is set.
    """
    names = load_env(file)
    reasons: dict[str, list[str]] = {}
    for name, why in names.refused.items():
        reasons.setdefault(why, []).append(name)
    rows = [
        ("set", names.set),
        ("already set, kept", names.kept),
        ("no value, not set", names.empty),
        *((f"refused, because {why}", refused) for why, refused in reasons.items()),
    ]
    lines = [f"{what}: {list_some(listed, MOST_NAMED)}" for what, listed in rows if listed]
    if names.refused:
        lines.append(
            "to set a refused one yourself, use %env NAME=VALUE, or set it before the kernel starts"
        )
    return "\n".join(lines) or "no variables found"
