"""Requests as `result.request` and `--dry-run --full` show them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import (
    Agent,
    ConfigError,
    ProviderError,
    Request,
    Response,
    RunResult,
    Usage,
    call,
    cli,
    script,
    script_server,
    tool,
)
from axe_nb.events import RunFinished
from axe_nb.messages import Delta, ToolCall
from axe_nb.scripting.wire import Protocol
from axe_nb.views.request import MAX_TEXT, SentRequest
from tests.protocols import PROTOCOLS, provider_of

LONG = "You lead a group of guides, each of whom knows one town.\n" * 100
"""Long enough for Anthropic's prompt cache."""


@tool(read_only=True)
def look_up(town: str) -> str:
    """Looks a town up."""
    return f'{town}: "Größe"\n\tunknown '


def define_tree(protocol: str) -> None:
    """A lead that thinks, uses a tool, asks a guide, and has a copy of itself explore."""
    lead_agent = Agent(
        "lead", f"{provider_of(protocol)}/lead", sub_agents=("guide",), system_prompt=LONG,
        tools=(look_up, "subagent"), retry={"max_retries": 2},
        params={"temperature": 0.5, "max_tokens": 900},
    )  # fmt: skip
    axe_nb.define(lead_agent)
    axe_nb.define(Agent("guide", f"{provider_of(protocol)}/guide", system_prompt="You know Rome."))
    failures = iter([ProviderError("rate_limit", "wait", status=429, retry_after=0.01)])

    @script("lead")
    async def lead(request: Request) -> AsyncIterator[Any]:
        if "Explore" in str(request.messages[0].content):
            yield "explored" if request.turn > 1 else call("look_up", town="Riga")
        elif request.turn == 1:
            yield Delta("Whom shall I ask?", "reasoning")
            yield "Let me ask."
            yield call("look_up", town="Bonn")
            yield call("call_agent", agent="guide", task="About Rome")
        elif request.turn == 2:
            for error in failures:
                raise error
            yield call("subagent", label="explore", task_prompt="Explore")
        else:
            yield request.last

    script("guide")(lambda request: f"{request.last}: a fine town")


def run(*arguments: Any, streams: bool = False, **options: Any) -> RunResult:
    async def watch() -> RunResult:
        async with aclosing(axe_nb.stream(*arguments, **options)) as events:
            return [e.result async for e in events if isinstance(e, RunFinished)][-1]

    return asyncio.run(watch()) if streams else axe_nb.run(*arguments, **options)


@pytest.fixture
def result(project: Path) -> RunResult:
    define_tree("script")
    return run("lead", "Compare")


@pytest.mark.req("D-59")
def test_places_are_turns_of_the_tree(result: RunResult) -> None:
    def place(*given: Any) -> str:
        return result.request(*given).place

    assert place() == place(None) == place("0") == place("@0") == place(3) == "0/3"
    assert place("0.2") == place("@0.2/1") == place("0.2/1") == "0.2/1"
    assert (place(1), place("/2")) == ("0/1", "0/2")
    child = result.children[0]
    assert child.request().place == child.request(1).place == "0.2/1"
    assert (child.request().agent, child.request().model) == ("guide", "script/guide")


def test_an_unknown_protocol_is_an_error(result: RunResult) -> None:
    with pytest.raises(ConfigError) as error:
        result.request(protocol="soap")
    hint = "one of anthropic, openai, responses, ollama"
    assert error.value.lines() == ['unknown protocol "soap"', hint]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("0/4", 'no turn "4" of lead; its turns are 0/1, 0/2, 0/3'),
        (0, 'no turn "0" of lead; its turns are 0/1, 0/2, 0/3'),
        ("0/", 'no turn "" of lead; its turns are 0/1, 0/2, 0/3'),
        ("0.2/x", 'no turn "x" of guide; its turns are 0.2/1'),
        ("0.1/1", 'no run "0.1" in this tree; nearest: 0.3, 0.2, 0'),
        ("x" * 99, f'no run "{"x" * 60}…" in this tree; nearest: 0.3, 0.2, 0'),
    ],
)
def test_a_wrong_place_names_those_near_it(result: RunResult, place: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        result.request(place)
    assert error.value.lines() == [message]


def test_changes_are_told_in_words(result: RunResult) -> None:
    assert result.request(1).changed == ('new prompt: "Compare"',)
    assert result.request(2).changed == (
        'new reply: "Let me ask.", calls look_up, call_agent',
        'new result of look_up: "Bonn: \\"Größe\\" unknown"',
        'new result of call_agent: "Task: About Rome: a fine town"',
    )
    assert result.request("0.3/3").changed == (
        "tools can no longer be called",
        'new reply: "explored"',
        'new prompt: "Summarize your findings concisely"',
    )


def tell(usage: Usage, prompt: str = "Go", **fields: Any) -> SentRequest:
    """The second request of an agent whose replies say that they used so much."""
    axe_nb.define(Agent(name="a", model="script/a", tools=(look_up,), **fields))

    @script("a")
    def a(request: Request) -> Any:
        calls: tuple[ToolCall, ...] = (call("look_up", town="Rome"),)
        return Response("hm", calls if request.turn == 1 else (), "stop", usage)

    return run("a", prompt).request()


@pytest.mark.req("D-18")
def test_the_sources_add_up_to_the_reported_tokens_or_their_bytes_by_four(project: Path) -> None:
    (project / "skill.md").write_text("Be kind. " * 40)
    (project / "notes.txt").write_text("Größe " * 100)
    request = tell(
        Usage(1003, 7), "Go " * 20, system_prompt="Lead. " * 20, files=("*.txt",),
        skill=str(project / "skill.md"), workdir=str(project),
    )  # fmt: skip
    context = request.context
    assert list(context) == [
        "system prompt", "skill", "files", "tool schemas", "history", "prompt", "results",
    ]  # fmt: skip
    assert context.total == sum(context.values()) == 1003
    assert all(context.values())
    assert context["files"] > context["skill"] > context["system prompt"] > context["prompt"]
    assert (context.is_estimate, context.size) == (False, "1,003 tokens")
    result = axe_nb.last()
    assert result
    cut = tuple(replace(e, response=None) for e in result.exchanges)
    context = replace(result, exchanges=cut).request().context
    estimate = {"system prompt": 30, "skill": 95, "prompt": 15, "results": 7}
    assert {source: context[source] for source in estimate} == estimate
    files = "\n\n---\n\n## Context Files\n\n### notes.txt\n```txt\n" + "Größe " * 100 + "\n```"
    assert context["files"] == -(-len(files.encode()) // 4)
    assert context.is_estimate
    assert context.size == f"about {context.total:,} tokens"


def test_the_text_has_bars_changes_and_a_body_that_is_cut(project: Path) -> None:
    request = tell(Usage(900, 5), prompt="Rome " * 1000, system_prompt="Lead.")
    lines = str(request).splitlines()
    assert lines[0] == "a · script/a · 0/2 · 900 tokens · script models receive no " \
        "body; shown in openai format"  # fmt: skip
    assert "prompt               854   95%  ████████████████████████████" in lines
    at = lines.index("since the previous turn:")
    assert lines[at + 1] == '+ new reply: "hm", calls look_up'
    assert any(line.startswith("body (openai, ") for line in lines)
    assert lines[-1] == '… cut; in full: .request("0/2").body'
    assert f"{5000 - MAX_TEXT:,} more characters" in str(request)
    assert "Rome " * 1000 in request.format(whole=True)
    assert repr(request) == "SentRequest(a, 0/2, openai, 900 tokens)"
    assert repr(replace(request, agent="\x1b[2J\na")).startswith("SentRequest(�[2J a, 0/2")


every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.req("D-62")
def test_bodies_are_those_it_received(protocol: Protocol, streams: bool, project: Path) -> None:
    define_tree(protocol)
    with script_server(protocol) as server:
        result = run("lead", "Compare", streams=streams)
        assert [one.status for one in result.walk()] == ["completed"] * 3
        assert result.retries == 1
        assert len(server.requests) == 8  # 3 and a retry, the guide's, 3 of the copy
        bodies = [
            result.request(f"{run.id}/{exchange.turn}").body
            for run in result.walk()
            for exchange in run.exchanges
        ]
        assert sorted(map(json.dumps, bodies)) == sorted(map(json.dumps, server.requests))
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
def test_another_protocol_gives_the_body_it_would_send(protocol: Protocol, project: Path) -> None:
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
        assert asked.note == f"sent over openai; shown in {protocol} format"
        assert asked.context.is_estimate


@pytest.mark.req("D-60")
def test_the_body_has_secrets_and_what_is_shown_has_none_nor_the_beginning_of_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s3cr3t-v4lue-here")
    agent = Agent(name="a", model="script/a")
    script("a")(lambda request: "fine")
    request = run(
        agent, "Use s3cr3t-v4lue-here, \x1b[31m</pre><script>alert(1)</script>"
    ).request()  # fmt: skip
    assert "s3cr3t-v4lue-here" in request.raw.decode()
    shown = request._repr_mimebundle_()
    for text in (str(request), *shown.values()):
        assert "s3cr3t" not in text
        assert "***" in text
        assert "\x1b" not in text
    assert "<script>" not in shown["text/html"]
    assert shown == request._repr_mimebundle_()
    for before in (45, 995):  # where texts are cut
        request = run(agent, "x" * before + "s3cr3t-v4lue-here" + "y" * 2000).request()
        assert "s3c" not in f"{request} {request.changed!r}"


AGENT = """\
name = "lead"
model = "{provider}/lead"
system_prompt = "Lead {long} them."
tools = ["list_directory"]
[params]
temperature = 0.5
"""


@every_protocol
@pytest.mark.req("D-62", "B-10")
def test_it_is_the_body_that_is_sent_then(
    protocol: Protocol, project: Path, capsys: pytest.CaptureFixture[str], piped: object
) -> None:
    agent = AGENT.format(provider=provider_of(protocol), long=LONG.replace("\n", " "))
    (project / "axe" / "agents" / "lead.toml").write_text(agent)
    script("lead")(lambda request: "fine")
    words = ["run", "lead", "-p", "Who is there?", "--workdir", str(project)]
    with script_server(protocol) as server:
        assert cli.main([*words, "--dry-run"]) == 0
        letters = capsys.readouterr().out
        assert cli.main([*words, "--dry-run", "--full"]) == 0
        shown = capsys.readouterr().out
        assert server.requests == []
        assert cli.main(words) == 0
    assert shown.startswith(letters)
    head, _, body = shown.removeprefix(letters).partition(" bytes):\n")
    assert json.loads(body) == server.requests[0]
    lines = head.splitlines()
    assert lines[:2] == ["", "--- Request ---"]
    assert lines[2].startswith(f"lead · {provider_of(protocol)}/lead · 0/1 · about 1,")
    assert lines[2].endswith(" tokens · nothing was sent")
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "system prompt", "tool schemas", "prompt",
    ]  # fmt: skip


@pytest.mark.req("D-62", "B-10")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_no_key_is_needed_where_nothing_is_sent(
    provider: str, project: Path, capsys: pytest.CaptureFixture[str], piped: object
) -> None:
    agent = AGENT.format(provider=provider, long=LONG.replace("\n", " "))
    (project / "axe" / "agents" / "lead.toml").write_text(agent)
    words = ["run", "lead", "-p", "Who is there?"]
    assert cli.main([*words, "--dry-run", "--full"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"=== Dry Run ===\n\nModel:    {provider}/lead\n")
    assert shown.err.startswith(f'warning: no API key for provider "{provider}": set ')
    assert shown.err.count("\n") == 1
    assert cli.main(words) == 3
    assert capsys.readouterr().err.startswith(f'error: no API key for provider "{provider}"')
