"""The tape of one root run: plays what its cassette has for the tree, and records the rest.

Source: product.md "Cassettes"; D-48, D-59.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from axe_nb.agents.trust import VARIABLE
from axe_nb.engine.permissions import ApprovalRequest, AskPerson, Decision
from axe_nb.errors import CassetteMiss
from axe_nb.exchanges import Exchange
from axe_nb.jsonable import jsonable
from axe_nb.messages import Request
from axe_nb.recording import approvals
from axe_nb.recording.asked import Asked, Describer
from axe_nb.recording.cassette import Cassette, Mode
from axe_nb.recording.miss import describe_miss, pick_first
from axe_nb.recording.outcome import decode, encode
from axe_nb.recording.place import run_of, turn_of
from axe_nb.recording.records import Key, Record, Root
from axe_nb.tools.tool import ToolOutput

QUIET = 0.1
"""Seconds without any exchange after which a tree waits for nothing but what was cancelled."""


@dataclass
class _Run:
    """One run of the tree, while it is played or recorded."""

    describer: Describer
    asked: Asked = field(default_factory=dict)
    """The part of its latest request that is new, beside the one before."""
    changed_at: int | None = None
    """The first turn that was not asked as recorded; all later ones differ too."""
    questions: int = 0
    """Questions to the person so far."""


class RootTape:
    """Implements `engine.tape.Tape` with a cassette."""

    def __init__(self, cassette: Cassette, mode: Mode) -> None:
        self._cassette = cassette
        self._mode = mode
        self._clean = cassette.make_cleaner()
        self._number = cassette.take_number()
        self._source: Root | None = None
        """The root whose records are played."""
        self._target: Root | None = None
        """The root that takes new records."""
        self._runs: dict[str, _Run] = {}
        self._new: dict[Key, Record] = {}
        self._played: dict[Key, Record] = {}
        self._misses: list[tuple[str, CassetteMiss]] = []
        """(place, error) of what was not recorded."""
        self._steps = 0
        self.cancel: Callable[[], None] = lambda: None
        """Cancels the tree."""

    @property
    def may_ask(self) -> bool:
        """True if models and the person may be asked for what is not recorded."""
        return self._mode != "replay"

    @property
    def plays(self) -> bool:
        """True if recorded exchanges are played."""
        return self._mode in ("replay", "auto")

    def find(self, request: Request, model: str) -> Exchange | None:
        """See `Tape`."""
        self._steps += 1
        if below := [miss for miss in self._misses if _is_below(miss[0], request.place)]:
            raise pick_first(below)  # what the run goes on with is not what was recorded
        run = self._get_run(run_of(request.place))
        if request.attempt == 1:
            run.asked = run.describer.describe(request, model)
        if self._source is None:
            self._source, self._target = self._cassette.claim(
                run.asked, request.agent, self._number
            )
        key: Key = ("model", request.place, request.attempt)
        record = self._source.records.get(key) if self.plays and run.changed_at is None else None
        if record and (request.attempt > 1 or record.asked == run.asked):
            exchange = decode(record.outcome, turn_of(request.place), request.attempt)
            if exchange.cut != "cancelled" or not self.may_ask:
                self._use(record)
                self._cassette.hits += 1
                return exchange
        if run.changed_at is None:
            run.changed_at = turn_of(request.place)
        self._cassette.misses += 1
        if not self.may_ask:
            miss = describe_miss(self._cassette, self._source, request, run.asked)
            self._note_miss(request.place, miss)
            raise miss
        return None

    def holds(self, place: str, attempt: int) -> bool:
        """See `Tape`."""
        key: Key = ("model", place, attempt)
        return bool(self.plays and self._source and key in self._source.records)

    def keep(self, request: Request, exchange: Exchange) -> None:
        """See `Tape`."""
        self._steps += 1
        key: Key = ("model", request.place, request.attempt)
        if key in self._played:
            return
        run = self._get_run(run_of(request.place))
        self._add(
            key, request.agent, run.asked if request.attempt == 1 else None,
            encode(exchange, self._clean),
        )  # fmt: skip

    def find_decision(self, request: ApprovalRequest) -> Decision | None:
        """See `Tape`."""
        run = self._get_run(request.run)
        run.questions += 1
        key: Key = ("person", request.run, run.questions)
        record = self._find(key, self._describe_question(request))
        if record is None:
            if not self.may_ask:
                question = request.detail if not request.tool else f"{request.tool} may run"
                raise self._miss_other(key, request.agent, f"the person's answer: {question}")
            return None
        said = record.outcome.get("decision", {})
        if not approvals.counts(self._cassette.path, record.asked, said):
            if self.may_ask:
                return None
            raise self._miss_other(
                key, request.agent, f"an approval of {request.tool} that was given by this user",
                f"set {VARIABLE}=1 if you trust whoever recorded it",
            )  # fmt: skip
        return Decision(
            said.get("choice", "no"),
            str(said.get("text", "")),
            dict(said.get("arguments", {})),
        )

    def keep_decision(self, request: ApprovalRequest, decision: Decision) -> None:
        """See `Tape`."""
        key: Key = ("person", request.run, self._get_run(request.run).questions)
        if key in self._played or decision.choice == "stop":
            return
        clean = self._clean
        said: dict[str, Any] = {"choice": decision.choice}
        if decision.text:
            said["text"] = clean.text(decision.text)
        if decision.arguments:
            said["arguments"] = clean.json(jsonable(decision.arguments))
        asked = self._describe_question(request)
        self._add(key, request.agent, asked, {"decision": said})
        approvals.remember(self._cassette.path, asked, said)

    def find_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any]
    ) -> ToolOutput | None:
        """See `Tape`."""
        record = self._find(("tool", run, number), self._describe_call(tool, arguments))
        if record is None:
            return None
        kept = record.outcome.get("output", {})
        return ToolOutput(
            str(kept.get("text", "")), bool(kept.get("error")), str(kept.get("note", ""))
        )

    def keep_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any], output: ToolOutput
    ) -> None:
        """See `Tape`."""
        key: Key = ("tool", run, number)
        if key in self._played:
            return
        kept: dict[str, Any] = {"text": self._clean.text(output.content)}
        if output.is_error:
            kept["error"] = True
        if output.note:
            kept["note"] = self._clean.text(output.note)
        self._add(key, "", self._describe_call(tool, arguments), {"output": kept})

    async def wait_to_cancel(self) -> None:
        """See `Tape`."""
        steps = -1
        while steps != self._steps:
            steps = self._steps
            await asyncio.sleep(QUIET)
        self.cancel()
        await asyncio.Event().wait()

    def finish(self) -> str:
        """See `Tape`."""
        if self._target is None or not self.may_ask:
            return ""
        stale = [
            record
            for record in self._target.records.values()
            if record.kind == "model" and self._is_stale(record)
        ]
        for record in self._new.values():
            record.asked = self._clean.clean_again(record.asked)
            record.outcome = self._clean.clean_again(record.outcome)
        new = {**self._new} if self._source is self._target else {**self._played, **self._new}
        return self._cassette.commit(self._target, new.values(), stale)

    @property
    def stand_in(self) -> AskPerson | None:
        """Stands in for a person whose answers are recorded; None if none is."""
        has_answers = any(one.kind == "person" for _, one in self._cassette.list_records())
        return _refuse if has_answers and self.plays else None

    def _is_stale(self, record: Record) -> bool:
        """True if a record belongs to a run that was asked otherwise before it."""
        run = self._runs.get(run_of(record.place))
        at = run.changed_at if run else None
        return at is not None and turn_of(record.place) >= at

    def _get_run(self, run: str) -> _Run:
        if run not in self._runs:
            self._runs[run] = _Run(Describer(self._clean))
        return self._runs[run]

    def _find(self, key: Key, asked: Any) -> Record | None:
        self._steps += 1
        record = self._source.records.get(key) if self.plays and self._source else None
        if record is None or record.asked != asked:
            return None
        self._use(record)
        return record

    def _use(self, record: Record) -> None:
        record.is_used = True
        self._played[record.key] = record

    def _add(self, key: Key, agent: str, asked: Any, outcome: Mapping[str, Any]) -> None:
        kind, place, number = key
        self._new[key] = Record(
            kind=kind, place=place, number=number, agent=agent, asked=asked, outcome=outcome,
            is_used=True,
        )  # fmt: skip
        self._cassette.recorded += 1

    def _describe_question(self, request: ApprovalRequest) -> dict[str, Any]:
        clean = self._clean
        if not request.tool:
            return {"question": clean.text(request.detail)}
        return self._describe_call(request.tool, request.arguments)

    def _describe_call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"tool": tool, "arguments": self._clean.json(jsonable(arguments))}

    def _miss_other(self, key: Key, agent: str, what: str, hint: str = "") -> CassetteMiss:
        miss = CassetteMiss(
            f"cassette {self._cassette.shown} lacks {what} (agent {agent}, at {key[1]})",
            hint=hint or self._cassette.how_to_record,
        )
        self._note_miss(f"{key[1]}/0", miss)
        return miss

    def _note_miss(self, place: str, miss: CassetteMiss) -> None:
        self._misses.append((place, miss))
        self._cassette.missed.append(miss)


async def _refuse(request: ApprovalRequest) -> Decision:
    """Answers what is not recorded where no one can be asked."""
    return Decision("no", "no one can be asked, and no answer is recorded")


def _is_below(place: str, other: str) -> bool:
    """True if a place is in the same run as another, or in a descendant of it."""
    return f"{run_of(place)}.".startswith(f"{run_of(other)}.")
