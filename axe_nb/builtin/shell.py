"""run_command: a shell command in the workdir, with a limit of time and output, and without keys.

No sandbox: the validator keeps off what is plainly dangerous, the rest is a question of permission.
Source: D-8, D-19, D-20, D-43; X-30, X-35, X-38.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from axe_nb.builtin.command_guard import refusal
from axe_nb.text import format_seconds
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import ToolContext, ToolError

SECONDS = 60.0
"""Time of a command that asks for none."""

MAX_SECONDS = 600.0
"""Time that a command gets at most."""

KEPT = 30_000
"""Bytes of output that are kept from its start, and as many from its end."""

PATIENCE = 2.0
"""Seconds to wait for the rest of the output once the command has ended."""

VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""What a command sees of the environment; keys and tokens are in none of these."""

SETTINGS = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""What keeps programs from waiting for a person."""

MEANINGS = {
    126: ": it is there, but may not be run",
    127: ": command not found; see whether it is installed, or spelled otherwise",
}
"""Exit code → what it means to a shell."""


class Output:
    """What a command prints: its start and its end."""

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
        """Takes some more."""
        room = KEPT - len(self._start)
        self._start += chunk[:room]
        self._end = (self._end + chunk[room:])[-KEPT:]
        self._size += len(chunk)

    def __str__(self) -> str:
        left_out = self._size - len(self._start) - len(self._end)
        start, end = (part.decode("utf-8", "replace") for part in (self._start, self._end))
        return f"{start}\n... ({left_out} bytes left out) ...\n{end}" if left_out else start + end


async def run_command(ctx: ToolContext, command: str, timeout: float = SECONDS) -> str:
    """Run a shell command in the working directory. Returns what it prints.

    It has no input, and is ended with all that it started when its time is up.

    Args:
        command: the command; files as paths relative to the working directory
        timeout: seconds that it may take, up to 600
    """
    if problem := refusal(command, ctx.workdir):
        raise ToolError(f"blocked by safety validator: {problem}")
    if not timeout > 0:
        raise ToolError("timeout must be more than 0 seconds")
    seconds = min(timeout, MAX_SECONDS)
    process, output = _started(command, ctx.workdir), Output()
    reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
    reader.start()
    code = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                code = await in_thread(process.wait)
    finally:
        _end(process)
    await in_thread(reader.join, PATIENCE)
    if code == 0:
        return str(output) or "(no output)"
    if code is None:
        what = f"command took longer than {format_seconds(seconds)}s and was ended"
    elif code < 0:
        what = f"command was ended by signal {-code}"
    else:
        what = f"command failed with exit code {code}{MEANINGS.get(code, '')}"
    raise ToolError(f"{what}\n{output}".rstrip())


def _started(command: str, workdir: Path) -> subprocess.Popen[bytes]:
    """The shell at work, in a process group of its own."""
    if not workdir.is_dir():
        raise ToolError(f"Working directory not found: {workdir}. Make it, or set another workdir")
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
        raise ToolError(f"the shell could not be started: {error.strerror or error}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the shell and all that it started, so far as it is still there."""
    if os.name == "nt":
        if process.poll() is None:
            kill = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(kill, capture_output=True, check=False)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


TOOLS = {"run_command": make_tool(run_command, "write")}
