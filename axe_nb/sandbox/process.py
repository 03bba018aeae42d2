"""Starts programs in a sandbox with a clean environment and limits, and kills their processes.

Source: D-43, D-53, D-82.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from axe_nb.paths import hold_real_folder
from axe_nb.sandbox.launcher import kill, list_children
from axe_nb.sandbox.view import Look, Protection, View, compare, cover, look

Level = Literal["full", "files", "docker", "none"]

VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""Environment variables passed to a program; none of them holds keys or tokens."""

LIMITS = {"c": 0, "f": 8 << 20, "n": 4096}  # ulimit: core size, 512-byte blocks, open files
PROCESSES, LEAST_MEMORY = 8192, 2 << 30  # maximum processes; least limit of memory in bytes

PROGRAM_FOLDERS = (
    "/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/opt/homebrew/bin",
    "/snap/bin", "/Applications/Docker.app/Contents/Resources/bin",
)  # fmt: skip
"""Folders to search for programs, instead of `PATH`, which may lead into a workdir."""

REPLACED = "axe-nb: a protected file was replaced while the command started; try again"

Ending = Literal["child", "group", "program"]
"""Method of killing a sandbox with all its processes. `child`: SIGKILL to the children of the
sandbox program, which ends all their descendants. `group`: SIGKILL to its process group.
`program`: `Launch.end` is run."""

PATIENCE, LAST_PATIENCE = 2.0, 60.0  # maximum seconds to start a child, and to end at exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    words: Sequence[str] | str
    """Program and arguments; on Windows possibly as a single command line."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the sandbox adds to the command's own."""
    end: Sequence[str] = ()
    filter: bytes = b""
    """Compiled system call filter for bubblewrap; empty for no filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    level: Level
    name: str
    ending: Ending
    promises: tuple[str, ...]
    """Restrictions on a command, as phrases such as `leaves no process behind`."""
    not_promised: tuple[str, ...] = ()
    """Actions that a command can still take, as short sentences."""
    wrap: Callable[[Sequence[str], View], Launch]
    """Function that takes a command and its view, and returns the program to start instead."""
    protection: Protection


def find_program(name: str) -> str:
    places = (f"{folder}/{name}" for folder in PROGRAM_FOLDERS)
    return next(filter(os.path.isfile, places), "")


def clean_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def prepare(method: Method, view: View, words: Sequence[str]) -> Launch:
    """Wraps a command in the sandbox, with resource limits and a check for replaced files.

    Another command in the same workdir could replace a file with a link, which a mount would
    follow. Under bubblewrap and Landlock, the command therefore starts only if protected files and
    folders are the same inside the sandbox as outside.
    """
    if os.name == "nt":
        return method.wrap(words, view)
    steps = ["ulimit -c 0"]
    if method.level != "none":  # lower limits of the machine stay in force
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limits = {**LIMITS, "d": max(LEAST_MEMORY, memory // 2) >> 10}
        steps = [f"ulimit -{option} {most} 2>/dev/null" for option, most in limits.items()]
        # the option for the number of processes depends on the shell
        steps += [f"ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES} 2>/dev/null"]
    if method.ending == "child":
        shown = (path for path, seen in view.closed.items() if seen == path)
        paths, found = [*view.anchored, *shown], []
        for path in (view.workdir, *paths):
            with hold_real_folder(path.parent) as folder:
                its = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
            found.append(f"{its.st_dev}:{its.st_ino}")
        asked = shlex.join([find_program("stat"), "-c", "%d:%i", "--", ".", *map(str, paths)])
        same = f'[ "$({asked})" = {shlex.quote(chr(10).join(found))} ]'
        steps.append(f"{same} || {{ echo {shlex.quote(REPLACED)} >&2; exit 125; }}")
    return method.wrap(["/bin/sh", "-c", "; ".join([*steps, 'exec "$@"']), "sh", *words], view)


class Process:
    """A program in a sandbox. A thread starts the program and waits for it to end."""

    def __init__(
        self,
        method: Method,
        view: View,
        words: Sequence[str],
        environment: Mapping[str, str],
        files: tuple[int, int, int],
    ) -> None:
        """Starts a thread that runs the program and closes `files`: stdin, stdout and stderr."""
        self.code: int | None = None
        """The program's exit code, or the negative number of a fatal signal; None until it ends."""
        self.failure = ""
        """Error from starting the program or comparing protected files; empty if none."""
        self.notes: tuple[str, ...] = ()
        """Notes on protected files that changed while the program ran."""
        self.owner = os.getpid()
        """Id of the process that started the program; forks of that process must not end it."""
        self._method, self._view, self._files = method, view, files
        self._end: Sequence[str] = ()
        self._seen: Look | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_killed = False
        self._over = threading.Event()
        _running.add(self)
        keep = partial(self._keep, words, environment)
        threading.Thread(target=keep, name="axe-nb-command", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the program and all its processes to end; returns False on timeout."""
        return self._over.wait(timeout)

    def kill(self) -> None:
        """Kills the program and all its processes; keeps it from starting if it has not started."""
        with self._lock:
            is_killed, self._is_killed = self._is_killed, True
            if self._popen is None or self._popen.returncode is not None or is_killed:
                return
            if self._method.ending == "group":
                kill_group(self._popen)
            elif self._method.ending == "child":
                # if the program itself were killed, its children would end only some time later
                until = time.monotonic() + PATIENCE
                while not (found := list_children(self._popen.pid)) and self._popen.poll() is None:
                    if time.monotonic() > until:
                        self._popen.kill()
                    time.sleep(0.001)
                for pid in found:
                    kill(pid)
                self._popen.send_signal(signal.SIGCONT)  # the command may have stopped it
            else:
                nowhere = subprocess.DEVNULL
                self._ender = subprocess.Popen(self._end, stdout=nowhere, stderr=nowhere)

    def _keep(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        method = self._method
        try:
            with cover(self._view, method.protection) as self._view:
                if method.protection != "none":
                    self._seen = look(self._view)
                launch = prepare(method, self._view, words)
                with self._lock:
                    if self._is_killed:
                        return
                    self._end = launch.end
                    self._popen = spawn(launch, self._view, environment, self._files)
                self._close_files()  # otherwise readers would not notice the end
                if hasattr(os, "waitid"):  # keeps the process id from being reused
                    with contextlib.suppress(ChildProcessError):
                        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
                else:
                    self._popen.wait()
                with self._lock:
                    if method.ending == "group":
                        kill_group(self._popen)
                    code = self._popen.wait()
                is_wrapped = method.ending != "group"  # code 128 + N then means signal N
                self.code = 128 - code if is_wrapped and 128 < code <= 192 else code
                self.notes = self.list_changes()
        except Exception as error:  # a command may have created files on which `look` fails
            what = "start it" if self._popen is None else "compare protected files after it"
            reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
            self.failure = f"cannot {what}: {reason}"
        finally:
            self._close_files()
            self._over.set()
            _running.discard(self)

    def list_changes(self) -> tuple[str, ...]:
        """Returns a note on each protected file that changed since the start or the last call."""
        before = self._seen
        if before is None or not self._view.workdir.exists():
            return ()
        self._seen = look(self._view)
        return compare(before, self._seen, self._view.workdir)

    def _close_files(self) -> None:
        for number in {*self._files}:
            with contextlib.suppress(OSError):  # -1 is no file
                os.close(number)
        self._files = (-1, -1, -1)


_running: set[Process] = set()


def end_all() -> None:
    """Kills all programs that this process has started, and waits for them to end."""
    own = [one for one in list(_running) if one.owner == os.getpid()]
    for one in own:
        one.kill()
    for one in own:
        one.wait(LAST_PATIENCE)


atexit.register(end_all)  # the threads of programs end with the interpreter


def spawn(
    launch: Launch, view: View, environment: Mapping[str, str], files: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as opened:
        words, passed = launch.words, list[int]()
        if launch.filter:
            passed = [os.memfd_create("filter")]
            opened.callback(os.close, passed[0])
            os.write(passed[0], launch.filter)
            os.lseek(passed[0], 0, os.SEEK_SET)
            words = [words[0], "--seccomp", str(passed[0]), *words[1:]]
        return subprocess.Popen(
            words, cwd=view.workdir, env={**environment, **launch.environment}, stdin=files[0],
            stdout=files[1], stderr=files[2], pass_fds=passed, start_new_session=True,
        )  # fmt: skip


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        if process.poll() is None:
            words = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(words, capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
