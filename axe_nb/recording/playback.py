"""Replays a root run from the records of a cassette, and records what is new.

A cassette may come with a stranger's repository. Tool calls in recorded replies are checked like
those in a model's replies. Outside tests, and unless the user trusts all folders, a recorded
approval counts only on the machine where the user gave it. Source: D-48, D-56, D-59, D-81,
docs/recordings.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, takewhile
from typing import Any, Literal

from axe_nb.agents.trust import VARIABLE, load_trusted, remember_trust, trusts_all
from axe_nb.agents.user_config import is_test
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.records import from_json, to_json
from axe_nb.engine.person import ApprovalRequest, Decision, Question, Step, make_decided
from axe_nb.engine.replay import Asked, AskedTurn, KeptTurn, Outcome, PendingCall
from axe_nb.errors import CassetteMiss, ConfigError
from axe_nb.messages import Request
from axe_nb.messages.exchanges import Exchange
from axe_nb.recording.cassette import (
    BEGINNING,
    END,
    Cassette,
    Key,
    Record,
    Root,
    decode,
    encode,
    has_failed,
    list_failed,
)
from axe_nb.recording.modes import Mode
from axe_nb.recording.same_request import (
    Describer,
    Description,
    describe_change,
    is_same,
    list_changes,
)
from axe_nb.results import RunStopped, Status, is_below, order_of, run_of, turn_of
from axe_nb.secrets import MASK
from axe_nb.tools.tool import ToolOutput

APPROVING = ("yes", "always", "edit")

PATIENCE = 5.0
"""Seconds for which a replay waits, without progress, for outstanding recorded requests before it
ends the tree with the recorded cancellation or timeout."""

QUIET = 0.1
"""Seconds between checks for progress in a tree that a replay is about to cancel."""


class RootTape:
    """Replays and records a run tree with a cassette. Implements `engine.replay.Replay`."""

    def __init__(
        self, cassette: Cassette, mode: Mode, on_claim: Callable[[], None] | None = None
    ) -> None:
        """Creates the tape of a run tree; calls `on_claim` when a request's records are chosen."""
        self.cassette = cassette
        self.mode = mode
        self.may_ask = mode != "replay"
        """True if models and the user may be asked for anything that is not recorded."""
        self.has_asked = False
        """True once a model has been asked for a reply that is not recorded."""
        self._on_claim = on_claim or (lambda: None)
        self._plays = mode in ("replay", "auto")
        self._clean = cassette.make_cleaner()
        self._source: Root | None = None
        """The root whose records are replayed."""
        self._target: Root | None = None
        """The root that receives new records."""
        self._describers: dict[str, Describer] = {}
        """Describers of requests, keyed by run id."""
        self._changed_at: dict[str, int] = {}
        """Maps each run to its first turn that could not be replayed."""
        self._new: dict[Key, Record] = {}
        self._played: dict[Key, Record] = {}
        self._misses: list[tuple[str, CassetteMiss]] = []
        self._steps = 0

    @property
    def _records(self) -> Mapping[Key, Record]:
        return self._source.records if self._plays and self._source else {}

    def holds(self, place: str, has_cap: Callable[[str], bool]) -> bool:
        if refusal := self._find_refusal(place, 1, has_cap):
            raise refusal
        return ("model", f"{run_of(place)}/{turn_of(place) or 1}", 1) in self._records

    async def find(self, asked: Asked) -> Outcome | None:
        match asked:
            case AskedTurn():
                return self._find_turn(asked)
            case ApprovalRequest() | Step():
                return self._find_decision(asked)
            case PendingCall():  # only of tools with `record=True`
                self._steps += 1
                record = self._records.get(("tool", asked.run, asked.number))
                if record and is_same(record.asked, self._describe_call(asked)):
                    self._use(record)
                    kept = self._clean.restore(dict(record.outcome["output"]))
                    return from_json(ToolOutput, kept)
                if not self.may_ask and (end := self._records.get(END)):
                    self._use(end)
                    cut = end.outcome["cut"]
                    raise RunStopped(cut, f"{cut}, as it was recorded")
                if not self.may_ask:
                    what = f"the result of {asked.tool.name}, which a replay does not run"
                    raise self._miss_other(asked.run, "", what)
        return None

    def keep(self, asked: Asked, outcome: Outcome) -> None:
        match asked, outcome:
            case AskedTurn(), KeptTurn():
                self._keep_turn(asked, outcome)
            case PendingCall(), ToolOutput():
                key: Key = ("tool", asked.run, asked.number)
                if key not in self._played:
                    kept = to_json(outcome, self._clean)
                    self._add(key, "", self._describe_call(asked), {"output": kept})
            case str(), RunStopped():
                self._keep_refusal(asked, 1, outcome)
            case ApprovalRequest() | Step(), Decision():
                self._keep_decision(asked, outcome)

    def answers(self, kind: Literal["step", "question"]) -> bool:
        if kind == "question":
            return any(key[0] == "person" for key in self._records)
        return self._plays and any(_is_step(one) for _, one in self.cassette.list_records())

    def _find_turn(self, asked: AskedTurn) -> KeptTurn | None:
        request = asked.request
        self._steps += 1
        if below := [miss for miss in self._misses if is_below(miss[0], request.place)]:
            # the run continues with a failure; reports the first miss, whatever the timing
            raise copy(min(below, key=lambda miss: (order_of(miss[0]), run_of(miss[0])))[1])
        described = self._describe(asked)
        self._on_claim()
        if attempts := self._find_attempts(asked, described):
            refusal = self._find_refusal(request.place, len(attempts) + 1)
            return KeptTurn(attempts, refusal, self.wait_until_quiet)
        self._changed_at.setdefault(run_of(request.place), turn_of(request.place))
        self.cassette.misses += 1
        if not self.may_ask:
            raise self._miss(request.place, self._describe_miss(request, described))
        self.has_asked = True
        return None

    def _describe_miss(self, request: Request, asked: Description) -> str:
        assert self._source is not None
        model = asked.get("model") or request.model
        name = f"agent {request.agent}" if request.agent else f"model {model}"
        record = self._source.records.get(("model", request.place, request.attempt))
        if record and isinstance(record.asked, dict):
            interrupted = "its recording was interrupted by a person"
            why = next(list_changes(record.asked, asked), interrupted)
        elif not self.cassette.recorded and not os.path.exists(self.cassette.path):  # noqa: PTH110  Path raises
            why = "the file does not exist"
        else:
            why = "nothing more is recorded for this request"
        return f"has no answer for {name} at {request.place}: {why}"

    def _describe(self, asked: AskedTurn) -> Description:
        """Returns a request's description. A tree's first request selects the records to replay."""
        request = asked.request
        run = self._describers.setdefault(run_of(request.place), Describer(self._clean))
        described = run.describe(request, asked.model)
        if self._source is None:
            self._source, self._target = self.cassette.claim(described, request.agent)
        return described

    def _find_attempts(self, asked: AskedTurn, described: Description) -> Sequence[Exchange]:
        """Returns a turn's recorded attempts and marks them as used; empty if none is replayed."""
        place, turn, attempts = asked.request.place, turn_of(asked.request.place), list[Exchange]()
        keys: Iterator[Key] = (("model", place, number) for number in count(1))
        records = [one for one in takewhile(bool, map(self._records.get, keys)) if one]
        end = None if self.may_ask or turn == 1 else self._records.get(END)
        if run_of(place) in self._changed_at or not (records or end):
            return ()
        if records and not is_same(records[0].asked, described):
            return ()
        for record in records:
            exchange = decode(record.outcome, turn, record.number, self._clean)
            protocol = exchange.protocol or asked.model.partition("/")[0]
            attempts.append(replace(exchange, protocol=protocol))
        last = attempts[-1] if attempts else None
        if last is not None and self.may_ask and has_failed(last):
            return ()  # the request may succeed now
        if end and (last is None or (has_failed(last) and not last.cut and not last.was_last)):
            records.append(end)
            attempts.append(decode(end.outcome, turn, len(records)))
        for record in records:
            self._use(record)
            self.cassette.hits += record.kind == "model"
        return attempts

    def _find_refusal(
        self, place: str, attempt: int, has_cap: Callable[[str], bool] = lambda cap: True
    ) -> RunStopped | None:
        record = self._records.get(("cap", place, attempt))
        kept = self._clean.restore(dict(record.outcome["refused"])) if record else {}
        cap = str(kept.get("cap", ""))
        if record is None or not has_cap(cap):
            return None
        self._use(record)
        status: Status = "max_tokens" if kept.get("status") == "max_tokens" else "error"
        return RunStopped(status, str(kept.get("error", "")), cap)

    def _keep_refusal(self, place: str, attempt: int, stop: RunStopped) -> None:
        key: Key = ("cap", place, attempt)
        if stop.cap and key not in self._played:
            kept = {"cap": stop.cap, "status": stop.status, "error": self._clean.text(str(stop))}
            self._add(key, "", None, {"refused": kept})

    def _keep_turn(self, asked: AskedTurn, turn: KeptTurn) -> None:
        self._steps += 1
        request, described = asked.request, self._describe(asked)
        if self._find_attempts(asked, described) or not self.may_ask:
            return
        for exchange in turn.attempts:
            key: Key = ("model", request.place, exchange.attempt)
            if key not in self._played and END not in self._played:
                own = asked.model.startswith(f"{exchange.protocol}/")
                outcome = encode(replace(exchange, protocol="") if own else exchange, self._clean)
                new = described if exchange.attempt == 1 else None
                self._add(key, request.agent, new, outcome)
        if turn.refusal is not None:
            self._keep_refusal(request.place, len(turn.attempts) + 1, turn.refusal)

    def _find_decision(self, question: Question) -> Decision | None:
        if isinstance(question, Step) and question.request is not None:
            self._describe(AskedTurn(question.request, question.model))
        asked = self._describe_question(question)
        listed = sorted(self._records.items(), key=lambda item: item[0][2])
        for key, record in listed:
            if key[:2] != ("person", question.run) or key in self._played:
                continue
            if isinstance(question, Step) or not question.tool:
                if is_same(record.asked, asked):
                    break
            # an approval of a masked call is only valid for the same secret
            elif (record.asked == asked and MASK not in f"{asked}") or (
                self._clean.restore(record.asked) == _state(question)
            ):
                break
        else:
            if isinstance(question, Step) and any(_has_chosen(one, "end") for _, one in listed):
                return Decision("go", is_recorded=True)
            if not self.may_ask:
                missing = self._describe_missing(question)
                raise self._miss_other(question.run, question.agent, missing)
            return None
        if self.may_ask and _has_chosen(record, "stop"):  # the person may want to go on now
            return None
        said = self._clean.restore(dict(record.outcome["decision"]))
        if not isinstance(question, Step) and said.get("choice") in APPROVING:
            # an approval counts only on the machine where it was given
            is_trusted = trusts_all() or is_test()
            if not is_trusted and self._fingerprint(question, said) not in load_trusted():
                if self.may_ask:
                    return None
                raise self._miss_other(
                    question.run, question.agent,
                    f"an approval of {question.tool} by this user",
                    f"set {VARIABLE}=1 if you trust whoever recorded it",
                )  # fmt: skip
        self._use(record)
        return replace(from_json(Decision, said), is_recorded=True)

    def _keep_decision(self, question: Question, decision: Decision) -> None:
        """Records a decision; if it answers or skips a model request, also records the turn."""
        if isinstance(question, Step) and (given := make_decided(question, decision)):
            assert question.request is not None
            asked = AskedTurn(question.request, question.model)
            if not self._find_turn(asked):
                self._keep_turn(asked, KeptTurn([given]))
        # a stop can only be replayed if the first request, by which the root is found, is recorded
        can_stop = isinstance(question, Step) and BEGINNING in {**self._new, **self._played}
        if decision.is_recorded or (decision.choice == "stop" and not can_stop):
            return
        said = to_json(decision)  # contains secrets
        asked_as = self._describe_question(question)
        keys: Iterator[Key] = (("person", question.run, number) for number in count(1))
        key = next(key for key in keys if key not in self._new and key not in self._records)
        self._add(key, question.agent, asked_as, {"decision": self._clean.json(said)})
        if not isinstance(question, Step) and said["choice"] in APPROVING:
            with contextlib.suppress(ConfigError):  # the person will be asked again
                remember_trust(self._fingerprint(question, said))

    def _describe_call(self, asked: PendingCall) -> dict[str, Any]:
        return {"tool": asked.tool.name, "arguments": self._clean.json(jsonable(asked.arguments))}

    async def wait_until_quiet(self, run: str) -> None:
        steps, since, has_more = -1, 0.0, True
        while steps != self._steps or (has_more and since < PATIENCE):
            since = since + QUIET if steps == self._steps else 0.0
            steps = self._steps
            await asyncio.sleep(QUIET)
            left = self._records.keys() - self._played.keys()
            has_more = any(kind == "model" and is_below(place, run) for kind, place, _ in left)

    def finish(self, status: Status) -> Sequence[str]:
        if self._target is None or not self.may_ask:
            return ()
        cuts = set()
        for record in self._new.values():
            kept = self._clean.clean_again(record.outcome)  # a tool may have set a secret
            if kept.get("cut") == "cancelled" and status != "cancelled":
                kept = {**kept, "cut": "abandoned"}
            cuts.add(kept.get("cut"))
            record.outcome, record.asked = kept, self._clean.clean_again(record.asked)
        if status in ("timeout", "cancelled") and status not in cuts and self._new:
            self._add(END, "", None, {"cut": status})
        old, new = self._target.records, self._new
        failed, had = list_failed(new.values()), list_failed(old.values())
        answered = {one.place for one in old.values() if one.kind == "model"} - had
        was_whole = bool(old) and not had and END not in old
        if failed & answered or (new and was_whole and status in ("error", "timeout", "cancelled")):
            # a failure never replaces an answer; records of other places are added all the same
            for record in old.values():
                record.is_used = True
            places = {record.place for record in old.values()}
            added = [one for one in new.values() if self._plays and one.place not in places]
            added = [one for one in added if one.kind != "end"]
            shown = self.cassette.shown
            kept = f"{shown} keeps the earlier recording of this run, as it failed this time"
            return [self.cassette.commit(self._target, added, ()) or ("" if self._plays else kept)]
        stale = []
        for record in old.values():
            at = self._changed_at.get(run_of(record.place))
            is_other = record.key not in new and record.key not in self._played
            is_late = record.kind == "model" and at is not None and turn_of(record.place) >= at
            follows = record.kind in ("end", "cap") and bool(new)
            if is_other and (is_late or follows or self.mode == "record"):
                stale.append(record)  # the run has sent other requests
        if self._source is not self._target:
            new = {**self._played, **new}
        return [self.cassette.commit(self._target, new.values(), stale)]

    def _use(self, record: Record) -> None:
        if self._source is not self._target:
            record = replace(record)  # the record of the other run stays unused
        record.is_used, self._played[record.key] = True, record

    def _add(self, key: Key, agent: str, asked: Any, outcome: Mapping[str, Any]) -> None:
        kind, place, number = key
        self._new[key] = Record(
            kind=kind, place=place, number=number, agent=agent, asked=asked, outcome=outcome,
            is_used=True,
        )  # fmt: skip
        self.cassette.recorded += kind not in ("end", "cap")

    def _miss_other(self, run: str, agent: str, what: str, hint: str = "") -> CassetteMiss:
        who = f"agent {agent}, at {run}" if agent else f"at {run}"
        return self._miss(f"{run}/0", f"lacks {what} ({who})", hint)

    def _miss(self, place: str, what: str, hint: str = "") -> CassetteMiss:
        miss = CassetteMiss(
            f"cassette {self.cassette.shown} {what}", hint=hint or self.cassette.how_to_record
        )
        self._misses.append((place, miss))
        self.cassette.missed.append(miss)
        return miss

    def _describe_question(self, question: Question) -> dict[str, Any]:
        if not isinstance(question, Step):
            cleaned: dict[str, Any] = self._clean.json(_state(question))
            return cleaned
        if question.kind != "call":
            return {"step": question.kind, "turn": question.turn}
        arguments = self._clean.json(jsonable(question.given))
        return {
            "step": "call", "call": question.number, "tool": question.tool, "arguments": arguments,
        }  # fmt: skip

    def _describe_missing(self, question: Question) -> str:
        if not isinstance(question, Step):
            about = question.detail if not question.tool else f"may {question.tool} run?"
            return f"the person's answer to: {about}"
        asked = self._describe_question(question)
        if question.kind != "call":
            when = "before" if question.kind == "request" else "about the reply of"
            return f"the person's decision {when} turn {question.turn}"
        what = f"the person's decision before call {question.number}, {question.tool}"
        for record in self._records.values():
            had = record.asked
            is_at_run = _is_step(record) and record.place == question.run
            if is_at_run and had.get("call") == question.number:
                name = "arguments" if had.get("tool") == question.tool else "tool"
                return f"{what}: its {name} changed{describe_change(had.get(name), asked[name])}"
        return what

    def _fingerprint(self, request: ApprovalRequest, decision: Mapping[str, Any]) -> str:
        """Returns a digest of an approval, secrets included, for the list of trusted approvals."""
        where = [request.agent, request.workdir]
        path = os.path.realpath(self.cassette.path)
        content = json.dumps(["cassette", path, where, _state(request), decision], sort_keys=True)
        return f"approval {hashlib.sha256(content.encode()).hexdigest()}"


def _is_step(record: Record) -> bool:
    return record.kind == "person" and isinstance(record.asked, dict) and "step" in record.asked


def _has_chosen(record: Record, choice: str) -> bool:
    return _is_step(record) and record.outcome["decision"].get("choice") == choice


def _state(request: ApprovalRequest) -> dict[str, Any]:
    """Returns the call or question of an approval. It contains secrets: never record it."""
    if not request.tool:
        return {"question": request.detail}
    return {"tool": request.tool, "arguments": jsonable(request.arguments)}
