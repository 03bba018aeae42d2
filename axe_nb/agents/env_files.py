"""`.env` files: variables that a person asks to read into this process; nothing else reads them.

Such a file may come with a project, so it cannot set everything: not which programs and modules
run, not who is trusted, not the way to servers, and not where a key of the person's own is sent.
Source: product.md "Notebook" (`%axe env`); D-52, D-54, D-60; docs/safety.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from axe_nb.agents.config import Config, format_path_or_name
from axe_nb.agents.files import expand_home, read_text, reason
from axe_nb.errors import ConfigError
from axe_nb.quick_dataclass import dataclass
from axe_nb.text import quote

MAX_NAME, MAX_NAMES = 100, 1000
"""Characters of a name, and names in a file."""

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[ \t]*(?:\#.*)?""")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

PROGRAMS = "it changes which programs or modules run"
SETTINGS = "it changes the settings and trust of axe_nb and Jupyter"
NETWORK = "it changes how servers are reached"
KEY_ELSEWHERE = "your own key, which is not from this file, would be sent there"
EXPANDED = "its value contains ${…}, which is not expanded; write it out, or use single quotes"

REFUSED: Mapping[str, str] = {
    r"AXE_.*|XDG_.*|I?PYTHON.*|JUPYTER.*|PYTEST.*|OTEL_.*": SETTINGS,
    r".*_PROXY|(SSL|CURL|OPENSSL|REQUESTS)_.*|.*_CA_(BUNDLE|CERTS?|FILE)|SSLKEYLOGFILE": NETWORK,
    r"HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_.*|GOPROXY": NETWORK,
    r"(LD|DYLD|GIT|SSH|GPG|NODE|NPM|YARN|PIP|UV|CONDA|DOCKER|MALLOC|GLIBC|LESS)_.*": PROGRAMS,
    r"(PERL|RUBY|JAVA|JDK|_JAVA|GCONV|MPL|LUA|BASH|ZDOT|VIRTUAL_ENV|KUBECONFIG).*": PROGRAMS,
    r".*PATH|PATHEXT|COMSPEC|SYSTEMROOT|WINDIR|.*APPDATA|.*HOME|USERPROFILE|HOMEDRIVE": PROGRAMS,
    r".*(SHELL|EDITOR|VISUAL|PAGER|BROWSER|ASKPASS|WRAPPER|PRELOAD|COMMAND|CMD|_EXEC)": PROGRAMS,
    r".*(OPTS|OPTIONS|FLAGS|RCFILE|_RC|CONFIG|CONFIG_FILE|CREDENTIALS_FILE)": PROGRAMS,
    r".*(EXECUTABLES?|_MODULES|_MODULE_FILE|_PYTHON|PROCESS_START)|(NET|WGET)RC": PROGRAMS,
    r"CC|CXX|LD|MAKE|RUSTC|EXEC|FCEDIT|(VIM|EX)INIT|R_(PROFILE|ENVIRON|LIBS).*|COV_.*": PROGRAMS,
    r"LESS(OPEN|CLOSE)|ENV|IFS|CDPATH|PS[0-4]|TMPDIR|TEMP|TMP|USER|LOGNAME|PROMPT_.*": PROGRAMS,
}
"""Pattern of names in capitals → why a file cannot set them."""

_RULES = [(re.compile(pattern), why) for pattern, why in REFUSED.items()]

_ADDRESS = re.compile(r"(\w+?)_(?:API_)?(?:BASE_URL|BASE|URL|ENDPOINT|HOST)")
"""Name of a variable with the address of a server, as SDKs have it."""

_KEYS = ("API_KEY", "KEY", "TOKEN", "API_TOKEN")
"""Ends of the names of the keys that such an SDK sends there."""


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
    for name, value in values.items():
        if why := _find_problem(name, config):
            refused[name] = why
        elif value is None:
            refused[name] = EXPANDED
        elif not value:
            empty.append(name)
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


def _find_problem(name: str, config: Config) -> str:
    """Returns why no file can set a variable; empty if it can."""
    capitals = name.upper()
    info = next((i for i in config.known.values() if i.url_variable == capitals), None)
    if info:
        has_headers = bool(config.providers.get(info.name, {}).get("headers"))
        if config.key_source(info.name) or has_headers:
            return KEY_ELSEWHERE
    elif why := next((why for pattern, why in _RULES if pattern.fullmatch(capitals)), ""):
        return why
    elif address := _ADDRESS.fullmatch(capitals):
        keys = (f"{address[1]}_{end}" for end in _KEYS)
        if any(os.environ.get(key, "").strip() for key in keys):
            return KEY_ELSEWHERE
    return ""
