"""What each decision at a pause makes of the run."""

from __future__ import annotations

from typing import Any

import pytest

import axe_nb
from axe_nb import RunResult, Step
from axe_nb.views.outline import as_text
from tests.engine.in_process import heard, stage
from tests.stepping.deciders import MEASURE, Decider, surveyor

SKIP: Any = lambda step: "skip"  # noqa: E731
EDIT: Any = lambda step: step.edit({"town": "Trondheim"})  # noqa: E731


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


@pytest.mark.parametrize("arguments", [{"town": 4}, {}])
def test_edited_arguments_that_do_not_fit_end_the_run(arguments: dict[str, Any]) -> None:
    result = run(Decider(call1=lambda step: step.edit(arguments)))
    assert result.status == "error"
    assert str(result.error).startswith(
        "step: the edited arguments of measure do not match its schema: data"
    )
    assert "town" in str(result.error)


def test_what_was_changed_is_in_the_result_and_what_was_not_asked_costs_nothing() -> None:
    skipped, edited = heard(run(Decider(call1=SKIP, call2=EDIT), "Oslo", "Rome"))
    assert edited.edited == {"town": "Trondheim"}
    assert (skipped.is_error, skipped.is_skipped) == (True, True)
    axe_nb.expect(run(Decider(call1=SKIP)), "no measure; failed == 0")
    assert heard(run(Decider(call1=lambda step: step.result("x"))))[0].note == "given by the user"
    for source, decider in {
        "given": Decider(request2=lambda step: step.result("I say so.")),
        "skipped": Decider(request2=SKIP),
        "edited": Decider(request2=lambda step: step.edit(), reply2=lambda step: step.edit("x")),
    }.items():
        last = run(decider).log[1]
        assert (last.source, last.usage.total > 0) == (source, source == "edited")


def test_run_to_the_end_makes_no_further_pause() -> None:
    decider = Decider(request1=lambda _: "end")
    assert run(decider).text == "Rome has 4 letters"
    assert decider.seen == ["0/1 request"]


@pytest.mark.parametrize("kind", ["request2", "call1"])
def test_stop_ends_the_run_and_keeps_what_was_finished(kind: str) -> None:
    result = run(Decider(**{kind: lambda _: "stop"}))
    assert (result.status, result.error) == ("cancelled", "stopped by the user at a prompt")
    assert len(result.log) == 1


def fail(step: Step) -> Any:
    raise LookupError("no such town")


@pytest.mark.parametrize(
    ("decide", "problem"),
    [
        (
            lambda step: "yes",
            'the step function returned "yes", which is not a decision; return "go"',
        ),
        (lambda step: 7, "the step function returned int, which is not a decision"),
        (fail, "the step function failed: LookupError: no such town"),
    ],
)
def test_a_function_that_does_not_decide_ends_the_run(decide: Any, problem: str) -> None:
    result = run(decide)
    assert (result.status, result.turns) == ("error", 0)
    assert str(result.error).startswith(problem)


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROME_API_KEY", "sk-secret-of-rome-123456")
    decider = Decider()
    stage(surveyor("lead", "sk-secret-of-rome-123456")).play(
        "say sk-secret-of-rome-123456", step=decider, tools=(MEASURE, "measure")
    )
    shown = [f"{s.arguments} {s.body} {s.text} {s!r}" for s in decider.steps]
    assert "sk-secret" not in "".join(shown)
    assert decider.steps[1].arguments == {"town": "***"}
