"""A question as its event describes it to the views: text, diff, one-letter answers.

The letters come from the prompts' own constants: nothing of a model can add one or rename it.
Source: design README "Second generation" (a question is a row); D-48, D-56; issue 14.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from axe_nb.engine.person import ApprovalRequest, Question, Step
from axe_nb.events import PersonAsked
from axe_nb.redaction import find_filter, redact
from axe_nb.session.prompts import (
    STEP_CHOICES,
    format_model_question,
    format_question,
    format_step,
    show,
)
from axe_nb.text import cut_middle, one_line, printable

NAMES = {"yes": "Allow", "always": "Always", "edit": "Edit…", "no": "Deny", "stop": "Stop"}
"""Answer to an approval → name of its button, in this order."""

BUDGET_NAMES = {"yes": "Raise", "no": "Refuse"}
"""Names of buttons that differ in a question about the budget."""

STEP_NAMES = (
    ("g", "Go on"), ("e", "Edit…"), ("r", "Result…"), ("k", "Skip"), ("n", "Run to the end"),
    ("s", "Stop"),
)  # fmt: skip
"""Letters of STEP_CHOICES and the names of their buttons."""

MOST = 8000
"""Characters of each text; of a longer one the start and the end, and of a longer prompt or
arguments nothing."""

SUBJECT = 60
"""Characters of the argument that says what a call is about."""


def describe(question: Question) -> PersonAsked:
    """Returns the event of a question, without secrets and bounded."""
    if isinstance(question, Step):
        return _describe_step(question)
    if not question.tool and not question.raises:
        text = format_model_question(question)
        words = one_line(show(redact(question.detail)), SUBJECT)
        return PersonAsked("", question.call_id, words, _bound(text))
    asked = format_question(question)
    names = {**NAMES, **BUDGET_NAMES} if question.raises else NAMES
    letters = {a.choice: a.choice[0] for a in asked.answers if not a.needs_word}
    return _with_prompt(
        PersonAsked(
            "",
            question.call_id,
            _summarize(question),
            _bound(format_question(replace(question, detail="")).text),
            _bound(show(question.detail)),
            tuple((letters[choice], name) for choice, name in names.items() if choice in letters),
            arguments=_dump(question.arguments) if question.tool else "",
        ),
        f"\n{asked.text}\n{asked.choices}: ",
    )


def _describe_step(step: Step) -> PersonAsked:
    text = format_step(step)
    about = PersonAsked("", step.call_id, "", _bound(text))
    if step.kind == "reply":  # it is typed
        return about
    arguments = _dump(step.given) if step.kind == "call" else ""
    about = replace(about, choices=STEP_NAMES, arguments=arguments)
    return _with_prompt(about, f"\n{text}\n{STEP_CHOICES}: ")


def _with_prompt(asked: PersonAsked, prompt: str) -> PersonAsked:
    """Adds the prompt, unless no view may have the whole of it: then only typed text answers."""
    if len(prompt) > MOST or redact(prompt) != prompt:
        return replace(asked, choices=(), arguments="")
    return replace(asked, prompt=prompt)


def _summarize(question: ApprovalRequest) -> str:
    """The question about a call in a few words, with its first text; or that about the budget."""
    if question.raises:
        return f"may it spend up to {question.raises}?"
    texts = (
        value for value in question.arguments.values() if isinstance(value, str) and value.strip()
    )
    subject = one_line(show(redact(next(texts, ""))), SUBJECT)
    return f"may it call {printable(question.tool)}{' on ' * bool(subject)}{subject}?"


def _dump(arguments: Mapping[str, Any]) -> str:
    """The arguments in one line, if they can be sent back as they are."""
    given = dict(arguments)
    if find_filter().json(given) != given:
        return ""
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= MOST else ""


def _bound(text: str) -> str:
    return cut_middle(redact(text), MOST)[0]
