"""run_command, and the program that "always" covers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.builtin.shell import program_of
from axe_nb.threads import in_thread
from axe_nb.tools.tool import CallSite
from tests.calls import answer, failure, run, tool
from tests.sandbox.cages import ends, unique
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(os.name == "nt", reason="not run: the commands are of POSIX")


RUN = tool("run_command")


@pytest.mark.req("D-20")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello > a; cat a; echo oh >&2; pwd", "hello\noh\n{workdir}\n"),
        ("true", "(no output)"), ("cat; echo end", "end\n"), ("printf 'a\\377b'", "a\ufffdb"),
    ],
)  # fmt: skip
def test_a_command_runs_in_the_workdir_and_its_output_comes_back(
    tmp_path: Path, command: str, output: str
) -> None:
    told = run(RUN, tmp_path, command=command, timeout=30)
    assert told == output.replace("{workdir}", str(tmp_path.resolve()))


@pytest.mark.req("X-35", "X-38")
def test_a_command_that_fails_is_an_error_with_its_output(tmp_path: Path) -> None:
    assert failure(RUN, tmp_path, command="echo half done; exit 3") == (
        "command failed with exit code 3\nhalf done"
    )
    text = failure(RUN, tmp_path, command="no-such-program-here")
    assert text.startswith("command failed with exit code 127: command not found; check ")
    (tmp_path / "x").touch()
    assert "exit code 126: permission to run it was denied" in failure(RUN, tmp_path, command="./x")
    assert failure(RUN, tmp_path, command="kill -TERM $$") == "command was terminated by signal 15"
    for timeout in (0, -1, "nan"):
        assert "timeout" in failure(RUN, tmp_path, command="true", timeout=timeout)
    assert RUN.guard is not None
    site = CallSite(agents=(Agent("a", "script/a"),), workdir=tmp_path / "no")
    guard = RUN.guard({"command": "true"}, site)
    assert guard is not None
    assert (guard.floor, "no cannot be used: No such file" in guard.reason) == ("deny", True)


@pytest.mark.req("X-35")
def test_a_timeout_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    inner, outer = unique(), unique()
    command = f"echo started; (sleep {inner} & wait) & sleep {outer}"
    assert failure(RUN, tmp_path, command=command, timeout=3) == (
        "command took longer than 3s and was killed\nstarted"
    )
    assert ends(inner)
    assert ends(outer)


@pytest.mark.req("D-8")
def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    inner, outer = unique(), unique()
    command = f"(sleep {inner} & echo $! > inner; wait) & sleep {outer}"

    async def cancelled() -> None:
        task = asyncio.create_task(answer(RUN, tmp_path, {"command": command}))
        await in_thread(eventually, (tmp_path / "inner").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ends(inner)
    assert ends(outer)


def test_keys_are_not_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_TOKEN", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:sk-secret@proxy")
    text = run(RUN, tmp_path, command="env; echo ${MY_TOKEN:-unset}")
    assert "sk-secret" not in text
    assert text.endswith("unset\n")
    assert f"PATH={os.environ['PATH']}" in text


def test_long_output_keeps_its_start_and_its_end(tmp_path: Path) -> None:
    text = run(RUN, tmp_path, command="echo first; seq 1 100000; echo last")
    assert text.startswith("first\n1\n2\n")
    assert text.endswith("99999\n100000\nlast\n")
    assert " bytes left out) ..." in text
    assert len(text.encode()) <= 65_536


def test_endless_output_is_ended_with_the_time(tmp_path: Path) -> None:
    text = failure(RUN, tmp_path, command="yes", timeout=2)
    assert text.startswith("command took longer than 2s and was killed\ny\ny\n")
    assert len(text) < 65_536


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("git status", "git"), ("git commit -m 'a message'", "git"), ("  ls -la src", "ls"),
        ("pytest -q tests/test_a.py", "pytest"), ("g++ a.cc -o a", "g++"),
    ],
)  # fmt: skip
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
        "\\git status", "g\\it status", "git status # x", "gi\u200bt status",
        "ipython -c 1", "nodejs -e 1", "Rscript x", "julia x", "xonsh x", "nu x", "elixir x",
        "pythonw x", "setarch x", "chrt 1 x", "prlimit bash", "numactl x", "unbuffer x",
        "fakeroot x", "systemd-run x", "ltrace x", "rlwrap x", "gosu x", "tomorrows_wrapper x",
        "if true", "%x", "cmd.exe x", "git^ status", "<x cat", "git status \r rm x",
    ],
)  # fmt: skip
def test_shells_wrappers_interpreters_and_compounds_are_no_program(command: str) -> None:
    assert program_of(command) == ""
