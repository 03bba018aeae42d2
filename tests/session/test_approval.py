"""A person's words at the prompt: only what says yes is a yes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.session.drive import Approver, prompt_person
from axe_nb.session.portal import portal
from tests.session.typed import say

ASKED = ApprovalRequest("0", "lead", "write_file", {"path": "a"})


@pytest.mark.req("D-48")
@pytest.mark.parametrize(
    ("typed", "choice"),
    [("y", "yes"), ("YES", "yes"), (" Always ", "always"), ("a", "always"), ("no", "no"),
     ("S", "stop"), ("stop.", "stop"), ("stop, this is wrong", "stop")],
)  # fmt: skip
def test_a_letter_or_the_whole_word_is_an_answer(
    typed: str, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, typed)
    assert prompt_person(ASKED).choice == choice


@pytest.mark.req("D-48")
@pytest.mark.parametrize(
    "typed", ["abort", "exit", "yuck", "are you sure?", "", "nope", "end", "så", "yes?"]
)
def test_words_that_only_begin_like_an_answer_are_asked_again(
    typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = say(monkeypatch, typed, "n")
    assert prompt_person(ASKED).choice == "no"
    assert prompts[1].startswith("Please answer with one of these letters")


@pytest.mark.req("D-48")
@pytest.mark.parametrize(
    "typed",
    ["yes, but not in sub", "always ask me first", "a bit later", "y not", "edit it first"],
)
def test_a_sentence_that_begins_like_a_yes_is_none(
    typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = say(monkeypatch, typed, "n")
    assert prompt_person(ASKED).choice == "no"
    assert prompts[1].startswith("Only a no can be followed by a reason.")


def test_the_reason_of_a_no_is_passed_on_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "No, use README.md")
    decision = prompt_person(ASKED)
    assert (decision.choice, decision.text) == ("no", "use README.md")


def test_arguments_that_are_not_an_object_are_told_and_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep = f'{{"path": {"[" * 200}{"]" * 200}}}'
    prompts = say(monkeypatch, "e", "[1]", "e", deep, "e", '{"path": "b"}')
    decision = prompt_person(ASKED)
    assert (decision.choice, decision.arguments) == ("edit", {"path": "b"})
    assert prompts[4].startswith("The arguments must be a JSON object")
    assert prompts[2].startswith("The arguments must be a JSON object")


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
