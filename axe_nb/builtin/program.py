"""The program that a command runs, if it is plain enough that its name says so.

A yes to "always" covers a program, so this rather names none than the wrong one.
Source: D-19; issue 9.
"""

from __future__ import annotations

import re
import shlex

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
"""Programs whose name says what they do; of shells, wrappers and interpreters it says little."""


def program_of(command: str) -> str:
    """Returns the name of the only program that a command runs; empty if that is not certain.

    Empty for compound commands, paths, assignments and every program that is not in the list:
    shells, wrappers and interpreters are too many to name.
    """
    if not command.isascii() or SPECIAL.search(command):
        return ""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    name = words[0] if words else ""
    return name if name in PLAIN else ""
