"""Replies that are not whole: the reason, and the next step.

Source: D-31, D-35.
"""

from __future__ import annotations

from axe_nb.messages import Response

MORE_ROOM = "raise params.max_tokens, or lower params.thinking"
"""Next step after an answer that is empty, because thinking took its room."""


def tell_incomplete(response: Response) -> str:
    """The reason why an answer is not whole; empty if it is."""
    if response.is_cut:
        return format_cut(response)
    return format_withheld(response) if response.is_withheld else ""


def format_cut(response: Response, when: str = "") -> str:
    """The reason why a limit cut a reply, and the next step."""
    reason = response.stop_reason
    if response.is_full:
        step = "start a new conversation, or shorten the prompt, files and results of tools"
        return f"the reply was cut because the model's context is full{when} ({reason}); {step}"
    if response.is_used_up:
        return f"thinking used up the tokens of the answer ({reason}){when}; {MORE_ROOM}"
    return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"


def format_withheld(response: Response) -> str:
    """The reason why a model or filter broke a reply off, and the next step."""
    who = "the model" if response.stop_reason == "refusal" else "a content filter"
    return f"{who} cut the reply short ({response.stop_reason}); rephrase the prompt"
