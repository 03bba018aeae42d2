"""The one way to a person's word: asked one at a time, recorded, with all clocks stopped.

Source: D-48, D-56.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from axe_nb.engine.person import AskPerson, Decision, Question, Step
from axe_nb.engine.scope import RunScope
from axe_nb.events import PersonAnswered, PersonAsked
from axe_nb.limits import RunStopped


async def ask_person(
    scope: RunScope, question: Question, is_covered: Callable[[], bool] = lambda: False
) -> Decision:
    """Returns the answer to a question of a run: that of the recording, else of the person.

    The time of the run and of all above it stands still, also while it waits for its turn to ask.

    Args:
        scope: the run.
        question: the question.
        is_covered: true if an answer to another run has allowed the same meanwhile.

    Raises:
        RunStopped: the person stopped the tree, or no one can be asked.
        CassetteMiss: none is recorded, and no one may be asked.
    """
    env = scope.env

    async def ask(question: Question) -> Decision:
        async with env.asking:
            env.halt.check()
            try:
                return await _find_answer(scope, question, is_covered)
            except RunStopped as stop:  # of a step function
                raise env.halt.end_tree(stop) from None

    return await put_question(scope, question, ask)


async def put_question(scope: RunScope, question: Question, ask: AskPerson) -> Decision:
    """Returns the answer that `ask` gives; views hear of both, and the clocks stand still.

    Raises:
        RunStopped: the person stopped the tree.
    """
    is_shown = _find_function(scope, question) is None
    asked = scope.env.describe(question) if is_shown else PersonAsked("", question.call_id)
    scope.env.emit(replace(asked, run=scope.id))
    began = scope.seconds
    try:
        with scope.clock.paused():
            decision = await ask(question)
    finally:
        scope.note("person", began, call=question.call_id)
    scope.env.emit(PersonAnswered(scope.id, question.call_id, decision.choice))
    if decision.choice == "stop":
        raise scope.env.halt.end_tree(RunStopped("cancelled", "stopped by the user at a prompt"))
    return decision


async def _find_answer(
    scope: RunScope, question: Question, is_covered: Callable[[], bool]
) -> Decision:
    """Returns the recorded answer, a yes if it is covered, else that of the function or person."""
    env, stepper = scope.env, scope.env.stepper
    if isinstance(question, Step) and stepper and stepper.is_over:  # by the answer before this one
        return Decision("go")
    decision = await env.cassette.find(question) if env.cassette else None
    if not isinstance(decision, Decision) and is_covered():
        decision = Decision("yes")
    if not isinstance(decision, Decision):
        ask = _find_function(scope, question) or env.ask_person
        if ask is not None:
            decision = await ask(question)
        elif has_person(scope):  # but the answer is not recorded
            decision = Decision("no", "no one can be asked, and no answer is recorded")
        else:
            flag = stepper.flag if stepper else "this"
            raise RunStopped("error", f"{flag} needs an answer, and no one can be prompted here")
    if env.cassette is not None:
        env.cassette.keep(question, decision)
    if stepper is not None and decision.choice == "end":
        stepper.is_over = True
    return decision


def _find_function(scope: RunScope, question: Question) -> AskPerson | None:
    """Returns the step function, if the question is a step and there is one."""
    stepper = scope.env.stepper
    is_asked = isinstance(question, Step) and stepper and stepper.function
    return stepper.decide if stepper and is_asked else None


def has_person(scope: RunScope) -> bool:
    """True if someone answers questions: a person, or the recorded answers of one."""
    env = scope.env
    return env.ask_person is not None or any(one.answers("question") for one in env.replays)
