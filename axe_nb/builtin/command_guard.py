"""Checks of run_command: refuses dangerous commands and obvious access outside the workdir.

This guards against mistakes where there is no sandbox (D-77): it only reads the text of a command,
which does not show everything that a program does. docs/tools.md lists what is deliberately not
caught.
Source: X-35, D-43.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from axe_nb.builtin.shell_words import Simple, program_name, split_commands, tokenize
from axe_nb.text import cut_chars, quote

MAX_COMMAND = 10_000
"""Characters of a command."""

MAX_WRAPPED = 50
"""Commands that one command may wrap, as in `env nice sh -c …`."""

REASONS: Mapping[str, str] = {
    "sudo su doas pkexec runas chroot unshare nsenter chown chgrp": "requests more privileges",
    "shutdown reboot halt poweroff telinit sysctl modprobe insmod rmmod iptables ip6tables nft ufw "
    "firewall-cmd reg bcdedit systemctl service launchctl": "stops or changes the machine",
    "mkfs fdisk sfdisk parted wipefs mkswap swapoff mount umount losetup cryptsetup diskpart "
    "diskutil format shred": "works on disks and file systems",
    "useradd userdel usermod groupadd groupdel passwd chpasswd adduser deluser visudo":
        "changes users or passwords",
    "killall pkill skill taskkill": "kills processes that it did not start",
    "nohup setsid disown crontab at batch screen tmux": "starts processes that outlive the command",
    "nc ncat netcat socat telnet ssh scp sftp": "opens a connection to another machine",
    "eval": "hides the command that it runs",
}  # fmt: skip
"""Programs → the reason for refusing them, worded to follow the program's name."""

DANGEROUS = {program: why for programs, why in REASONS.items() for program in programs.split()}

WRAPPERS = frozenset(
    {"env", "command", "builtin", "exec", "time", "nice", "ionice", "timeout", "xargs", "stdbuf",
     "watch", "busybox", "flock"}
)  # fmt: skip
"""Programs that run another program named among their arguments."""

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh", "tcsh"})
INTERPRETERS = SHELLS | {"python", "python3", "perl", "ruby", "node", "php"}
OPTIONS_WITH_SCRIPT = {
    "sh": re.compile(r"-[A-Za-z]*c[A-Za-z]*()"),
    "flock": re.compile(r"(?:-[A-Za-z]*c|--command=?)(.*)", re.DOTALL),
    "env": re.compile(r"(?:-[A-Za-z]*S|--split-string=?)(.*)", re.DOTALL),
}
"""Programs → the option before a command line, which may be part of the same word."""

UNSEEN = frozenset({"curl", "wget", "base64", "xxd", "openssl"})
"""Programs whose piped output no one has reviewed."""

CHECKED = frozenset({*DANGEROUS, *WRAPPERS, *INTERPRETERS, "rm", "find", "chmod", "kill"})
"""Programs that are refused, or refused with some arguments."""

EXPANSION = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""A brace expansion that makes several words of one."""

KILLS_OTHERS = re.compile(r"-?\d+|.*\$\{?PPID\b.*")

HARMLESS = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty"}
)
"""Absolute paths that hold no files of anyone."""

EVERYTHING = frozenset({".", "./", "*", "./*", ".*", "./.*", "/", "/*"})

SEPARATORS = r"\s=:,;'\"(){}\[\]<>|&@`"

PATH_OF_WORD = re.compile(r"(?:^|[=:,@]|^-[A-Za-z](?=/\S))(/(?!/)\S*)")
"""An absolute path in a word: `/x`, `--file=/x`, `-I/x`."""

PATH_OF_SYSTEM = re.compile(
    rf"(?<![^{SEPARATORS}+])(/(?:bin|boot|dev|etc|home|lib|lib32|lib64|media|mnt|opt|private|proc"
    r"|root|run|sbin|srv|sys|tmp|usr|var|Applications|Library|System|Users|Volumes)"
    rf"(?![\w.-])[^{SEPARATORS}]*)"
)
"""A path below a well-known system folder, anywhere in a text."""

UPWARDS = re.compile(rf"(?:(?<![^{SEPARATORS}/])|^-[A-Za-z])\.\.(?=$|[{SEPARATORS}/\\])")
HOME = re.compile(rf"(?<![^{SEPARATORS}])~[\w.+-]*(?=$|[{SEPARATORS}/\\])")
DRIVE = re.compile(rf"(?<![^{SEPARATORS}])([A-Za-z]:[\\/]|\\\\[\w.]+\\|\.\.\\)")
ELSEWHERE = re.compile(r"\$\{?(?:HOME|OLDPWD|TMPDIR)\b|%(?:USERPROFILE|HOMEPATH|TEMP)%")
HIDDEN_SPACE = re.compile(r"\$\{?IFS\b")
FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,40})\s{0,9}\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&")
WITHIN = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
"""A command substitution."""


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
    if re.search(r"(?<!<)<<(?!<)", command):
        return "a here-document cannot be checked; write the text with write_file first"
    if drive := DRIVE.search(command):
        return _format_outside(drive[1])
    try:
        tokens = tokenize(command)
    except ValueError:
        return "a quote is not closed, or a backslash ends the command"
    commands = list(split_commands(tokens))
    for word in tokens:
        if problem := _check_word(word, workdir):
            return problem
    for inner in WITHIN.finditer(command):
        if problem := refusal(inner[1] or inner[2] or ":", workdir):
            return problem
    for previous, simple in zip([None, *commands], commands, strict=False):
        if problem := _check_simple(simple, previous, workdir):
            return problem
    return ""


def _check_word(word: str, workdir: Path) -> str:
    """Returns the reason to refuse a word that names a place outside the workdir; else empty."""
    for found in [*PATH_OF_WORD.finditer(word), *PATH_OF_SYSTEM.finditer(word)]:
        path = found[1].rstrip("'\")")
        root = workdir.as_posix()
        if path not in HARMLESS and path != root and not path.startswith(f"{root}/"):
            return _format_outside(path)
    for pattern in (UPWARDS, HOME, ELSEWHERE):
        if hit := pattern.search(word):
            return _format_outside(hit[0])
    return "$IFS hides a space; write the space itself" if HIDDEN_SPACE.search(word) else ""


def _format_outside(path: str) -> str:
    return (
        f"{quote(cut_chars(path, 100))} is outside the workdir; "
        "use relative paths inside the workdir"
    )


def _check_simple(simple: Simple, previous: Simple | None, workdir: Path) -> str:
    """Returns the reason to refuse a simple command or one that it runs; empty if it may run."""
    wrapped = _list_wrapped(simple)
    if len(wrapped) > MAX_WRAPPED:
        return f"more than {MAX_WRAPPED} commands in one cannot be checked; write them out"
    return next(
        filter(None, (_check_one(one, previous, workdir) for one in [simple, *wrapped])), ""
    )


def _list_wrapped(simple: Simple) -> list[Simple]:
    """Returns what a program that runs others may run: from each word that is to be checked."""
    if simple.program not in WRAPPERS:
        return []
    words = simple.arguments
    starts = (index for index, word in enumerate(words) if program_name(word) in CHECKED)
    return [replace(simple, words=words[at:]) for at in islice(starts, MAX_WRAPPED + 1)]


def _check_one(simple: Simple, previous: Simple | None, workdir: Path) -> str:
    program, arguments = simple.program, simple.arguments
    if EXPANSION.search(simple.words[0] if simple.words else ""):
        return "braces hide the command that it runs; write it out"
    if program in DANGEROUS:
        return f'"{program}" {DANGEROUS[program]}; avoid it, or ask the user to run it'
    for script in filter(None, _find_scripts(simple)):
        if problem := _check_script(script, workdir):
            return problem
    return _check_unseen(simple, previous) or _check_destruction(program, arguments, workdir)


def _find_scripts(simple: Simple) -> Iterator[str]:
    """Yields the arguments that are commands themselves, and the input of a shell."""
    program, arguments = simple.program, simple.arguments
    if program in SHELLS:
        yield simple.text
    if program == "trap":
        yield next((a for a in arguments if not a.startswith("-")), "")
    option = OPTIONS_WITH_SCRIPT.get("sh" if program in SHELLS else program)
    for index, word in enumerate(arguments if option else ()):
        if option and (found := option.fullmatch(word)):
            yield found[1]
            yield from (a for a in arguments[index + 1 :] if not re.match(r"[-+][A-Za-z]", a))
            return


def _check_script(script: str, workdir: Path) -> str:
    if script.startswith(("$(", "`")):
        return "the shell would run unreviewed code; run the commands directly"
    return refusal(script, workdir)


def _check_unseen(simple: Simple, previous: Simple | None) -> str:
    """Returns the reason to refuse a command that would run unreviewed code; else empty."""
    source = previous if previous and simple.before.strip() in ("|", "|&") else None
    shell_reads = source and simple.program in SHELLS
    code_reads = source and simple.program in INTERPRETERS and source.program in UNSEEN
    reads_process = simple.program in INTERPRETERS | {"source", "."} and "<(" in simple.after
    if shell_reads or code_reads or reads_process:
        return f'"{simple.program}" would run unreviewed code; save it, read it, then run it'
    return ""


def _check_destruction(program: str, arguments: Sequence[str], workdir: Path) -> str:
    options = "".join(a for a in arguments if re.fullmatch(r"-[A-Za-z]+", a))
    recursive = "r" in options.lower() or "--recursive" in arguments
    match program:
        case "rm" if recursive and EVERYTHING & set(_list_targets(arguments, workdir)):
            return "rm would remove the whole workdir; name what to remove"
        case "find" if "-delete" in arguments and not _has_test(arguments):
            return "find would remove the whole workdir; name what to remove"
        case "chmod" if recursive and {"777", "0777", "a+rwx", "000"} & set(arguments):
            return "chmod would change the permissions of everything; name the files"
        case "kill" if any(KILLS_OTHERS.fullmatch(a) for a in _kill_targets(arguments)):
            return "kill by number may kill processes that it did not start"
        case _ if program in {"set", *SHELLS} and _turns_on_jobs(arguments):
            return f"{program} -m starts processes that outlive the command"
        case "cd" if not arguments or arguments[0] in ("-", "--"):
            return "cd would leave the workdir; name a folder in it"
        case _:
            return ""


def _list_targets(arguments: Sequence[str], workdir: Path) -> Iterator[str]:
    """Yields the arguments, with braces expanded and the workdir written as `.`."""
    here = re.compile(rf"(?:\$PWD|\$\{{PWD\}}|`pwd`|{re.escape(workdir.as_posix())})(?=/|$)")
    for word in arguments:
        for part in word[1:-1].split(",") if EXPANSION.fullmatch(word) else [word]:
            at = here.match(part)
            yield f".{part[at.end() :]}" if at else part


def _turns_on_jobs(arguments: Sequence[str]) -> bool:
    """True if the options of a shell, or of `set`, turn on job control."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if re.fullmatch(r"-[A-Za-z]*m[A-Za-z]*", word):
            return True
        if re.fullmatch(r"[-+][A-Za-z]*o", before):
            if word == "monitor":
                return True
        elif not word.startswith(("-", "+")):
            return False
    return False


def _has_test(arguments: Sequence[str]) -> bool:
    """True if find selects only some files, not only all others."""
    tests = {"-name", "-iname", "-path", "-regex", "-size", "-mtime", "-newer", "-empty"}
    around = zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False)
    return any(
        word in tests and value not in EVERYTHING and before not in ("!", "-not")
        for before, word, value in around
    )


def _kill_targets(arguments: Sequence[str]) -> Sequence[str]:
    """Returns the targets of kill: all arguments except a leading signal."""
    is_signal = bool(arguments) and len(arguments) > 1 and arguments[0].startswith("-")
    return arguments[1:] if is_signal else arguments
