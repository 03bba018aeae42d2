"""run_command: a shell command in the workdir, in a sandbox, with limited time and output.

Without a sandbox, a validator refuses obvious dangers, and each command needs approval.
Source: D-8, D-19, D-20, D-43, D-77, D-82, X-30, X-35, X-38.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.names import ANY
from axe_nb.builtin.command_guard import check_form, refusal
from axe_nb.errors import ConfigError
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import Process, clean_environment
from axe_nb.sandbox.view import TIME, make_view
from axe_nb.text import format_seconds
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import CallSite, Guard, ToolContext, ToolError, ToolOutput, text_argument

SECONDS, MAX_SECONDS = 60.0, 600.0
"""Default and maximum timeout of a command."""

KEPT = 30_000
"""Bytes of output kept from its start, and again from its end."""

PATIENCE = 2.0
"""Seconds to wait for remaining output after the command has ended."""

SYSTEM = "/usr/bin:/bin:/usr/local/bin"
"""Folders of programs that no workdir can change."""

SETTINGS = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Variables that keep programs from waiting for input."""

OFFLINE = {
    "PIP_RETRIES": "0", "NPM_CONFIG_FETCH_RETRIES": "0", "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "CARGO_NET_RETRY": "0",
}  # fmt: skip
"""Variables that keep programs from retrying or using the network on their own."""

LIMITS = re.compile(
    r"name resolution|EAI_AGAIN|Could not resolve host|Name or service not known"
    r"|Network is unreachable|ENETUNREACH|ENOTFOUND|getaddrinfo failed"
    r"|\(from versions: none\)|Failed to connect to (?!localhost|127\.)"
    r"|Read-only file system|Device or resource busy|EROFS|EBUSY|\.env\S*: Is a directory"
    r"|mkdir: .*\W(axe|\.\w+)\W: File exists"
)
"""Messages of programs that find no network, or may not write a protected file."""

QUIET = re.compile(r"\b(curl|wget)\b.*\bhttps?://(?!localhost|127\.)")
"""Commands that may fail silently if there is no network."""

DENIED = re.compile(r"Permission denied|EACCES|Operation not permitted|EPERM|/proc|library error")
"""Messages of programs that need something which only level `files` refuses."""

WITH_GIT = f"""
[ -e ~/.gitconfig ] || {{
  printf %s "$1" >~/.gitconfig
  find . -maxdepth 1 '(' -size 0 -type c -o -empty -newermt @{TIME - 1} ! -newermt @{TIME} ')' \\
    -printf '/%P\\n' >~/.gitignore
}} 2>/dev/null
exec "$0" -c "$2"
"""
"""Command of a shell "$0" that runs "$2" with "$1" as Git's settings, in an empty home folder.

Git leaves placeholders alone, and files with keys, on which a device is mounted: `git add -A` and
`git stash -u` would fail half way. For `-size`, find looks at the mount, not only at the folder.
"""

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
"""Escapes for characters in a value of Git's settings."""

MEANINGS = {
    126: ": permission to run it was denied",
    127: ": command not found; check its spelling and that it is installed",
}
"""Exit code → its meaning in a shell."""

SPECIAL = re.compile(r"[`$(){}<>|&;\n\r*?\[\]~#!\\^%]")
"""Characters that may mean more than themselves to a shell, quoted or not."""

PLAIN = frozenset({
    # readers
    "basename", "cat", "cmp", "cut", "date", "df", "diff", "dirname", "du", "echo", "egrep",
    "fgrep", "file", "grep", "head", "jq", "ls", "md5sum", "nl", "od", "printf", "pwd", "readlink",
    "realpath", "rg", "seq", "sha1sum", "sha256sum", "sort", "stat", "tac", "tail", "tr", "tree",
    "uname", "uniq", "wc", "which",
    # changes of files
    "chmod", "cp", "gunzip", "gzip", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "tar", "touch",
    "unzip", "zip",
    # development: they run what the project says
    "black", "cargo", "clang", "clang++", "clang-format", "cmake", "ctest", "eslint",
    "flake8", "g++", "gcc", "git", "go", "gofmt", "isort", "javac", "jest", "make", "meson", "mypy",
    "ninja", "pre-commit", "prettier", "pylint", "pyright", "pytest", "ruff", "rustc", "rustfmt",
    "shellcheck", "sphinx-build", "tsc", "vitest",
})  # fmt: skip
"""Programs whose name tells what they do, unlike shells, wrappers and interpreters."""


class Output:
    """Bounded output of a command: its start and its end."""

    def __init__(self) -> None:
        self._start = b""
        self._end = b""
        self._size = 0

    def read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
                room = KEPT - len(self._start)
                self._start += chunk[:room]
                self._end = (self._end + chunk[room:])[-KEPT:]
                self._size += len(chunk)

    def __str__(self) -> str:
        left_out = self._size - len(self._start) - len(self._end)
        start, end = (part.decode("utf-8", "replace") for part in (self._start, self._end))
        return f"{start}\n... ({left_out} bytes left out) ...\n{end}" if left_out else start + end


async def run_command(ctx: ToolContext, command: str, timeout: float = SECONDS) -> ToolOutput:
    """Run a shell command in the working directory and return its output.

    It has no standard input. On timeout it is killed with all processes that it started.

    Args:
        command: the command; use paths relative to the working directory
        timeout: maximum duration in seconds, up to 600
    """
    if problem := check_form(command):
        raise ToolError(problem)
    if not timeout > 0:
        raise ToolError("timeout must be more than 0 seconds")
    if not ctx.workdir.is_dir():
        raise ToolError(
            f"Working directory not found: {ctx.workdir}. Create it, or set another workdir"
        )
    seconds = min(timeout, MAX_SECONDS)
    try:
        sandbox = await in_thread(choose_sandbox, (ctx.agent, *ctx.above), ctx.workdir, ctx.sources)
    except ConfigError as error:
        raise ToolError("; ".join(error.lines())) from None
    if sandbox.level == "none" and (problem := refusal(command, ctx.workdir)):
        raise ToolError(f"blocked by safety validator: {problem}")
    is_approved = sandbox.is_off or (ctx.guard is not None and ctx.guard.floor == "ask")
    if sandbox.level == "none" and not is_approved:
        raise ToolError(
            "the sandbox no longer works; call the tool again to ask for approval to run without it"
        )
    process, output, in_time = await _run(sandbox, command, seconds)
    if process.failure or not process.wait(0):
        not_ended = "the command was killed, but some of its processes have not ended yet"
        raise ToolError(process.failure or not_ended, sandbox.label)
    ctx.file_log.warnings += (
        f"while a command ran: {note}; nothing was undone" for note in process.notes
    )
    text = str(output)
    limits = _explain(sandbox, command, text) if process.code else ""
    notes = [*process.notes, *filter(None, [limits])]
    content = "\n".join([text.rstrip("\n"), *notes]).strip("\n") if notes else text
    if process.code == 0 and in_time and not process.notes:
        return ToolOutput(content or "(no output)", note=sandbox.label)
    code = process.code
    if not in_time or code is None:
        problem = f"command took longer than {format_seconds(seconds)}s and was killed"
    elif code < 0:
        problem = f"command was terminated by signal {-code}"
    elif code:
        problem = f"command failed with exit code {code}{MEANINGS.get(code, '')}"
    else:
        problem = "the command ended without an error, but protected files were changed meanwhile"
    raise ToolError(f"{problem}\n{content}".rstrip(), sandbox.label)


async def _run(sandbox: Sandbox, command: str, seconds: float) -> tuple[Process, Output, bool]:
    """Runs a command; returns its process, its output, and true if it ended in time."""
    has_network = sandbox.view.network or sandbox.level == "none"
    environment = clean_environment() | SETTINGS | ({} if has_network else OFFLINE)
    readable, writable = os.pipe()
    files = (subprocess.DEVNULL, writable, writable)
    words = await in_thread(_shell_words, command, sandbox)
    process = sandbox.start(words, environment, files)
    output = Output()
    reader = threading.Thread(target=output.read, args=(os.fdopen(readable, "rb"),), daemon=True)
    reader.start()
    in_time = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                in_time = await in_thread(process.wait)
    finally:
        process.kill()
    await in_thread(process.wait, PATIENCE)
    await in_thread(reader.join, PATIENCE)
    return process, output, in_time


def choose_sandbox(
    agents: Sequence[Agent], workdir: Path, sources: Collection[Path] = ()
) -> Sandbox:
    """Returns the sandbox for the commands of the first agent; the first command tries it out.

    The other agents are those above it; the sandbox is as strict as each of them demands. Raises
    ConfigError if a sandbox that one of them sets does not work here, or not in this workdir.
    """
    is_off = all(agent.sandbox == "off" for agent in agents)
    containers = (agent.sandbox for agent in agents if agent.sandbox not in ("auto", "off"))
    setting = "off" if is_off else next(containers, "auto")
    network = all(ANY in agent.allowed_hosts for agent in agents)
    return find_sandbox(setting, make_view(workdir, network=network, sources=sources))


def guard_command(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of run_command: without a sandbox, a call needs approval in every mode (D-82)."""
    try:
        sandbox = choose_sandbox(site.agents, site.workdir, site.sources)
    except ConfigError as error:
        return Guard(floor="deny", reason="; ".join(error.lines()))
    except OSError as error:
        reason = f"the workdir {site.workdir} cannot be used: {error.strerror or error}"
        return Guard(floor="deny", reason=reason)
    command = text_argument(arguments, "command")
    program = program_of(command)
    covers = f"the program {program}, {sandbox.label}" if program else ""
    note = "; ".join([sandbox.label, *sandbox.promises])
    if sandbox.level != "none" or sandbox.is_off or refusal(command, site.workdir):
        return Guard(note=note, covers=covers)  # what is refused never runs
    reason = f"there is {sandbox.label}: a command can do anything you can"
    return Guard(floor="ask", reason=reason, key='sandbox = "off"', note=note, covers=covers)


def program_of(command: str) -> str:
    """Returns the name of the only program that a command runs; empty if that is not certain.

    A yes to "always" covers a program. So compound commands, paths, assignments and every program
    that is not in the list have none: shells, wrappers and interpreters are too many to name.
    """
    name, *_ = [*command.split(), ""]
    is_plain = command.isascii() and not SPECIAL.search(command)
    return name if is_plain and name in PLAIN else ""


def _shell_words(command: str, sandbox: Sandbox) -> list[str]:
    if sandbox.level == "docker":
        return ["sh", "-c", command]  # the image may have no other
    if os.name == "nt":
        return [shutil.which("cmd.exe") or "cmd.exe", "/c", command]
    shell = shutil.which("bash", path=SYSTEM) or "/bin/sh"
    if sandbox.level == "none" or sandbox.view.workdir == sandbox.view.home:
        return [shell, "-c", command]
    return [shell, "-c", WITH_GIT, shell, _read_git_user(), command]


def _read_git_user() -> str:
    """Returns the user's name and email for commits, as settings of Git.

    A command does not see the file that has them, as keys may be in it.
    """
    git = shutil.which("git", path=SYSTEM)
    if git is None:
        return ""
    asked = [git, "config", "-z", "--get-regexp", r"^user\.(name|email)$"]
    found = subprocess.run(
        asked, cwd="/", env=clean_environment(), capture_output=True, check=False
    )
    entries = found.stdout.decode("utf-8", "replace").split("\0")[:-1]
    pairs = (entry.removeprefix("user.").partition("\n") for entry in entries)
    start = "[core]\n\texcludesFile = ~/.gitignore\n[user]\n"
    return start + "".join(f'\t{key} = "{value.translate(ESCAPES)}"\n' for key, _, value in pairs)


def _explain(sandbox: Sandbox, command: str, text: str) -> str:
    """Returns a note with the limits of the sandbox, if a failed command seems to have met one."""
    view, is_files = sandbox.view, sandbox.level == "files"
    text = text.replace(str(view.workdir), "")
    home = rf"(?m)^(?=.*No such file or directory).*(/tmp|{re.escape(str(view.home))})/"
    is_met = LIMITS.search(text) or re.search(home, text) or (is_files and DENIED.search(text))
    if sandbox.level == "none" or not (is_met or (not view.network and QUIET.search(command))):
        return ""
    network = (
        "there is no network in this sandbox, so trying again does not help; the user can allow it "
        'with allowed_hosts = ["*"]; '
    )
    writable = (
        "commands write only in the workdir and in $TMPDIR; sockets, shared memory and /proc/PID "
        "are refused"
        if is_files
        else "commands cannot write .git/hooks, .git/config, axe, .vscode, .idea, .github, "
        ".ipython, .jupyter, .ssh and .env* directly in the workdir, nor make them"
    )
    return (
        f"({'' if view.network else network}{writable}; each command starts with an empty home "
        "folder and an empty /tmp)"
    )


_TOOL = make_tool(run_command, "write")
TOOLS = {"run_command": replace(_TOOL, guard=guard_command, shown_whole="command")}
