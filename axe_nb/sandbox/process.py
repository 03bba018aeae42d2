"""A command that runs, and its end: nothing that it started is left, no protected file is new.

Source: D-55; safety-facts §4 (a sandbox dies with the thread that started it).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.view import View
from axe_nb.sandbox.watch import Watch

PATIENCE = 2.0
"""Seconds that the first process of a sandbox has to end the others."""

NO_CORE = ("/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh")
"""Words before a command that keep it from writing core files."""


class Process:
    """A command, started in a thread that lives as long as it does."""

    def __init__(
        self,
        method: Method,
        view: View,
        words: Sequence[str],
        environment: Mapping[str, str],
        stdout: int,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Starts the command and returns at once.

        Args:
            method: the way to start it.
            view: what it sees.
            words: program and arguments.
            environment: all of its environment variables.
            stdout: file number for its output and its errors; closed here.
            stdin: file number for its input; closed here.
        """
        self.code: int | None = None
        """Exit code; negative = the signal that ended it, None = it runs or did not start."""
        self.failure = ""
        """The reason that it could not be started, or its protected files not be checked."""
        self.notes: tuple[str, ...] = ()
        """Protected files that it created or changed, and what was done about them."""
        self._method = method
        self._view = view
        self._launch = (words, environment, stdout, stdin)
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._end: Sequence[str] = ()
        self._is_killed = False
        self._over = threading.Event()
        threading.Thread(target=self._keep, name="axe-nb-command", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once the command and everything that it started have ended."""
        return self._over.wait(timeout)

    def kill(self) -> None:
        """Kills the command and everything that it started; one that has not begun never does."""
        with self._lock:
            self._is_killed = True
            if self._popen is not None and not self._over.is_set():
                _end(self._popen, self._method, self._end)

    def _keep(self) -> None:
        words, environment, stdout, stdin = self._launch
        try:
            watch = Watch(self._view, restores=self._method.restores)
            first = () if os.name == "nt" else NO_CORE
            self._start(self._method.wrap([*first, *words], self._view), environment)
            if self._popen is not None:
                code = self._popen.wait()
                _end(self._popen, self._method, self._end)
                self.code = 128 - code if self._is_wrapped and 128 < code <= 192 else code
            self.notes = tuple(watch.settle())
        except (OSError, ValueError) as error:
            what = "start the command" if self._popen is None else "check protected files after it"
            self.failure = f"cannot {what}: {getattr(error, 'strerror', '') or error}"
        finally:
            if self._popen is None and not self._is_killed:
                self.failure = self.failure or "cannot start the command"
            for number in (stdout, stdin):
                _close(number)
            self._over.set()

    @property
    def _is_wrapped(self) -> bool:
        """True if a signal that ends the command is reported as 128 + its number."""
        return self._method.ending != "group"

    def _start(self, launch: Launch, environment: Mapping[str, str]) -> None:
        _, _, stdout, stdin = self._launch
        with _open_files(launch) as (words, numbers), self._lock:
            if self._is_killed:
                return
            self._end = launch.end
            self._popen = subprocess.Popen(
                words,
                cwd=self._view.workdir,
                env={**environment, **launch.environment},
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                pass_fds=numbers,
                start_new_session=True,
            )


@contextlib.contextmanager
def _open_files(launch: Launch) -> Iterator[tuple[Sequence[str] | str, Sequence[int]]]:
    """Yields the words, with the numbers of open files for the launch's data, and the numbers."""
    if isinstance(launch.words, str) or not launch.data:
        yield launch.words, ()
        return
    numbers = {}
    try:
        for name, content in launch.data.items():
            numbers[name] = os.memfd_create("axe-nb")
            os.write(numbers[name], content)
            os.lseek(numbers[name], 0, os.SEEK_SET)
        words = [str(numbers.get(word, word)) for word in launch.words]
        yield words, list(numbers.values())
    finally:
        for number in numbers.values():
            os.close(number)


def _close(number: int) -> None:
    if number >= 0:
        with contextlib.suppress(OSError):
            os.close(number)


def _end(process: subprocess.Popen[bytes], method: Method, program: Sequence[str]) -> None:
    """Ends everything that a process started; it ends by itself after that."""
    match method.ending:
        case "group":
            _kill_group(process)
        case "child":
            # killing the outer process would end the inner ones too, but some time after it
            for child in _list_children(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            if process.returncode is None:
                threading.Timer(PATIENCE, process.kill).start()
        case "signal":
            process.terminate()
        case "program":
            subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        if process.poll() is None:
            kill = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(kill, capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _list_children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
