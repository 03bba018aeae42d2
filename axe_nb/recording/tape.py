"""The tape of one root run: plays what its cassette has for the tree, and records the rest.

Source: product.md "Cassettes"; D-48, D-59.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import count
from typing import Any

from axe_nb.agents.trust import VARIABLE
from axe_nb.engine.questions import AskPerson, Question
from axe_nb.engine.step import Decision, Step
from axe_nb.errors import CassetteMiss
from axe_nb.exchanges import Exchange
from axe_nb.limits import RunStopped
from axe_nb.messages import Request
from axe_nb.recording import approvals, calls, decisions
from axe_nb.recording.asked import AskedRun, Describer, is_same
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.cleaning import Cleaner
from axe_nb.recording.displaced import FAILED, KEEPS, find_kept
from axe_nb.recording.miss import describe_miss, pick_first
from axe_nb.recording.modes import Mode
from axe_nb.recording.outcome import decode, encode, has_failed
from axe_nb.recording.place import is_below, run_of, turn_of
from axe_nb.recording.records import END, Key, Record, Root
from axe_nb.results import Status
from axe_nb.tools.tool import ToolOutput

FIRST: Key = ("model", "0/1", 1)
"""The record by which a root is found again."""

PATIENCE = 5.0
"""Seconds that a replay waits for missing exchanges before it cancels its tree."""

QUIET = 0.1
"""Seconds without any exchange after which a tree waits for nothing but what was cancelled."""


class RootTape:
    """Implements `engine.tape.Tape` with a cassette."""

    def __init__(self, cassette: Cassette, mode: Mode) -> None:
        self.cassette = cassette
        self.mode = mode
        self.may_ask = mode != "replay"
        self._plays = mode in ("replay", "auto")
        self._clean = cassette.make_cleaner()
        self._source: Root | None = None
        """The root whose records are played."""
        self._target: Root | None = None
        """The root that takes new records."""
        self._runs: dict[str, AskedRun] = {}
        self._new: dict[Key, Record] = {}
        self._exchanges: dict[Key, Exchange] = {}
        """The outcomes of new records, which are encoded when they are written."""
        self._encoded: dict[Key, Cleaner] = {}
        """The cleaners of the outcomes that are encoded."""
        self._played: dict[Key, Record] = {}
        self._misses: list[tuple[str, CassetteMiss]] = []
        """(place, error) of each miss."""
        self._steps = 0
        self.hosts: set[str] = set()
        self.has_asked = False
        self.cancel: Callable[[], None] = lambda: None

    @property
    def _records(self) -> Mapping[Key, Record]:
        """The records that may be played."""
        return self._source.records if self._plays and self._source else {}

    def find(self, request: Request, model: str) -> Exchange | None:
        """See `Tape`."""
        if (exchange := self._look_up(request, model)) is not None:
            return exchange
        run = self._runs[run_of(request.place)]
        run.changed_at = run.changed_at or turn_of(request.place)
        self.cassette.misses += 1
        if not self.may_ask:
            assert self._source is not None
            miss = describe_miss(self.cassette, self._source, request, run.asked)
            self._note_miss(request.place, miss)
            raise miss
        self.has_asked = True
        return None

    def note(self, request: Request, model: str, exchange: Exchange) -> None:
        """See `Tape`."""
        if self._look_up(request, model) is None and self.may_ask:
            self.keep(request, exchange)

    def _look_up(self, request: Request, model: str) -> Exchange | None:
        """Returns what is recorded for a request."""
        self._steps += 1
        if below := [miss for miss in self._misses if is_below(miss[0], request.place)]:
            raise copy(pick_first(below))  # what the run goes on with is not what was recorded
        return self._find_exchange(request, self._open(request, model))

    def _open(self, request: Request, model: str) -> AskedRun:
        """Returns the run of a request, which is described once, and claims the records."""
        run = self._get_run(run_of(request.place))
        run.take(request, model)
        if self._source is None:
            self._source, self._target = self.cassette.claim(run.asked, request.agent)
        return run

    def _find_exchange(self, request: Request, run: AskedRun) -> Exchange | None:
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
        is_last = not self.holds(request.place, request.attempt + 1)
        if self.may_ask and is_last and has_failed(exchange):
            return None  # it may succeed now
        self._use(record)
        self.cassette.hits += 1
        return replace(exchange, protocol=exchange.protocol or run.model.partition("/")[0])

    def holds(self, place: str, attempt: int) -> bool:
        """See `Tape`."""
        return ("model", place, attempt) in self._records

    def admits(self, place: str, attempt: int, has_cap: Callable[[str], bool]) -> bool:
        """See `Tape`."""
        record = self._records.get(("cap", place, attempt))
        if record is not None:
            kept = self._clean.restore(dict(record.outcome["refused"]))
            if has_cap(str(kept.get("cap"))):
                self._use(record)
                raise calls.read_refusal(kept)
        run, turn = run_of(place), turn_of(place)
        return self.holds(f"{run}/{turn or 1}", attempt)

    def keep_refusal(self, place: str, attempt: int, stop: RunStopped) -> None:
        """See `Tape`."""
        key: Key = ("cap", place, attempt)
        if stop.cap and key not in self._played:
            self._add(key, "", None, {"refused": calls.write_refusal(stop, self._clean)})

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
        return calls.refuse if any(kind == "person" for kind, _, _ in self._records) else None

    @property
    def has_steps(self) -> bool:
        """See `Tape`."""
        records = self.cassette.list_records()
        return self._plays and any(decisions.is_step(one) for _, one in records)

    def find_decision(self, question: Question) -> Decision | None:
        """See `Tape`."""
        if isinstance(question, Step) and question.request is not None:
            self._open(question.request, question.model)
        record = decisions.find_answer(self._records, self._played, question, self._clean)
        if (
            record is None
            and isinstance(question, Step)
            and decisions.has_end(self._records.values())
        ):
            return Decision("go", is_recorded=True)
        if record is None:
            if not self.may_ask:
                what = decisions.describe_missing(self._records, question, self._clean)
                raise self._miss_other(question.run, question.agent, what)
            return None
        if self.may_ask and decisions.is_stop(record):  # they may go on now
            return None
        said = self._clean.restore(dict(record.outcome["decision"]))
        if not (isinstance(question, Step) or approvals.counts(self.cassette.path, question, said)):
            if self.may_ask:
                return None
            raise self._miss_other(
                question.run, question.agent,
                f"an approval of {question.tool} by this user",
                f"set {VARIABLE}=1 if you trust whoever recorded it",
            )  # fmt: skip
        self._use(record)
        return decisions.read_decision(said)

    def keep_decision(self, question: Question, decision: Decision) -> None:
        """See `Tape`."""
        if decision.is_recorded or (decision.choice == "stop" and not self._plays_stop(question)):
            return
        said = decisions.write_decision(decision)
        asked = decisions.describe_question(question, self._clean)
        keys: Iterator[Key] = (("person", question.run, number) for number in count(1))
        key = next(key for key in keys if key not in self._new and key not in self._records)
        self._add(key, question.agent, asked, {"decision": self._clean.json(said)})
        if not isinstance(question, Step):
            approvals.remember(self.cassette.path, question, said)

    def _plays_stop(self, question: Question) -> bool:
        """True if a stop can be played: its root is found again by the first request."""
        return isinstance(question, Step) and (FIRST in self._new or FIRST in self._played)

    def find_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any]
    ) -> ToolOutput | None:
        """See `Tape`."""
        self._steps += 1
        record = self._records.get(("tool", run, number))
        asked = calls.describe(tool, arguments, self._clean)
        if record is None or not is_same(record.asked, asked):
            if self.may_ask:
                return None
            if end := self._records.get(END):
                self._use(end)
                raise RunStopped(end.outcome["cut"], f"{end.outcome['cut']}, as it was recorded")
            raise self._miss_other(run, "", f"the result of {tool}, which a replay does not run")
        self._use(record)
        return calls.read_output(self._clean.restore(dict(record.outcome["output"])))

    def keep_output(
        self, run: str, number: int, tool: str, arguments: Mapping[str, Any], output: ToolOutput
    ) -> None:
        """See `Tape`."""
        key: Key = ("tool", run, number)
        if key not in self._played:
            kept = calls.write_output(output, self._clean)
            self._add(key, "", calls.describe(tool, arguments, self._clean), {"output": kept})

    async def wait_until_quiet(self, run: str) -> None:
        """See `Tape`."""
        steps, since = -1, 0.0
        while steps != self._steps or (self._has_more(run) and since < PATIENCE):
            since = since + QUIET if steps == self._steps else 0.0
            steps = self._steps
            await asyncio.sleep(QUIET)

    def _has_more(self, run: str) -> bool:
        """True if an exchange that was recorded of a run has not been played yet."""
        left = self._records.keys() - self._played.keys()
        return any(kind == "model" and is_below(place, run) for kind, place, _ in left)

    def finish(self, status: Status) -> str:
        """See `Tape`."""
        if self._target is None or not self.may_ask:
            return ""
        self._finish_records(status)
        old = self._target.records
        kept = find_kept(self._new, old, has_ended=status not in FAILED, whole=not self._plays)
        if kept is not None:
            problem = self.cassette.commit(self._target, kept, ())
            return problem or ("" if self._plays else f"{self.cassette.shown} keeps {KEEPS}")
        stale = [one for one in old.values() if self._is_stale(one)]
        new = {**self._new} if self._source is self._target else {**self._played, **self._new}
        return self.cassette.commit(self._target, new.values(), stale)

    def _finish_records(self, status: Status) -> None:
        """Completes the new records, now that it is known how the tree ended."""
        clean = self.cassette.make_cleaner()  # a tool may have set a secret
        cuts = set()
        for key, record in self._new.items():
            if exchange := self._exchanges.get(key):
                if exchange.cut == "cancelled" and status != "cancelled":
                    exchange = replace(exchange, cut="abandoned")
                cuts.add(exchange.cut)
                self._encode(record, exchange, clean)
            else:
                record.outcome = self._clean.clean_again(record.outcome)
            record.asked = self._clean.clean_again(record.asked)
        if status in ("timeout", "cancelled") and status not in cuts and self._new:
            self._add(END, "", None, {"cut": status})

    def _find_finished(self) -> Iterator[Record]:
        """Yields the new records that will not change any more; called by another thread."""
        clean, old = self.cassette.make_cleaner(), self._target.records if self._target else {}
        if old and not self._plays:
            return  # this run may still fail
        for key, record in self._new.copy().items():
            exchange = self._exchanges.get(key)
            if exchange is None and key[0] == "model":
                continue
            if exchange is not None:
                if exchange.cut == "cancelled" or (key in old and has_failed(exchange)):
                    continue  # it may be abandoned, as the end will tell
                self._encode(record, exchange, clean)
            asked, outcome = map(self._clean.clean_again, (record.asked, record.outcome))
            yield replace(record, asked=asked, outcome=outcome)

    def _encode(self, record: Record, exchange: Exchange, clean: Cleaner) -> None:
        """Sets the outcome of a record, unless it is encoded already."""
        if exchange.cut == "abandoned" or self._encoded.get(record.key) != clean:
            record.outcome = encode(exchange, clean)
            self._encoded[record.key] = clean

    def _is_stale(self, record: Record) -> bool:
        """True if a record belongs to a run that has been asked otherwise since."""
        if record.key in self._new or record.key in self._played:
            return False
        if self.mode == "record" or (record.kind in ("end", "cap") and self._new):
            return True
        run = self._runs.get(run_of(record.place))
        at = run.changed_at if run else None
        return record.kind == "model" and at is not None and turn_of(record.place) >= at

    def _get_run(self, run: str) -> AskedRun:
        return self._runs.setdefault(run, AskedRun(Describer(self._clean)))

    def _use(self, record: Record) -> None:
        record.is_used, self._played[record.key] = True, record

    def _add(self, key: Key, agent: str, asked: Any, outcome: Mapping[str, Any]) -> None:
        kind, place, number = key
        self._new[key] = Record(
            kind=kind, place=place, number=number, agent=agent, asked=asked, outcome=outcome,
            is_used=True,
        )  # fmt: skip
        self.cassette.recorded += kind not in ("end", "cap")
        if kind != "end" and self._target is not None:
            self.cassette.write_soon(self._target, self._find_finished)

    def _miss_other(self, run: str, agent: str, what: str, hint: str = "") -> CassetteMiss:
        who = f"agent {agent}, at {run}" if agent else f"at {run}"
        miss = CassetteMiss(
            f"cassette {self.cassette.shown} lacks {what} ({who})",
            hint=hint or self.cassette.how_to_record,
        )
        self._note_miss(f"{run}/0", miss)
        return miss

    def _note_miss(self, place: str, miss: CassetteMiss) -> None:
        self._misses.append((place, miss))
        self.cassette.missed.append(miss)
