"""Decisions of a person among the records of a cassette: which one answers which question.

A cassette may come with a stranger's repository. Its replies replace a model's, whose calls are
checked as usual; its approvals would replace the person's: they count only where they were given,
unless the user trusts all.
Source: D-48, D-56, D-81, docs/recordings.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.trust import load_trusted, remember_trust, trusts_all
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.person import ApprovalRequest, Question, Step
from axe_nb.errors import ConfigError
from axe_nb.recording.miss import describe_change
from axe_nb.recording.modes import is_test
from axe_nb.recording.records import Cleaner, Key, Record
from axe_nb.recording.same_request import is_same
from axe_nb.secrets import MASK, Filter

APPROVING = ("yes", "always", "edit")
"""Answers of a person that let a call run."""


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


def find_answer(
    records: Mapping[Key, Record], played: Container[Key], question: Question, clean: Cleaner
) -> Record | None:
    """Returns the first unplayed record that answers a question; None = there is none."""
    asked = describe_question(question, clean)
    for record in _list_people(records, question.run):
        if record.key in played:
            continue
        if isinstance(question, Step) or not question.tool:
            if is_same(record.asked, asked):
                return record
        # a masked secret fits no other call
        elif (record.asked == asked and MASK not in f"{asked}") or (
            clean.restore(record.asked) == _state(question)
        ):
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


def has_chosen(record: Record, choice: str) -> bool:
    """True for a decision about a step that chose something: `end`, `stop`."""
    return is_step(record) and record.outcome["decision"].get("choice") == choice


def counts(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> bool:
    """True if a recorded answer may replace the person's.

    Args:
        path: the cassette.
        request: the question, with its secrets: with a mask for one, it is another.
        decision: the answer, with the paths of this machine.

    Raises:
        ConfigError: the list of what the person trusts cannot be read.
    """
    if decision.get("choice") not in APPROVING or trusts_all() or is_test():
        return True
    return _compute_fingerprint(path, request, decision) in load_trusted()


def remember(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> None:
    """Remembers an approval that the person has given here, for later replays."""
    if decision.get("choice") in APPROVING:
        with contextlib.suppress(ConfigError):  # then the person is asked again
            remember_trust(_compute_fingerprint(path, request, decision))


def _compute_fingerprint(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> str:
    where = [request.agent, request.workdir]
    content = ["cassette", os.path.realpath(path), where, _state(request), decision]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"approval {digest}"


def _state(request: ApprovalRequest) -> dict[str, Any]:
    """Returns what an approval is for, secrets included: nothing to be kept."""
    if not request.tool:
        return {"question": request.detail}
    return {"tool": request.tool, "arguments": jsonable(request.arguments)}


def describe_missing(records: Iterable[Record], question: Question, clean: Cleaner) -> str:
    """Returns what a cassette lacks, in words, and how that differs from what it has."""
    if not isinstance(question, Step):
        about = question.detail if not question.tool else f"may {question.tool} run?"
        return f"the person's answer to: {about}"
    asked = describe_question(question, clean)
    if question.kind != "call":
        when = "before" if question.kind == "request" else "about the reply of"
        return f"the person's decision {when} turn {question.turn}"
    what = f"the person's decision before call {question.number}, {question.tool}"
    for record in records:
        had = record.asked
        is_at_run = is_step(record) and record.place == question.run
        if is_at_run and had.get("call") == question.number:
            name = "arguments" if had.get("tool") == question.tool else "tool"
            return f"{what}: its {name} changed{describe_change(had.get(name), asked[name])}"
    return what
