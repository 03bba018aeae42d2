"""The mode of a cassette: as given, by who is there, or as the environment says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import axe_nb
from axe_nb import ConfigError
from axe_nb.agents.user_config import config_path
from axe_nb.recording import cassette
from axe_nb.recording.modes import find_mode
from tests.providers.dialects import BY_NAME
from tests.wire.replay import Replay


@pytest.mark.req("D-68")
def test_without_a_mode_no_test_asks_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_mode(None, can_ask=True) == "replay"
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    assert find_mode(None, can_ask=True) == "auto"
    assert find_mode(None, can_ask=False) == "replay"
    monkeypatch.setenv("AXE_NB_TEST", "1")
    assert find_mode(None, can_ask=True) == "replay"
    assert find_mode("live", can_ask=False) == "live"


@pytest.mark.req("D-68")
def test_the_environment_says_the_mode_of_a_cassette_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AXE_CASSETTE_MODE", "record")
    assert find_mode(None, can_ask=False) == "record"
    assert find_mode("replay", can_ask=False) == "replay"
    monkeypatch.setenv("AXE_CASSETTE_MODE", "play")
    with pytest.raises(ConfigError, match='unknown cassette mode "play"'):
        find_mode(None, can_ask=True)


def test_a_cassette_that_is_opened_again_has_what_is_not_yet_written(
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


ENDPOINT = '[providers.own]\nprotocol = "openai"\nbase_url = "{url}"\n'

HELLO = {"status": 200, "body": BY_NAME["openai"].reply("hello", (), "stop")}


@pytest.fixture
def server(project: Path) -> Iterator[Replay]:
    with Replay({"hello": HELLO}) as replay:
        config_path().parent.mkdir(parents=True, exist_ok=True)
        config_path().write_text(ENDPOINT.format(url=replay.url("hello")), "utf-8")
        yield replay


def test_where_the_environment_says_replay_nothing_is_sent_without_a_cassette(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> str:
        return axe_nb.run(None, "hi", model="own/m").raise_for_status().text

    assert ask() == "hello", "without the variable, a test may ask a server"
    with axe_nb.cassette("own.axe", "record"):
        ask()
    sent = len(server.log("hello"))
    monkeypatch.setenv("AXE_CASSETTE_MODE", "replay")
    with pytest.raises(ConfigError) as raised:
        ask()
    assert raised.value.lines() == [
        "no cassette is in use, and AXE_CASSETTE_MODE=replay lets no model be asked",
        'open one with %axe cassette PATH or axe_nb.cassette("PATH"), or name it in AXE_CASSETTE',
    ]
    with pytest.raises(ConfigError, match="no cassette is in use"):
        list(axe_nb.map(None, ["hi"], model="own/m"))
    with pytest.raises(ConfigError, match="no cassette is in use"):
        axe_nb.grid(None, "hi", models=["own/m"])
    with axe_nb.cassette("own.axe"):
        assert ask() == "hello"
    assert len(server.log("hello")) == sent
    with axe_nb.cassette("own.axe", "live"):
        assert ask() == "hello", "as the cassette was opened to"
    assert len(server.log("hello")) == sent + 1
