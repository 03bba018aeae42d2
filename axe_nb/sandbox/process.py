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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from axe_nb.sandbox.changes import Look, compare, hold_folders, look
from axe_nb.sandbox.covers import Covers
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.launcher import list_children, list_descendants
from axe_nb.sandbox.prepare import prepare
from axe_nb.sandbox.view import View, cover, fill_view, list_covers

PATIENCE = 2.0
"""Seconds that the first process of a sandbox has to end the others."""

INTERVAL = 0.02
"""Seconds between two attempts to end them, if it does not."""


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
            method: the way to start it.
            view: what it sees.
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
        self._method = method
        self._view = view
        self._looked: Look | None = None
        """Its protected files, as they were when they were last compared."""
        self._words, self._environment = words, environment
        self._files = files
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._end: Sequence[str] = ()
        self._is_killed = False
        self._over = threading.Event()
        _running.add(self)
        threading.Thread(target=self._keep, name="axe-nb-command", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once the program and everything that it started have ended."""
        return self._over.wait(timeout)

    def list_changes(self) -> tuple[str, ...]:
        """Returns a note on each protected file that was changed since this was last asked.

        Raises:
            OSError: they cannot be compared.
            ValueError: there are too many.
        """
        view, is_read_only = self._view, self._method.is_read_only
        if self._looked is None or not view.workdir.exists():
            return ()
        before, self._looked = self._looked, look(view, is_read_only=is_read_only)
        return compare(before, self._looked, view.workdir)

    def kill(self) -> None:
        """Kills the program and everything that it started; one that has not begun never does."""
        with self._lock:
            self._is_killed = True
            if self._popen is not None and not self._over.is_set():
                end_process(self._popen, self._method, self._end)

    def _keep(self) -> None:
        try:
            self._run()
        except Exception as error:  # whatever a command may have made to make a look fail
            what = "start it" if self._popen is None else "compare protected files after it"
            reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
            self.failure = f"cannot {what}: {reason}"
        finally:
            self._close_files()
            if self._popen is None and not self._is_killed:
                self.failure = self.failure or "cannot start it"
            with self._lock:
                self._over.set()
            _running.discard(self)

    def _run(self) -> None:
        method, view = self._method, self._view
        if method.level == "none":
            self._run_in(view)
            return
        if not method.mounts:
            self._compare(fill_view(view))
            return
        covers = Covers(view.workdir)
        try:
            view = fill_view(view)
            self._compare(cover(view, covers.make(view.missing)))
        finally:
            covers.end(list_covers(view) if view.workdir.exists() else ())

    def _compare(self, view: View) -> None:
        self._view = view
        with hold_folders(view):
            self._looked = look(view, is_read_only=self._method.is_read_only)
            self._run_in(view)
            self.notes = self.list_changes()

    def _run_in(self, view: View) -> None:
        """Runs the program to its end."""
        launch = prepare(self._method, view, self._words)
        with self._lock:
            if self._is_killed:
                return
            self._end = launch.end
            self._popen = spawn(launch, view, self._environment, *self._files)
        self._close_files()  # else its end would not be noticed
        wait_exit(self._popen)
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


def end_all(patience: float = 60.0) -> None:
    """Kills what this process started, and waits until it has ended.

    Args:
        patience: most seconds to wait for all of it.
    """
    until = time.monotonic() + patience
    own = [one for one in list(_running) if one.owner == os.getpid()]
    for one in own:
        one.kill()
    for one in own:
        one.wait(max(0.0, until - time.monotonic()))


atexit.register(end_all)  # their threads would end with the interpreter


def run_trial(method: Method, view: View, timeout: float) -> int | None:
    """Returns the exit code of a trivial command; None if it did not start, or not end in time."""
    launch = prepare(method, view, ["/bin/true"])
    try:
        process = spawn(launch, view, {}, *[subprocess.DEVNULL] * 3)
    except OSError:
        return None
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        end_process(process, method, launch.end)
        process.wait()
        return None


def spawn(
    launch: Launch,
    view: View,
    environment: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
) -> subprocess.Popen[bytes]:
    with _open_files(launch) as (words, numbers):
        return subprocess.Popen(
            words,
            cwd=view.workdir,
            env={**environment, **launch.environment},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
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


def close_file(number: int) -> None:
    if number >= 0:
        with contextlib.suppress(OSError):
            os.close(number)


def end_process(process: subprocess.Popen[bytes], method: Method, program: Sequence[str]) -> None:
    """Ends everything that a process started; it ends by itself after that."""
    match method.ending:
        case "group":
            kill_group(process)
        case "child":
            # killing the outer process would end the inner ones too, but some time after it
            for child in list_children(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            _kill_later(process)
        case "signal":
            process.terminate()
            process.send_signal(signal.SIGCONT)  # the command may have stopped it
            threading.Thread(target=_end_launcher, args=(process,), daemon=True).start()
        case "program" if process.returncode is None:
            threading.Thread(target=_run_quietly, args=(program,), daemon=True).start()


def wait_exit(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process, whose number names nothing else until it is waited for."""
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _kill_later(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that still runs after a while; an exit of Python does not wait for that."""
    if process.returncode is None:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.daemon = True
        timer.start()


def _end_launcher(process: subprocess.Popen[bytes]) -> None:
    """Ends a launcher that still runs after a while, but what it started first.

    That would outlive it.
    """
    time.sleep(PATIENCE)
    while process.poll() is None:
        pids = list_descendants(process.pid)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if all(map(_has_ended, pids)):
            process.kill()
        process.send_signal(signal.SIGCONT)
        time.sleep(INTERVAL)


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX"
    except (OSError, IndexError):
        return True


def _run_quietly(program: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        if process.poll() is None:
            kill = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(kill, capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
