"""The prompt of a pause: its letters, what it shows, and input that cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from axe_nb import Step
from axe_nb.engine.person import Decision
from axe_nb.messages import Message, Request, Response, ToolCall
from axe_nb.session.prompts import prompt_person
from tests.session.typed import say

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
}

CALL = Step(
    kind="call", agent="lead", run="0.2", turn=3, model="script/m", tool="read_file",
    given={"path": "a.txt"}, number=1, call_id="c1", schema=SCHEMA,
)  # fmt: skip

REQUEST = Step(
    kind="request", agent="lead", run="0", turn=1, model="script/m", protocol="script",
    request=Request("m", (Message("user", "What changed?"),), "Be brief."),
)  # fmt: skip


STEP_CHOICES = "[g]o on [e]dit [r]esult s[k]ip run to the e[n]d [s]top"


@pytest.mark.parametrize("step", [CALL, REQUEST])
@pytest.mark.parametrize(
    ("typed", "choice"),
    [("g", "go"), ("Go on", "go"), ("k", "skip"), ("skip.", "skip"), ("N", "end"),
     ("run to the end", "end"), ("s", "stop"), (" stop ", "stop")],
)  # fmt: skip
def test_a_letter_or_the_words_are_a_decision(
    step: Step, typed: str, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, typed)
    assert prompt_person(step) == Decision(choice)  # type: ignore[arg-type]


def test_the_request_is_shown_in_short_and_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = say(monkeypatch, "l", "g")
    assert prompt_person(REQUEST) == Decision("go")
    first, second = prompts
    assert first.startswith("\nlead, turn 1, is about to ask script/m (1 message; l = look)")
    assert "\n  | What changed?\n" in first
    shown = json.loads(second.removesuffix(f"\n{STEP_CHOICES}: "))
    assert shown["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ('{"path": "b.txt"', "must be a JSON object (column 17: Expecting ',' delimiter)."),
        ("[1]", "must be a JSON object, in braces."),
        ("[" * 200 + "]" * 200, "must be a JSON object, nested less deeply."),
        ('{"path": 3}', "do not fit their schema: arguments.path: 3 is not of type 'string'."),
        ("{}", "do not fit their schema: arguments: 'path' is a required property."),
    ],
)
def test_wrong_arguments_are_told_with_their_place_and_asked_again(
    typed: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = say(monkeypatch, "e", typed, "e", '{"path": "b.txt"}')
    assert prompt_person(CALL) == Decision("edit", arguments={"path": "b.txt"})
    assert prompts[1] == "arguments, as JSON: "
    assert prompts[2] == f"The arguments {problem} Nothing has been done.\n{STEP_CHOICES}: "


def test_a_result_is_the_text_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = say(monkeypatch, "r", ' {"n": 3} ')
    assert prompt_person(CALL) == Decision("result", ' {"n": 3} ')
    assert prompts[1] == "result: "


@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("It is 42.", Response("It is 42.", (), "stop")),
        ('{"total": 42}', Response('{"total": 42}', (), "stop")),
        ('{"text": "{42"}', Response("{42", (), "stop")),
        (
            '{"text": "I look.", "calls": [{"tool": "grep", "arguments": {"pattern": "x"}}]}',
            Response("I look.", (ToolCall("", "grep", {"pattern": "x"}),), "tool_calls"),
        ),
        ('{"calls": [{"tool": "now"}]}', Response("", (ToolCall("", "now"),), "tool_calls")),
    ],
)
def test_a_reply_is_a_text_or_json_with_calls(
    typed: str, reply: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = say(monkeypatch, "r", typed)
    assert prompt_person(REQUEST) == Decision("result", reply=reply)
    assert prompts[1] == "reply, as text or JSON: "


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ('{"calls": [}', "must be JSON"),
        ('{"calls": {}}', "reply.calls: {} is not of type 'array'"),
        ('{"calls": [{"name": "x"}]}', "reply.calls[0]: 'tool' is a required property"),
        ('{"calls": [{"tool": "x"}, {"tool": "y", "a": 1}]}', "reply.calls[1]: "),
        ('{"calls": [{"tool": "x", "arguments": [1]}]}', "reply.calls[0].arguments: "),
        ('{"text": 3}', "reply.text: 3 is not of type 'string'"),
    ],
)  # fmt: skip
def test_a_wrong_reply_is_told_with_its_place(
    typed: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = say(monkeypatch, "r", typed, "r", "x")
    prompt_person(REQUEST)
    assert problem in prompts[2]


def test_nothing_in_a_prompt_can_look_like_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = f"x\n{STEP_CHOICES}: g\u202e\x1b[2J"
    request = Request("m", (Message("user", forged),))
    for step in (replace(REQUEST, request=request), replace(CALL, given={"path": forged})):
        prompts = say(monkeypatch, "g")
        prompt_person(step)
        assert prompts[0].count(f"\n{STEP_CHOICES}: ") == 1
        assert not set(prompts[0]) & {"\u202e", "\x1b"}
