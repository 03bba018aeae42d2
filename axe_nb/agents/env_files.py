"""`.env` files: variables that a person asks to read into this process; nothing else reads them.

Such a file may come with a project, so it sets the keys of providers and nothing else, but for the
address that its own key is sent to.
Source: D-83, D-81, D-60, docs/notebook.md.
"""

from __future__ import annotations

import os
import re

from axe_nb.agents.config import Config, format_path_or_name
from axe_nb.agents.files import expand_home, read_text, reason
from axe_nb.errors import ConfigError
from axe_nb.text import quote

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w{0,99})\s*=\s*(.*)", re.ASCII)
_QUOTED = re.compile(r"""(['"])(.*?)\1\s*(#.*)?""")

SET, KEPT, EMPTY = "set", "already set, kept", "no value, not set"
UNKNOWN = "refused, because a file sets only keys and addresses of providers"
EXPANDED = "refused, because its value contains ${…}, which is not expanded; write it out"
KEY_ELSEWHERE = "refused, because a key that is not from this file would be sent there"


def load_env(file: str) -> dict[str, list[str]]:
    """Reads a file of NAME=VALUE lines into the environment of this process.

    A variable that has a value keeps it. Values are not expanded. Returns outcome → names. Raises
    ConfigError if the file cannot be read, or a line is wrong; then nothing is set.
    """
    path = expand_home(file)
    shown = format_path_or_name(path)
    try:
        values = _parse(read_text(path), shown)
    except OSError as error:
        raise ConfigError(
            f"cannot read {quote(shown)}: {reason(error)}",
            hint="give a file of NAME=VALUE lines, as in %axe env .env",
        ) from None
    config, new = Config.load(), dict[str, str]()
    servers = [info for info in config.known.values() if info.has_server]
    addresses = {info.url_variable: info.key_variable for info in servers}
    with_own_key = {  # or with headers: what is the person's own is sent there already
        info.url_variable
        for info in servers
        if config.key_source(info.name) or config.providers.get(info.name, {}).get("headers")
    }
    outcomes = (SET, KEPT, EMPTY, UNKNOWN, EXPANDED, KEY_ELSEWHERE)
    found: dict[str, list[str]] = {outcome: [] for outcome in outcomes}
    for name, value in sorted(values.items(), key=lambda item: item[0] in addresses):
        if name not in addresses and name not in addresses.values():
            outcome = UNKNOWN
        elif "${" in value:
            outcome = EXPANDED
        elif not value:
            outcome = EMPTY
        elif name in with_own_key or (name in addresses and addresses[name] not in new):
            outcome = KEY_ELSEWHERE
        elif os.environ.get(name, "").strip():
            outcome = KEPT
        else:
            outcome, new[name] = SET, value
        found[outcome].append(name)
    os.environ.update(new)
    return {outcome: names for outcome, names in found.items() if names}


def _parse(text: str, file: str) -> dict[str, str]:
    """Returns name → value. Errors name the line, not its text."""
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        written = found[2] if found else ""
        quoted = _QUOTED.fullmatch(written)
        if found is None or "\0" in line or (written.startswith(("'", '"')) and not quoted):
            failure = ConfigError(
                "not a NAME=VALUE line",
                hint="fix the line, or close its quotes; nothing was set",
            )
            failure.place = f"in {file}, line {number}"
            raise failure
        bare = re.split(r"(?:^|\s)#", written, maxsplit=1)[0].strip()
        values[found[1]] = quoted[2] if quoted else bare
    return values
