"""`.env` files: variables that a person asks to read into this process; nothing else reads them.

Such a file may come with a project, so it sets the keys of providers and nothing else, but for the
address that its own key is sent to.
Source: product.md "Notebook" (`%axe env`); D-83, D-81, D-60; docs/notebook.md "Keys from a file".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from axe_nb.agents.config import Config, format_path_or_name
from axe_nb.agents.files import expand_home, read_text, reason
from axe_nb.errors import ConfigError
from axe_nb.provider_table import ProviderInfo
from axe_nb.text import quote

MAX_NAME, MAX_NAMES = 100, 1000
"""Characters of a name, and names in a file."""

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[ \t]*(?:\#.*)?""")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

UNKNOWN = "a file sets only keys and addresses of providers"
KEY_ELSEWHERE = "a key that is not from this file would be sent there"
EXPANDED = "its value contains ${…}, which is not expanded; write it out, or use single quotes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedNames:
    """The names in a file that was read; never a value."""

    set: tuple[str, ...]
    kept: tuple[str, ...]
    """Those that had a value before, which they keep."""
    empty: tuple[str, ...]
    """Those without a value, which are not set."""
    refused: Mapping[str, str]
    """Name → why it is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """One variable of a provider; never its value."""

    provider: str
    variable: str
    state: str


def load_env(file: str) -> LoadedNames:
    """Reads a file of NAME=VALUE lines into the environment of this process.

    A variable that has a value keeps it. Values are not expanded.

    Raises:
        ConfigError: it cannot be read, or a line is wrong; then nothing is set.
    """
    path = expand_home(file)
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigError(
            f"cannot read {quote(format_path_or_name(path))}: {reason(error)}",
            hint="give a file of NAME=VALUE lines, as in %axe env .env",
        ) from None
    values = _parse(text, format_path_or_name(path))
    config = Config.load()
    new: dict[str, str] = {}
    kept: list[str] = []
    empty: list[str] = []
    refused: dict[str, str] = {}
    known = {info.key_variable for info in config.known.values() if info.has_server}
    addresses = {info.url_variable: info for info in config.known.values() if info.has_server}
    for name, value in sorted(values.items(), key=lambda item: item[0] in addresses):
        if name not in known and name not in addresses:
            refused[name] = UNKNOWN
        elif value is None:
            refused[name] = EXPANDED
        elif not value:
            empty.append(name)
        elif name in addresses and not _brings_key(addresses[name], config, new):
            refused[name] = KEY_ELSEWHERE
        elif os.environ.get(name, "").strip():
            kept.append(name)
        else:
            new[name] = value
    os.environ.update(new)
    return LoadedNames(set=tuple(new), kept=tuple(kept), empty=tuple(empty), refused=refused)


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
            state = state or missing
            yield KeyState(provider=info.name, variable=info.key_variable, state=state)
            if os.environ.get(info.url_variable, "").strip():
                yield KeyState(provider=info.name, variable=info.url_variable, state="set")


def _parse(text: str, file: str) -> dict[str, str | None]:
    """Returns name → value; None for one that has `${…}`.

    Raises:
        ConfigError: names the line, and nothing that it holds.
    """
    values: dict[str, str | None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        problem, found = "not a NAME=VALUE line", _LINE.fullmatch(bare)
        if len(values) >= MAX_NAMES:
            problem = f"more than {MAX_NAMES} variables"
        elif found and len(found[1]) <= MAX_NAME:
            try:
                values[found[1]] = _read_value(found[2])
                continue
            except ValueError as error:
                problem = str(error)
        failure = ConfigError(problem, hint="fix the line; nothing was set")
        failure.place = f"in {file}, line {number}"
        raise failure
    return values


def _read_value(written: str) -> str | None:
    """Returns a value without its quotes; None if it has `${…}`.

    Raises:
        ValueError: its quotes are not closed on the line, or it has a character that none can have.
    """
    if "\0" in written:
        raise ValueError("the value contains a NUL character")
    if not written.startswith(("'", '"')):
        value = re.split(r"(?:^|\s)#", written, maxsplit=1)[0].strip()
        return None if "${" in value else value
    found = _QUOTED.fullmatch(written)
    if found is None:
        raise ValueError("the quotes around the value are not closed at the end of the line")
    if found[1] is not None:
        return found[1]
    if re.search(r"(?<!\\)\$\{", found[2]):
        return None
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found[2])


def _brings_key(info: ProviderInfo, config: Config, new: Mapping[str, str]) -> bool:
    """True if what is sent to the provider's server is the key of the file, and no other."""
    has_headers = bool(config.providers.get(info.name, {}).get("headers"))
    return info.key_variable in new and not config.key_source(info.name) and not has_headers
