"""The last answer of a run: is it whole, and as data: asked for, read, and repaired once.

Source: D-31, D-35, D-65.
"""

from __future__ import annotations

from axe_nb.engine.conversation import Conversation
from axe_nb.engine.plan import Plan
from axe_nb.errors import RunError
from axe_nb.messages import Response, dump
from axe_nb.text import cut_chars, one_line
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Answer, Output, WrongOutput

MORE_ROOM = "raise params.max_tokens, or lower params.thinking"
"""Next step after an answer that is empty, because thinking took its room."""

MAX_SHOWN_SCHEMA = 8000
"""Characters of the schema in a question; a provider that reads it has it beside the question."""

MAX_REASON = 1000
"""Characters of the mistakes in the error of a run."""


def tell_incomplete(response: Response) -> str:
    """Returns the reason why an answer is not whole, and the next step; empty if it is."""
    if response.is_cut:
        return format_cut(response)
    if not response.is_withheld:
        return ""
    who = "the model" if response.stop_reason == "refusal" else "a content filter"
    return f"{who} cut the reply short ({response.stop_reason}); rephrase the prompt"


def format_cut(response: Response, when: str = "") -> str:
    """Returns the reason why a limit cut a reply, and the next step."""
    reason = response.stop_reason
    if response.is_full:
        step = "start a new conversation, or shorten the prompt, files and results of tools"
        return f"the reply was cut because the model's context is full{when} ({reason}); {step}"
    if response.is_used_up:
        return f"thinking used up the tokens of the answer ({reason}){when}; {MORE_ROOM}"
    return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"


async def take_data(talk: Conversation, plan: Plan, output: Output) -> Answer:
    """Returns the data of the run's last answer; asks again, once, if it does not fit.

    Raises:
        RunError: it is not whole, still does not fit, or may not be asked for again.
        ProviderError, RunStopped, TimeoutError: as `Conversation.turn`.
    """
    schema = cut_chars(dump(dict(output.sent)).decode(), MAX_SHOWN_SCHEMA, "…")
    if plan.asks_at_end:
        try:
            return await _read(talk, output)
        except WrongOutput:
            question = f"Now give your final answer as JSON that fits this JSON Schema:\n{schema}"
            await talk.ask(question, asked="output")
    try:
        return await _read(talk, output)
    except WrongOutput as wrong:
        mistakes = str(wrong)
    if talk.turns >= plan.scope.limits.turns:
        raise _make_error(mistakes, "no turn was left to repair it")
    question = (
        f"Your answer does not fit its JSON Schema:\n{mistakes}\n"
        f"Give the whole answer again, as JSON only, without these mistakes. The schema:\n{schema}"
    )
    await talk.ask(question, asked="repair")
    try:
        return await _read(talk, output)
    except WrongOutput as wrong:
        raise _make_error(str(wrong), "even after one repair") from None


async def _read(talk: Conversation, output: Output) -> Answer:
    """Reads the latest reply, in a thread: a check may take long."""
    try:
        return await in_thread(output.read, talk.response.content)
    except WrongOutput:
        if reason := tell_incomplete(talk.response):
            raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
        raise


def _make_error(mistakes: str, when: str) -> RunError:
    reason = one_line(mistakes.replace("\n", "; "), MAX_REASON)
    return RunError(
        f"the answer does not match its schema ({when}): {reason}",
        exit_code=1,
        hint="its text is kept; simplify the schema, or clarify in the prompt what it leaves open",
    )
