"""The program that a command runs, if it is plain enough that its name says so.

A yes to "always" covers a program, so this rather names none than the wrong one.
Source: D-19; issue 9.
"""

from __future__ import annotations

import re
import shlex

SPECIAL = re.compile(r"[`$(){}<>|&;\n\r*?\[\]~#!\\^%]")
"""Characters that may mean more than themselves to a shell, quoted or not."""

NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*")

RUNS_OTHERS = {
    ".", "awk", "bash", "bun", "busybox", "bwrap", "builtin", "bunx", "chroot", "cmd", "command",
    "conda", "csh", "dash", "deno", "doas", "docker", "ed", "emacs", "env", "eval", "ex", "exec",
    "find", "fish", "flock", "gawk", "gdb", "ionice", "ksh", "lua", "mawk", "micromamba", "nice",
    "nix", "node", "nohup", "npm", "npx", "nvim", "osascript", "parallel", "perl", "php", "pipx",
    "pixi", "pnpm", "podman", "poetry", "powershell", "pwsh", "ruby", "screen", "script", "sed",
    "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "taskset", "tclsh", "tcsh",
    "time", "timeout", "tmux", "trap", "uv", "uvx", "unshare", "vi", "vim", "watch", "xargs",
    "yarn", "zsh",
}  # fmt: skip
"""Programs whose arguments are programs: shells, wrappers, interpreters. Their name says little."""


def program_of(command: str) -> str:
    """Returns the name of the only program that a command runs; empty if that is not certain.

    Empty for compound commands, shells, wrappers, interpreters, paths and assignments.
    """
    if not command.isascii() or SPECIAL.search(command):
        return ""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    name = words[0] if words else ""
    bare = re.sub(r"[\d.]+$", "", name.lower().removesuffix(".exe"))
    runs_others = {name.lower(), bare} & RUNS_OTHERS or bare in ("python", "pypy")
    return "" if runs_others or not NAME.fullmatch(name) else name
