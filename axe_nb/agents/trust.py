"""Trust in the unusual agent files of projects, remembered by content in the state folder.

Source: D-54, D-61; product.md "Notebook" (`%axe trust`); docs/safety.md "Trust".
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from axe_nb.agents.config import format_path, is_own, state_dir
from axe_nb.agents.files import display_path, hold_lock, read_text, reason, write_whole
from axe_nb.agents.unusual import (
    Unusual,
    find_inner_texts,
    find_outside,
    find_project,
    find_rights_below,
    find_unusual,
)
from axe_nb.errors import ConfigError
from axe_nb.quick_dataclass import dataclass
from axe_nb.text import cut_chars, printable, quote

VARIABLE = "AXE_NB_TRUST"
"""Environment variable; `1` trusts the agents of every project."""

FORMAT = "axe-nb trust"
VERSION = (1, 0)

MAX_ENTRIES = 1000
"""Agents that are remembered; the oldest are forgotten first."""

LONGEST_SHOWN = 200
"""Characters of an unusual part that an error quotes."""


@dataclass(frozen=True, slots=True)
class Review:
    """The unusual parts of an agent file, and the decision of the person."""

    path: Path
    text: str
    unusual: tuple[Unusual, ...]
    below: tuple[Unusual, ...] = ()
    """Rights that it would gain below an agent in mode `auto`; a yes covers them too."""
    fingerprint: str = ""
    """Hash of its content, to remember; empty if it is the user's own."""
    is_trusted: bool = False
    """True if the person has trusted this very content."""
    problem: str = ""
    """The reason that the file could not be read or checked; empty if it could."""

    @property
    def needs_trust(self) -> bool:
        """True if the agent does not run yet."""
        return bool(self.unusual) and not self.is_trusted


def trusts_all() -> bool:
    """True if the environment trusts the agents of every project, as in CI."""
    return os.environ.get(VARIABLE, "").strip() == "1"


def trust_file() -> Path:
    """Returns the path of the list of trusted agents; it need not exist."""
    return state_dir() / "trust"


def check_trust(path: str, text: str, name: str, *, below_auto: bool = False) -> None:
    """Rejects an unusual agent of a project that the person has not trusted.

    Args:
        path: the agent's file; empty for an agent made in code.
        text: the text that it was loaded from.
        name: the agent's name.
        below_auto: True if it is started by an agent in mode `auto`.

    Raises:
        ConfigError: names the first unusual part and the command that asks for trust.
    """
    unusual = list_unusual(path, text)
    if below_auto and path and text and not is_own(Path(path)):
        unusual = (*unusual, *find_rights_below(text))
    if unusual and not is_trusted(Path(path), text):
        more = f", and {len(unusual) - 1} more" if len(unusual) > 1 else ""
        raise _make_error(path, name, f"{unusual[0].what[:LONGEST_SHOWN]}{more}")


def list_unusual(path: str, text: str) -> tuple[Unusual, ...]:
    """Returns the unusual parts of an agent; none if it is the user's own or was made in code."""
    is_of_project = bool(path and text) and not is_own(Path(path))
    return find_unusual(Path(path), text) if is_of_project else ()


def is_trusted(path: Path, text: str) -> bool:
    """True if the person has trusted an unusual agent file with this content.

    Raises:
        ConfigError: the list of trusted agents cannot be read.
    """
    return trusts_all() or compute_fingerprint(path, text) in load_trusted()


def may_leave(path: str, text: str) -> bool:
    """True if an agent file may name any workdir: the user's own, or one that is trusted (D-53).

    Raises:
        ConfigError: the list of trusted agents cannot be read.
    """
    return bool(path and text) and (is_own(Path(path)) or is_trusted(Path(path), text))


def check_link(path: Path) -> Path:
    """Rejects, before it is read, an agent file that a link of the project leads out of it to.

    Returns its real path.

    Raises:
        ConfigError: the person has trusted no agent there.
    """
    real = Path(os.path.realpath(path))
    if find_unread_link(path, real):
        raise _make_error(str(path), path.stem, "its file is reached through a link")
    return real


def find_unread_link(path: Path, real: Path | None = None) -> str:
    """Returns the place outside the project that a link leads an agent file to.

    Empty if there is none, or if the person has trusted an agent there.

    Raises:
        ConfigError: the list of trusted agents cannot be read.
    """
    outside = "" if is_own(path) or trusts_all() else find_outside(path, real or path)
    return outside if outside and _identify(path) not in load_trusted().values() else ""


def review(path: Path) -> Review:
    """Reviews an agent file, for the person; reads it wherever it leads.

    Raises:
        ConfigError: the list of trusted agents cannot be read.
    """
    try:
        text = read_text(path)
    except OSError as error:
        return Review(path, "", (), problem=reason(error))
    if is_own(path):
        return Review(path, text, ())
    try:
        unusual, below = find_unusual(path, text), find_rights_below(text)
    except ConfigError as error:
        return Review(path, "", (), problem=str(error))
    fingerprint = compute_fingerprint(path, text)
    known = trusts_all() or fingerprint in load_trusted()
    return Review(path, text, unusual, below, fingerprint, is_trusted=known)


def remember(reviewed: Review) -> None:
    """Remembers that the person trusts an agent file as it was reviewed.

    Raises:
        ConfigError: the list of trusted agents cannot be read or written.
    """
    remember_fingerprint(reviewed.fingerprint, _identify(reviewed.path))


def remember_fingerprint(fingerprint: str, where: str) -> None:
    """Remembers something that the person trusts, by its hash.

    Raises:
        ConfigError: the list of what is trusted cannot be read or written.
    """
    with hold_lock(trust_file()):  # or a yes in another terminal could be lost
        entries = load_trusted()
        entries.pop(fingerprint, None)
        new = fingerprint, where
        kept = [*entries.items(), new][-MAX_ENTRIES:]
        header = f"{FORMAT} {VERSION[0]}.{VERSION[1]}"
        lines = [header, *(f"{known} {json.dumps(where)}" for known, where in kept)]
        write_whole(trust_file(), "\n".join(lines) + "\n", mode=0o600)


def load_trusted() -> dict[str, str]:
    """Returns fingerprint → path of the trusted agent files, oldest first; empty if none is.

    Raises:
        ConfigError: the list cannot be read, others may write it, or its format is unknown.
    """
    path = trust_file()
    try:
        if os.name == "posix" and path.stat().st_mode & 0o022:
            step = f"check it, then run chmod 600 {format_path(path)}"
            raise ConfigError("other users can change the list of trusted agents", hint=step)
        header, *lines = read_text(path).splitlines() or [""]
    except FileNotFoundError:
        return {}
    except OSError as error:
        message = f"cannot read the list of trusted agents: {reason(error)}"
        raise ConfigError(message, hint=f"see {display_path(path)}") from None
    version = re.fullmatch(rf"{FORMAT} (\d+)\.(\d+)", header)
    if version is None or int(version[1]) != VERSION[0]:
        found = f"has the format {quote(cut_chars(header, 40))}, expected {FORMAT} {VERSION[0]}"
        raise ConfigError(
            f"the list of trusted agents {found}",
            hint=f"update axe-nb, or delete {format_path(path)} and trust them again",
        )
    return dict(entry for line in lines if (entry := _parse_entry(line)))


def _parse_entry(line: str) -> tuple[str, str] | None:
    fingerprint, _, written = line.partition(" ")
    try:
        where = json.loads(written)
    except (ValueError, RecursionError):
        return None
    return (fingerprint, where) if isinstance(where, str) else None


def compute_fingerprint(path: Path, text: str) -> str:
    """Returns the hash of an agent file, its place, and whatever it refers to that matters.

    These are the places that it leads to, and the texts of its skill and script in the project.
    """
    import hashlib

    unusual = [str(part) for part in (*find_unusual(path, text), *find_rights_below(text))]
    content = [_identify(path), text, unusual, list(find_inner_texts(path, text))]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _identify(path: Path) -> str:
    """Returns the place of an agent file: absolute, with no links but those of its project."""
    project = find_project(path)
    below = Path(os.path.abspath(path)).relative_to(project)  # noqa: PTH100 - keeps its links
    return str(Path(os.path.realpath(project), below))


def _make_error(path: str, name: str, unusual: str) -> ConfigError:
    shown = printable(format_path(Path(path)))
    return ConfigError(
        f"agent {quote(name)} of this project is not trusted yet: {unusual}",
        hint=f"review it with `%axe trust {shown}`, or `axe-nb trust {shown}` in a shell; "
        f"in CI, {VARIABLE}=1 trusts all",
    )
