"""Models that think, over a server that refuses what Anthropic's API refuses.

Its model calls `look` once if that is offered, then answers; it thinks before each reply, and signs
its thinking for the system prompt, the tools and the messages before it, with a key of its own.
Replies that are not streamed end like those through a proxy whose patience is shorter than the
thinking.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.cli import main
from axe_nb.events import Event, TextDelta
from axe_nb.session.session import Session
from axe_nb.views.html import twin
from axe_nb.views.rows import draft_line
from axe_nb.views.transcript import Transcript
from tests.engine.in_process import ask_session
from tests.protocols import settings
from tests.wire.replay import Asked, Replay
from tests.wire.search_server import event, stream

THOUGHT = "I count the towns."
ANSWER = "Three."

ROOM = 2000
"""Tokens that its thinking takes."""

BLOCK_KEYS = {
    "text": {"type", "text", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}
"""The other keys are refused, as they are by the SDK's types."""


class Refusal(Exception):
    """The words of a 400."""


class StrictAnthropic(Replay):
    """The server; `patience` are the seconds after which a proxy before it closes a silent
    connection, `silence` those that its model thinks."""

    def __init__(self, *, patience: float | None = None, silence: float = 0.0) -> None:
        super().__init__({})
        self.bodies: list[dict[str, Any]] = []
        self.patience = patience
        self.silence = silence

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        body = asked.body
        self.bodies.append(body)
        try:
            check(body, asked.headers["anthropic-version"], self.root)
        except Refusal as refusal:
            error = {"type": "invalid_request_error", "message": str(refusal)}
            return {"status": 400, "body": {"type": "error", "error": error}}
        if body.get("stream"):
            return {"headers": {"content-type": "text/event-stream"}, "stream": self.stream(body)}
        if self.patience is not None and self.silence > self.patience:
            time.sleep(self.patience)
            return {"network": "close_before_headers"}
        time.sleep(self.silence)
        return {"body": answer(body, self.root)}

    def stream(self, body: dict[str, Any]) -> Iterator[str]:
        first, *others = map(event, stream(answer(body, self.root)))
        yield first
        until = time.monotonic() + self.silence
        while time.monotonic() < until:  # while it thinks
            yield event({"type": "ping"})
            time.sleep(0.05)
        yield from others


def sign(body: dict[str, Any], before: int, key: str) -> str:
    """The signature of thinking that follows the first messages of a request."""
    system = body.get("system", "")
    text = system if isinstance(system, str) else system[0]["text"]
    prefix = [key, text, body.get("tools", []), body["messages"][:before]]
    plain = json.dumps(_without_marks(prefix), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:20]


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(one) for one in value]
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    return value


def check(body: dict[str, Any], version: str, key: str) -> None:
    """Raises Refusal for a request that the server that signs with the key would refuse."""
    if not isinstance(body.get("max_tokens"), int):
        raise Refusal("max_tokens: Field required")
    if version != "2023-06-01" and "temperature" in body:
        raise Refusal("temperature: Extra inputs are not permitted")
    thinking = body.get("thinking", {})
    if thinking.get("type") in ("disabled", "enabled"):
        raise Refusal(
            f'"thinking.type.{thinking["type"]}" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")
    for number, message in enumerate(body["messages"]):
        for at, block in enumerate(message["content"]):
            where = f"messages.{number}.content.{at}"
            if extra := block.keys() - BLOCK_KEYS[block["type"]]:
                raise Refusal(f"{where}.{extra.pop()}: Extra inputs are not permitted")
            if block["type"] == "thinking" and block["signature"] != sign(body, number, key):
                raise Refusal(
                    f"{where}: Invalid `signature` in `thinking` block: the conversation before "
                    "it differs from the one that it was produced for"
                )


def answer(body: dict[str, Any], key: str) -> dict[str, Any]:
    shown = body.get("thinking", {}).get("display") == "summarized"
    thought = {
        "type": "thinking", "thinking": THOUGHT if shown else "",
        "signature": sign(body, len(body["messages"]), key),
    }  # fmt: skip
    last = body["messages"][-1]["content"][-1]["type"]
    offered = [tool["name"] for tool in body.get("tools", [])]
    may_call = body.get("tool_choice", {}).get("type") != "none"
    call = {"type": "tool_use", "id": f"t{len(body['messages'])}", "name": "look", "input": {}}
    said: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
    stop = "end_turn"
    if "look" in offered and may_call and last == "text":
        said, stop = [call], "tool_use"
    if body["max_tokens"] < ROOM:
        said, stop = [], "max_tokens"
    used = min(body["max_tokens"], ROOM)
    return {
        "id": "m", "type": "message", "role": "assistant", "model": body["model"],
        "content": [thought, *said], "stop_reason": stop, "stop_sequence": None,
        "usage": {
            "input_tokens": 5, "output_tokens": used + 2,
            "output_tokens_details": {"thinking_tokens": used},
        },
    }  # fmt: skip


MODEL = "anthropic/claude-opus-5-5"


@axe_nb.tool
def look() -> str:
    """Looks at the map."""
    return "a map"


@axe_nb.tool
def hear() -> str:
    """Listens."""
    return ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictAnthropic]:
    with StrictAnthropic() as strict:
        point_to(strict, monkeypatch)
        yield strict


def point_to(strict: StrictAnthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("AXE_ANTHROPIC_BASE_URL", strict.root)


def make_agent(**keys: Any) -> Agent:
    return Agent("a", MODEL, **{"system_prompt": "Count.", "tools": [look, hear], **keys})


def ask(agent: Agent, prompt: str = "How many?", **options: Any) -> RunResult:
    result = axe_nb.run(agent, prompt, display=False, **options)
    assert (result.text, result.error) == (ANSWER, None)
    return result


def count_thoughts(body: dict[str, Any]) -> int:
    return sum(b["type"] == "thinking" for m in body["messages"] for b in m["content"])


@pytest.mark.req("D-78")
def test_a_conversation_gives_all_thinking_back(server: StrictAnthropic) -> None:
    result = ask(make_agent())
    for _ in range(12):
        result = ask(make_agent(), "Sure?", continue_from=result)
    assert [count_thoughts(body) for body in server.bodies] == list(range(26))
    assert result.request().body == server.bodies[-1]


@pytest.mark.req("D-78")
def test_a_fork_with_another_system_prompt_gives_none_back(server: StrictAnthropic) -> None:
    first = ask(make_agent())
    forked = first.fork("0/2", system_prompt="Count twice.", display=False)
    assert (forked.text, forked.error) == (ANSWER, None)
    assert server.bodies[-1]["system"] == "Count twice."
    assert count_thoughts(server.bodies[-1]) == 0
    assert forked.request().body == server.bodies[-1]
    later = ask(make_agent(system_prompt="Count twice."), "Sure?", continue_from=forked)
    assert later.request().body == server.bodies[-1]
    assert count_thoughts(server.bodies[-1]) == 2, "that of the fork, not that of the run before"


@pytest.mark.req("D-78")
def test_a_run_that_continues_with_another_prompt_or_fewer_tools_gives_none_back(
    server: StrictAnthropic, tmp_path: Path
) -> None:
    first = ask(make_agent())
    first.save(tmp_path / "run.axe")
    agents = {
        (0, 1): (make_agent(system_prompt="Count twice."), make_agent(tools=[look])),
        (2, 3): (make_agent(),),
    }
    for earlier in (first, axe_nb.load(tmp_path / "run.axe")):
        for thoughts, others in agents.items():
            for agent in others:
                ask(agent, "Sure?", continue_from=earlier)
                assert tuple(map(count_thoughts, server.bodies[-2:])) == thoughts


@pytest.mark.req("D-78")
@pytest.mark.parametrize("earlier", ["signs with another key", "has keys of its own"])
def test_a_strict_server_is_not_sent_what_another_server_made(
    earlier: str, server: StrictAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = [
        {"type": "thinking", "thinking": THOUGHT, "signature": "", "tokens": 2},
        {"type": "text", "text": ANSWER, "logprobs": None},
    ]
    body = {"role": "assistant", "content": content, "stop_reason": "end_turn"}
    with StrictAnthropic() as other, Replay({"x": {"status": 200, "body": body}}) as loose:
        url = other.root if earlier.startswith("signs") else loose.url("x")
        monkeypatch.setenv("AXE_ANTHROPIC_BASE_URL", url)
        first = ask(make_agent())
        point_to(server, monkeypatch)
        ask(make_agent(), "Sure?", continue_from=first)
    assert [count_thoughts(body) for body in server.bodies] == [0, 1]


def test_the_thinking_is_asked_for_and_shown(server: StrictAnthropic) -> None:
    result = ask(make_agent())
    assert server.bodies[-1].get("thinking") == {"type": "adaptive", "display": "summarized"}
    assert twin(result)["text/html"].count(THOUGHT) == 2
    assert [one.response.reasoning for one in result.exchanges if one.response] == [THOUGHT] * 2
    events: list[Event] = []
    asyncio.run(ask_session(Session(), make_agent(), "How many?", emit=events.append))
    transcript, shown = Transcript(), list[str]()
    for one in events:
        transcript.apply(one, 0.0)
        if isinstance(one, TextDelta) and one.kind == "reasoning":
            assert transcript.root
            shown.append(draft_line(transcript.root.turns[-1].draft))
    assert shown == [f"thinks: {THOUGHT}"] * 2, "the last words of the row"
    ask(make_agent(params={"thinking": {"type": "adaptive", "display": "omitted"}}))


def test_a_temperature_is_sent_with_the_version_that_takes_it(server: StrictAnthropic) -> None:
    agent = make_agent(params={"temperature": 0.5})
    ask(agent)
    assert server.bodies[-1]["temperature"] == 0.5
    settings('[providers.anthropic]\nheaders = { "anthropic-version" = "2026-10-21" }\n')
    result = axe_nb.run(agent, "How many?", display=False)
    assert result.error == "bad_request: temperature: Extra inputs are not permitted"
    assert result.cause.hint == "change or remove params.temperature of the agent"


@pytest.mark.req("D-79")
def test_an_answer_whose_room_thinking_has_used_up_says_so(server: StrictAnthropic) -> None:
    agent = make_agent(tools=[], params={"max_tokens": 1500})
    result = axe_nb.run(agent, "How many?", display=False)
    told = (
        "thinking used up the tokens of the answer (max_tokens); "
        "raise params.max_tokens, or lower params.thinking"
    )
    assert (result.text, result.warnings) == ("", (told,))
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    result = axe_nb.run(agent, "How many?", output=schema, display=False)
    assert result.error == f"the answer is not complete: {told}"


def test_a_reply_that_takes_long_is_streamed_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, piped: Callable[[bytes], None], project: Path
) -> None:
    piped(b"")
    Agent("a", MODEL).save()
    agent = make_agent(tools=[])
    with StrictAnthropic(patience=0.2, silence=0.5) as strict:
        point_to(strict, monkeypatch)
        result = ask(agent, retries=0)
        [mapped] = list(axe_nb.map(agent, ["How many?"], retries=0, display=False))
        assert (mapped.text, mapped.error) == (ANSWER, None)
        assert main(["run", "a", "-p", "How many?", "--retries", "0"]) == 0, "piped"
        assert [body["stream"] for body in strict.bodies] == [True] * 3
        whole = axe_nb.run(agent, "How many?", stream=False, retries=0, display=False)
        assert whole.status == "error", "the proxy gave it up"
        assert "stream" not in strict.bodies[-1]
        strict.patience = None
        plain = ask(agent, stream=False)
    streamed = [one.response for one in result.exchanges]
    assert streamed == [one.response for one in plain.exchanges]
