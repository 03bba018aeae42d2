"""What each decision at a pause makes of the run."""

from __future__ import annotations

from typing import Any

import pytest

import axe_nb
from axe_nb import RunResult, Step
from axe_nb.views.outline import as_text
from tests.engine.in_process import heard, stage
from tests.stepping.deciders import MEASURE, Decider, surveyor


def run(decider: Any, *towns: str, **options: Any) -> RunResult:
    return stage(surveyor("lead", *towns)).play(step=decider, tools=(MEASURE, "measure"), **options)


def test_each_request_and_call_is_a_step_that_tells_what_comes() -> None:
    decider = Decider()
    result = run(decider, "Rome", "Oslo")
    assert result.text == "Rome has 4 letters; Oslo has 4 letters"
    assert decider.seen[0] == "0/1 request"
    assert sorted(decider.seen[1:3]) == ["0/1 call measure"] * 2
    assert decider.seen[3:] == ["0/2 request"]
    first, call, _, last = decider.steps
    assert (first.agent, first.model, first.text) == ("lead", "script/lead", "go")
    assert first.body["messages"][-1] == {"role": "user", "content": "go"}
    assert call.arguments == {"town": "Rome"}
    assert "Oslo has 4 letters" in last.text
    assert "step" not in as_text(result)


def test_edited_arguments_run_and_are_told_to_the_model() -> None:
    result = run(Decider(call1=lambda step: step.edit({"town": "Trondheim"})))
    assert "Trondheim has 9 letters" in result.text
    assert heard(result)[0].edited == {"town": "Trondheim"}
    assert '(edited by the user) {"town": "Trondheim"}' in as_text(result)


@pytest.mark.parametrize("arguments", [{"town": 4}, {}])
def test_edited_arguments_that_do_not_fit_the_schema_end_the_run_with_the_place(
    arguments: dict[str, Any],
) -> None:
    result = run(Decider(call1=lambda step: step.edit(arguments)))
    assert result.status == "error"
    assert str(result.error).startswith(
        "step: the edited arguments of measure do not match its schema: data"
    )
    assert "town" in str(result.error)


def test_a_given_result_takes_the_place_of_the_call() -> None:
    result = run(Decider(call1=lambda step: step.result({"letters": 7})))
    assert result.text == '{"letters": 7}'
    assert heard(result)[0].note == "given by the user"
    assert "given by the user" in as_text(result)


def test_a_skipped_call_is_not_made_and_the_model_is_told() -> None:
    result = run(Decider(call1=lambda _: "skip"))
    [skipped] = heard(result)
    assert (skipped.is_error, skipped.is_skipped) == (True, True)
    assert skipped.content == "Error: skipped by the user; the call was not made"
    text = as_text(result)
    assert "skipped by the user" in text
    assert "failed" not in text
    axe_nb.expect(result, "no measure; failed == 0")


def test_a_given_reply_takes_the_place_of_the_request() -> None:
    result = run(Decider(request2=lambda step: step.result("I say so.")))
    assert result.text == "I say so."
    assert [turn.source for turn in result.log] == ["", "given"]
    assert result.log[1].usage.total == 0
    assert "given" in as_text(result)


def test_a_skipped_request_is_not_sent_and_the_run_ends_with_an_empty_answer() -> None:
    result = run(Decider(request2=lambda _: "skip"))
    assert (result.status, result.text, result.turns) == ("completed", "", 2)
    assert result.log[1].source == "skipped"
    assert "skipped" in as_text(result)


def test_an_edited_reply_was_asked_for_and_is_paid() -> None:
    decider = Decider(
        request2=lambda step: step.edit(),
        reply2=lambda step: step.edit(step.text.upper()),
    )
    result = run(decider)
    assert result.text == "ROME HAS 4 LETTERS"
    assert result.log[1].source == "edited"
    assert result.log[1].usage.total > 0
    assert result.messages[-1].content == result.text
    assert decider.seen[-1] == "0/2 reply"


def test_run_to_the_end_makes_no_further_pause() -> None:
    decider = Decider(request1=lambda _: "end")
    assert run(decider).text == "Rome has 4 letters"
    assert decider.seen == ["0/1 request"]


@pytest.mark.parametrize("kind", ["request2", "call1"])
def test_stop_ends_the_run_and_keeps_what_was_finished(kind: str) -> None:
    result = run(Decider(**{kind: lambda _: "stop"}))
    assert (result.status, result.error) == ("cancelled", "stopped by the user at a prompt")
    assert len(result.log) == 1


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("yes", 'the step function returned "yes", which is not a decision; return "go"'),
        (7, "the step function returned int, which is not a decision"),
    ],
)
def test_what_is_no_decision_ends_the_run_and_names_the_decisions(said: Any, problem: str) -> None:
    result = run(lambda step: said)
    assert result.status == "error"
    assert str(result.error).startswith(problem)


def test_a_function_that_fails_ends_the_run_with_its_error() -> None:
    def fails(step: Step) -> Any:
        raise LookupError("no such town")

    result = run(fails)
    assert result.error == "the step function failed: LookupError: no such town"
    assert result.turns == 0


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROME_API_KEY", "sk-secret-of-rome-123456")
    decider = Decider()
    stage(surveyor("lead", "sk-secret-of-rome-123456")).play(
        "say sk-secret-of-rome-123456", step=decider, tools=(MEASURE, "measure")
    )
    shown = [f"{s.arguments} {s.body} {s.text} {s!r}" for s in decider.steps]
    assert "sk-secret" not in "".join(shown)
    assert decider.steps[1].arguments == {"town": "***"}
