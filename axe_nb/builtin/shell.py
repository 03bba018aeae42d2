"""run_command: runs a shell command in the workdir and a sandbox, with limited time and output.

If no sandbox works here, each command needs approval (D-82). Without a sandbox, or with
`sandbox = "off"`, a word filter refuses dangerous programs and paths outside the workdir. The
filter only guards against mistakes; docs/tools.md lists what it deliberately misses.
Source: D-8, D-19, D-20, D-43, D-77, D-82, X-30, X-35, X-38.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
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
from axe_nb.errors import ConfigError
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import Process, clean_environment
from axe_nb.sandbox.view import TIME, make_view
from axe_nb.text import cut_chars, format_seconds, quote
from axe_nb.threads import in_thread
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import CallSite, Guard, ToolContext, ToolError, ToolOutput, text_argument

MAX_COMMAND, KEPT = 10_000, 30_000  # characters, and bytes of output kept from start and end
SECONDS, MAX_SECONDS = 60.0, 600.0
PATIENCE = 2.0
SYSTEM = "/usr/bin:/bin:/usr/local/bin"  # folders of programs that commands cannot change

SETTINGS = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Environment variables that keep programs from waiting for input."""

OFFLINE = {
    "PIP_RETRIES": "0", "NPM_CONFIG_FETCH_RETRIES": "0", "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "CARGO_NET_RETRY": "0",
}  # fmt: skip
"""Environment variables that keep programs from retrying or using the network on their own."""

LIMITS = re.compile(
    r"name resolution|EAI_AGAIN|Could not resolve host|Name or service not known"
    r"|Network is unreachable|ENETUNREACH|ENOTFOUND|getaddrinfo failed"
    r"|\(from versions: none\)|Failed to connect to (?!localhost|127\.)"
    r"|Read-only file system|Device or resource busy|EROFS|EBUSY|\.env\S*: Is a directory"
    r"|mkdir: .*\W(axe|\.\w+)\W: File exists"
)
"""Pattern for error messages caused by a missing network or a protected file."""

QUIET = re.compile(r"\b(curl|wget)\b.*\bhttps?://(?!localhost|127\.)")
"""Pattern for commands that may fail silently without a network."""

DENIED = re.compile(r"Permission denied|EACCES|Operation not permitted|EPERM|/proc|library error")
"""Pattern for error messages caused by limitations of the sandbox level `files`."""

WITH_GIT = f"""
[ -e ~/.gitconfig ] || {{
  printf %s "$1" >~/.gitconfig
  find . -maxdepth 1 '(' -size 0 -type c -o -empty -newermt @{TIME - 1} ! -newermt @{TIME} ')' \\
    -printf '/%P\\n' >~/.gitignore
}} 2>/dev/null
exec "$0" -c "$2"
"""
"""Shell script that runs the command "$2" in the shell "$0", with "$1" as Git's settings.

The script makes Git ignore placeholders and masked key files, as `git add -A` and `git stash -u`
would fail on such files. `-size` makes `find` examine a mounted file, not only its folder entry.
"""

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

MEANINGS = {
    126: ": permission to run it was denied",
    127: ": command not found; check its spelling and that it is installed",
}

SPECIAL = re.compile(r"[`$(){}<>|&;\n\r*?\[\]~#!\\^%]")
"""Pattern for characters that have a special meaning in some shell, even if they are quoted."""

PLAIN = frozenset({
    # readers
    "basename", "cat", "cmp", "cut", "date", "df", "diff", "dirname", "du", "echo", "egrep",
    "fgrep", "file", "grep", "head", "jq", "ls", "md5sum", "nl", "od", "printf", "pwd", "readlink",
    "realpath", "rg", "seq", "sha1sum", "sha256sum", "sort", "stat", "tac", "tail", "tr", "tree",
    "uname", "uniq", "wc", "which",
    # changes of files
    "chmod", "cp", "gunzip", "gzip", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "tar", "touch",
    "unzip", "zip",
    # development tools, which run code of the project
    "black", "cargo", "clang", "clang++", "clang-format", "cmake", "ctest", "eslint",
    "flake8", "g++", "gcc", "git", "go", "gofmt", "isort", "javac", "jest", "make", "meson", "mypy",
    "ninja", "pre-commit", "prettier", "pylint", "pyright", "pytest", "ruff", "rustc", "rustfmt",
    "shellcheck", "sphinx-build", "tsc", "vitest",
})  # fmt: skip
"""Programs that the user may approve with "always", unlike shells, wrappers and interpreters."""


class Output:
    def __init__(self) -> None:
        self.start = self.end = b""
        self.left_out = 0

    def read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
                room = KEPT - len(self.start)
                self.start += chunk[:room]
                end = self.end + chunk[room:]
                self.end = end[-KEPT:]
                self.left_out += len(end) - len(self.end)

    def __str__(self) -> str:
        start, end = (part.decode("utf-8", "replace") for part in (self.start, self.end))
        note = f"\n... ({self.left_out} bytes left out) ...\n" if self.left_out else ""
        return start + note + end


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
    seconds = min(timeout, MAX_SECONDS)
    try:
        sandbox = await in_thread(choose_sandbox, (ctx.agent, *ctx.above), ctx.workdir, ctx.sources)
    except ConfigError as error:
        raise ToolError("; ".join(error.lines())) from None
    if sandbox.level == "none":
        if problem := refusal(command, ctx.workdir):
            raise ToolError(f"blocked by safety validator: {problem}")
        if not (sandbox.is_off or (ctx.guard is not None and ctx.guard.floor == "ask")):
            raise ToolError(
                "the sandbox no longer works; call the tool again to ask for approval to run "
                "without it"
            )
    process, text, in_time = await _run(sandbox, command, seconds)
    if process.failure or not process.wait(0):
        not_ended = "the command was killed, but some of its processes have not ended yet"
        raise ToolError(process.failure or not_ended, sandbox.label)
    ctx.file_log.warnings += (
        f"while a command ran: {note}; nothing was undone" for note in process.notes
    )
    code = process.code
    notes = [*process.notes, _explain(sandbox, command, text) if code else ""]
    if any(notes):
        text = "\n".join(filter(None, (text.strip("\n"), *notes)))
    if not in_time or code is None:
        problem = f"command took longer than {format_seconds(seconds)}s and was killed"
    elif code < 0:
        problem = f"command was terminated by signal {-code}"
    elif code:
        problem = f"command failed with exit code {code}{MEANINGS.get(code, '')}"
    elif process.notes:
        problem = "the command ended without an error, but protected files were changed meanwhile"
    else:
        return ToolOutput(text or "(no output)", note=sandbox.label)
    raise ToolError(f"{problem}\n{text}".rstrip(), sandbox.label)


async def _run(sandbox: Sandbox, command: str, seconds: float) -> tuple[Process, str, bool]:
    has_network = sandbox.view.network or sandbox.level == "none"
    environment = clean_environment() | SETTINGS | ({} if has_network else OFFLINE)
    words = await in_thread(_make_words, command, sandbox)
    readable, writable = os.pipe()
    process = sandbox.start(words, environment, (subprocess.DEVNULL, writable, writable))
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
    return process, str(output), in_time


def choose_sandbox(
    agents: Sequence[Agent], workdir: Path, sources: Collection[Path] = ()
) -> Sandbox:
    """Returns the sandbox for the commands of the first of `agents`.

    The other agents are the callers above the first agent; they can make the sandbox stricter.
    """
    is_off = all(agent.sandbox == "off" for agent in agents)
    containers = (agent.sandbox for agent in agents if agent.sandbox not in ("auto", "off"))
    setting = "off" if is_off else next(containers, "auto")
    network = all(ANY in agent.allowed_hosts for agent in agents)
    return find_sandbox(setting, make_view(workdir, network=network, sources=sources))


def guard_command(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """Returns the guard of a call to run_command, with the sandbox in the guard's note.

    If no sandbox works here, each call needs approval in any mode, unless `sandbox` is off (D-82).
    """
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
        return Guard(note=note, covers=covers)  # refused commands never run
    reason = f"there is {sandbox.label}: a command can do anything you can"
    return Guard(floor="ask", reason=reason, key='sandbox = "off"', note=note, covers=covers)


def program_of(command: str) -> str:
    """Returns the name of the only program that a command runs, or "" if that is uncertain.

    If the user answers "always", later calls to this program need no approval. The result is
    therefore "" for compound commands, paths, assignments, and programs that are not in `PLAIN`.
    """
    name, *_ = [*command.split(), ""]
    is_plain = command.isascii() and not SPECIAL.search(command)
    return name if is_plain and name in PLAIN else ""


def _make_words(command: str, sandbox: Sandbox) -> list[str]:
    """Returns the program and arguments that run a command in a shell.

    Commands in a sandbox cannot read the user's own Git settings, which may contain keys. A script
    therefore gives Git the user's name and email, except in containers.
    """
    if sandbox.level == "docker":
        return ["sh", "-c", command]  # the image may have no other
    if os.name == "nt":
        return [shutil.which("cmd.exe") or "cmd.exe", "/c", command]
    shell = shutil.which("bash", path=SYSTEM) or "/bin/sh"
    if sandbox.level == "none" or sandbox.view.workdir == sandbox.view.home:
        return [shell, "-c", command]
    settings, git = "", shutil.which("git", path=SYSTEM)
    if git is not None:
        asked = [git, "config", "-z", "--get-regexp", r"^user\.(name|email)$"]
        found = subprocess.run(
            asked, cwd="/", env=clean_environment(), capture_output=True, check=False
        )
        settings = "[core]\n\texcludesFile = ~/.gitignore\n[user]\n"
        for entry in found.stdout.decode("utf-8", "replace").split("\0")[:-1]:
            key, _, value = entry.removeprefix("user.").partition("\n")
            settings += f'\t{key} = "{value.translate(ESCAPES)}"\n'
    return [shell, "-c", WITH_GIT, shell, settings, command]


def _explain(sandbox: Sandbox, command: str, text: str) -> str:
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
        "commands can write only in the workdir and $TMPDIR; sockets, shared memory and /proc/PID "
        "are refused"
        if is_files
        else "commands cannot write .git/hooks, .git/config, axe, .vscode, .idea, .github, "
        ".ipython, .jupyter, .ssh and .env* directly in the workdir, nor create them"
    )
    return (
        f"({'' if view.network else network}{writable}; each command starts with an empty home "
        "folder and an empty /tmp)"
    )


TOOLS = {
    "run_command": replace(
        make_tool(run_command, "write"), guard=guard_command, shown_whole="command"
    )
}

REASONS = {
    "sudo su doas pkexec runas chroot unshare nsenter chown chgrp": "requests more privileges",
    "shutdown reboot halt poweroff telinit sysctl modprobe insmod rmmod iptables ip6tables nft ufw "
    "firewall-cmd reg bcdedit systemctl service launchctl": "stops or changes the machine",
    "mkfs mkfs.ext4 mkfs.xfs mkfs.vfat fdisk sfdisk parted wipefs mkswap swapoff mount umount "
    "losetup cryptsetup diskpart diskutil format shred": "works on disks and file systems",
    "useradd userdel usermod groupadd groupdel passwd chpasswd adduser deluser visudo":
        "changes users or passwords",
    "killall pkill skill taskkill": "kills processes that it did not start",
    "nohup setsid disown crontab at batch screen tmux": "starts processes that outlive the command",
    "nc ncat netcat socat telnet ssh scp sftp": "opens a connection to another machine",
    "eval": "hides the command that it runs",
}  # fmt: skip
"""Reasons for refusing programs, keyed by program names; in messages, a reason follows the name."""

DANGEROUS = {program: why for programs, why in REASONS.items() for program in programs.split()}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh", "tcsh"}
INTERPRETERS = {*SHELLS, "python", "python3", "perl", "ruby", "node", "php"}
UNSEEN = {"curl", "wget", "base64", "xxd", "openssl"}
"""Programs whose output must not be piped into an interpreter, as no one has reviewed it."""

BEFORE = re.compile(
    r"if|then|elif|else|while|until|do|[!{}]|env|command|builtin|exec|time|nice|ionice|timeout"
    r"|xargs|stdbuf|busybox|-.*|\w+=.*|[\d.]+[smhd]?|\d*[<>].*", re.DOTALL
)  # fmt: skip
"""Pattern for words that may precede a program: keywords, wrappers, assignments, redirections."""

EVERYTHING = {".", "./", "*", "./*", ".*", "./.*"}
SELECTS = re.compile("-(i?name|path|regex|size|mtime|newer|empty)")
DEVICES = re.compile(r"2>&1|/dev/(null|stdin|stdout|stderr|zero|tty)(?![\w./])")

OPERATOR = re.compile(r"[;&|()`\n]+|-exec(dir)?|-ok(dir)?")
SEPARATORS = r"\s=:,;'\"(){}\[\]<>|&@`"
ELSEWHERE = re.compile(
    r"\$\{?(?:HOME|OLDPWD|TMPDIR)\b|%(?:USERPROFILE|HOMEPATH|TEMP)%"
    rf"|(?<![^{SEPARATORS}])(?:[A-Za-z]:[\\/]|\\\\[\w.]+\\|\.\.\\)"
)
FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,40})\s{0,9}\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&")
HERE_DOCUMENT = re.compile(r"(<<-?\s*(['\"]?)(\w+)\2[^\n]*\n).*?^\t*\3$", re.DOTALL | re.MULTILINE)
SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")


def check_form(command: str) -> str:
    if not command.strip() or len(command) > MAX_COMMAND:
        return f"the command is empty or longer than {MAX_COMMAND} characters"
    if any(ord(c) < 32 and c not in "\t\n\r" for c in command):
        return "the command contains control characters"
    return ""


def refusal(command: str, workdir: Path) -> str:
    """Returns the reason why the word filter refuses a command; empty if the command may run."""
    if problem := check_form(command):
        return problem
    if FORK_BOMB.search(command):
        return "a function that endlessly calls itself would freeze the machine"
    text = HERE_DOCUMENT.sub(r"\1", command).replace("\\\n", " ").replace("\r", "\n")
    here = rf"(?:\$PWD|\$\{{PWD\}}|{re.escape(workdir.as_posix())})(?![^{SEPARATORS}/])"
    text = re.sub(rf"(?:(?<![^{SEPARATORS}])|(?<=\s-[A-Za-z])){here}", ".", DEVICES.sub("", text))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()`\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        words = list(lexer)
    except ValueError:
        return "a quote is not closed, or a backslash ends the command"
    outside = [*(found[0] for found in ELSEWHERE.finditer(text)), *({"/", "/*", "~"} & {*words})]
    for part in re.split(f"[{SEPARATORS}]", "\n".join(words)):
        path = re.sub(r"^-[A-Za-z]", "", part)
        first, *names = path.split("/")
        # if there is no such folder, it is an expression, as in sed '/x/d'
        is_there = not first and any(names[:1]) and os.path.lexists(f"/{names[0]}")
        if ".." in (first, *names):
            outside.append("..")
        elif re.match(r"~[\w.+-]*(/|(?<!~)$)", path) or (is_there and names[0] != "."):
            outside.append(path)
    if outside:
        shown = quote(cut_chars(outside[0], 100))
        return f"{shown} is outside the workdir; use relative paths inside the workdir"
    for found in SUBSTITUTION.finditer(text):
        if problem := refusal(found[1] or found[2] or ":", workdir):
            return problem
    source, simple = "", [""]  # a simple command, and the program piped into it
    for word in [*words, ";"]:
        if OPERATOR.fullmatch(word):
            program = re.split(r"[/\\]", simple[0].lower())[-1].removesuffix(".exe")
            if problem := _check_simple(source, program, simple[1:], workdir):
                return problem
            source, simple = program if word in ("|", "|&") else "", [""]
        elif simple[0]:
            simple.append(word)
        elif not BEFORE.fullmatch(word):
            simple = [word]
    return ""


def _check_simple(source: str, program: str, arguments: Sequence[str], workdir: Path) -> str:
    if program in DANGEROUS:
        return f'"{program}" {DANGEROUS[program]}; avoid it, or ask the user to run it'
    is_script = program in SHELLS and any(re.match(r"-\w*c", a) for a in arguments)
    scripts = [a for a in arguments if is_script and a[:1] != "-"]
    if (source in UNSEEN and program in INTERPRETERS) or any(s[:2] == "$(" for s in scripts):
        return f'"{program}" would run unreviewed code; save it, read it, then run it'
    if is_script:
        return next(filter(None, (refusal(script, workdir) for script in scripts)), "")
    recursive = any(re.match(r"-\w*[rR]|--recursive", a) for a in arguments)
    selects = "*" not in arguments and any(map(SELECTS.fullmatch, arguments))
    match program:
        case "rm" if recursive and EVERYTHING & {*arguments}:
            return "rm would remove the whole workdir; name what to remove"
        case "find" if "-delete" in arguments and not selects:
            return "find would remove the whole workdir; name what to remove"
        case "chmod" if recursive and {"777", "0777", "a+rwx", "000"} & {*arguments}:
            return "chmod would change the permissions of everything; name the files"
        case "kill" if re.search(r"(^| )(-?\d+|\S*PPID\S?)$", " ".join(arguments)):
            return "kill by number may kill processes that it did not start"
        case "cd" if not arguments or arguments[0] == "-":
            return "cd would leave the workdir; name a folder in it"
    return ""
