"""Checks of run_command where there is no sandbox: a guard against mistakes.

A person reads each such command (D-82), so this is a plain reading of its words: dangerous
programs, and places outside the workdir. docs/tools.md lists what is deliberately not caught.
Source: X-35, D-43, D-77.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from axe_nb.text import cut_chars, quote

MAX_COMMAND = 10_000
"""Characters of a command."""

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
"""Programs → the reason for refusing them, worded to follow the program's name."""

DANGEROUS = {program: why for programs, why in REASONS.items() for program in programs.split()}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh", "tcsh"}
INTERPRETERS = {*SHELLS, "python", "python3", "perl", "ruby", "node", "php"}
UNSEEN = {"curl", "wget", "base64", "xxd", "openssl"}
"""Programs whose piped output no one has reviewed."""

BEFORE = re.compile(
    r"if|then|elif|else|while|until|do|[!{}]|env|command|builtin|exec|time|nice|ionice|timeout"
    r"|xargs|stdbuf|busybox|-.*|\w+=.*|[\d.]+[smhd]?|\d*[<>].*", re.DOTALL
)  # fmt: skip
"""Words that may precede a program: of the shell, wrappers with options, assignments,
redirections."""

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
    """Returns the reason that a text is not a command; empty if it is one."""
    if not command.strip() or len(command) > MAX_COMMAND:
        return f"the command is empty or longer than {MAX_COMMAND} characters"
    if any(ord(c) < 32 and c not in "\t\n\r" for c in command):
        return "the command contains control characters"
    return ""


def refusal(command: str, workdir: Path) -> str:
    """Returns the reason to refuse a command and an alternative; empty if it may run."""
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
    for place in _find_outside(text, words):
        shown = quote(cut_chars(place, 100))
        return f"{shown} is outside the workdir; use relative paths inside the workdir"
    inner = [found[1] or found[2] or ":" for found in SUBSTITUTION.finditer(text)]
    problems = (_check_simple(*simple, workdir) for simple in _split(words))
    return next(filter(None, (*(refusal(part, workdir) for part in inner), *problems)), "")


def _find_outside(command: str, words: Sequence[str]) -> Iterator[str]:
    """Yields the places outside the workdir that occur in a command."""
    yield from (found[0] for found in ELSEWHERE.finditer(command))
    yield from {"/", "/*", "~"} & {*words}
    for part in re.split(f"[{SEPARATORS}]", "\n".join(words)):
        path = re.sub(r"^-[A-Za-z]", "", part)
        first, *names = path.split("/")
        if ".." in (first, *names):
            yield ".."
        # where the machine has no such folder, it is an expression, as in sed '/x/d'
        is_there = not first and any(names[:1]) and os.path.lexists(f"/{names[0]}")
        if re.match(r"~[\w.+-]*(/|(?<!~)$)", path) or (is_there and names[0] != "."):
            yield path


def _split(words: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yields (program whose output is piped into it, program, arguments) of simple commands."""
    source, simple = "", [""]
    for word in [*words, ";"]:
        if OPERATOR.fullmatch(word):
            program = re.split(r"[/\\]", simple[0].lower())[-1].removesuffix(".exe")
            yield source, program, simple[1:]
            source, simple = program if word in ("|", "|&") else "", [""]
        elif simple[0]:
            simple.append(word)
        elif not BEFORE.fullmatch(word):
            simple = [word]


def _check_simple(source: str, program: str, arguments: Sequence[str], workdir: Path) -> str:
    """Returns the reason to refuse a simple command; empty if it may run."""
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
