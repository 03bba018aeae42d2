"""The one way to a person's word: asked one at a time, recorded, with all clocks stopped.

Source: D-48, D-56; product.md "Step by step".
"""

from __future__ import annotations

from dataclasses import replace

from axe_nb.engine.questions import ApprovalRequest, AskPerson, Decision, Question, Step
from axe_nb.engine.scope import Env, RunScope
from axe_nb.errors import ConfigError
from axe_nb.events import PersonAnswered, PersonAsked
from axe_nb.limits import RunStopped

STOPPED = "stopped by the user at a prompt"
"""The error of a tree that the person ended."""


async def ask_person(scope: RunScope, question: Question) -> Decision:
    """Returns the answer to a question of a run: that of the recording, else of the person.

    The time of the run and of all above it stands still, also while it waits for its turn to ask.

    Raises:
        RunStopped: the person stopped the tree, or no one can be asked.
        CassetteMiss: none is recorded, and no one may be asked.
    """
    env = scope.env

    async def ask(question: Question) -> Decision:
        async with env.asking:
            env.halt.check()
            try:
                return await _find_answer(scope, question)
            except RunStopped as stop:  # of a step function
                raise env.halt.end_tree(stop) from None

    decision = await put_question(scope, question, ask)
    if decision.choice == "stop":
        raise env.halt.end_tree(RunStopped("cancelled", STOPPED))
    return decision


async def put_question(scope: RunScope, question: Question, ask: AskPerson) -> Decision:
    """Returns the answer that `ask` gives; views hear of both, and the clocks stand still."""
    scope.env.emit(_describe(scope, question))
    began = scope.seconds
    try:
        with scope.clock.paused():
            decision = await ask(question)
    finally:
        scope.note("person", began, call=question.call_id)
    scope.env.emit(PersonAnswered(scope.id, question.call_id, decision.choice))
    return decision


def _describe(scope: RunScope, question: Question) -> PersonAsked:
    stepper = scope.env.stepper
    if isinstance(question, Step) and stepper and stepper.function:  # no person is shown it
        return PersonAsked(scope.id, question.call_id)
    return replace(scope.env.describe(question), run=scope.id)


async def _find_answer(scope: RunScope, question: Question) -> Decision:
    tape, stepper = scope.env.tape, scope.env.stepper
    is_step = isinstance(question, Step)
    if is_step and stepper is not None and stepper.is_over:  # by the answer before this one
        return Decision("go")
    decision = tape.find_decision(question) if tape else None
    if decision is None:
        decision = await _choose_asker(scope, question)(question)
    if tape:
        tape.keep_decision(question, decision)
    if stepper is not None and decision.choice == "end":
        stepper.is_over = True
    return decision


def _choose_asker(scope: RunScope, question: Question) -> AskPerson:
    """Returns who answers.

    Raises:
        RunStopped: there is no one.
    """
    stepper = scope.env.stepper
    if isinstance(question, ApprovalRequest):
        person = find_person(scope)
    else:
        person = stepper.decide if stepper and stepper.function else find_person(scope)
    if person is None:
        flag = stepper.flag if stepper else "this"
        raise RunStopped("error", f"{flag} needs an answer, and no one can be prompted here")
    return person


def find_person(scope: RunScope) -> AskPerson | None:
    """Returns who answers questions, or the recorded answers of one; None = there is none."""
    env = scope.env
    return env.tape.find_person(env.ask_person) if env.tape else env.ask_person


def check_can_step(env: Env) -> None:
    """Checks that someone decides at the pauses of a tree, before anything is sent.

    Raises:
        ConfigError: no one does.
    """
    stepper, tape = env.stepper, env.tape
    if stepper is None or stepper.function is not None or (tape and tape.has_steps):
        return
    if env.ask_person is None or (tape and not tape.may_ask):
        problem = "no one can be prompted here, and no decision is recorded"
        raise ConfigError(
            f"{stepper.flag} pauses the run: {problem}",
            hint="run it in a notebook or terminal, or pass step=function in Python",
        )
