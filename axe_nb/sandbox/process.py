"""A running command, and its end: no process and no new protected file is left behind.

Source: D-55; safety-facts §4 (a sandbox dies with the thread that started it).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from axe_nb.sandbox.claim import Claim
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.launcher import list_children, list_descendants
from axe_nb.sandbox.pending import PENDING
from axe_nb.sandbox.prepare import prepare
from axe_nb.sandbox.view import View, fill_view
from axe_nb.sandbox.watch import Watch

PATIENCE = 2.0
"""Seconds that the first process of a sandbox has to end the others."""

INTERVAL = 0.02
"""Seconds between two attempts to end them, if it does not."""


class Process:
    """A command, run by a thread of its own until it ends."""

    def __init__(
        self,
        method: Method,
        view: View,
        words: Sequence[str],
        environment: Mapping[str, str],
        stdout: int,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Starts the command, once nothing else claims the workdir, and returns at once.

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
        self.owner = os.getpid()
        """The process that started it; forks of it inherit the object, not the command."""
        self._method = method
        self._view = view
        self._words, self._environment = words, environment
        self._files = (stdout, stdin)
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._end: Sequence[str] = ()
        self._is_killed = False
        self._is_left = False
        # what is copied and restored must not be exchanged meanwhile by another command
        self._claim = Claim(view.workdir, is_shared=not method.restores)
        self._begun, self._over = threading.Event(), threading.Event()
        _running.add(self)
        threading.Thread(target=self._keep, name="axe-nb-command", daemon=True).start()

    def wait_start(self, timeout: float | None = None) -> bool:
        """Returns true once the command can start, or is over."""
        return self._begun.wait(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once the command and everything that it started have ended."""
        return self._over.wait(timeout)

    def leave(self) -> bool:
        """Returns false if it is over; else the next command in its workdir reports its notes."""
        with self._lock:
            self._is_left = not self._over.is_set()
            return self._is_left

    def kill(self) -> None:
        """Kills the command and everything that it started; one that has not begun never does."""
        with self._lock:
            self._is_killed = True
            if self._popen is not None and not self._over.is_set():
                end_process(self._popen, self._method, self._end)
        if not self._begun.is_set():
            self._claim.drop()  # it waits for a write

    def _keep(self) -> None:
        try:
            if self._claim.wait():
                self._begun.set()
                self._run()
        except Exception as error:  # whatever a command may have made to make the check fail
            what = "start the command" if self._popen is None else "check protected files after it"
            reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
            self.failure = f"cannot {what}: {reason}"
        finally:
            if self._popen is None and not self._is_killed:
                self.failure = self.failure or "cannot start the command"
            for number in self._files:
                close_file(number)
            self._claim.drop()
            self._begun.set()
            with self._lock:
                self._over.set()
                if self._is_left:
                    PENDING.keep_notes(self._view.workdir, self.notes)
            _running.discard(self)

    def _run(self) -> None:
        """Runs the command to its end and settles what it did to protected files."""
        earlier = PENDING.settle(self._view.workdir)
        view = fill_view(self._view)  # now, as an approved write may have changed files
        watch = Watch(view, restores=self._method.restores)
        self._start(prepare(self._method, view, self._words))
        if self._popen is None:
            return
        wait_exit(self._popen)
        if self._method.ending == "group":
            kill_group(self._popen)
        code = self._popen.wait()
        self.code = 128 - code if self._is_wrapped and 128 < code <= 192 else code
        try:
            watch.settle()
        finally:
            self.notes = (*earlier, *watch.take_notes())
            if not watch.is_settled:
                PENDING.add(watch)
        with contextlib.suppress(OSError, ValueError):  # it may have removed what was in the way
            self.notes += tuple(PENDING.settle(view.workdir))

    @property
    def _is_wrapped(self) -> bool:
        """True if a signal that ends the command is reported as 128 + its number."""
        return self._method.ending != "group"

    def _start(self, launch: Launch) -> None:
        with self._lock:
            if not self._is_killed:
                self._end = launch.end
                self._popen = spawn(launch, self._view, self._environment, *self._files)


_running: set[Process] = set()


class Running(Protocol):
    """A process that a thread of ours keeps running."""

    owner: int
    """The process that started it; a fork of it is not to end it."""

    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


def end_own(running: Iterable[Running], patience: float) -> None:
    """Kills what this process started, and waits until it has ended.

    Args:
        patience: most seconds to wait for all of it.
    """
    until = time.monotonic() + patience
    own = [one for one in list(running) if one.owner == os.getpid()]
    for one in own:
        one.kill()
    for one in own:
        one.wait(max(0.0, until - time.monotonic()))


def end_all(patience: float = 60.0) -> None:
    """Kills the commands that run and waits until their workdirs have been checked."""
    end_own(_running, patience)


atexit.register(end_all)  # their threads would end with the interpreter


def run_trial(method: Method, view: View, timeout: float) -> int | None:
    """Returns the exit code of a trivial command; None if it did not start, or not end in time."""
    launch = prepare(method, view, ["/bin/true"])
    try:
        process = spawn(launch, view, {}, subprocess.DEVNULL, subprocess.DEVNULL)
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
    stdout: int,
    stdin: int,
    stderr: int = subprocess.STDOUT,
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

    That would outlive it, and go on when protected files have been restored.
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
