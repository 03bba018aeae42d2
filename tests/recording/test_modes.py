"""The mode of a cassette: as given, by who is there, or as the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

import axe_nb
from axe_nb import ConfigError
from axe_nb.recording import cassette
from axe_nb.recording.modes import find_mode


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
