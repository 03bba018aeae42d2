"""run_command."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from axe_nb.sandbox import find
from axe_nb.threads import in_thread
from tests.calls import answer, failure, run, tool

pytestmark = pytest.mark.skipif(os.name == "nt", reason="not run: the commands are of POSIX")


RUN = tool("run_command")


def gone(*seconds: str, patience: float = 5.0) -> bool:
    """Whether all `sleep SECONDS` of this machine end soon: their ids mean nothing in a sandbox."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout
        if not {f"sleep {s}" for s in seconds} & set(listed.splitlines()):
            return True
        time.sleep(0.02)
    return False


def unique() -> str:
    """Seconds that no other process of this machine sleeps."""
    return f"60.{random.randrange(10**9):09d}"


def wait_for(file: Path) -> None:
    """Returns when there is something in a file."""
    while not file.exists() or not file.read_text():
        time.sleep(0.02)


@pytest.mark.req("D-20")
def test_a_command_runs_in_the_workdir_and_its_output_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    assert run(RUN, tmp_path, command="cat a.txt; echo oh >&2; pwd") == (
        f"hello\noh\n{tmp_path.resolve()}\n"
    )
    assert run(RUN, tmp_path, command="true") == "(no output)"


@pytest.mark.req("X-35", "D-43")
def test_a_dangerous_command_is_not_run_where_there_is_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "METHODS", {})
    assert failure(RUN, tmp_path, command="touch x && sudo ls") == (
        'blocked by safety validator: "sudo" requests more privileges; '
        "avoid it, or ask the user to run it"
    )
    assert not (tmp_path / "x").exists()


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


@pytest.mark.req("X-35")
def test_a_workdir_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "Working directory not found" in failure(RUN, tmp_path / "no", command="true")


@pytest.mark.req("X-35")
def test_a_timeout_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    inner, outer = unique(), unique()
    command = f"echo started; (sleep {inner} & wait) & sleep {outer}"
    assert failure(RUN, tmp_path, command=command, timeout=3) == (
        "command took longer than 3s and was killed\nstarted"
    )
    assert gone(inner, outer)


@pytest.mark.req("D-8")
def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    inner, outer = unique(), unique()
    command = f"(sleep {inner} & echo $! > inner; wait) & sleep {outer}"

    async def cancelled() -> None:
        task = asyncio.create_task(answer(RUN, tmp_path, {"command": command}))
        await in_thread(wait_for, tmp_path / "inner")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gone(inner, outer)


def test_nothing_in_the_background_outlives_its_command(tmp_path: Path) -> None:
    started, inner = time.monotonic(), unique()
    text = run(RUN, tmp_path, command=f"sleep {inner} & echo done", timeout=30)
    assert text == "done\n"
    assert time.monotonic() - started < 50
    assert gone(inner)


def test_keys_are_not_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_TOKEN", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:sk-secret@proxy")
    text = run(RUN, tmp_path, command="env; echo ${MY_TOKEN:-unset}")
    assert "sk-secret" not in text
    assert text.endswith("unset\n")
    assert f"PATH={os.environ['PATH']}" in text


def test_there_is_no_input_to_wait_for(tmp_path: Path) -> None:
    assert run(RUN, tmp_path, command="cat; echo end", timeout=30) == "end\n"


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


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    assert run(RUN, tmp_path, command="printf 'a\\377b'") == "a\ufffdb"


@pytest.mark.req("X-38")
@pytest.mark.parametrize("timeout", [0, -1, "nan"])
def test_a_timeout_is_more_than_nothing(tmp_path: Path, timeout: object) -> None:
    text = failure(RUN, tmp_path, command="true", timeout=timeout)
    assert "timeout" in text
    assert isinstance(text, str)


def test_commands_run_side_by_side(tmp_path: Path) -> None:
    for n in range(4):
        os.mkfifo(tmp_path / f"gate{n}")

    async def all_at_once() -> list[str]:
        # a reader waits for its writer: none of them ends unless both are at work
        pairs = [f"{verb} gate{n}" for n in range(4) for verb in ("cat", "echo x >")]
        calls = (answer(RUN, tmp_path, {"command": c, "timeout": 20}) for c in pairs)
        return await asyncio.gather(*calls)

    assert asyncio.run(all_at_once()) == ["x\n", "(no output)"] * 4
