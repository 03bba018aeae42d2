"""A running command or server, and its end: no process and no placeholder is left behind.

Source: D-82; safety-facts §4 (a sandbox dies with the thread that started it).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from axe_nb.sandbox.covers import Look, compare, cover, look
from axe_nb.sandbox.launch import Launch, Method, prepare
from axe_nb.sandbox.launcher import kill, list_children
from axe_nb.sandbox.view import View

PATIENCE, LAST_PATIENCE = 2.0, 60.0
"""Seconds that a sandbox has to start its first child, and at exit to end."""


class Process:
    """A program, run by a thread of its own until it ends."""

    def __init__(
        self,
        method: Method,
        view: View,
        words: Sequence[str],
        environment: Mapping[str, str],
        files: tuple[int, int, int],
    ) -> None:
        """Starts the program and returns at once.

        Args:
            words: program and arguments.
            environment: all of its environment variables.
            files: numbers of the files for its input, output and errors; closed here.
        """
        self.code: int | None = None
        """Exit code; negative = the signal that ended it, None = it runs or did not start."""
        self.failure = ""
        """The reason that it could not be started, or its protected files not be compared."""
        self.notes: tuple[str, ...] = ()
        """Protected files that were changed while it ran."""
        self.owner = os.getpid()
        """The process that started it; forks of it inherit the object, not the program."""
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
        """Returns true once the program and everything that it started have ended."""
        return self._over.wait(timeout)

    def kill(self) -> None:
        """Kills the program and everything that it started; one that has not begun never does."""
        with self._lock:
            is_killed, self._is_killed = self._is_killed, True
            if self._popen is None or self._popen.returncode is not None or is_killed:
                return
            match self._method.ending:
                case "group":
                    kill_group(self._popen)
                case "child":
                    end_first(self._popen)
                case "program":
                    nowhere = subprocess.DEVNULL
                    self._ender = subprocess.Popen(self._end, stdout=nowhere, stderr=nowhere)

    def _keep(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            if self._method.protection == "none":
                self._run(words, environment)
            else:
                with cover(self._view, self._method.protection) as self._view:
                    self._seen = look(self._view)
                    self._run(words, environment)
                    self.notes = self.list_changes()
        except Exception as error:  # whatever a command may have made to make a look fail
            what = "start it" if self._popen is None else "compare protected files after it"
            reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
            self.failure = f"cannot {what}: {reason}"
        finally:
            self._close_files()
            self._over.set()
            _running.discard(self)

    def list_changes(self) -> tuple[str, ...]:
        """Returns a note on each protected file that was changed since this was last asked.

        Raises:
            OSError: a folder cannot be read.
            ValueError: there are too many protected files.
        """
        before = self._seen
        if before is None or not self._view.workdir.exists():
            return ()
        self._seen = look(self._view)
        return compare(before, self._seen, self._view.workdir)

    def _run(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        launch = prepare(self._method, self._view, words)
        with self._lock:
            if self._is_killed:
                return
            self._end = launch.end
            self._popen = spawn(launch, self._view, environment, self._files)
        self._close_files()  # else its end would not be noticed
        wait_exit(self._popen)
        with self._lock:
            if self._method.ending == "group":
                kill_group(self._popen)
            code = self._popen.wait()
        is_wrapped = self._method.ending != "group"  # then 128 + the number of a signal ends it
        self.code = 128 - code if is_wrapped and 128 < code <= 192 else code

    def _close_files(self) -> None:
        for number in {*self._files}:
            close_file(number)
        self._files = (-1, -1, -1)


_running: set[Process] = set()


def end_all() -> None:
    """Kills what this process started, and waits until it has ended."""
    own = [one for one in list(_running) if one.owner == os.getpid()]
    for one in own:
        one.kill()
    for one in own:
        one.wait(LAST_PATIENCE)


atexit.register(end_all)  # their threads would end with the interpreter


def spawn(
    launch: Launch, view: View, environment: Mapping[str, str], files: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    """Starts a program; the numbers are those of the files for its input, output and errors."""
    words, passed = launch.words, list[int]()
    if launch.filter:
        passed = [os.memfd_create("filter")]
        os.write(passed[0], launch.filter)
        os.lseek(passed[0], 0, os.SEEK_SET)
        words = [words[0], "--seccomp", str(passed[0]), *words[1:]]
    try:
        return subprocess.Popen(
            words,
            cwd=view.workdir,
            env={**environment, **launch.environment},
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            pass_fds=passed,
            start_new_session=True,
        )
    finally:
        for number in passed:
            os.close(number)


def close_file(number: int) -> None:
    with contextlib.suppress(OSError):  # a number below zero stands for no file
        os.close(number)


def wait_exit(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process, whose number names nothing else until it is waited for."""
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def end_first(process: subprocess.Popen[bytes]) -> None:
    """Kills the first child of a process, which then ends the others and itself.

    If the process itself were killed, the others would end some time after it.
    """
    until = time.monotonic() + PATIENCE
    while not (found := list_children(process.pid)) and process.poll() is None:
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.001)
    for pid in found:
        kill(pid)
    process.send_signal(signal.SIGCONT)  # the command may have stopped it


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that did not leave its group."""
    if os.name == "nt":
        if process.poll() is None:
            words = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(words, capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
