"""A cassette's mode, as given or as the environment says; its file, written by several at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, script, script_server
from axe_nb.agents.data_files import read_data
from axe_nb.agents.user_config import state_dir
from axe_nb.recording import cassette
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.modes import find_mode
from axe_nb.session.session import session


@pytest.mark.req("D-68")
def test_without_a_mode_no_test_asks_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_mode(None, can_ask=True) == "replay"
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    assert find_mode(None, can_ask=True) == "auto"
    assert find_mode(None, can_ask=False) == "replay"
    monkeypatch.setenv("AXE_NB_TEST", "1")
    assert find_mode(None, can_ask=True) == "replay"
    monkeypatch.setenv("AXE_CASSETTE_MODE", "record")
    assert find_mode(None, can_ask=False) == "record"
    assert find_mode("live", can_ask=False) == "live"
    monkeypatch.setenv("AXE_CASSETTE_MODE", "play")
    with pytest.raises(ConfigError, match='unknown cassette mode "play"'):
        find_mode(None, can_ask=True)


def test_a_cassette_opened_again_has_what_is_not_yet_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axe_nb.script("one")(lambda request: request.last)
    axe_nb.define(axe_nb.Agent(name="one", model="script/one"))
    monkeypatch.setattr(cassette, "SHARE", 1e6)  # the second run is not written at its end
    with axe_nb.cassette("one.axe", "record"):
        first = [axe_nb.run("one", prompt).text for prompt in ("a", "b")]
        with axe_nb.cassette("one.axe", "replay") as inner:
            assert [axe_nb.run("one", prompt).text for prompt in ("a", "b")] == first
            assert (inner.hits, inner.misses) == (2, 0)


def test_replay_without_a_cassette_sends_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> str:
        return axe_nb.run(None, "hi", model="openai/m").raise_for_status().text

    script("m")(lambda request: "hello")
    with script_server("openai") as server:
        assert ask() == "hello", "without the variable, a test may ask a server"
        with axe_nb.cassette("own.axe", "record"):
            ask()
        monkeypatch.setenv("AXE_CASSETTE_MODE", "replay")
        for refused in (
            ask,
            lambda: list(axe_nb.map(None, ["hi"], model="openai/m")),
            lambda: axe_nb.grid(None, "hi", models=["openai/m"]),
        ):
            with pytest.raises(ConfigError) as raised:
                refused()
            assert raised.value.lines() == [
                "no cassette is in use, and AXE_CASSETTE_MODE=replay lets no model be asked",
                'open one with %axe cassette PATH or axe_nb.cassette("PATH"), or name it in '
                "AXE_CASSETTE",
            ]
        with axe_nb.cassette("own.axe"):
            assert ask() == "hello"
        assert len(server.requests) == 2
        with axe_nb.cassette("own.axe", "live"):
            assert ask() == "hello", "as the cassette was opened to"
        assert len(server.requests) == 3


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


def read() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = read_data(Path("shared.axe"), "cassette", lambda data: data)
    return records


def define_echo() -> Agent:
    script("echo")(lambda request: f"You said {request.last}")
    return Agent(name="echo", model="script/echo")


def list_prompts() -> list[str]:
    return [record["asked"]["messages"][0]["user"] for record in read()]


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
        assert [process.wait(60) for process in processes] == [0, 0, 0]
    expected = {f"{name} {number}" for name in names for number in range(6)}
    assert sorted(list_prompts()) == sorted(expected)
    assert len({record["root"] for record in read()}) == len(expected)
    agent = define_echo()
    with axe_nb.cassette("shared.axe", "replay"):
        for prompt in sorted(expected):
            result = axe_nb.run(agent, prompt)
            assert result.text == f"{prompt.split()[0]} said {prompt}"


def test_what_another_process_changed_stays_so(project: Path) -> None:
    agent = define_echo()
    with axe_nb.cassette("shared.axe", "record"):
        for prompt in ("one", "two", "three"):
            axe_nb.run(agent, prompt)
    ours = Cassette("shared.axe", "auto")
    with axe_nb.cassette("shared.axe", "auto") as other:
        axe_nb.run(agent, "one")
        other.prune()

    script("echo")(lambda request: "changed")
    with axe_nb.cassette("shared.axe", "record"):
        axe_nb.run(agent, "one")
    session.cassette = ours
    axe_nb.run(agent, "four")
    session.cassette = None
    ours.save()
    assert list_prompts() == ["one", "four"]
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
