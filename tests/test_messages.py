"""What travels between a run and a model: the types, call ids, conversations that can go on."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.messages import (
    CallIds,
    Message,
    ToolCall,
    ToolParameter,
    ToolResult,
    ToolSpec,
    close_open_calls,
    dump,
)


@pytest.mark.req("A-1.1", "A-1.2", "A-2.2", "A-D2")
def test_a_tool_describes_its_parameters_as_json_schema() -> None:
    parameters = {
        "where": ToolParameter("string", "The place", required=True),
        "how": ToolParameter("string", schema={"enum": ["up", "down"]}),
        "times": ToolParameter("integer", "How often", required=True, schema={"minimum": 1}),
    }
    assert ToolSpec("look", "Looks.", parameters).input_schema() == {
        "type": "object",
        "properties": {
            "where": {"type": "string", "description": "The place"},
            "how": {"type": "string", "description": "", "enum": ["up", "down"]},
            "times": {"type": "integer", "description": "How often", "minimum": 1},
        },
        "required": ["where", "times"],
    }


@pytest.mark.req("A-1.3", "A-1.4", "A-1.5", "A-1.6", "A-1.7", "A-1.8")
def test_a_schema_of_another_system_is_sent_unchanged() -> None:
    raw = {"type": "object", "$defs": {"p": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}
    spec = ToolSpec("look", "Looks.", {"a": ToolParameter("string")}, schema=raw)
    assert spec.input_schema() == raw


@pytest.mark.req("D-28")
def test_ids_are_unique_over_the_whole_conversation_also_one_that_goes_on() -> None:
    history = [Message("assistant", "", (ToolCall("ollama_0", "look"), ToolCall("x", "look")))]
    ids = CallIds(history)
    assert [c.id for c in ids.settle("ollama", [ToolCall("", "a")])] == ["ollama_1"]
    assert [c.id for c in ids.settle("ollama", [ToolCall("x", "a")])] == ["ollama_2"]
    assert [c.id for c in ids.settle("openai", [ToolCall("y", "a")])] == ["y"]


@pytest.mark.req("D-28")
@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(["", " ", "a", "p_0", "p_1", "p_3"]), max_size=4)))
def test_no_two_calls_ever_share_an_id(turns: list[list[str]]) -> None:
    ids = CallIds()
    seen = [c.id for turn in turns for c in ids.settle("p", [ToolCall(i, "t") for i in turn])]
    assert len(set(seen)) == len(seen)
    assert all(id.strip() for id in seen)


A, B = ToolCall("a", "look"), ToolCall("b", "find")
RESULT_A, RESULT_B = ToolResult("a", "A", name="look"), ToolResult("b", "B", name="find")
CUT = "Error: interrupted before this call had a result."


@pytest.mark.req("D-32")
@pytest.mark.parametrize("rest", [[], [Message("user", "go on")]])
def test_calls_left_open_are_answered_as_interrupted(rest: list[Message]) -> None:
    conversation = [Message("user", "hi"), Message("assistant", "", (A, B)), *rest]
    closed = close_open_calls(conversation)
    assert closed[:2] == conversation[:2]
    assert closed[2].role == "tool"
    assert [(r.call_id, r.content, r.is_error, r.name) for r in closed[2].tool_results] == [
        ("a", CUT, True, "look"), ("b", CUT, True, "find"),
    ]  # fmt: skip
    assert closed[3:] == rest


@pytest.mark.req("D-32")
@pytest.mark.parametrize(
    "brought",
    [
        [(RESULT_B, RESULT_A)],
        [(RESULT_A, RESULT_B, ToolResult("other", "stray"))],
        [(RESULT_A, RESULT_B, RESULT_B)],
        [(RESULT_A, RESULT_B), (RESULT_A,)],
    ],
)
def test_each_call_of_a_history_has_one_result(brought: list[tuple[ToolResult, ...]]) -> None:
    start = [Message("user", "x"), Message("assistant", tool_calls=(A, B))]
    whole = [*start, Message("tool", tool_results=(RESULT_A, RESULT_B))]
    results = [Message("tool", tool_results=one) for one in brought]
    assert close_open_calls([*start, *results]) == whole


KINDS = [
    Message("user", "u"), Message("assistant", "text"), Message("assistant", ""),
    Message("assistant", "", (A, B)), Message("assistant", "", (A,)),
    Message("tool", tool_results=(RESULT_A,)), Message("tool", tool_results=(RESULT_A, RESULT_B)),
]  # fmt: skip


@pytest.mark.req("D-32")
@settings(deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=8))
def test_every_call_has_its_result_right_after_it_whatever_came_before(
    conversation: list[Message],
) -> None:
    closed = close_open_calls(conversation)
    for at, message in enumerate(closed):
        if message.tool_calls:
            have = {result.call_id for result in closed[at + 1].tool_results}
            assert {c.id for c in message.tool_calls} <= have
        assert message.role != "assistant" or message.content.strip() or message.tool_calls
    assert close_open_calls(closed) == closed


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("é\u2028\0", "é\u2028\0"),
        ("a\ud800b", "a\ufffdb"),
        ("\udcff", "\ufffd"),
        ("\ud83d\ude00", "\N{GRINNING FACE}"),
    ],
)
def test_json_is_compact_and_any_text_can_be_sent(text: str, sent: str) -> None:
    assert dump({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert json.loads(dump({"text": text})) == {"text": sent}
