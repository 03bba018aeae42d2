"""What run_command refuses to run: dangerous commands, and what plainly reaches out of the workdir.

This is a fence against mistakes, no sandbox: it reads the command as text, and a program may do
what its words do not say. docs/tools.md names what is deliberately not caught.
Source: X-35, D-43.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from axe_nb.text import cut_chars, quote

MAX_COMMAND = 10_000
"""Characters of a command."""

REASONS: Mapping[str, str] = {
    "sudo su doas pkexec runas chroot unshare nsenter chown chgrp": "asks for more rights",
    "shutdown reboot halt poweroff telinit sysctl modprobe insmod rmmod iptables ip6tables nft ufw "
    "firewall-cmd reg bcdedit systemctl service launchctl": "stops or changes the machine",
    "mkfs fdisk sfdisk parted wipefs mkswap swapoff mount umount losetup cryptsetup diskpart "
    "diskutil format shred": "works on disks and file systems",
    "useradd userdel usermod groupadd groupdel passwd chpasswd adduser deluser visudo":
        "changes users or passwords",
    "killall pkill skill taskkill": "ends processes that it did not start",
    "nohup setsid disown crontab at batch screen tmux": "starts what outlives the command",
    "nc ncat netcat socat telnet ssh scp sftp": "opens a connection to another machine",
    "eval": "hides what is run",
}  # fmt: skip
"""Programs → why they are not run."""

DANGEROUS = {program: why for programs, why in REASONS.items() for program in programs.split()}

KEYWORDS = frozenset(
    {"then", "do", "else", "if", "elif", "while", "until", "!", "{", "}", "coproc",
     "-exec", "-execdir", "-ok", "-okdir"}
)  # fmt: skip
"""Words that a new command comes after."""

WRAPPERS = frozenset(
    {"env", "command", "builtin", "exec", "time", "nice", "ionice", "timeout", "xargs", "stdbuf",
     "watch", "busybox"}
)  # fmt: skip
"""Programs that run another one, named somewhere among their arguments."""

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh", "tcsh"})
INTERPRETERS = SHELLS | {"python", "python3", "perl", "ruby", "node", "php"}
UNSEEN = frozenset({"curl", "wget", "base64", "xxd", "openssl"})
"""Programs whose output nobody has read when it is piped on."""

HARMLESS = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty"}
)
"""Absolute paths at which nobody's files are."""

EVERYTHING = frozenset({".", "./", "*", "./*", ".*", "./.*", "/", "/*"})

SEPARATORS = r"\s=:,;'\"(){}\[\]<>|&@`"

PATH_OF_WORD = re.compile(r"(?:^|[=:,@]|^-[A-Za-z](?=/\S))(/(?!/)\S*)")
"""An absolute path that a word is or names: `/x`, `--file=/x`, `-I/x`."""

PATH_OF_SYSTEM = re.compile(
    rf"(?<![^{SEPARATORS}+])(/(?:bin|boot|dev|etc|home|lib|lib32|lib64|media|mnt|opt|private|proc"
    r"|root|run|sbin|srv|sys|tmp|usr|var|Applications|Library|System|Users|Volumes)"
    rf"(?![\w.-])[^{SEPARATORS}]*)"
)
"""A path below a well-known folder of the system, anywhere in a text."""

UPWARDS = re.compile(rf"(?:(?<![^{SEPARATORS}/])|^-[A-Za-z])\.\.(?=$|[{SEPARATORS}/\\])")
HOME = re.compile(rf"(?<![^{SEPARATORS}])~[\w.+-]*(?=$|[{SEPARATORS}/\\])")
DRIVE = re.compile(rf"(?<![^{SEPARATORS}])([A-Za-z]:[\\/]|\\\\[\w.]+\\|\.\.\\)")
ELSEWHERE = re.compile(r"\$\{?(?:HOME|OLDPWD|TMPDIR)\b|%(?:USERPROFILE|HOMEPATH|TEMP)%")
BLANK_IN_DISGUISE = re.compile(r"\$\{?IFS\b")
FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,40})\s{0,9}\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&")
WITHIN = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
"""A command inside another."""


@dataclass(frozen=True, slots=True)
class Simple:
    """One command of a command line: a program and its arguments."""

    before: str
    """The operator that it comes after."""
    words: Sequence[str]
    after: str
    """The operator that it comes before."""

    @property
    def program(self) -> str:
        """Its name, without folder and case."""
        return _base(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> Sequence[str]:
        """The words after the program."""
        return self.words[1:]


def refusal(command: str, workdir: Path) -> str:
    """Why a command is not run, and what to do instead; empty if nothing speaks against it."""
    if not command.strip() or len(command) > MAX_COMMAND:
        return f"the command is empty or longer than {MAX_COMMAND} characters"
    if any(ord(c) < 32 and c not in "\t\n\r" for c in command):
        return "the command has control characters"
    if FORK_BOMB.search(command):
        return "a function that starts itself over and over stops the machine"
    if re.search(r"(?<!<)<<(?!<)", command):
        return "a here-document cannot be checked; write the text with write_file first"
    if drive := DRIVE.search(command):
        return _outside(drive[1])
    try:
        tokens = _tokens(command)
    except ValueError:
        return "a quote or a backslash has no end"
    commands = list(_commands(tokens))
    for word in tokens:
        if problem := _reach(word, workdir):
            return problem
    for inner in WITHIN.finditer(command):
        if problem := refusal(inner[1] or inner[2] or ":", workdir):
            return problem
    for previous, simple in zip([None, *commands], commands, strict=False):
        if problem := _danger(simple, previous, workdir):
            return problem
    return ""


def _tokens(command: str) -> list[str]:
    """Words without their quotes, and runs of operators."""
    lexer = shlex.shlex(command.replace("\r", "\n"), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _commands(tokens: Sequence[str]) -> Iterator[Simple]:
    before = ""
    words: list[str] = []
    for token in tokens:
        is_operator = token != "" and not token.strip(";&|()<>\n")
        redirects = is_operator and set(token) <= set("<>&") and token.strip("&") != ""
        if token in KEYWORDS or (is_operator and not redirects):
            yield Simple(before, _without_settings(words), token)
            before, words = token, []
        elif not is_operator:  # of a redirection, only the word counts
            words.append(token)
    yield Simple(before, _without_settings(words), "")


def _without_settings(words: Sequence[str]) -> Sequence[str]:
    """The words after leading assignments such as `X=1`."""
    start = next((i for i, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    return words[start:]


def _base(word: str) -> str:
    name = word.strip("`").rpartition("/")[2].lower().removesuffix(".exe")
    return "mkfs" if name.startswith("mkfs.") else name


def _reach(word: str, workdir: Path) -> str:
    """Why a word reaches out of the workdir; empty if it does not plainly."""
    for found in [*PATH_OF_WORD.finditer(word), *PATH_OF_SYSTEM.finditer(word)]:
        path = found[1].rstrip("'\")")
        root = workdir.as_posix()
        if path not in HARMLESS and path != root and not path.startswith(f"{root}/"):
            return _outside(path)
    for pattern in (UPWARDS, HOME, ELSEWHERE):
        if found_ := pattern.search(word):
            return _outside(found_[0])
    return (
        f"{BLANK_IN_DISGUISE.pattern[2:]} hides a blank" if BLANK_IN_DISGUISE.search(word) else ""
    )


def _outside(path: str) -> str:
    return (
        f"{quote(cut_chars(path, 100))} is outside the workdir; use paths relative to it, inside it"
    )


def _danger(simple: Simple, previous: Simple | None, workdir: Path) -> str:
    """Why one command is not run; empty if nothing speaks against it."""
    program, arguments = simple.program, simple.arguments
    candidates = [program, *map(_base, arguments)] if program in WRAPPERS else [program]
    for name in candidates:
        if name in DANGEROUS:
            return f'"{name}" {DANGEROUS[name]}; do without it, or ask the user to run it'
    if program in SHELLS and "-c" in arguments[:-1]:
        return _script(arguments[arguments.index("-c") + 1], workdir)
    return _unseen(simple, previous) or _destruction(program, arguments)


def _script(script: str, workdir: Path) -> str:
    if script.startswith(("$(", "`")):
        return "a shell would run what nobody has seen; run the commands themselves"
    return refusal(script, workdir)


def _unseen(simple: Simple, previous: Simple | None) -> str:
    """Why a command would run code that nobody has seen."""
    source = previous if previous and simple.before.strip() in ("|", "|&") else None
    shell_reads = source and simple.program in SHELLS
    code_reads = source and simple.program in INTERPRETERS and source.program in UNSEEN
    reads_process = simple.program in INTERPRETERS | {"source", "."} and "<(" in simple.after
    if shell_reads or code_reads or reads_process:
        return f'"{simple.program}" would run what nobody has seen; save it, read it, then run it'
    return ""


def _destruction(program: str, arguments: Sequence[str]) -> str:
    options = "".join(a for a in arguments if re.fullmatch(r"-[A-Za-z]+", a))
    recursive = "r" in options.lower() or "--recursive" in arguments
    match program:
        case "rm" if recursive and EVERYTHING & set(arguments):
            return "rm would remove the whole workdir; name what is to go"
        case "find" if "-delete" in arguments and not _has_test(arguments):
            return "find would remove the whole workdir; name what is to go"
        case "chmod" if recursive and {"777", "0777", "a+rwx", "000"} & set(arguments):
            return "chmod would change the rights of everything; name the files"
        case "kill" if any(re.fullmatch(r"-?\d+", a) for a in _targets(arguments)):
            return "kill by number ends processes that it did not start"
        case "cd" if not arguments or arguments[0] in ("-", "--"):
            return "cd would leave the workdir; name a folder in it"
        case _:
            return ""


def _has_test(arguments: Sequence[str]) -> bool:
    tests = {"-name", "-iname", "-path", "-regex", "-size", "-mtime", "-newer", "-empty"}
    return bool(tests & set(arguments))


def _targets(arguments: Sequence[str]) -> Sequence[str]:
    """What kill is to end: all but a signal at the start."""
    is_signal = bool(arguments) and len(arguments) > 1 and arguments[0].startswith("-")
    return arguments[1:] if is_signal else arguments
