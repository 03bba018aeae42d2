"""The strongest level of the sandbox that works here, tried before it is trusted.

Source: D-82; safety-facts §5 (only the real flags prove anything).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.sandbox import bubblewrap, docker, landlock, plain, seatbelt
from axe_nb.sandbox.launch import Level, Method
from axe_nb.sandbox.process import Process, run_trial
from axe_nb.sandbox.view import View

METHODS: Mapping[str, Sequence[Callable[[], Iterable[Method]]]] = {
    "linux": (bubblewrap.list_methods, landlock.list_methods),
    "darwin": (seatbelt.list_methods,),
}
"""System → its methods, strongest first."""

is_caged = False
"""True in a process that is in a sandbox itself: what it starts is in it too."""

TRIAL = 10.0
"""Seconds that a first trial may take."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A way to run commands with one view, which has been tried."""

    method: Method
    view: View
    is_off: bool = False
    """True if the user switched it off."""

    @property
    def level(self) -> Level:
        return self.method.level

    @property
    def promises(self) -> tuple[str, ...]:
        """Short sentences about what a command cannot do."""
        network = () if self.view.network or self.level == "none" else ("reaches no network",)
        return (*self.method.promises, *network)

    @property
    def label(self) -> str:
        """The level in a few words, for a question or a row."""
        if self.level == "none":
            return "sandbox turned off" if self.is_off else "no sandbox here"
        network = "with network" if self.view.network else "no network"
        name = self.method.name if self.level == "docker" else self.level
        return f"in a sandbox ({name}), {network}"

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> Process:
        """Starts a command; see `Process`."""
        return Process(self.method, self.view, words, environment, files)


def find_sandbox(setting: str, view: View) -> Sandbox:
    """Returns the sandbox for a setting: the strongest that works here, or the one it names.

    Args:
        setting: `auto`, `off` or `docker:IMAGE`.
        view: what a command is to see.

    Raises:
        ConfigError: the sandbox that the setting names does not work here, or the only one that
            works cannot hide the keys in this workdir.
    """
    if setting == "off" or is_caged:
        return Sandbox(plain.METHOD, view, is_off=True)
    if setting.startswith("docker:"):
        return Sandbox(docker.make_method(setting.removeprefix("docker:")), view)
    method = next((m for m in list_methods() if _works(m, view)), plain.METHOD)
    if not method.is_read_only and view.workdir == view.home:
        raise ConfigError(
            f"the workdir {view.workdir} is the home folder, and its keys cannot be hidden here",
            hint='use a project folder as workdir, or set sandbox = "off"',
        )
    return Sandbox(method, view)


def list_methods() -> Iterator[Method]:
    """Yields the methods of this system, strongest first; not all of them have to work."""
    for methods in METHODS.get(sys.platform, ()):
        yield from methods()


_tried: dict[tuple[object, ...], bool] = {}
_lock = threading.Lock()


def _works(method: Method, view: View) -> bool:
    """Runs a trivial command with the real flags, until it has ended once with them.

    The view is to be without protected files: they change, and one that cannot be shown fails the
    command.
    """
    launch = method.wrap(["/bin/true"], view)
    program = Path(launch.words[0])
    key = (program, program.stat().st_mtime_ns, *launch.words)
    with _lock:
        if key in _tried:
            return _tried[key]
        code = run_trial(method, view, TRIAL)
        if code is not None:  # else the machine may only be busy
            _tried[key] = code == 0
        return code == 0
