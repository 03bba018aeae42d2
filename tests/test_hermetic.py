"""Tests see neither the network nor the settings of the person who runs them."""

import socket
from pathlib import Path

import pytest

import axe_nb
from axe_nb.session.session import session
from tests.bootstrap import without_settings

pytestmark = pytest.mark.req("A-T2")


@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "2001:db8::1"])
def test_another_machine_cannot_be_connected_to(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.socket(family) as connection,
        pytest.raises(RuntimeError, match="tests may use loopback only"),
    ):
        connection.connect((host, 443))


def test_keys_proxies_and_settings_are_gone() -> None:
    person = {
        "ANTHROPIC_API_KEY": "k", "AXE_CASSETTE": "c", "https_proxy": "p", "PATH": "/bin",
        "IPYTHONDIR": "i", "XDG_CONFIG_HOME": "x", "XDG_STATE_HOME": "x",
        "PYTHONPATH": "y", "CI": "true",
    }  # fmt: skip
    left = without_settings(person, Path("home"))
    assert left == {
        "PATH": "/bin", "CI": "true",
        "XDG_CONFIG_HOME": str(Path("home", "config")),
        "XDG_STATE_HOME": str(Path("home", "state")), "IPYTHONDIR": str(Path("home", "ipython")),
    }  # fmt: skip


@pytest.mark.parametrize("time", ["first", "second"])
def test_what_a_test_defines_is_gone_after_it(time: str) -> None:
    assert axe_nb.last() is None
    assert (session.agents, session.conversations, session.spent) == ({}, {}, {})
    with pytest.raises(axe_nb.ConfigError):
        axe_nb.run(axe_nb.Agent(name="lead", model="script/lead"), "go")

    @axe_nb.script("lead")
    def model(request: axe_nb.Request) -> str:
        return time

    axe_nb.define(axe_nb.Agent(name="lead", model="script/lead"))
    assert axe_nb.run("lead", "go").text == time
