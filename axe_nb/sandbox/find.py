"""The strongest level of the sandbox that works here, tried before it is trusted (D-82)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from axe_nb.errors import ConfigError
from axe_nb.sandbox import methods
from axe_nb.sandbox.process import Launch, Level, Method, Process, find_program
from axe_nb.sandbox.view import View


def _start_plainly(words: Sequence[str], view: View) -> Launch:
    if os.name != "nt":
        setpriv = find_program("setpriv")  # ends it with the thread that started it
        return Launch(words=[*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *words])
    if words[1:2] != ["/c"]:
        return Launch(words=words)
    program, option, command = words  # cmd.exe splits its line itself
    return Launch(words=f'{program} {option} "{command}"')


PLAIN = Method(
    level="none",
    name="",
    ending="group",
    promises=(),
    not_promised=("it can do anything you can",),
    wrap=_start_plainly,
    protection="none",
)
"""No sandbox, but a process group."""

METHODS: Mapping[str, Sequence[Callable[[], Iterable[Method]]]] = {
    "linux": (methods.list_bubblewrap, methods.list_landlock),
    "darwin": (methods.list_seatbelt,),
}

is_caged = False
"""True in a process that is itself in a sandbox, as are all programs that it starts."""

TRIAL = 10.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A tried way to run commands with one view."""

    method: Method
    view: View
    is_off: bool = False

    @property
    def level(self) -> Level:
        return self.method.level

    @property
    def promises(self) -> tuple[str, ...]:
        network = () if self.view.network or self.level == "none" else ("reaches no network",)
        return (*self.method.promises, *network)

    @property
    def label(self) -> str:
        """The level in a few words, for a question or a row."""
        if self.level == "none":
            return "sandbox turned off" if self.is_off else "no sandbox here"
        name = self.method.name if self.level == "docker" else self.level
        return self.portable_label.replace(",", f" ({name}),")

    @property
    def portable_label(self) -> str:
        """The label without the level, so that a saved notebook is the same on other machines."""
        if self.level == "none":
            return self.label
        return f"in a sandbox, {'with network' if self.view.network else 'no network'}"

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> Process:
        return Process(self.method, self.view, words, environment, files)


def find_sandbox(setting: str, view: View) -> Sandbox:
    """Returns the sandbox for `auto`, the strongest that works here, `off` or `docker:IMAGE`."""
    if setting == "off" or is_caged:
        return Sandbox(PLAIN, view, is_off=True)
    if setting.startswith("docker:"):
        return Sandbox(methods.make_docker(setting.removeprefix("docker:")), view)
    method = next((m for m in list_methods() if _works(m, view)), PLAIN)
    if method.protection == "notes" and view.workdir == view.home:
        raise ConfigError(
            f"the workdir {view.workdir} is the home folder, and its keys cannot be hidden here",
            hint='use a project folder as workdir, or set sandbox = "off"',
        )
    return Sandbox(method, view)


def list_methods() -> Iterator[Method]:
    """Yields the methods of this system, strongest first, whether they work or not."""
    for listed in METHODS.get(sys.platform, ()):
        yield from listed()


_tried: dict[tuple[object, ...], bool] = {}
_lock = threading.Lock()


def _works(method: Method, view: View) -> bool:
    """Runs a trivial command with the real flags, but without protected files, which may change."""
    words = method.wrap(["/bin/true"], view).words
    key = (os.stat(words[0]).st_mtime_ns, *words)  # noqa: PTH116
    with _lock:
        if key not in _tried:
            files = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
            trial = Process(replace(method, protection="none"), view, ["/bin/true"], {}, files)
            if trial.wait(TRIAL):  # else the machine may only be busy
                _tried[key] = trial.code == 0
            trial.kill()
        return _tried.get(key, False)
