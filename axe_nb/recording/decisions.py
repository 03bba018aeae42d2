"""Decisions of a person among the records of a cassette: which one answers which question.

Source: D-48, D-56.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.person import Decision, Question, Step
from axe_nb.messages import Response, ToolCall
from axe_nb.recording import approvals
from axe_nb.recording.cleaning import Cleaner
from axe_nb.recording.miss import describe_change
from axe_nb.recording.records import Key, Record
from axe_nb.recording.same_request import is_same
from axe_nb.secrets import Filter


def describe_question(question: Question, clean: Filter) -> dict[str, Any]:
    """Returns what a person is asked, as it is kept and compared."""
    if isinstance(question, Step) and question.kind != "call":
        return {"step": question.kind, "turn": question.turn}
    if isinstance(question, Step):
        call = {"tool": question.tool, "arguments": clean.json(jsonable(question.given))}
        return {"step": "call", "call": question.number, **call}
    if not question.tool:
        return {"question": clean.text(question.detail)}
    return {"tool": question.tool, "arguments": clean.json(jsonable(question.arguments))}


def write_decision(decision: Decision) -> dict[str, Any]:
    """Returns a person's answer as data, secrets included."""
    said: dict[str, Any] = {"choice": decision.choice}
    if decision.text:
        said["text"] = decision.text
    if decision.arguments:
        said["arguments"] = jsonable(decision.arguments)
    if decision.reply is not None:
        calls = [
            {"tool": call.name, "arguments": jsonable(call.arguments)}
            for call in decision.reply.tool_calls
        ]
        said["reply"] = {
            "text": decision.reply.content, **({"calls": calls} if calls else {}),
            "stop_reason": decision.reply.stop_reason,
        }  # fmt: skip
    return said


def read_decision(said: Mapping[str, Any]) -> Decision:
    """Reverses `write_decision`."""
    given, reply = said.get("reply"), None
    if isinstance(given, Mapping):
        calls = tuple(
            ToolCall("", str(call.get("tool", "")), dict(call.get("arguments", {})))
            for call in given.get("calls", ())
            if isinstance(call, Mapping)
        )
        reply = Response(str(given.get("text", "")), calls, str(given.get("stop_reason", "")))
    return Decision(
        said.get("choice", "no"), str(said.get("text", "")), dict(said.get("arguments", {})),
        reply, is_recorded=True,
    )  # fmt: skip


def find_answer(
    records: Mapping[Key, Record], played: Container[Key], question: Question, clean: Cleaner
) -> Record | None:
    """Returns the first unplayed record that answers a question; None = there is none."""
    asked = describe_question(question, clean)
    for record in _list_people(records, question.run):
        if record.key in played:
            continue
        if isinstance(question, Step):
            if is_same(record.asked, asked):
                return record
        elif approvals.is_same_question(record.asked, asked, question, clean):
            return record
    return None


def _list_people(records: Mapping[Key, Record], run: str) -> Iterator[Record]:
    """Yields the decisions about a run, in order."""
    for key, record in sorted(records.items(), key=lambda item: item[0][2]):
        if key[:2] == ("person", run):
            yield record


def is_step(record: Record) -> bool:
    """True for a decision about a step."""
    return record.kind == "person" and isinstance(record.asked, dict) and "step" in record.asked


def has_end(records: Iterable[Record]) -> bool:
    """True if a person had the tree run to its end without further pauses."""
    return any(is_step(one) and _choice(one) == "end" for one in records)


def is_stop(record: Record) -> bool:
    """True for a decision about a step that ended the tree."""
    return is_step(record) and _choice(record) == "stop"


def _choice(record: Record) -> object:
    return record.outcome["decision"].get("choice")


def describe_missing(records: Mapping[Key, Record], question: Question, clean: Cleaner) -> str:
    """Returns what a cassette lacks, in words, and how that differs from what it has."""
    if not isinstance(question, Step):
        about = question.detail if not question.tool else f"may {question.tool} run?"
        return f"the person's answer to: {about}"
    asked = describe_question(question, clean)
    if question.kind != "call":
        when = "before" if question.kind == "request" else "about the reply of"
        return f"the person's decision {when} turn {question.turn}"
    what = f"the person's decision before call {question.number}, {question.tool}"
    for record in _list_people(records, question.run):
        had = record.asked
        if is_step(record) and had.get("call") == question.number:
            same = had.get("tool") == question.tool
            name = "arguments" if same else "tool"
            return f"{what}: its {name} changed{describe_change(had.get(name), asked[name])}"
    return what
