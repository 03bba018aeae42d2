"""The prompt of a pause: what a run is about to do, and the person's decision.

Source: product.md "Step by step".
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from axe_nb.engine.step import Choice, Decision, Step
from axe_nb.redaction import find_filter, redact
from axe_nb.session.question import BAR, GOES_ON, WIDTH, format_call, format_caller, show
from axe_nb.session.typed_json import EXAMPLE, REPLY, WrongInput, parse_reply, read_arguments
from axe_nb.text import cut_chars, cut_middle, fold, plural, printable

STEP_CHOICES = "[g]o on [e]dit [r]esult s[k]ip run to the e[n]d [s]top"
"""The choices at the end of each prompt, before `: `. Programs that answer in place of the person
recognise the prompt by them, and type one of the letters."""

ANSWERS: Mapping[str, Choice | None] = {
    "g": "go", "go": "go", "go on": "go", "e": "edit", "edit": "edit", "r": "result",
    "result": "result", "k": "skip", "skip": "skip", "n": "end", "end": "end",
    "run to the end": "end", "s": "stop", "stop": "stop", "l": None, "look": None,
}  # fmt: skip
"""Answer → decision; None = to look at all of it first."""

RESULT = "result: "
"""The prompt for the result of a call."""

NEW_REPLY = "new reply, as text or JSON; empty = unchanged: "
"""The prompt for what takes the place of a reply."""

MAX_LINES = 12
"""Lines shown of the latest message."""

MAX_TEXT = 1000
"""Characters of it."""

MAX_BODY = 100_000
"""Characters of the body of a request; of a longer one, its start and end."""


def prompt_step(step: Step) -> Decision:
    """Prompts in the notebook or terminal until the decision is valid."""
    if step.kind == "reply":
        return _prompt_reply(step)
    prompt = f"\n{format_step(step)}"  # apart from the last answer
    while True:
        word = input(f"{prompt}\n{STEP_CHOICES}: ").strip().lower().rstrip(",.:;!")
        if word not in ANSWERS:
            prompt = "Please answer with one of these letters, or l to look at all of it."
            continue
        choice = ANSWERS[word]
        try:
            if choice is not None:
                return _read_decision(step, choice)
            prompt = format_whole(step)
        except WrongInput as error:
            prompt = f"{error} Nothing has been done."


def _read_decision(step: Step, choice: Choice) -> Decision:
    """Returns a decision, after asking for what belongs to it.

    Raises:
        WrongInput: what was typed cannot be used.
    """
    if choice == "edit" and step.kind == "call":
        return Decision("edit", arguments=read_arguments(step.schema))
    if choice == "result" and step.kind == "call":
        return Decision("result", input(RESULT))
    if choice == "result":
        return Decision("result", reply=parse_reply(input(REPLY)))
    return Decision(choice)


def _prompt_reply(step: Step) -> Decision:
    prompt = f"\n{format_step(step)}"
    while True:
        typed = input(f"{prompt}\n{NEW_REPLY}")
        if not typed.strip():
            return Decision("go")
        try:
            return Decision("edit", reply=parse_reply(typed))
        except WrongInput as error:
            prompt = str(error)


def format_step(step: Step) -> str:
    """The text of the prompt, without secrets."""
    caller = format_caller(step)
    if step.kind == "call":
        arguments = step.arguments
        whole = arguments.pop(step.whole, None) if step.whole else None
        call, _ = format_call(step.tool, arguments, whole)
        return fold(f"{caller}, turn {step.turn}, is about to call {call}", WIDTH, GOES_ON)
    model = show(printable(redact(step.model)))
    if step.kind == "reply":
        about = f"{caller}, turn {step.turn}: the reply of {model}. Its JSON form is {EXAMPLE}"
        lines = [step.text, *(f"calls {tool}({_dump(given)})" for tool, given in step.calls)]
        return _format_lines(about, "\n".join(filter(None, lines)))
    request = step.request
    count = plural(len(request.messages), "message") if request else ""
    about = f"{caller}, turn {step.turn}, is about to ask {model} ({count}; l = look)"
    return _format_lines(about, step.text)


def format_whole(step: Step) -> str:
    """The complete request or arguments as JSON, without secrets."""
    whole = step.arguments if step.kind == "call" else step.body
    return show(cut_middle(_dump(whole, indent=2), MAX_BODY)[0])


def _format_lines(about: str, text: str) -> str:
    lines = show(cut_chars(text, MAX_TEXT, "…")).split("\n")
    left = len(lines) - MAX_LINES
    shown = lines[:MAX_LINES] + ([f"… {plural(left, 'more line')}"] if left > 0 else [])
    return fold("\n".join([about, *(BAR + line for line in shown)]), WIDTH, GOES_ON)


def _dump(value: object, indent: int | None = None) -> str:
    return json.dumps(find_filter().json(value), ensure_ascii=False, indent=indent)
