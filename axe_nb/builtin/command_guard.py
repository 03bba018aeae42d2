"""Checks of run_command: refuses dangerous commands and obvious access outside the workdir.

This guards against mistakes, before the sandbox: it only reads the text of a command, which does
not show everything that a program does. docs/tools.md lists what is deliberately not caught.
Source: X-35, D-43.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from axe_nb.text import cut_chars, quote

MAX_COMMAND = 10_000
"""Characters of a command."""

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

KEYWORDS = frozenset(
    {"then", "do", "else", "if", "elif", "while", "until", "!", "{", "}", "coproc",
     "-exec", "-execdir", "-ok", "-okdir"}
)  # fmt: skip
"""Words that are followed by a new command."""

WRAPPERS = frozenset(
    {"env", "command", "builtin", "exec", "time", "nice", "ionice", "timeout", "xargs", "stdbuf",
     "watch", "busybox"}
)  # fmt: skip
"""Programs that run another program named among their arguments."""

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh", "tcsh"})
INTERPRETERS = SHELLS | {"python", "python3", "perl", "ruby", "node", "php"}
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


@dataclass(frozen=True, slots=True)
class Simple:
    """One command of a command line: a program and its arguments."""

    before: str
    """The operator before it."""
    words: Sequence[str]
    after: str
    """The operator after it."""
    text: str = ""
    """Its input, if that is written behind `<<<`."""

    @property
    def program(self) -> str:
        """Program name in lower case, without its folder."""
        return _program_name(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> Sequence[str]:
        """Words after the program name."""
        return self.words[1:]


def refusal(command: str, workdir: Path) -> str:
    """Returns the reason to refuse a command and an alternative; empty if it may run."""
    if not command.strip() or len(command) > MAX_COMMAND:
        return f"the command is empty or longer than {MAX_COMMAND} characters"
    if any(ord(c) < 32 and c not in "\t\n\r" for c in command):
        return "the command contains control characters"
    if FORK_BOMB.search(command):
        return "a function that endlessly calls itself would freeze the machine"
    if re.search(r"(?<!<)<<(?!<)", command):
        return "a here-document cannot be checked; write the text with write_file first"
    if drive := DRIVE.search(command):
        return _format_outside(drive[1])
    try:
        tokens = _tokenize(command)
    except ValueError:
        return "a quote is not closed, or a backslash ends the command"
    commands = list(_split_commands(tokens))
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


def _tokenize(command: str) -> list[str]:
    """Splits a command into unquoted words and runs of operators."""
    lexer = shlex.shlex(command.replace("\r", "\n"), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _split_commands(tokens: Sequence[str]) -> Iterator[Simple]:
    """Yields the simple commands, without their redirections but for the text of `<<<`."""
    before = text = ""
    words: list[str] = []
    redirection = ""
    for index, token in enumerate(tokens):
        is_operator = token != "" and not token.strip(";&|()<>\n")
        redirects = is_operator and token.strip("&|") != "" and set(token) <= set("<>&|")
        if redirects and "(" not in "".join(tokens[index + 1 : index + 2]):
            redirection = token
            if words and words[-1].isdigit():  # the number of a file, as in `2>`
                words.pop()
        elif token in KEYWORDS or is_operator:
            yield Simple(before, _strip_assignments(words), token, text)
            before, words, redirection, text = token, [], "", ""
        elif redirection:
            text = token if redirection == "<<<" else text
            redirection = ""
        else:
            words.append(token)
    yield Simple(before, _strip_assignments(words), "", text)


def _strip_assignments(words: Sequence[str]) -> Sequence[str]:
    """Returns the words after leading assignments such as `X=1`."""
    start = next((i for i, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    return words[start:]


def _program_name(word: str) -> str:
    name = word.strip("`").rpartition("/")[2].lower().removesuffix(".exe")
    return "mkfs" if name.startswith("mkfs.") else name


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
    """Returns the reason to refuse a simple command; empty if it may run."""
    program, arguments = simple.program, simple.arguments
    if EXPANSION.search(simple.words[0] if simple.words else ""):
        return "braces hide the command that it runs; write it out"
    if program in DANGEROUS:
        return f'"{program}" {DANGEROUS[program]}; avoid it, or ask the user to run it'
    if program in WRAPPERS:
        for index, word in enumerate(arguments):
            if _program_name(word) in CHECKED:
                inner = replace(simple, words=arguments[index:])
                if problem := _check_simple(inner, previous, workdir):
                    return problem
    if program in SHELLS:
        scripts = [simple.text, *_find_scripts(arguments)]
        for script in filter(None, scripts):
            if problem := _check_script(script, workdir):
                return problem
    return _check_unseen(simple, previous) or _check_destruction(program, arguments)


def _find_scripts(arguments: Sequence[str]) -> Iterator[str]:
    """Yields the script behind `-c`, also where it is one of several letters, as in `-lc`."""
    for index, word in enumerate(arguments):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word):
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


def _check_destruction(program: str, arguments: Sequence[str]) -> str:
    options = "".join(a for a in arguments if re.fullmatch(r"-[A-Za-z]+", a))
    recursive = "r" in options.lower() or "--recursive" in arguments
    match program:
        case "rm" if recursive and EVERYTHING & set(arguments):
            return "rm would remove the whole workdir; name what to remove"
        case "find" if "-delete" in arguments and not _has_test(arguments):
            return "find would remove the whole workdir; name what to remove"
        case "chmod" if recursive and {"777", "0777", "a+rwx", "000"} & set(arguments):
            return "chmod would change the permissions of everything; name the files"
        case "kill" if any(KILLS_OTHERS.fullmatch(a) for a in _kill_targets(arguments)):
            return "kill by number may kill processes that it did not start"
        case "set" if {"-m", "monitor"} & set(arguments):
            return "set -m starts processes that outlive the command"
        case "cd" if not arguments or arguments[0] in ("-", "--"):
            return "cd would leave the workdir; name a folder in it"
        case _:
            return ""


def _has_test(arguments: Sequence[str]) -> bool:
    """True if find selects only some files."""
    tests = {"-name", "-iname", "-path", "-regex", "-size", "-mtime", "-newer", "-empty"}
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(word in tests and value not in EVERYTHING for word, value in pairs)


def _kill_targets(arguments: Sequence[str]) -> Sequence[str]:
    """Returns the targets of kill: all arguments except a leading signal."""
    is_signal = bool(arguments) and len(arguments) > 1 and arguments[0].startswith("-")
    return arguments[1:] if is_signal else arguments
