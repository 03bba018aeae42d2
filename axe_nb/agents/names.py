"""Names: which are allowed, how messages write them, and which one was meant by a mistyped one.

Source: B-2, B-12, D-13, D-27.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable

from axe_nb.errors import ConfigError


def quoted(name: str) -> str:
    """The name in double quotes with JSON escaping (D-13)."""
    return json.dumps(name, ensure_ascii=False)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like `word`; empty where none is near."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.6)), "")


def suggestion(word: str, known: Iterable[str]) -> str:
    """A question after the known word that was meant, or after two as near; empty without one."""
    words = list(known)
    near = difflib.get_close_matches(word, words, 2, 0.75) or [nearest(word, words)]
    return f"did you mean {' or '.join(map(quoted, near))}?" if near[0] else ""


def check_name(name: str) -> None:
    """Refuses names of agents that are not plain file names (B-12), on any system.

    Raises:
        ConfigError: it is blank, or has a path separator, `..`, a colon or a control character.
    """
    bad = any(part in name for part in ("/", "\\", "..", ":"))
    if bad or not name.strip() or not name.isprintable():
        raise ConfigError(
            f"invalid agent name {quoted(name)}: a plain name, without folders",
            hint="use --agents-dir to point at another folder",
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
            f"invalid model format {quoted(model)}: {problem}",
            hint="for example anthropic/claude-sonnet-4-5, ollama/llama3.2 or script/lead",
            exit_code=1,
        )
    return provider, name
