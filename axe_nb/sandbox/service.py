"""A program that runs beside others until it is ended: a server.

It uses its workdir like a command, but for much longer. The person's own work cannot wait that
long, so protected files are compared around each use of the server, not around its whole life.
Source: D-52, D-55; safety-facts §4 (a sandbox dies with the thread that started it).
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence

from axe_nb.agents.files import reason
from axe_nb.sandbox.claim import Claim
from axe_nb.sandbox.find import Sandbox
from axe_nb.sandbox.launch import Launch
from axe_nb.sandbox.pending import PENDING
from axe_nb.sandbox.prepare import prepare
from axe_nb.sandbox.process import close_file, end_own, end_process, kill_group, spawn, wait_exit
from axe_nb.sandbox.view import fill_view
from axe_nb.sandbox.watch import Watch

SETPRIV = ("/usr/bin/setpriv", "/bin/setpriv", "/run/current-system/sw/bin/setpriv")
"""Possible paths of a program that has another one end with the thread that started it."""


class Service:
    """A program, run by a thread of its own until it ends."""

    def __init__(
        self,
        sandbox: Sandbox,
        words: Sequence[str],
        environment: Mapping[str, str],
        files: tuple[int, int, int],
    ) -> None:
        """Starts the program and returns at once.

        Args:
            sandbox: the way to start it, and what it sees.
            words: program and arguments.
            environment: all of its environment variables.
            files: numbers of the files for its input, output and errors; closed here.
        """
        self.code: int | None = None
        """Exit code; negative = the signal that ended it, None = it runs or did not start."""
        self.failure = ""
        """The reason that it could not be started."""
        self.owner = os.getpid()
        """The process that started it; forks of it inherit the object, not the program."""
        self._sandbox = sandbox
        self._words, self._environment, self._files = words, environment, files
        self._popen: subprocess.Popen[bytes] | None = None
        self._end: Sequence[str] = ()
        self._is_killed = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        _running.add(self)
        threading.Thread(target=self._keep, name="axe-nb-server", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Returns true once the program and everything that it started have ended."""
        return self._over.wait(timeout)

    def kill(self) -> None:
        """Kills the program and everything that it started."""
        with self._lock:
            self._is_killed = True
            if self._popen is not None and not self._over.is_set():
                end_process(self._popen, self._sandbox.method, self._end)

    def _keep(self) -> None:
        try:
            self._run()
        except Exception as error:  # whatever keeps it from starting
            reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
            self.failure = f"it could not be started: {reason}"
        finally:
            for number in self._files:
                close_file(number)
            with self._lock:
                self._over.set()
            _running.discard(self)

    def _run(self) -> None:
        sandbox = self._sandbox
        stdin, stdout, stderr = self._files
        view = fill_view(sandbox.view)
        launch = _launch(sandbox, self._words) or prepare(sandbox.method, view, self._words)
        with self._lock:
            if self._is_killed:
                return
            self._end = launch.end
            self._popen = spawn(launch, view, self._environment, stdout, stdin, stderr)
        for number in self._files:  # else its end would not be noticed
            close_file(number)
        self._files = (-1, -1, -1)
        wait_exit(self._popen)
        if sandbox.method.ending == "group":
            kill_group(self._popen)
        code = self._popen.wait()
        self.code = 128 - code if sandbox.level != "none" and 128 < code <= 192 else code


def _launch(sandbox: Sandbox, words: Sequence[str]) -> Launch | None:
    """Returns how to start a program without a sandbox; None if there is one."""
    if sandbox.level != "none":
        return None
    setpriv = next(filter(os.path.exists, SETPRIV), "")
    first = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    return Launch(words=[*first, *words])


_running: set[Service] = set()


def end_services(patience: float = 5.0) -> None:
    """Kills the services that run, and waits until they have ended."""
    end_own(_running, patience)


atexit.register(end_services)  # their threads would end with the interpreter


class Use:
    """One use of a service, around which the protected files of its workdir are compared."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Queues up for the workdir; every use has to be ended."""
        self._sandbox = sandbox
        self._watch: Watch | None = None
        self._notes: list[str] = []
        is_shared = not sandbox.method.restores
        self._claim = Claim(sandbox.view.workdir, is_shared=is_shared)

    def begin(self) -> None:
        """Waits until nothing else claims the workdir, and looks at its protected files.

        Raises:
            ConfigError: a link has taken the place of the workdir.
            OSError: the workdir cannot be looked through.
            ValueError: an earlier command left something that could not be cleared away.
        """
        if self._claim.wait():
            self._notes += PENDING.settle(self._sandbox.view.workdir)
            view = fill_view(self._sandbox.view)
            self._watch = Watch(view, restores=self._sandbox.method.restores)

    def drop(self) -> None:
        """Ends the wait of `begin`."""
        self._claim.drop()

    def leave(self, notes: Iterable[str]) -> None:
        """Has the next command in the workdir report these notes."""
        PENDING.keep_notes(self._sandbox.view.workdir, tuple(notes))

    def end(self) -> tuple[str, ...]:
        """Undoes what the service did to protected files, and returns a note on each.

        What could not be undone is left to the next command in the workdir.
        """
        try:
            watch = self._watch
            if watch is None:
                return ()
            try:
                watch.settle()
            except OSError as error:
                self._notes.append(f"protected files could not be checked: {reason(error)}")
            finally:
                self._notes += watch.take_notes()
                if not watch.is_settled:
                    PENDING.add(watch)
            return tuple(self._notes)
        finally:
            self._claim.drop()
