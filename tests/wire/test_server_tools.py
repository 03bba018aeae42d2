"""Tools that the model's server runs, over Anthropic's wire format: offered, permitted, kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.errors import ConfigError
from axe_nb.events import Event, TextDelta, TurnFinished
from axe_nb.messages import Usage
from axe_nb.providers.prices import Prices
from axe_nb.session.session import Session
from tests.engine.in_process import ask_session
from tests.protocols import settings
from tests.providers.dialects import KEY
from tests.wire.replay import Replay
from tests.wire.search_server import ANSWER, SearchServer, reply, text, use

each = pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])

ENTRY = {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]}

CITED = ["https://towers.example.org/list?a=1&b=2", "https://heights.example.com/burj"]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SearchServer]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    def start(*replies: Mapping[str, Any]) -> SearchServer:
        server = SearchServer(*replies)
        monkeypatch.setenv("AXE_ANTHROPIC_BASE_URL", server.url("x"))
        return server

    return start


def searcher(**fields: Any) -> Agent:
    given = {"mode": "auto", "tools": ("web_search",), "model": "anthropic/claude-sonnet-4-5"}
    return Agent(**{"name": "scout", **given, **fields})


def run(agent: Agent, session: Session | None = None, **more: Any) -> RunResult:
    return asyncio.run(ask_session(session or Session(), agent, "How high?", **more))


@each
@pytest.mark.req("D-76", "D-32", "D-24")
def test_a_search_is_offered_kept_and_sent_back_unchanged(serve: Any, is_streamed: bool) -> None:
    events: list[Event] = []
    with serve(reply(*ANSWER), reply(text("Yes."), searches=0)) as server:
        first = run(searcher(), emit=events.append, streams=is_streamed)
        assert (first.status, first.error, server.refused) == ("completed", None, [])
        second = run(searcher(), continue_from=first, streams=is_streamed)
    assert second.text == "Yes.", (second.error, server.refused)
    assert server.bodies[0]["tools"] == [ENTRY]
    assert server.bodies[1]["messages"][1] == {"role": "assistant", "content": list(ANSWER)}
    assert first.text == "I will search.\n\nThe tallest is the Burj. It is 828 m high."
    assert [one.url for one in first.sources] == CITED
    assert first.sources[0].title == "Towers of the world"
    (call,) = first.log[0].server_calls
    assert (call.name, call.arguments, call.error) == ("web_search", {"query": "tallest tower"}, "")
    assert [one.title for one in call.sources] == ["Towers of the world", "Old towers"]
    assert (first.turns, first.tool_calls, first.log[0].calls) == (1, 0, ())
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert not is_streamed or "".join(deltas) == first.text
    (finished,) = (event for event in events if isinstance(event, TurnFinished))
    assert (finished.calls, len(finished.server_calls)) == ((), 1)


@each
@pytest.mark.req("D-32")
def test_a_call_that_a_limit_cut_off_from_its_result_does_not_go_back(
    serve: Any, is_streamed: bool
) -> None:
    cut = reply(text("Let me look."), use("a"), stop="max_tokens", searches=0)
    with serve(cut, reply(text("Well."), searches=0)) as server:
        first = run(searcher(), streams=is_streamed)
        second = run(searcher(), continue_from=first)
    assert (second.text, server.refused) == ("Well.", [])


def test_options_and_other_tools_of_the_vendor_are_passed_on(serve: Any) -> None:
    options = {"web_search": {"max_uses": 3}, "web_fetch": {}, "code_execution_20250825": {}}
    with serve(reply(text("ok"), searches=0)) as server:
        run(searcher(params={"server_tools": options, "temperature": 0}))
    (body,) = server.bodies
    assert body["tools"] == [
        {**ENTRY, "max_uses": 3},
        {"type": "web_fetch_20260318", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
    ]
    assert body["temperature"] == 0
    assert "server_tools" not in body


@pytest.mark.req("D-76", "D-50")
@pytest.mark.parametrize("mode", ["plan", "ask"])
def test_a_yes_holds_for_the_session(serve: Any, mode: str) -> None:
    asked: list[ApprovalRequest] = []
    own = Session()

    async def agree(question: Any) -> Decision:
        asked.append(question)
        return Decision("yes")

    with serve(reply(*ANSWER)) as server:
        assert all(run(searcher(mode=mode), own, ask_person=agree).ok for _ in range(2))
    (question,) = asked
    assert (question.tool, question.host) == ("web_search", "any host through web_search")
    assert [body["tools"] for body in server.bodies] == [[ENTRY], [ENTRY]]


@pytest.mark.req("D-76", "D-50")
@pytest.mark.parametrize("mode", ["plan", "ask"])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_search_without_a_yes_is_not_offered(serve: Any, mode: str, is_asked: bool) -> None:
    async def refuse(_: Any) -> Decision:
        return Decision("no", "too dear")

    with serve(reply(text("I do not know."), searches=0)) as server:
        result = run(searcher(mode=mode), ask_person=refuse if is_asked else None)
    assert "tools" not in server.bodies[0]
    (warning,) = result.warnings
    assert warning.startswith("web_search was not offered to the model: permission denied")
    told = "by the user: too dear" if is_asked else 'set allowed_hosts = ["*"] in agent "scout"'
    assert told in warning


@pytest.mark.req("D-50", "D-76")
@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ({"mode": "plan", "allowed_hosts": ["*"]}, ENTRY),
        ({"mode": "ask", "allowed_hosts": ["*"]}, ENTRY),
        ({"mode": "ask", "permissions": {"web_search": "allow"}}, ENTRY),
        ({"mode": "auto", "allowed_hosts": ["python.org"]}, ENTRY),
        ({"mode": "ask", "allowed_hosts": ["python.org"]}, None),
        ({"mode": "plan", "allowed_hosts": ["python.org"]}, None),
        ({"mode": "plan", "permissions": {"web_search": "allow"}}, None),
        ({"mode": "auto", "permissions": {"web_search": "deny"}}, None),
    ],
)  # fmt: skip
def test_what_is_enough_without_a_question(
    serve: Any, given: dict[str, Any], offered: dict[str, Any] | None
) -> None:
    with serve(reply(text("Well."), searches=0)) as server:
        result = run(searcher(**given))
    assert server.bodies[0].get("tools") == (offered and [offered])
    assert ["was not offered" in told for told in result.warnings] == [True] * (not offered)


@pytest.mark.req("D-19", "D-76")
@pytest.mark.parametrize(
    ("above", "below", "is_offered"),
    [
        ({"mode": "ask"}, {"mode": "auto"}, False),
        ({"mode": "ask"}, {"mode": "ask", "allowed_hosts": ["*"]}, False),
        ({"mode": "plan", "allowed_hosts": ["*"]}, {"mode": "plan"}, False),
        ({"mode": "auto"}, {"mode": "ask"}, True),
    ],
)
def test_a_child_searches_no_more_than_its_parent_may(
    serve: Any, above: Any, below: Any, is_offered: bool
) -> None:
    own = Session()

    @axe_nb.script("lead")
    def lead(request: Any) -> Any:
        delegates = axe_nb.call("call_agent", agent="scout", task="Look.")
        return delegates if request.turn == 1 else "Done."

    own.agents["scout"] = searcher(**below)
    root = Agent("lead", "script/lead", sub_agents=("scout",), **above)
    with serve(reply(text("ok"), searches=0)) as server:
        assert run(root, own).ok
    (body,) = server.bodies
    assert body.get("tools") == ([ENTRY] if is_offered else None)


@pytest.mark.req("D-76")
@pytest.mark.parametrize("model", ["openai/gpt-4o", "ollama/llama3"])
def test_a_server_without_the_tool_is_an_error_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError) as caught:
        axe_nb.run(searcher(model=model), "Go")
    provider = model.partition("/")[0]
    assert caught.value.message == (
        'agent "scout" cannot use web_search: the model\'s server has to run it, and '
        f"{provider} has no such tool in the protocol {provider}"
    )
    assert "remove web_search from `tools`" in caught.value.hint
    assert ('set api = "responses" under [providers.openai]' in caught.value.hint) == (
        provider == "openai"
    )


@pytest.mark.req("D-64")
@pytest.mark.parametrize(
    ("model", "more"),
    [("anthropic/claude-sonnet-4-5", 0.02), ("openai/gpt-5", 0.02), ("openai/gpt-4o-mini", 0.02)],
)
def test_a_search_is_paid_for(model: str, more: float) -> None:
    prices = Prices()
    tokens = prices.cost_of(model, Usage(1000, 100))
    whole = prices.cost_of(model, Usage(1000, 100, searches=2))
    assert tokens
    assert whole == pytest.approx(tokens + more)


SEARCHES_AND_CALLS = reply(
    *ANSWER[:3],
    {"type": "tool_use", "id": "toolu_1", "name": "list_dir", "input": {"path": "."}},
    stop="tool_use",
)
"""A reply with a search and a call of a tool that runs here."""


@each
@pytest.mark.req("D-60", "D-66")
def test_files_and_forks_keep_all_of_it(serve: Any, project: Path, is_streamed: bool) -> None:
    scout = searcher(tools=("web_search", "list_dir"))
    axe_nb.define(scout)
    replies = SEARCHES_AND_CALLS, reply(*ANSWER[3:], searches=0), reply(text("New."), searches=0)
    with serve(*replies) as server:
        result = run(scout, streams=is_streamed)
        result.save("run.axe")
        loaded = axe_nb.load("run.axe")
        assert (loaded.log, loaded.sources) == (result.log, result.sources)
        assert loaded.messages == result.messages
        assert RunResult.from_dict(json.loads(json.dumps(result.to_dict(full=True)))) == result
        forked = loaded.fork("0/2", prompt="Sure?")
    assert (forked.text, server.refused) == ("New.", [])
    assert forked.log[0].server_calls == result.log[0].server_calls
    sent = server.bodies[2]["messages"]
    assert sent[1]["content"] == SEARCHES_AND_CALLS["body"]["content"]


@pytest.mark.req("D-76", "D-60")
def test_a_cassette_plays_it_without_the_server(
    serve: Any, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    axe_nb.define(searcher())
    with serve(reply(*ANSWER)) as server:
        with axe_nb.cassette("a.axe", "record"):
            first = axe_nb.run("scout", "How high?")
        with axe_nb.cassette("a.axe", "replay"):
            second = axe_nb.run("scout", "How high?")
        assert len(server.bodies) == 1
    assert (second.text, second.sources, second.log) == (first.text, first.sources, first.log)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with axe_nb.cassette("a.axe", "replay"):
        assert axe_nb.run("scout", "How high?").sources == first.sources


@pytest.mark.any_body  # of another server than OpenAI's own
@each
def test_a_search_over_chat_completions(is_streamed: bool) -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.org/", "title": "A"}}
    tokens = {"prompt_tokens": 5, "completion_tokens": 7}
    usage = {**tokens, "server_tool_use": {"web_search_requests": 1}}
    said = {"role": "assistant", "content": "828 m.", "annotations": [cited]}
    whole = {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": usage}
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "828 m."}}]},
        {"choices": [{"index": 0, "delta": {"annotations": [cited]}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    events = [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]
    stream = {"headers": {"content-type": "text/event-stream"}, "stream": events}
    options = {"parameters": {"max_results": 3}}
    with Replay({"x": stream if is_streamed else {"body": whole}}) as server:
        address = f'base_url = "{server.url("x")}"'
        settings(f'[providers.router]\nprotocol = "openai"\n{address}\n')
        scout = searcher(
            model="router/m", tools=(), params={"server_tools": {"openrouter:web_search": options}}
        )
        result = run(scout, streams=is_streamed)
        (asked,) = server.log("x")
    assert asked.body["tools"] == [{"type": "openrouter:web_search", **options}]
    assert (result.text, [one.url for one in result.sources]) == ("828 m.", ["https://a.org/"])
    assert [call.name for call in result.log[0].server_calls] == ["web_search"]
    assert (result.usage.searches, result.cost) == (1, None)


@pytest.mark.req("D-32")
def test_the_paused_blocks_go_back_and_the_reply_goes_on(serve: Any) -> None:
    search = use("x")
    with serve(reply(search, stop="pause_turn"), reply(text("42"))) as server:
        result = axe_nb.run(Agent(name="a", model="anthropic/m"), "Search.")
        _, second = server.log("x")
    assert (result.text, result.turns) == ("42", 2)
    user = {"role": "user", "content": [{"type": "text", "text": "Search."}]}
    assert second.body["messages"] == [user, {"role": "assistant", "content": [search]}]
