"""Scripts by name: functions of this process, then files of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from axe_nb.agents.files import display_path, expand_home, read_text, reason
from axe_nb.agents.user_config import config_dir
from axe_nb.errors import ConfigError
from axe_nb.messages import Request
from axe_nb.scripting.rules import Script, parse_script
from axe_nb.text import nearest, quote

ScriptFunction: TypeAlias = Callable[[Request], Any]
"""(request) -> text, a tool call, several of them, a Response or a Fault; awaitable or not.

Or a generator of texts, tool calls, Deltas and, at the end, a Fault.
"""

F = TypeVar("F", bound=ScriptFunction)

functions: dict[str, ScriptFunction] = {}
"""Name → function, for this process; filled by `@axe_nb.script`."""

_parse_cached = lru_cache(maxsize=64)(parse_script)
"""Cache of parsed scripts, keyed by text, so that a changed file is parsed again."""


def script(name: str) -> Callable[[F], F]:
    """Makes the decorated function the model `script/NAME`, replacing an earlier one.

    The function takes the `Request` and returns text, one or more tool calls (`axe_nb.call`), or a
    whole `Response`; it may be async. A generator streams its reply piece by piece. If the function
    raises `ProviderError`, the request fails with that error.

    Raises:
        ConfigError: the name is not plain: it contains a folder or `.toml`.
    """
    if not isinstance(name, str) or not _is_plain(name):
        raise ConfigError(
            "the name of a script function must be plain, without folders or `.toml`",
            hint='write @axe_nb.script("NAME") above it',
        )

    def register(function: F) -> F:
        functions[name] = function
        return function

    return register


class ScriptNotFound(ConfigError):
    """No function and no file has this script name."""


class Scripts:
    """Scripts by name; a file is read once, however often it changes (D-53)."""

    def __init__(
        self,
        dirs: tuple[Path, ...] | None = None,
        sent: Mapping[str, ScriptFunction | Script] | None = None,
    ) -> None:
        """Creates an empty collection.

        `dirs` are searched before `./axe/scripts` and the config folder's `scripts`; `sent` is name
        → script that came with a job from another process, before all others.
        """
        self.dirs = dirs
        self._sent = sent or {}
        self._read: dict[str, Script | None] = {}

    def find(self, name: str) -> ScriptFunction | Script | None:
        """Returns the script with this name; None if there is none.

        Raises ConfigError if its file cannot be read or is invalid.
        """
        if found := self._sent.get(name) or functions.get(name):
            return found
        if name in self._read:
            return self._read[name]
        paths = [expand_home(name)] if name.endswith(".toml") else []
        if _is_plain(name):
            paths = [folder / f"{name}.toml" for folder in _list_folders(self.dirs)]
        found = None
        for path in paths:
            try:
                text = read_text(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problem = f"failed to read script {display_path(path)}: {reason(error)}"
                raise ConfigError(problem) from None
            found = _parse_cached(text, display_path(path))
            break
        self._read[name] = found
        return found

    def check(self, name: str) -> None:
        """Raises ConfigError if the script `name` is missing or invalid, with the line."""
        if self.find(name) is None:
            raise self.make_error(name)

    def make_error(self, name: str) -> ScriptNotFound:
        """Makes the error for an unknown name, with the places searched."""
        if near := nearest(name, known(self.dirs)):
            hint = f"did you mean {quote(near)}?"
        elif not _is_plain(name):
            hint = "use a plain name or the path of a .toml file"
        else:
            folders = ", ".join(display_path(folder) for folder in _list_folders(self.dirs))
            hint = (
                f'searched for @axe_nb.script("{name}") and for {name}.toml in {folders}; '
                "docs/scripts.md shows how to write one"
            )
        return ScriptNotFound(f"script not found: {name}", hint=hint)


def known(dirs: tuple[Path, ...] | None = None) -> list[str]:
    """Names of all scripts that can be found, sorted."""
    files = (path.stem for folder in _list_folders(dirs) for path in folder.glob("*.toml"))
    return sorted({*functions, *files})


def _list_folders(dirs: tuple[Path, ...] | None) -> tuple[Path, ...]:
    return (*(dirs or ()), Path("axe") / "scripts", config_dir() / "scripts")


def _is_plain(name: str) -> bool:
    """True for a valid script name, which is not a path on any system."""
    return bool(name.strip()) and not name.endswith(".toml") and not re.search(r"[/\\:\0]", name)
