"""A command that runs, and its end: nothing that it started is left, no protected file is new.

Source: D-55; safety-facts §4 (a sandbox dies with the thread that started it).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.sandbox.claim import Claim
from axe_nb.sandbox.launch import Launch, Method
from axe_nb.sandbox.view import View, fill_view, identify
from axe_nb.sandbox.watch import Watch

REPLACED = "axe-nb: a protected file was replaced while the command started; try again"

PATIENCE = 2.0
"""Seconds that the first process of a sandbox has to end the others."""

STAT = ("/usr/bin/stat", "/bin/stat", "/run/current-system/sw/bin/stat")
"""Its possible paths; `PATH` is not searched, as it may lead into a workdir."""


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
        self._method = method
        self._view = view
        self._words, self._environment = words, environment
        self._files = (stdout, stdin)
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._end: Sequence[str] = ()
        self._is_killed = False
        # what is copied and restored must not be exchanged meanwhile by another command
        self._claim = Claim(view.workdir, is_shared=not method.restores)
        self._begun, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._keep, name="axe-nb-command", daemon=True).start()

    def wait_start(self, timeout: float | None = None) -> bool:
        """Returns true once nothing is in its way any more, or it is over."""
        return self._begun.wait(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once the command and everything that it started have ended."""
        return self._over.wait(timeout)

    def kill(self) -> None:
        """Kills the command and everything that it started; one that has not begun never does."""
        with self._lock:
            self._is_killed = True
            if self._popen is not None and not self._over.is_set():
                _end(self._popen, self._method, self._end)
        if not self._begun.is_set():
            self._claim.drop()  # it waits for a write

    def _keep(self) -> None:
        try:
            if self._claim.wait():
                self._begun.set()
                self._run()
        except (ConfigError, OSError, ValueError) as error:
            what = "start the command" if self._popen is None else "check protected files after it"
            self.failure = f"cannot {what}: {getattr(error, 'strerror', '') or error}"
        finally:
            if self._popen is None and not self._is_killed:
                self.failure = self.failure or "cannot start the command"
            for number in self._files:
                _close(number)
            self._claim.drop()
            self._begun.set()
            self._over.set()

    def _run(self) -> None:
        """Runs the command to its end and settles what it did to protected files."""
        view = fill_view(self._view)  # now, as an approved write may have changed files
        watch = Watch(view, restores=self._method.restores)
        self._start(prepare(self._method, view, self._words))
        if self._popen is None:
            return
        _wait_exit(self._popen)
        if self._method.ending == "group":
            _kill_group(self._popen)
        code = self._popen.wait()
        self.code = 128 - code if self._is_wrapped and 128 < code <= 192 else code
        self.notes = tuple(watch.settle())

    @property
    def _is_wrapped(self) -> bool:
        """True if a signal that ends the command is reported as 128 + its number."""
        return self._method.ending != "group"

    def _start(self, launch: Launch) -> None:
        with self._lock:
            if not self._is_killed:
                self._end = launch.end
                self._popen = spawn(launch, self._view, self._environment, *self._files)


def prepare(method: Method, view: View, words: Sequence[str]) -> Launch:
    """Returns the program to start for a command.

    Another command may run in the same workdir and put links in the place of what this one is to
    be shown, which whoever mounts it would follow. So it starts only if it was shown the files and
    folders that were seen there.

    Raises:
        OSError: a link is in the place of one already.
    """
    if os.name == "nt":
        return method.wrap(words, view)
    steps = ["ulimit -c 0"]  # no core files
    if method.level == "full":
        steps.append(_make_check([view.workdir, *view.anchored, *view.read_only]))
    return method.wrap(["/bin/sh", "-c", "; ".join([*steps, 'exec "$@"']), "sh", *words], view)


def _make_check(paths: Sequence[Path]) -> str:
    """Returns a line of the shell that ends it unless the paths are what they are now."""
    program = next(filter(os.path.exists, STAT), STAT[0])
    seen = shlex.quote("\n".join(map(identify, paths)))
    asked = shlex.join([program, "-c", "%d:%i", "--", *map(str, paths)])
    return f'[ "$({asked})" = {seen} ] || {{ echo {shlex.quote(REPLACED)} >&2; exit 125; }}'


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
        _end(process, method, launch.end)
        process.wait()
        return None


def spawn(
    launch: Launch, view: View, environment: Mapping[str, str], stdout: int, stdin: int
) -> subprocess.Popen[bytes]:
    with _open_files(launch) as (words, numbers):
        return subprocess.Popen(
            words,
            cwd=view.workdir,
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
            _kill_later(process)
        case "signal":
            process.terminate()
            process.send_signal(signal.SIGCONT)  # the command may have stopped it
            _kill_later(process)
        case "program" if process.returncode is None:
            threading.Thread(target=_run_quietly, args=(program,), daemon=True).start()


def _wait_exit(process: subprocess.Popen[bytes]) -> None:
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


def _run_quietly(program: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)


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
