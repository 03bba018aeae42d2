"""Names of agents and models: which are valid.

Source: B-2, B-12.
"""

from __future__ import annotations

import re

from axe_nb.errors import ConfigError
from axe_nb.text import quote


def check_name(name: str) -> None:
    """Refuses names of agents that are not plain file names (B-12), on any system.

    Raises:
        ConfigError: it is blank, or has a path separator, `..`, a colon or a control character.
    """
    bad = any(part in name for part in ("/", "\\", "..", ":"))
    if bad or not name.strip() or not name.isprintable():
        raise ConfigError(
            f"invalid agent name {quote(name)}: a plain name, without folders",
            hint="use --agents-dir to point at another folder",
        )


def check_tool_name(name: str) -> None:
    """Refuses what no provider takes as the name of a tool.

    Raises:
        ConfigError: it is empty, too long, or has other characters than letters, digits, _ and -.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(
            f"{quote(name)} is no name for a tool",
            hint="letters, digits, _ and - only, at most 64",
        )


def parse_model(model: str) -> tuple[str, str]:
    """provider/model split on the first slash (B-2).

    Raises:
        ConfigError: there is no slash, or nothing on one side of it (exit 1).
    """
    provider, slash, name = model.partition("/")
    problem = (
        "expected provider/model-name"
        if not slash
        else "empty provider"
        if not provider.strip()
        else "empty model name"
        if not name.strip()
        else ""
    )
    if problem:
        raise ConfigError(
            f"invalid model format {quote(model)}: {problem}",
            hint="for example anthropic/claude-sonnet-4-5, ollama/llama3.2 or script/lead",
            exit_code=1,
        )
    return provider, name
