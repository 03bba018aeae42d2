"""The last answer of a run: why it is incomplete, and as data in the form requested (D-65)."""

from __future__ import annotations

from typing import Any

from axe_nb.engine.conversation import Conversation
from axe_nb.engine.plan import Plan
from axe_nb.errors import RunError
from axe_nb.messages import Response, dump
from axe_nb.text import one_line
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, WrongOutput

MAX_MISTAKES = 1000
"""Maximum characters of the mistakes that an error lists."""


async def take_data(talk: Conversation, plan: Plan, output: Output) -> Any:
    """Returns the last answer as data; requests a correction, once, if it does not fit.

    Raises RunError if it is not whole, still does not fit, or may not be asked for again.
    """
    schema = dump(dict(output.sent)).decode()
    data, mistakes = await _read_answer(talk, output)
    if mistakes and plan.asks_at_end:
        question = f"Now give your final answer as JSON that fits this JSON Schema:\n{schema}"
        await talk.ask(question, asked="output")
        data, mistakes = await _read_answer(talk, output)
    when = "even after one repair"
    if mistakes and talk.turns >= plan.scope.limits.turns:
        when = "no turn was left to repair it"
    elif mistakes:
        question = (
            f"Your answer does not fit its JSON Schema:\n{mistakes}\nGive the whole answer "
            f"again, as JSON only, without these mistakes. The schema:\n{schema}"
        )
        await talk.ask(question, asked="repair")
        data, mistakes = await _read_answer(talk, output)
    if mistakes:
        reason = one_line(mistakes.replace("\n", "; "), MAX_MISTAKES)
        raise RunError(
            f"the answer does not match its schema ({when}): {reason}",
            exit_code=1,
            hint="its text is kept; simplify the schema, or clarify in the prompt what it leaves "
            "open",
        )
    return data


async def _read_answer(talk: Conversation, output: Output) -> tuple[Any, str]:
    """Reads the latest reply as data, in a thread: a check may take long; returns mistakes too."""
    try:
        answer = await in_thread(output.read, talk.response.content)
    except WrongOutput as wrong:
        if reason := tell_incomplete(talk.response):
            raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
        return None, str(wrong)
    talk.text = answer.text
    return answer.value, ""


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
    if response.is_used_up:  # D-79
        step = "raise params.max_tokens, or lower params.thinking"
        return f"thinking used up the tokens of the answer ({reason}){when}; {step}"
    return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"
