"""The mode of a cassette, its file, which several may write, and no secret in its records."""

from __future__ import annotations

import json
import string
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import Agent, ConfigError, script, script_server
from axe_nb.agents.data_files import read_data
from axe_nb.agents.user_config import state_dir
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Response, ToolCall
from axe_nb.messages.exchanges import Exchange
from axe_nb.recording import cassette
from axe_nb.recording.cassette import Cassette, decode, encode
from axe_nb.recording.modes import find_mode
from axe_nb.secrets import find_filter, redact
from axe_nb.session.session import session
from tests.recording.runs import start


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


def test_an_open_cassette_is_opened_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axe_nb.script("one")(lambda request: request.last)
    axe_nb.define(axe_nb.Agent(name="one", model="script/one"))
    monkeypatch.setattr(cassette, "SHARE", 1e6)  # the second run is not written at its end
    with axe_nb.cassette("one.axe", "record"):
        first = [axe_nb.run("one", prompt).text for prompt in ("a", "b")]
        with axe_nb.cassette("one.axe", "replay") as inner:
            assert [axe_nb.run("one", prompt).text for prompt in ("a", "b")] == first
            assert (inner.hits, inner.misses) == (2, 0)


def test_replay_mode_sends_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
                "no cassette is in use, and AXE_CASSETTE_MODE=replay allows no requests to models",
                "record a notebook with axe-nb freeze, or open a cassette with %axe cassette "
                'PATH, axe_nb.cassette("PATH") or AXE_CASSETTE',
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


OFTEN = settings(
    max_examples=80, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

SECRETS = (
    st.text(string.ascii_letters + string.digits + "+/=\"\\%&' é\n🏛", min_size=8, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) > 7 and len(set(text)) > 3 and text[0] not in "/ ")
    .filter(lambda text: not text.isalpha())  # as the keys of a record are, such as `protocol`
)


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS, others=st.text('ab "\\né', max_size=30), data=st.data())
def test_no_record_holds_a_streamed_secret(secret: str, others: str, data: st.DataObject) -> None:
    said = f"{others} {secret} {others}"
    cuts = data.draw(st.sets(st.integers(0, len(said)), max_size=9))
    pieces = [Delta(said[a:b]) for a, b in pairwise(sorted({0, len(said), *cuts}))]
    deltas = tuple(one for piece in pieces for one in (piece, Delta("hm", "reasoning")))
    exchange = Exchange(turn=1, deltas=deltas, response=Response(said, (), "stop"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return  # too ordinary
        kept = encode(exchange, find_filter())
        assert secret not in json.dumps(kept, ensure_ascii=False)
        again = decode(kept, 1, 1)
        assert again.deltas[0] == Delta(redact(said))
        assert again.response == Response(redact(said), (), "stop")
    again = decode(encode(exchange, find_filter()), 1, 1)
    assert (again.deltas[0].text, again.response) == (said, exchange.response), "not secret now"


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS)
def test_a_secret_in_a_reply_or_an_error_is_in_no_record(secret: str) -> None:
    text = f"{'A long answer. ' * 5}{secret}{' More of it.' * 12}"
    echo = {"openai": {"reasoning_content": text}}
    response = Response(text, (ToolCall("c", "f", {"a": [text]}),), echo=echo, reasoning=text)
    error = ProviderError("server", "it broke", partial_text=text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return
        for exchange in (Exchange(turn=1, response=response), Exchange(turn=1, error=error)):
            kept = encode(exchange, find_filter())
            again = decode(kept, 1, 1).response
            assert again is None or again.content == again.reasoning == redact(text)
            assert json.dumps(secret)[1:-1] not in json.dumps(kept)
