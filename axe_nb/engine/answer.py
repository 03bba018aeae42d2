"""The last answer of a run as data: asked for, read, and repaired once.

Source: product.md "Structured output"; D-65.
"""

from __future__ import annotations

from axe_nb.engine.conversation import Conversation
from axe_nb.engine.incomplete import tell_incomplete
from axe_nb.engine.plan import Plan
from axe_nb.errors import RunError
from axe_nb.messages import Response, dump
from axe_nb.results import Asked
from axe_nb.text import cut_chars, one_line
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Answer, Output, WrongOutput

MAX_SHOWN_SCHEMA = 8000
"""Characters of the schema in a question; a provider that reads it has it beside the question."""

MAX_REASON = 1000
"""Characters of the mistakes in the error of a run."""


async def take_data(talk: Conversation, plan: Plan, output: Output) -> Answer:
    """Returns the data of the run's last answer; asks again, once, if it does not fit.

    Raises:
        RunError: it is not whole, still does not fit, or may not be asked for again.
        ProviderError, RunStopped, TimeoutError: as `Conversation.turn`.
    """
    if plan.asks_at_end:
        try:
            return await _read(talk, output)
        except WrongOutput:
            await _ask(talk, plan, _write_question(output), "output")
    try:
        return await _read(talk, output)
    except WrongOutput as wrong:
        mistakes = str(wrong)
    if talk.turns >= plan.scope.limits.turns:
        raise _make_error(mistakes, "no turn was left to repair it")
    await _ask(talk, plan, _write_repair(output, mistakes), "repair")
    try:
        return await _read(talk, output)
    except WrongOutput as wrong:
        raise _make_error(str(wrong), "even after one repair") from None


async def _read(talk: Conversation, output: Output) -> Answer:
    """Reads the latest reply, in a thread: a check may take long.

    Raises:
        WrongOutput: it does not fit.
        RunError: it does not, as it is not whole.
    """
    last = talk.last
    try:
        return await in_thread(output.read, last.content if last else "")
    except WrongOutput:
        if last and (reason := tell_incomplete(last)):
            raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
        raise


async def _ask(talk: Conversation, plan: Plan, question: str, asked: Asked) -> Response:
    before = talk.text
    talk.say(question)
    response = await talk.turn((), with_calls=False, asked=asked, question=question, output=True)
    talk.text = response.content if response.content.strip() else before
    talk.finish_turn(response, asked=asked, question=question)
    return response


def _write_question(output: Output) -> str:
    return f"Now give your final answer as JSON that fits this JSON Schema:\n{_show(output)}"


def _write_repair(output: Output, mistakes: str) -> str:
    return (
        f"Your answer does not fit its JSON Schema:\n{mistakes}\n"
        f"Give the whole answer again, as JSON only, without these mistakes. The schema:\n"
        f"{_show(output)}"
    )


def _show(output: Output) -> str:
    return cut_chars(dump(dict(output.sent)).decode(), MAX_SHOWN_SCHEMA, "…")


def _make_error(mistakes: str, when: str) -> RunError:
    reason = one_line(mistakes.replace("\n", "; "), MAX_REASON)
    return RunError(
        f"the answer does not match its schema ({when}): {reason}",
        exit_code=1,
        hint="its text is kept; simplify the schema, or clarify in the prompt what it leaves open",
    )
