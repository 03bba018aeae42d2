"""The body of a request is the one that the server received, for every protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request, RunResult, script, script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.views.requests import as_lines, define_tree, run

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

streamed_or_whole = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def bodies_of(result: RunResult) -> list[Any]:
    """The bodies of all requests of a tree, those that were sent again too."""
    return [
        result.request(f"{run.id}/{exchange.turn}").body
        for run in result.walk()
        for exchange in run.exchanges
    ]


@every_protocol
@streamed_or_whole
@pytest.mark.req("D-62")
def test_bodies_are_those_that_the_server_received(
    protocol: Protocol, streams: bool, project: Path
) -> None:
    define_tree(protocol)
    with script_server(protocol) as server:
        result = run("lead", "Compare", streams=streams)
        assert [one.status for one in result.walk()] == ["completed"] * 3
        assert result.retries == 1
        assert len(server.requests) == 8  # 3 and a retry, the guide's, 3 of the copy
        assert as_lines(bodies_of(result)) == as_lines(server.requests)
        again = run("lead", "And now?", streams=streams, continue_from=result)
    assert result.request("0/2").attempt == 2
    sent = again.request().body
    assert sent == server.requests[-1]
    assert sent.get("stream", False) is streams
    body = json.dumps(result.request("0/3").body)
    if protocol == "anthropic":
        assert body.count("cache_control") == 4
        assert result.request("0.3/3").body["tool_choice"] == {"type": "none"}
    assert "Whom shall I ask?" in body or protocol == "openai"


def test_a_field_that_the_server_refused_is_not_in_the_body(project: Path) -> None:
    axe_nb.define(Agent(name="old", model="openai/old"))
    refusals = iter([ProviderError("bad_request", "unknown field: stream_options", status=400)])

    @script("old")
    def old(request: Request) -> str:
        for error in refusals:
            raise error
        return "fine"

    with script_server("openai") as server:
        result = run("old", "Go", streams=True)
    assert result.ok
    assert "stream_options" in server.requests[0]
    assert result.request().body == server.requests[1]
    assert result.request().body["stream"] is True


@every_protocol
def test_another_protocol_gives_the_body_that_it_would_have_sent(
    protocol: Protocol, project: Path
) -> None:
    bodies = {}
    for own in ("openai", protocol):
        define_tree(own)
        with script_server(own) as server:
            result = run("lead", "Compare", model=f"{provider_of(own)}/lead")
            bodies[own] = server.requests[0]
        if own == "openai":
            asked = result.request("0/1", protocol)
    assert asked.body == bodies[protocol]
    if protocol == "openai":
        assert asked.note == ""
    else:
        assert asked.note == f"as it would be sent over {protocol}; it was sent over openai"
        assert asked.context.is_estimate


def test_an_unknown_protocol_is_an_error(project: Path) -> None:
    define_tree("script")
    with pytest.raises(axe_nb.ConfigError) as error:
        run("lead", "Compare").request(protocol="soap")
    assert error.value.lines() == [
        'unknown protocol "soap"', "one of anthropic, openai, responses, ollama",
    ]  # fmt: skip


def test_the_body_has_secrets_and_what_is_shown_has_none(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s3cr3t-v4lue-here")
    axe_nb.define(Agent(name="a", model="script/a"))
    script("a")(lambda request: "fine")
    request = run("a", "Use s3cr3t-v4lue-here, \x1b[31m</pre><script>alert(1)</script>").request()
    assert "s3cr3t-v4lue-here" in request.raw.decode()
    shown = request._repr_mimebundle_()
    for text in (str(request), *shown.values()):
        assert "s3cr3t" not in text
        assert "***" in text
        assert "\x1b" not in text
    assert "<script>" not in shown["text/html"]
    assert shown == request._repr_mimebundle_()


@pytest.mark.req("D-60")
def test_a_secret_that_a_text_is_cut_in_does_not_show_its_beginning(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s3cr3t-v4lue-here")
    axe_nb.define(Agent(name="a", model="script/a"))
    script("a")(lambda request: "fine")
    for before in (45, 995):
        request = run("a", "x" * before + "s3cr3t-v4lue-here" + "y" * 2000).request()
        assert "s3c" not in str(request)
        assert "s3c" not in repr(request.changed)
