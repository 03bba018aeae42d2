"""The way to start a command at one level of the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from axe_nb.sandbox.view import View

Level = Literal["full", "files", "docker", "none"]

Ending = Literal["child", "signal", "group", "program"]
"""The way to end everything: SIGKILL to its first child, SIGTERM to itself, SIGKILL to its group,
or the program `Launch.end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One program to start."""

    words: Sequence[str] | str
    """Program and arguments; on Windows, the line of both."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the level sets, on top of those of the command."""
    end: Sequence[str] = ()
    """Program and arguments that end it."""
    data: Mapping[str, bytes] = field(default_factory=dict)
    """Placeholder among the words → bytes; replaced by the number of a file that holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to run commands with restricted access."""

    level: Level
    name: str
    """The program or interface that it uses, for people."""
    ending: Ending
    promises: tuple[str, ...]
    """Short sentences about what a command cannot do."""
    not_promised: tuple[str, ...] = ()
    """Short sentences about what it can still do."""
    wrap: Wrap
    is_read_only: bool = True
    """True if a command cannot write protected files; else changes are only seen afterwards."""
    mounts: bool = False
    """True if it does so by mounts, for which a name must exist."""


Wrap: TypeAlias = Callable[[Sequence[str], View], Launch]
"""(words of a command, view) → the program to start instead."""
