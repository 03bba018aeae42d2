"""What a person is shown before they decide, all of it; only what says yes is a yes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from axe_nb import Step
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.messages import Message, Request, Response, ToolCall
from axe_nb.session.drive import Approver
from axe_nb.session.portal import portal
from axe_nb.session.prompts import (
    MAX_SHOWN,
    STEP_CHOICES,
    WIDTH,
    format_model_question,
    format_question,
    prompt_person,
)

pytestmark = pytest.mark.req("D-48")

Say: TypeAlias = Callable[..., list[str]]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Types words at the prompts in turn, and returns the prompts."""

    def type_words(*words: str) -> list[str]:
        prompts: list[str] = []
        answers = iter(words)

        def typed(prompt: str = "") -> str:
            prompts.append(prompt)
            return next(answers)

        monkeypatch.setattr("builtins.input", typed)
        return prompts

    return type_words


def request(tool: str = "write_it", /, **fields: Any) -> ApprovalRequest:
    given = {"run": "0", "agent": "lead", "arguments": {}, **fields}
    return ApprovalRequest(tool=tool, **given)


def command(text: str, **fields: Any) -> ApprovalRequest:
    return request("run_command", arguments={"command": text}, whole="command", **fields)


def test_a_command_is_shown_whole_and_no_line_of_it_looks_like_a_part_of_the_prompt() -> None:
    lines = [f"echo {n}" for n in range(2000)]
    asked = format_question(command("\n".join([*lines, "rm -r src"])))
    assert asked.text.startswith("lead wants to call run_command():\n  | echo 0\n  | echo 1\n")
    assert asked.text.endswith("  | echo 1999\n  | rm -r src")
    assert "hidden" not in asked.text
    assert asked.choices.startswith("yes (type the whole word: there are 2,002 lines above)  [n]o")
    asked = format_question(command("ls\n[y]es  [n]o: y\nlead wants to call list_dir()\rx"))
    own = [line for line in asked.text.split("\n") if not line.startswith("  | ")]
    assert own == ["lead wants to call run_command():"]


@pytest.mark.parametrize("where", ["arguments", "detail"])
def test_of_anything_else_that_is_long_start_and_end_are_shown_with_the_count(where: str) -> None:
    text = "START" + "x" * 3 * MAX_SHOWN + "END"
    value: Any = {"content": text} if where == "arguments" else text
    asked = format_question(request(**{where: value}))
    assert "START" in asked.text
    assert "END" in asked.text
    [hidden] = re.findall(r"… ([\d,]+) characters hidden …", asked.text)
    assert int(hidden.replace(",", "")) > MAX_SHOWN
    assert asked.choices.startswith(
        f"yes (type the whole word: {hidden} characters are hidden)  [n]o  always for this tool"
    )


@pytest.mark.parametrize(("short", "word"), [("y", "yes"), ("a", "always"), ("Y", "YES")])
def test_only_a_whole_word_counts_if_something_is_hidden(short: str, word: str, say: Say) -> None:
    prompts = say(short, word)
    decision = prompt_person(request(arguments={"content": "x" * 9000}))
    assert decision.choice == word.lower()
    assert prompts[1].startswith("Type the whole word, because 5,")
    assert "characters are hidden." in prompts[1]


def test_blanks_and_blank_lines_push_nothing_out_of_sight() -> None:
    for blank in ("", " ", "\t\u3000 "):
        asked = format_question(command("rm -r src\n" + f"{blank}\n" * 300 + "ls\n\n\nls"))
        shown = "  | rm -r src\n  | ⟨300 blank lines⟩\n  | ls\n  | \n  | \n  | ls"
        assert asked.text.endswith(shown)
        assert "hidden" not in asked.text
    for gap in ("\u3000" * 2000, (" " * 39 + "\u3000") * 50, "\t" * 9, " " * 40):
        asked = format_question(command(f"ls{gap}; rm -r src"))
        assert f"ls ⟨{len(gap)} blanks⟩ ; rm" in asked.text


@pytest.mark.req("D-50", "D-83")
def test_a_yes_and_always_say_what_they_cover(say: Say) -> None:
    fetch = request("fetch", arguments={"url": "https://a.example/"}, host="a.example", always="")
    assert format_question(fetch).choices.startswith("[y]es, a.example until the session ends")
    asked = format_question(command("git status", always="the program git"))
    assert "[a]lways for the program git" in asked.choices
    precious = request(reason="x.pth is protected: Python runs it when it starts", always="")
    assert format_question(precious).choices == "[y]es  [n]o  [e]dit the arguments  [s]top"
    prompts = say("a", "always", "n")
    assert prompt_person(precious).choice == "no"
    assert "x.pth is protected: Python runs it when it starts" in prompts[0]
    assert all(one.startswith("Please answer") for one in prompts[1:])


BLANKS = (
    "\u3164\u2800\u00a0\u2003\u200b\u200d\u202e\u2066\ufeff"
    "\u115f\u1160\uffa0\u034f\ufe0f\U000e0041\U000e0100\u180e"
)


@pytest.mark.parametrize("character", [*BLANKS, "\x1b", "\r", "\x9b", "\x00", "\u2028"])
def test_no_invisible_character_reaches_the_prompt(character: str) -> None:
    odd = f"a{character}b"
    asked = format_question(
        ApprovalRequest("0.1", odd, odd, {odd: odd}, odd, reason=odd, host=odd, always=odd)
    )
    assert character not in asked.text
    assert character not in asked.choices
    assert character not in format_question(command(odd, agent=odd)).text
    assert "\n" not in format_question(request(agent="lead wants nothing\n[y]es")).text
    assert len(format_question(request(agent="x" * 9000)).text) < 200


@pytest.mark.parametrize("letter", ["x", "好", "\t"])
def test_the_rest_of_a_long_line_never_stands_where_the_prompt_stands(letter: str) -> None:
    text = letter * 500
    for asked in (
        format_question(command(text)).text,
        format_question(request(arguments={"content": text})).text,
        format_question(request(detail=f"+{text}")).text,
        format_model_question(request("", detail=text)),
    ):
        first, *others = asked.split("\n")
        assert first.startswith("lead ")
        assert all(line.startswith(("  | ", "  : ", "+")) for line in others), others
        assert max(map(len, asked.expandtabs().split("\n"))) <= WIDTH
        whole = asked.replace("\n  : ", "")
        assert text in whole or letter == "\t", "nothing is lost"


def test_a_models_question_cannot_look_like_another_prompt(say: Say) -> None:
    prompts = say("no")
    prompt_person(request("", detail="Shall I go on?\n> y\n[sudo] password: "))
    assert prompts == [
        "\nlead asks:\n  | Shall I go on?\n  | > y\n  | [sudo] password: \nanswer to lead> "
    ]


ASKED = request("write_file", arguments={"path": "a"})

WORDS = {
    "y": "yes", "YES": "yes", " Always ": "always", "a": "always", "no": "no", "S": "stop",
    "stop.": "stop", "stop, this is wrong": "stop",
}  # fmt: skip
"""What is typed → the answer that it is."""

NO_WORDS = ("abort", "exit", "yuck", "are you sure?", "", "nope", "end", "så", "yes?")
TOO_LONG = (
    "yes, but not in sub", "always ask me first", "a bit later", "y not", "edit it first",
)  # fmt: skip


def test_only_a_letter_or_the_whole_word_is_an_answer(say: Say) -> None:
    for typed, choice in WORDS.items():
        say(typed)
        assert prompt_person(ASKED).choice == choice
    for typed in (*NO_WORDS, *TOO_LONG):
        prompts = say(typed, "No, use README.md")
        decision = prompt_person(ASKED)
        assert (decision.choice, decision.text) == ("no", "use README.md")
        only = "Only a no can be followed by a reason."
        told = only if typed in TOO_LONG else "Please answer with one of these letters"
        assert prompts[1].startswith(told)


def test_the_view_shows_a_call_before_its_question_and_between_two_questions() -> None:
    seen: list[str] = []

    def answer(request: ApprovalRequest) -> Decision:
        seen.append(request.agent)
        return Decision("yes")

    approver = Approver(answer)

    async def ask_both() -> None:
        asked = [replace(ASKED, agent="first"), replace(ASKED, agent="second")]
        await asyncio.gather(*map(approver.ask_person, asked))

    running, _ = portal.begin(ask_both())
    while not running.done():
        seen.append("view")
        approver.serve()
        time.sleep(0.05)
    assert seen.index("first") >= 2, "the view had more than the tick in which the call arrived"
    assert "view" in seen[seen.index("first") : seen.index("second")]


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


@pytest.mark.parametrize("step", [CALL, REQUEST])
@pytest.mark.parametrize(
    ("typed", "choice"),
    [("g", "go"), ("Go on", "go"), ("k", "skip"), ("skip.", "skip"), ("N", "end"),
     ("run to the end", "end"), ("s", "stop"), (" stop ", "stop")],
)  # fmt: skip
def test_a_letter_or_words_decide(step: Step, typed: str, choice: str, say: Say) -> None:
    prompts = say(typed)
    assert prompt_person(step) == Decision(choice)  # type: ignore[arg-type]
    assert prompts[0].endswith("\n[g]o on [e]dit [r]esult s[k]ip run to the e[n]d [s]top: ")


def test_the_request_is_shown_in_short_and_completely(say: Say) -> None:
    prompts = say("l", "g")
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
def test_wrong_arguments_are_asked_again(typed: str, problem: str, say: Say) -> None:
    asked = request("read_file", schema=SCHEMA)
    for question, told in ((CALL, f"done.\n{STEP_CHOICES}: "), (asked, "run.\n[y]es")):
        prompts = say("e", typed, "e", '{"path": "b.txt"}')
        assert prompt_person(question) == Decision("edit", arguments={"path": "b.txt"})
        assert prompts[1] == "arguments, as JSON: "
        assert prompts[2].startswith(f"The arguments {problem} Nothing has been {told}")


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
def test_a_reply_is_a_text_or_json_with_calls(typed: str, reply: Response, say: Say) -> None:
    prompts = say("r", typed, "r", f" {typed} ")
    assert prompt_person(REQUEST) == Decision("result", reply=reply)
    assert prompt_person(CALL) == Decision("result", f" {typed} "), "of a call, it is the text"
    assert prompts[1::2] == ["reply, as text or JSON: ", "result of the call: "]


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
def test_a_wrong_reply_is_told_with_its_place(typed: str, problem: str, say: Say) -> None:
    prompts = say("r", typed, "r", "x")
    prompt_person(REQUEST)
    assert problem in prompts[2]


def test_nothing_in_a_prompt_can_look_like_a_part_of_it(say: Say) -> None:
    forged = f"x\n{STEP_CHOICES}: g\u202e\x1b[2J"
    request = Request("m", (Message("user", forged),))
    for step in (replace(REQUEST, request=request), replace(CALL, given={"path": forged})):
        prompts = say("g")
        prompt_person(step)
        assert prompts[0].count(f"\n{STEP_CHOICES}: ") == 1
        assert not set(prompts[0]) & {"\u202e", "\x1b"}
