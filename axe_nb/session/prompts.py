"""Prompts the user about a run: formats the questions, and parses the answers.

The user decides on the basis of a prompt. Text from a model must therefore never be invisible, look
like part of the prompt itself, or be cut without a note of how much is missing. The letters of
answers are constants, so that a model cannot add or rename an answer. Source: D-48, D-50, D-56.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from axe_nb.conversion.json_schema import find_wrong_arguments
from axe_nb.engine.person import ApprovalRequest, Choice, Decision, Question, Step
from axe_nb.events import PersonAsked
from axe_nb.messages import Response, ToolCall
from axe_nb.providers.wire import check_nesting
from axe_nb.results import NO_AGENT
from axe_nb.scripting.rules import stop_reason
from axe_nb.secrets import find_filter, redact
from axe_nb.text import (
    count_most_columns,
    cut_chars,
    cut_middle,
    fold,
    one_line,
    plural,
    printable,
    reveal,
)

MAX_SHOWN = 4000
"""Maximum number of characters of arguments or a preview; longer texts are cut in the middle."""

MAX_WHOLE = 100_000
"""Maximum length of an argument shown with its line breaks, such as a command, in characters."""

BAR = "  | "
"""Prefix of each line of an argument that is shown with its line breaks."""

GOES_ON = "  : "
"""Prefix of a wrapped line, so that text from a model cannot pass for a line of the prompt."""

WIDTH = 78


@dataclass(frozen=True, slots=True)
class Answer:
    """A possible answer, typed as the whole word or, unless `needs_word`, as its first letter."""

    choice: Choice
    about: str = ""
    needs_word: bool = False

    def __str__(self) -> str:
        word = self.choice if self.needs_word else f"[{self.choice[0]}]{self.choice[1:]}"
        return word + self.about


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    answers: Sequence[Answer]
    caution: str = ""
    """Why the user must type the whole word to approve; if empty, the first letter is enough."""

    @property
    def choices(self) -> str:
        return "  ".join(map(str, self.answers))


def format_question(request: ApprovalRequest) -> Prompt:
    """Formats the prompt to approve a call, or to raise the session's budget."""
    if request.raises:
        answers = [
            Answer("yes", f", raise it to {request.raises}"),
            Answer("no", ", end the run with an error"),
            Answer("stop"),
        ]
        text = f"{format_caller(request)}: {show(request.reason)}"
        return Prompt(fold(text, WIDTH, GOES_ON), answers)
    arguments = dict(request.arguments)
    whole = arguments.pop(request.whole, None) if request.whole else None
    call, hidden = format_call(request.tool, arguments, whole)
    parts = [f"{format_caller(request)} wants to call {call}"]
    parts += [show(line) for line in request.reason.split("\n") if line]
    if request.detail:
        detail, more = _show_most(request.detail, MAX_SHOWN)
        parts.append(detail)
        hidden += more
    text = fold("\n".join(parts), WIDTH, GOES_ON)
    lines = text.count("\n") + 1
    # more lines than most windows show: the start of the call may be out of sight
    caution = f"there are {lines:,} lines above" if lines > 40 else ""
    if hidden:
        caution = f"{hidden:,} characters are hidden"
    holds = f", {show(request.host)} until the session ends" if request.host else ""
    whole_word = f" (type the whole word: {caution})" if caution else ""
    answers = [Answer("yes", holds + whole_word, bool(caution)), Answer("no")]
    if request.always:
        answers.append(Answer("always", f" for {show(request.always)}", bool(caution)))
    answers += [Answer("edit", " the arguments"), Answer("stop")]
    return Prompt(text, answers, caution)


def format_model_question(request: ApprovalRequest) -> str:
    """Formats a model's question. If it has several lines, a prefix marks each line as quoted."""
    caller = format_caller(request)
    detail, _ = _show_most(request.detail, MAX_SHOWN)
    if "\n" not in detail:
        return fold(f"{caller} asks: {detail}", WIDTH, GOES_ON)
    lines = "\n".join(BAR + line for line in detail.split("\n"))
    return fold(f"{caller} asks:\n{lines}", WIDTH, GOES_ON)


def show(text: str) -> str:
    """Makes all characters visible, and replaces wide gaps and runs of blank lines with counts."""

    def show_gap(gap: re.Match[str]) -> str:
        # so wide that the rest of the line could be out of sight
        return f" ⟨{len(gap[0])} blanks⟩ " if count_most_columns(gap[0]) >= 40 else gap[0]

    shown: list[str] = []
    lines = re.sub(r"[ \t\u3000]{5,}", show_gap, reveal(text)).split("\n")
    for is_text, run in groupby(lines, lambda line: bool(line.strip())):
        found = list(run)
        shown += found if is_text or len(found) < 3 else [f"⟨{len(found)} blank lines⟩"]
    return "\n".join(shown)


def _show_most(text: str, limit: int) -> tuple[str, int]:
    kept, hidden = cut_middle(text, limit)
    return show(kept), hidden


def format_caller(request: ApprovalRequest | Step) -> str:
    where = f" ({request.run})" if request.run != "0" else ""
    return show(printable(one_line(request.agent or NO_AGENT, 100))) + where


def format_call(tool: str, arguments: Mapping[str, Any], whole: object) -> tuple[str, int]:
    name = show(printable(tool))
    text = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    given, hidden = _show_most(text, MAX_SHOWN)
    if whole is None:
        return f"{name}({given or '{}'})", hidden
    command = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)
    shown, more = _show_most(command, MAX_WHOLE)
    lines = "\n".join(BAR + line for line in shown.split("\n"))
    return f"{name}({given}):\n{lines}", hidden + more


EXAMPLE = '{"text": "…", "calls": [{"tool": "…", "arguments": {…}}]}'

CALL = {
    "type": "object",
    "properties": {"tool": {"type": "string", "minLength": 1}, "arguments": {"type": "object"}},
    "required": ["tool"],
    "additionalProperties": False,
}
REPLY = {"properties": {"text": {"type": "string"}, "calls": {"type": "array", "items": CALL}}}


class WrongInput(Exception):
    """Raised if text that the user typed cannot be used. The message says why, in one sentence."""


def read_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Asks the user for a call's arguments as JSON, and validates them against a schema."""
    arguments = _parse(input("arguments, as JSON: "), "The arguments must be a JSON object")
    if not isinstance(arguments, dict):
        raise WrongInput("The arguments must be a JSON object, in braces.")
    _check_form("arguments", schema, arguments, "The arguments do not fit their schema")
    return arguments


def parse_reply(typed: str) -> Response:
    """Parses a reply that the user typed for a model: text, or JSON with `text` and `calls`."""
    if not typed.lstrip().startswith("{"):
        return Response(typed, (), stop_reason(()))
    said = _parse(
        typed, 'A reply in braces must be JSON; for text that starts with one, type {"text": "…"}'
    )
    assert isinstance(said, dict)
    if not said or not said.keys() <= {"text", "calls"}:
        return Response(typed, (), stop_reason(()))  # an answer that is data
    _check_form("reply", REPLY, said, f"The reply does not match {EXAMPLE}")
    listed = said.get("calls", [])
    calls = tuple(ToolCall("", one["tool"], one.get("arguments", {})) for one in listed)
    return Response(said.get("text", ""), calls, stop_reason(calls))


def _check_form(name: str, schema: Mapping[str, Any], value: object, problem: str) -> None:
    if mistakes := find_wrong_arguments(schema, value):
        told = "; ".join(f"{name}{mistake.removeprefix('data')}" for mistake in mistakes)
        raise WrongInput(f"{problem}: {told}.")


def _parse(typed: str, wanted: str) -> Any:
    try:
        value = json.loads(typed)
        check_nesting(value)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        raise WrongInput(f"{wanted} ({where}: {error.msg}).") from None
    except (ValueError, RecursionError):
        raise WrongInput(f"{wanted}, nested less deeply.") from None
    return value


def prompt_person(request: Question, *, has_view: bool = False) -> Decision:
    """Asks the user for a decision, with a short prompt if a live view shows the question."""
    short = describe(request).prompt if has_view else ""
    if isinstance(request, Step):
        return prompt_step(request, short)
    if not request.tool and not request.raises:
        mark = f"answer to {format_caller(request)}> " if "\n" in request.detail else "> "
        return Decision("text", input(short or f"\n{format_model_question(request)}\n{mark}"))
    question = format_question(request)
    prompt = "" if short else f"\n{question.text}"  # separate from the last answer
    choices = short or f"\n{question.choices}: "
    while True:
        word, _, more = input(f"{prompt}{choices}").strip().partition(" ")
        word, reason = word.lower().rstrip(",.:;!"), more.strip()
        found = (one for one in question.answers if word in (one.choice, one.choice[0]))
        answer = next(found, None)
        if answer is None:
            prompt = "Please answer with one of these letters, or the whole word."
        elif answer.needs_word and word != answer.choice:
            prompt = f"Type the whole word, because {question.caution}."
        elif reason and answer.choice not in ("no", "stop"):  # "yes, but not in sub" is not a yes
            prompt = "Only a no can be followed by a reason. Nothing has been run."
        elif answer.choice != "edit":
            return Decision(answer.choice, reason)
        else:
            try:
                return Decision("edit", arguments=read_arguments(request.schema))
            except WrongInput as error:
                prompt = f"{error} Nothing has been run."


STEP_CHOICES = "[g]o on [e]dit [r]esult s[k]ip run to the e[n]d [s]top"
"""Choices at the end of each step prompt; programs that answer prompts recognize this text."""

WORDS: Mapping[str, Choice | None] = {
    "g": "go", "go": "go", "go on": "go", "e": "edit", "edit": "edit", "r": "result",
    "result": "result", "k": "skip", "skip": "skip", "n": "end", "end": "end",
    "run to the end": "end", "s": "stop", "stop": "stop", "l": None, "look": None,
}  # fmt: skip


NEW_REPLY = "\nnew reply, as text or JSON; empty = unchanged: "


def prompt_step(step: Step, short: str = "") -> Decision:
    prompt = "" if short else f"\n{format_step(step)}"  # separate from the last answer
    while step.kind == "reply":
        typed = input(f"{prompt}{NEW_REPLY}")
        if not typed.strip():
            return Decision("go")
        try:
            return Decision("edit", reply=parse_reply(typed))
        except WrongInput as error:
            prompt = str(error)
    choices = f"\n{STEP_CHOICES}: "
    while True:
        word = input(f"{prompt}{short or choices}").strip().lower().rstrip(",.:;!")
        if word not in WORDS:
            prompt = "Please answer with one of these letters, or l to see all of it."
            continue
        choice = WORDS[word]
        try:
            if choice == "edit" and step.kind == "call":
                return Decision("edit", arguments=read_arguments(step.schema))
            if choice == "result" and step.kind == "call":
                return Decision("result", input("result of the call: "))
            if choice == "result":
                return Decision("result", reply=parse_reply(input("reply, as text or JSON: ")))
            if choice is not None:
                return Decision(choice)
            whole = step.arguments if step.kind == "call" else step.body
            prompt = show(cut_middle(_dump(whole, indent=2), MAX_WHOLE)[0])
        except WrongInput as error:
            prompt = f"{error} Nothing has been done."


def format_step(step: Step) -> str:
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


def _format_lines(about: str, text: str) -> str:
    lines = show(cut_chars(text, MAX_SHOWN, "…")).split("\n")
    left = len(lines) - 12
    shown = lines[:12] + ([f"… {plural(left, 'more line')}"] if left > 0 else [])
    return fold("\n".join([about, *(BAR + line for line in shown)]), WIDTH, GOES_ON)


def _dump(value: object, indent: int | None = None) -> str:
    return json.dumps(find_filter().json(value), ensure_ascii=False, indent=indent)


NAMES = {
    "yes": "Allow", "always": "Always here", "edit": "Edit…", "no": "Deny", "stop": "Stop the run",
}  # fmt: skip
"""Answer to an approval request → label of its button, in the order of the buttons."""

STEP_NAMES = (
    ("g", "Go on"), ("e", "Edit…"), ("r", "Result…"), ("k", "Skip"), ("n", "Run to the end"),
    ("s", "Stop the run"),
)  # fmt: skip

MOST = 8000
"""Maximum length of a text in a `PersonAsked` event, in characters."""

MAX_BODY = 20_000
"""Maximum length of a request's body in a `PersonAsked` event, in characters."""

SUBJECT = 60


def describe(question: Question) -> PersonAsked:
    """Returns the event for a question, without secrets and with long texts shortened."""
    if isinstance(question, Step):
        text = format_step(question)
        about = PersonAsked("", question.call_id, "", _bound(text))
        caller = f"{format_caller(question)}, turn {question.turn}"
        if question.kind == "reply":
            said = question.response
            assert said
            calls = [{"tool": c.name, "arguments": dict(c.arguments)} for c in said.tool_calls]
            if reply := _dump_given({"text": said.content, "calls": calls}):
                about = replace(about, text=f"{caller}: the reply", arguments=reply)
            return replace(about, prompt=NEW_REPLY)
        is_call = question.kind == "call"
        given = _dump_given(question.given) if is_call else _dump(question.body, indent=2)
        arguments = cut_middle(given, MAX_BODY)[0]
        about = replace(about, choices=STEP_NAMES, arguments=arguments)
        return _with_prompt(about, text, f"\n{caller}: {STEP_CHOICES}: ")
    if not question.tool and not question.raises:
        text = format_model_question(question)
        words = one_line(show(redact(question.detail)), SUBJECT)
        about = PersonAsked("", question.call_id, words, _bound(text))
        return _with_prompt(about, text, f"\nanswer to {format_caller(question)}> ")
    asked = format_question(question)
    names = {**NAMES, "yes": "Raise", "no": "Refuse"} if question.raises else NAMES
    letters = {a.choice: a.choice[0] for a in asked.answers if not a.needs_word}
    summary = f"may this notebook spend up to {question.raises}?"
    if not question.raises:
        texts = (v for v in question.arguments.values() if isinstance(v, str) and v.strip())
        subject = one_line(show(redact(next(texts, ""))), SUBJECT)
        summary = f"may it call {printable(question.tool)}{' on ' * bool(subject)}{subject}?"
    about = PersonAsked(
        "", question.call_id, summary, _bound(format_question(replace(question, detail="")).text),
        cut_middle(redact(show(question.detail)), MOST)[0],
        tuple((letters[choice], name) for choice, name in names.items() if choice in letters),
        arguments=_dump_given(question.arguments) if question.tool else "",
    )  # fmt: skip
    if asked.caution:  # the view may show it out of sight
        return _with_prompt(about, asked.text, f"\n{asked.text}\n{asked.choices}: ")
    letters_of = " ".join(f"[{one.choice[0]}]{one.choice[1:]}" for one in asked.answers)
    return _with_prompt(about, asked.text, f"\n{format_caller(question)}: {summary} {letters_of}: ")


def _with_prompt(asked: PersonAsked, text: str, prompt: str) -> PersonAsked:
    """Returns the event with the prompt added.

    If `text` and `prompt` are too long or contain secrets, no prompt is added, and the answer
    buttons and the arguments are removed.
    """
    if len(text + prompt) > MOST or redact(text + prompt) != text + prompt:
        return replace(asked, choices=(), arguments="")
    return replace(asked, prompt=prompt)


def _dump_given(arguments: Mapping[str, Any]) -> str:
    """Returns arguments as one line of JSON; empty if they are too long or contain secrets."""
    given = dict(arguments)
    if find_filter().json(given) != given:
        return ""
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= MOST else ""


def _bound(text: str) -> str:
    unfolded = text.replace(f"\n{GOES_ON}", "")  # a page wraps lines itself
    return cut_middle(redact(unfolded), MOST)[0]
