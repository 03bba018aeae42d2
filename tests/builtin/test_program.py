"""The program that "always" covers: named only where the command is nothing but that."""

from __future__ import annotations

import pytest

from axe_nb.builtin.shell import program_of


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("git status", "git"),
        ("git commit -m 'a message'", "git"),
        ("  ls -la src", "ls"),
        ("pytest -q tests/test_a.py", "pytest"),
        ("cargo build --release", "cargo"),
        ("g++ a.cc -o a", "g++"),
    ],
)
def test_a_plain_command_is_its_program(command: str, program: str) -> None:
    assert program_of(command) == program


@pytest.mark.req("D-19")
@pytest.mark.parametrize(
    "command",
    [
        "", " ", "git status; rm -r src", "git status && ls", "git status | tee x", "git log > x",
        "git status\nrm x", "git status & ls", "ls $(x)", "ls `x`", "ls $HOME", "ls *", "ls {a,b}",
        "! git status", "(git status)", "PATH=. git status", "./git status", "/bin/ls", "src/run",
        "bash -c ls", "sh x.sh", "env git status", "timeout 9 git status", "xargs ls", "nice ls",
        "sudo ls", "python x.py", "python3 x.py", "python3.11 x.py", "Python x.py", "node x.js",
        "perl x", "ruby3.1 x", "find src -name x", "time ls", "exec ls", "eval ls", ". x",
        "source x", "npm run x", "npx x", "uv run x", "docker run x", "ssh x", "awk x y",
        "sed s/x/y/e z",
        "git 'unfinished", "\\git status", "g\\it status", "git status # x", "gi\u200bt status",
        "ipython -c 1", "nodejs -e 1", "Rscript x", "julia x", "xonsh x", "nu x", "elixir x",
        "pythonw x", "setarch x", "chrt 1 x", "prlimit bash", "numactl x", "unbuffer x",
        "fakeroot x", "systemd-run x", "ltrace x", "rlwrap x", "gosu x", "tomorrows_wrapper x",
        "if true", "%x", "cmd.exe x", "git^ status", "<x cat", "git status \r rm x",
    ],
)  # fmt: skip
def test_shells_wrappers_interpreters_and_compounds_are_no_program(command: str) -> None:
    assert program_of(command) == ""
