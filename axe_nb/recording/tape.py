"""The tape of one root run: plays what its cassette has for the tree, and records the rest.

Source: product.md "Cassettes"; D-48, D-59.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from axe_nb.agents.trust import VARIABLE
from axe_nb.engine.permissions import ApprovalRequest, AskPerson, Decision
from axe_nb.errors import CassetteMiss
from axe_nb.exchanges import Exchange
from axe_nb.jsonable import jsonable
from axe_nb.limits import RunStopped
from axe_nb.messages import Request
from axe_nb.recording import approvals
from axe_nb.recording.asked import Asked, Describer, is_same
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.miss import describe_miss, pick_first
from axe_nb.recording.modes import Mode
from axe_nb.recording.outcome import decode, encode
from axe_nb.recording.place import run_of, turn_of
from axe_nb.recording.records import Key, Record, Root
from axe_nb.results import Status
from axe_nb.tools.tool import ToolOutput

END: Key = ("end", "0", 1)
"""The record of a tree that was cut while it did not wait for a model."""

PATIENCE = 5.0
"""Seconds that a replay waits for exchanges that do not come, before it cancels its tree."""

QUIET = 0.1
"""Seconds without any exchange after which a tree waits for nothing but what was cancelled."""


@dataclass
class _Run:
    """One run of the tree, while it is played or recorded."""

    describer: Describer
    model: str = ""
    """provider/model."""
    asked: Asked = field(default_factory=dict)
    """The part of its latest request that is new, beside the one before."""
    changed_at: int | None = None
    """The first turn that was not asked as recorded; all later ones differ too."""


class RootTape:
    """Implements `engine.tape.Tape` with a cassette."""

    def __init__(self, cassette: Cassette, mode: Mode) -> None:
        self._cassette = cassette
        self._mode = mode
        self.may_ask = mode != "replay"
        self._clean = cassette.make_cleaner()
        self._source: Root | None = None
        """The root whose records are played."""
        self._target: Root | None = None
        """The root that takes new records."""
        self._runs: dict[str, _Run] = {}
        self._new: dict[Key, Record] = {}
        self._exchanges: dict[Key, Exchange] = {}
        """The outcomes of new records, which are cleaned at the end."""
        self._played: dict[Key, Record] = {}
        self._misses: list[tuple[str, CassetteMiss]] = []
        """(place, error) of what was not recorded."""
        self._steps = 0
        self.hosts: set[str] = set()
        self.has_asked = False
        self.cancel: Callable[[], None] = lambda: None

    @property
    def _records(self) -> Mapping[Key, Record]:
        """The records that may be played."""
        plays = self._mode in ("replay", "auto")
        return self._source.records if plays and self._source else {}

    def find(self, request: Request, model: str) -> Exchange | None:
        """See `Tape`."""
        self._steps += 1
        if below := [miss for miss in self._misses if _is_below(miss[0], request.place)]:
            raise copy(pick_first(below))  # what the run goes on with is not what was recorded
        run = self._get_run(run_of(request.place))
        run.model = model
        if request.attempt == 1:
            run.asked = run.describer.describe(request, model)
        if self._source is None:
            self._source, self._target = self._cassette.claim(run.asked, request.agent)
        exchange = self._find_exchange(request, run)
        if exchange is not None:
            return exchange
        if run.changed_at is None:
            run.changed_at = turn_of(request.place)
        self._cassette.misses += 1
        if not self.may_ask:
            miss = describe_miss(self._cassette, self._source, request, run.asked)
            self._note_miss(request.place, miss)
            raise miss
        self.has_asked = True
        return None

    def _find_exchange(self, request: Request, run: _Run) -> Exchange | None:
        if run.changed_at is not None:
            return None
        turn = turn_of(request.place)
        record = self._records.get(("model", request.place, request.attempt))
        if record is None:
            end = self._records.get(END)
            if end is None or self.may_ask or turn == 1:
                return None
            self._use(end)
            return decode(end.outcome, turn, request.attempt)
        if request.attempt == 1 and not is_same(record.asked, run.asked):
            return None
        exchange = decode(record.outcome, turn, request.attempt, self._clean)
        if self.may_ask and self._has_failed(exchange, request):
            return None
        self._use(record)
        self._cassette.hits += 1
        return exchange

    def _has_failed(self, exchange: Exchange, request: Request) -> bool:
        """True if a recorded request has failed in the end, so that it may succeed now."""
        status = exchange.reply.status if exchange.reply else 200
        failure = exchange.error or (exchange.reply and exchange.reply.failure)
        failed = failure or exchange.cut in ("timeout", "cancelled") or not 200 <= status < 300
        return bool(failed) and not self.holds(request.place, request.attempt + 1)

    def holds(self, place: str, attempt: int) -> bool:
        """See `Tape`."""
        return ("model", place, attempt) in self._records

    def keep(self, request: Request, exchange: Exchange) -> None:
        """See `Tape`."""
        self._steps += 1
        key: Key = ("model", request.place, request.attempt)
        if key not in self._played and END not in self._played:
            run = self._get_run(run_of(request.place))
            own = run.model.startswith(f"{exchange.protocol}/")
            self._exchanges[key] = replace(exchange, protocol="") if own else exchange
            self._add(key, request.agent, run.asked if request.attempt == 1 else None, {})

    def find_person(self, ask_person: AskPerson | None) -> AskPerson | None:
        """See `Tape`."""
        if self.may_ask and ask_person is not None:
            return ask_person
        return _refuse if any(kind == "person" for kind, _, _ in self._records) else None

    def find_decision(self, request: ApprovalRequest) -> Decision | None:
        """See `Tape`."""
        asked = self._describe_question(request)
        record = next(
            (
                one
                for key, one in sorted(self._records.items(), key=lambda item: item[0][2])
                if key[:2] == ("person", request.run)
                and key not in self._played
                and is_same(one.asked, asked)
            ),
            None,
        )
        if record is None:
            if not self.may_ask:
                question = request.detail if not request.tool else f"{request.tool} may run"
                raise self._miss_other(
                    request.run, request.agent, f"the person's answer: {question}"
                )
            return None
        said = record.outcome["decision"]
        if not approvals.counts(self._cassette.path, _locate(request), record.asked, said):
            if self.may_ask:
                return None
            raise self._miss_other(
                request.run, request.agent,
                f"an approval of {request.tool} by this user",
                f"set {VARIABLE}=1 if you trust whoever recorded it",
            )  # fmt: skip
        self._use(record)
        return _make_decision(self._clean.restore(dict(said)))

    def keep_decision(self, request: ApprovalRequest, decision: Decision) -> None:
        """See `Tape`."""
        if decision.is_recorded or decision.choice == "stop":
            return
        said: dict[str, Any] = {"choice": decision.choice}
        if decision.text:
            said["text"] = self._clean.text(decision.text)
        if decision.arguments:
            said["arguments"] = self._clean.json(jsonable(decision.arguments))
        asked = self._describe_question(request)
        taken = {
            number for kind, run, number in self._new if (kind, run) == ("person", request.run)
        }
        number = next(n for n in count(1) if n not in taken)
        self._add(("person", request.run, number), request.agent, asked, {"decision": said})
        approvals.remember(self._cassette.path, _locate(request), asked, said)

    def find_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any]
    ) -> ToolOutput | None:
        """See `Tape`."""
        self._steps += 1
        record = self._records.get(("tool", run, number))
        if record is None or not is_same(record.asked, self._describe_call(tool, arguments)):
            if self.may_ask:
                return None
            if end := self._records.get(END):
                self._use(end)
                raise RunStopped(end.outcome["cut"], f"{end.outcome['cut']}, as it was recorded")
            raise self._miss_other(run, "", f"the result of {tool}, which is not to run again")
        self._use(record)
        kept = self._clean.restore(dict(record.outcome["output"]))
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
        steps, since = -1, 0.0
        while steps != self._steps or (self._has_more() and since < PATIENCE):
            since = since + QUIET if steps == self._steps else 0.0
            steps = self._steps
            await asyncio.sleep(QUIET)
        self.cancel()
        await asyncio.Event().wait()

    def _has_more(self) -> bool:
        """True if a recorded exchange has not been played yet."""
        return any(key[0] == "model" and key not in self._played for key in self._records)

    def finish(self, status: Status) -> str:
        """See `Tape`."""
        if self._target is None or not self.may_ask:
            return ""
        self._finish_records(status)
        stale = [one for one in self._target.records.values() if self._is_stale(one)]
        new = {**self._new} if self._source is self._target else {**self._played, **self._new}
        return self._cassette.commit(self._target, new.values(), stale)

    def _finish_records(self, status: Status) -> None:
        """Completes the new records, now that it is known how the tree ended."""
        clean = self._cassette.make_cleaner()  # a tool may have set a secret
        cuts = set()
        for key, record in self._new.items():
            if exchange := self._exchanges.get(key):
                if exchange.cut == "cancelled" and status != "cancelled":
                    exchange = replace(exchange, cut="abandoned")
                cuts.add(exchange.cut)
                record.outcome = encode(exchange, clean)
            else:
                record.outcome = self._clean.clean_again(record.outcome)
            record.asked = self._clean.clean_again(record.asked)
        if status in ("timeout", "cancelled") and status not in cuts and self._new:
            self._add(END, "", None, {"cut": status})

    def _is_stale(self, record: Record) -> bool:
        """True if a record belongs to a run that has been asked otherwise since."""
        if record.key in self._new or record.key in self._played:
            return False
        if self._mode == "record" or (record.key == END and self._new):
            return True
        run = self._runs.get(run_of(record.place))
        at = run.changed_at if run else None
        return record.kind == "model" and at is not None and turn_of(record.place) >= at

    def _get_run(self, run: str) -> _Run:
        if run not in self._runs:
            self._runs[run] = _Run(Describer(self._clean))
        return self._runs[run]

    def _use(self, record: Record) -> None:
        record.is_used = True
        self._played[record.key] = record

    def _add(self, key: Key, agent: str, asked: Any, outcome: Mapping[str, Any]) -> None:
        kind, place, number = key
        self._new[key] = Record(
            kind=kind, place=place, number=number, agent=agent, asked=asked, outcome=outcome,
            is_used=True,
        )  # fmt: skip
        self._cassette.recorded += kind != "end"

    def _describe_question(self, request: ApprovalRequest) -> dict[str, Any]:
        if not request.tool:
            return {"question": self._clean.text(request.detail)}
        return self._describe_call(request.tool, request.arguments)

    def _describe_call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"tool": tool, "arguments": self._clean.json(jsonable(arguments))}

    def _miss_other(self, run: str, agent: str, what: str, hint: str = "") -> CassetteMiss:
        who = f"agent {agent}, at {run}" if agent else f"at {run}"
        miss = CassetteMiss(
            f"cassette {self._cassette.shown} lacks {what} ({who})",
            hint=hint or self._cassette.how_to_record,
        )
        self._note_miss(f"{run}/0", miss)
        return miss

    def _note_miss(self, place: str, miss: CassetteMiss) -> None:
        self._misses.append((place, miss))
        self._cassette.missed.append(miss)


def _locate(request: ApprovalRequest) -> list[str]:
    """Returns what an approval is for, besides its call."""
    return [request.agent, request.workdir]


def _make_decision(said: Mapping[str, Any]) -> Decision:
    return Decision(
        said.get("choice", "no"), str(said.get("text", "")), dict(said.get("arguments", {})),
        is_recorded=True,
    )  # fmt: skip


async def _refuse(request: ApprovalRequest) -> Decision:
    """Answers what is not recorded where no one can be asked."""
    return Decision("no", "no one can be asked, and no answer is recorded")


def _is_below(place: str, other: str) -> bool:
    """True if a place is in the same run as another, or in a descendant of it."""
    return f"{run_of(place)}.".startswith(f"{run_of(other)}.")
