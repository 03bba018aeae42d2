"""One agent's conversation: turn after turn to its end, whatever the model says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from axe_nb import ConfigError, ProviderError, Request, Response, RunError, Usage, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.messages import ToolCall
from axe_nb.tools.tool import ToolContext
from axe_nb.views.outline import as_text
from tests.engine.in_process import (
    agent,
    check_events,
    check_history,
    exit_code,
    heard,
    keeping,
    play,
    said,
    stage,
    texts,
    tool,
)


async def echo(ctx: ToolContext) -> str:
    return f"echo {ctx.call.arguments.get('n', '')}".strip()


ECHO = tool("echo", echo)


@pytest.mark.req("A-8.1", "A-8.4", "A-9.2", "A-E6.1", "A-8.6", "A-N1")
@pytest.mark.parametrize("calls", [(), (call("echo"), call("call_agent"))])
def test_without_tools_a_model_is_asked_once_and_its_calls_are_not_kept(calls: Any) -> None:
    sent, one = keeping("one", Response("hello", calls))
    result = play(one)
    assert (result.status, result.text, result.turns) == ("completed", "hello", 1)
    assert [m.tool_calls for m in result.messages] == [(), ()]
    assert len(sent) == 1
    assert not sent[0].tools
    assert json.loads(result.to_json())["tool_calls"] == 0


@pytest.mark.req("A-8.1", "A-E6.2", "A-8.6", "A-E1.4")
def test_calls_are_run_and_their_results_sent_back_in_one_message() -> None:
    calls = call("echo", n=1), call("echo", n=2)
    sent, one = keeping("one", Response("thinking", calls, "tool_calls"), "done")
    result = play(one, tools=(ECHO,))
    assert (result.text, result.turns, result.tool_calls) == ("done", 2, 2)
    first, second = sent
    assert [m.role for m in first.messages] == ["user"]
    _, assistant, results = second.messages
    assert (assistant.role, assistant.content, len(assistant.tool_calls)) == (
        "assistant", "thinking", 2,
    )  # fmt: skip
    assert results.role == "tool"
    assert [r.content for r in results.tool_results] == ["echo 1", "echo 2"]
    assert [r.call_id for r in results.tool_results] == [c.id for c in assistant.tool_calls]
    assert second.system == first.system
    assert second.tools == first.tools


@pytest.mark.req("A-E6.4", "A-8.8", "A-8.6")
def test_rounds_of_calls_add_up() -> None:
    rounds = [Response("r", (call("echo"),), "tool_calls", Usage(10, turn)) for turn in (1, 2, 3)]
    sent, one = keeping("one", *rounds, Response("end", (), "stop", Usage(10, 4)))
    result = play(one, tools=(ECHO,))
    assert (result.turns, result.tool_calls, result.usage) == (4, 3, Usage(40, 10))
    line = json.loads(result.to_json())
    assert line == {
        "content": "end", "duration_ms": result.duration_ms, "input_tokens": 40,
        "model": "script/one", "output_tokens": 10, "stop_reason": "stop", "tool_calls": 3,
    }  # fmt: skip
    assert list(line) == sorted(line)
    assert [len(request.messages) for request in sent] == [1, 3, 5, 7]
    check_history(sent[-1].messages)


@pytest.mark.req("A-1.9")
@pytest.mark.parametrize("reason", ["stop", "end_turn", "", "tool_use", "whatever"])
def test_calls_decide_whether_it_goes_on_and_the_stop_reason_never(reason: str) -> None:
    model = said(Response("", (call("echo"),), reason), Response("end", (), "tool_use"))
    result = play(agent("one", model), tools=(ECHO,))
    assert (result.turns, result.text, result.stop_reason) == (2, "end", "tool_use")


@pytest.mark.req("A-8.2b", "A-E1.7")
def test_an_unknown_tool_is_an_error_result_and_the_run_goes_on() -> None:
    model = said([call("echo"), call('no"pe')], "recovered")
    result = play(agent("one", model), tools=(ECHO,))
    good, bad = heard(result)
    assert (good.is_error, bad.is_error) == (False, True)
    assert bad.content == 'Unknown tool: "no\\"pe"'
    assert (result.text, result.tool_calls) == ("recovered", 2)


@pytest.mark.req("A-8.3", "A-E6.3", "A-N2", "D-15", "A-X1")
@pytest.mark.parametrize("config", [SubAgentsConfig(), SubAgentsConfig(max_turns=1)])
def test_the_51st_request_is_not_sent_and_the_calls_of_the_50th_are_not_run(
    config: SubAgentsConfig,
) -> None:
    sent: list[Request] = []

    def model(request: Request) -> Any:
        sent.append(request)
        text = f"turn {request.turn}" if request.turn < 50 else ""
        return Response(text, (call("echo", n=request.turn),), "tool_calls")

    played = stage(agent("endless", model, sub_agents_config=config))
    result = played.play(tools=(ECHO,))
    assert len(sent) == 50
    assert (result.status, result.turns, result.tool_calls) == ("max_turns", 50, 49)
    assert result.error == "agent exceeded maximum conversation turns (50)"
    assert result.text == "turn 49", "the last text that it said"
    assert exit_code(result) == 1
    with pytest.raises(RunError, match=r"^agent exceeded maximum conversation turns \(50\)\n") as e:
        result.raise_for_status()
    assert e.value.hint.startswith("give it a smaller task, or continue it")
    check_events(played.events, result)


@pytest.mark.req("A-E6.5", "A-13.5", "D-2")
@pytest.mark.parametrize(
    "category", ["server", "auth", "rate_limit", "overloaded", "timeout", "bad_request"]
)
def test_the_agents_own_failing_model_ends_the_run_and_keeps_what_was_done(category: Any) -> None:
    error, told = ProviderError(category, "a reason"), f"{category}: a reason"
    code = 1 if category == "bad_request" else 3

    def fail(_: Request) -> Any:
        raise error

    first = Response("so far", (call("echo"),), "tool_calls", Usage(3, 4))
    result = play(agent("failing", said(first, fail)), tools=(ECHO,))
    assert (result.status, result.error, exit_code(result)) == ("error", told, code)
    assert (result.text, result.turns, result.tool_calls, result.usage) == (
        "so far", 1, 1, Usage(3, 4),
    )  # fmt: skip
    assert texts(result) == ["echo"]
    with pytest.raises(ProviderError) as caught:
        result.raise_for_status()
    assert caught.value.category == error.category


@pytest.mark.req("A-E6.7", "D-16")
@pytest.mark.parametrize("turns", [1, 2])
def test_an_empty_answer_is_an_answer(turns: int) -> None:
    replies = [Response("first", (call("echo"),)), ""][-turns:]
    result = play(agent("one", said(*replies)), tools=(ECHO,))
    assert (result.status, result.text, result.turns) == ("completed", "", turns)
    assert json.loads(result.to_json())["content"] == ""
    check_history(result.messages)


@pytest.mark.req("D-31")
@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_the_calls_of_a_reply_that_was_cut_are_never_run(reason: str) -> None:
    sent, one = keeping("one", Response("I will", (call("echo", n=1),), reason))
    result = play(one, tools=(ECHO,))
    assert (result.status, result.text, result.tool_calls) == ("max_tokens", "I will", 0)
    assert result.error is not None
    assert "raise params.max_tokens" in result.error
    assert exit_code(result) == 1
    assert len(sent) == 1
    check_history(result.messages)


@pytest.mark.req("D-31")
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("length", "the token limit cut the reply (length); raise params.max_tokens"),
        ("refusal", "the model cut the reply short (refusal); rephrase the prompt"),
        ("content_filter", "a content filter cut the reply short (content_filter); rephrase the"),
        ("content_filter: SAFETY", "a content filter cut the reply short (content_filter: SAFETY)"),
    ],
)
def test_a_reply_that_was_broken_off_is_an_answer_with_a_warning(reason: str, told: str) -> None:
    result = play(agent("one", lambda _: Response("First, you", (), reason)))
    assert (result.status, result.text, result.stop_reason) == ("completed", "First, you", reason)
    [warning] = result.warnings
    assert warning.startswith(told)


@pytest.mark.req("A-8.8")
def test_cached_and_reasoning_tokens_are_counted_apart() -> None:
    usage = Usage(10, 5, cached_tokens=8, cache_write_tokens=1, reasoning_tokens=3)
    model = said(*(Response("x", calls, "", usage) for calls in ((call("echo"),), ())))
    result = play(agent("one", model), tools=(ECHO,))
    twice = Usage(20, 10, cached_tokens=16, cache_write_tokens=2, reasoning_tokens=6)
    assert result.usage == result.total_usage == twice
    assert result.to_dict()["total_usage"] == {
        "input_tokens": 20, "output_tokens": 10, "cached_tokens": 16, "cache_write_tokens": 2,
        "reasoning_tokens": 6,
    }  # fmt: skip
    assert "30 tokens (16 cached)" in as_text(result)


@pytest.mark.req("D-28", "D-32")
def test_every_call_of_a_conversation_has_an_id_of_its_own() -> None:
    calls = (ToolCall("same", "echo"), ToolCall("same", "echo"), ToolCall(" ", "echo"))
    sent, one = keeping("one", calls, calls, "end")
    result = play(one, tools=(ECHO,))
    check_history(sent[-1].messages)
    ids = [c.id for m in result.messages for c in m.tool_calls]
    assert ids[0] == "same", "one that the API sends is kept"
    assert ids[1:] == ["script_1", "script_2", "script_3", "script_4", "script_5"]


@pytest.mark.req("D-2")
def test_what_is_wrong_beforehand_is_raised_and_nothing_is_sent() -> None:
    sent, one = keeping("one", "never")
    for wrong in (
        {"model": "no-slash"},
        {"model": "openai/no-key"},
        {"model": "script/none such"},
        {"skill": "missing.md"},
        {"workdir": "no/such/folder"},
    ):
        with pytest.raises(ConfigError):
            play(one, **wrong)
    assert sent == []
