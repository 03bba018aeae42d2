"""run_command: a shell command in the workdir, with limited time and output and without API keys.

This is not a sandbox: the validator blocks obvious dangers; everything else is left to permissions.
Source: D-8, D-19, D-20, D-43; X-30, X-35, X-38.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from axe_nb.builtin.command_guard import refusal
from axe_nb.builtin.program import program_of
from axe_nb.text import format_seconds
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import CallSite, Guard, ToolContext, ToolError, text_argument

SECONDS = 60.0
"""Default timeout of a command."""

MAX_SECONDS = 600.0
"""Maximum timeout of a command."""

KEPT = 30_000
"""Bytes of output kept from its start, and again from its end."""

PATIENCE = 2.0
"""Seconds to wait for remaining output after the command has ended."""

VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""Environment variables passed to a command; none of them holds keys or tokens."""

SETTINGS = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Variables that keep programs from waiting for input."""

MEANINGS = {
    126: ": permission to run it was denied",
    127: ": command not found; check its spelling and that it is installed",
}
"""Exit code → its meaning in a shell."""


class Output:
    """Bounded output of a command: its start and its end."""

    def __init__(self) -> None:
        self._start = b""
        self._end = b""
        self._size = 0

    def read(self, pipe: IO[bytes]) -> None:
        """Reads a pipe to its end."""
        with pipe:
            while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
                self.add(chunk)

    def add(self, chunk: bytes) -> None:
        """Appends a chunk."""
        room = KEPT - len(self._start)
        self._start += chunk[:room]
        self._end = (self._end + chunk[room:])[-KEPT:]
        self._size += len(chunk)

    def __str__(self) -> str:
        left_out = self._size - len(self._start) - len(self._end)
        start, end = (part.decode("utf-8", "replace") for part in (self._start, self._end))
        return f"{start}\n... ({left_out} bytes left out) ...\n{end}" if left_out else start + end


async def run_command(ctx: ToolContext, command: str, timeout: float = SECONDS) -> str:
    """Run a shell command in the working directory and return its output.

    It has no standard input. On timeout it is killed with all processes that it started.

    Args:
        command: the command; use paths relative to the working directory
        timeout: maximum duration in seconds, up to 600
    """
    if problem := refusal(command, ctx.workdir):
        raise ToolError(f"blocked by safety validator: {problem}")
    if not timeout > 0:
        raise ToolError("timeout must be more than 0 seconds")
    seconds = min(timeout, MAX_SECONDS)
    process, output = _start_shell(command, ctx.workdir), Output()
    reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
    reader.start()
    code = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                code = await in_thread(process.wait)
    finally:
        _kill_group(process)
    await in_thread(reader.join, PATIENCE)
    if code == 0:
        return str(output) or "(no output)"
    if code is None:
        what = f"command took longer than {format_seconds(seconds)}s and was killed"
    elif code < 0:
        what = f"command was terminated by signal {-code}"
    else:
        what = f"command failed with exit code {code}{MEANINGS.get(code, '')}"
    raise ToolError(f"{what}\n{output}".rstrip())


def _start_shell(command: str, workdir: Path) -> subprocess.Popen[bytes]:
    """Starts the shell in a process group of its own."""
    if not workdir.is_dir():
        raise ToolError(
            f"Working directory not found: {workdir}. Create it, or set another workdir"
        )
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    windows = os.name == "nt"
    shell = shutil.which("bash") or "/bin/sh"
    try:
        return subprocess.Popen(
            command if windows else [shell, "-c", command],
            shell=windows,
            cwd=workdir,
            env=environment | SETTINGS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=not windows,
        )
    except OSError as error:
        raise ToolError(f"cannot start the shell: {error.strerror or error}") from None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the shell and all processes of its group that still run."""
    if os.name == "nt":
        if process.poll() is None:
            kill = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(kill, capture_output=True, check=False)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of run_command: a yes to "always" covers the program of a plain command."""
    program = program_of(text_argument(arguments, "command"))
    return Guard(covers=f"the program {program}" if program else "")


TOOLS = {"run_command": replace(make_tool(run_command, "write"), guard=guard)}
