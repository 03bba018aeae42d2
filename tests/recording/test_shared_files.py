"""A cassette's file, written by several processes and threads at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, script
from axe_nb.agents.data_files import read_data
from axe_nb.agents.user_config import state_dir
from axe_nb.recording.cassette import Cassette
from axe_nb.session.session import session

PATIENCE = 60
"""Seconds until a test gives up."""

WRITER = """
import sys
import axe_nb
from axe_nb import Agent, script

who = sys.argv[1]
script("echo")(lambda request: f"{who} said {request.last}")
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
with axe_nb.cassette("shared.axe", "auto") as cassette:
    for number in range(6):
        axe_nb.run(Agent(name="echo", model="script/echo"), f"{who} {number}")
        cassette.save()
"""


@contextmanager
def start(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def read(path: str) -> list[dict[str, Any]]:
    if not Path(path).exists():
        return []
    records: list[dict[str, Any]] = read_data(Path(path), "cassette", lambda data: data)
    return records


def define_echo() -> Agent:
    @script("echo")
    def echo(request: Request) -> str:
        return f"You said {request.last}"

    return Agent(name="echo", model="script/echo")


def record_run(cassette: Cassette, prompt: str) -> None:
    """Runs with a cassette that is not written at the end."""
    session.cassette = cassette
    try:
        axe_nb.run(define_echo(), prompt)
    finally:
        session.cassette = None


def list_prompts(path: str) -> list[str]:
    return [record["asked"]["messages"][0]["user"] for record in read(path)]


@pytest.mark.req("D-59")
def test_processes_that_record_at_once_lose_nothing(project: Path) -> None:
    names = ("ann", "bob", "eve")
    with start(WRITER, "ann") as ann, start(WRITER, "bob") as bob, start(WRITER, "eve") as eve:
        processes = (ann, bob, eve)
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
    expected = {f"{name} {number}" for name in names for number in range(6)}
    assert sorted(list_prompts("shared.axe")) == sorted(expected)
    assert len({record["root"] for record in read("shared.axe")}) == len(expected)
    agent = define_echo()
    with axe_nb.cassette("shared.axe", "replay"):
        for prompt in sorted(expected):
            result = axe_nb.run(agent, prompt)
            assert result.text == f"{prompt.split()[0]} said {prompt}"


def test_what_another_has_removed_stays_removed_and_what_it_has_changed_stays(
    project: Path,
) -> None:
    agent = define_echo()
    with axe_nb.cassette("shared.axe", "record"):
        for prompt in ("one", "two", "three"):
            axe_nb.run(agent, prompt)
    ours = Cassette("shared.axe", "auto")
    with axe_nb.cassette("shared.axe", "auto") as other:
        axe_nb.run(agent, "one")
        other.prune()

    @script("echo")
    def echo(request: Request) -> str:
        return "changed"

    with axe_nb.cassette("shared.axe", "record"):
        axe_nb.run(agent, "one")
    record_run(ours, "four")
    ours.save()
    assert list_prompts("shared.axe") == ["one", "four"]
    with axe_nb.cassette("shared.axe", "replay"):
        assert axe_nb.run(agent, "one").text == "changed"


@pytest.mark.req("D-43")
def test_many_cassettes_leave_one_lock_in_the_state_folder(tmp_path: Path) -> None:
    script("m")(lambda request: "done")
    for number in range(3):
        with axe_nb.cassette(tmp_path / f"{number}.axe", mode="record"):
            axe_nb.run(None, "go", model="script/m", display=False)
    assert len(list(tmp_path.glob("*.axe"))) == 3
    assert [path.name for path in state_dir().rglob("*lock*")] == ["cassettes.lock"]
