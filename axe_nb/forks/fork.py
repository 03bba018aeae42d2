"""A fork while it runs: what each of its requests and calls takes from the run that it forks.

Up to the place, the runs on the way to it are what they were. Elsewhere a run is the recorded one
for as long as it is asked the same; what is asked otherwise, and what follows from it, is live.
Source: D-53, D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from axe_nb.agents.agent import Agent
from axe_nb.engine.given import make_given
from axe_nb.engine.origin import KeptCall, Opening
from axe_nb.exchanges import Exchange
from axe_nb.forks.moved import move_run
from axe_nb.forks.point import ForkPoint
from axe_nb.forks.recorded import RecordedRun
from axe_nb.messages import INTERRUPTED, Message, Request, ToolCall, ToolResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.asked import Asked, Describer, is_same
from axe_nb.recording.place import run_of, turn_of
from axe_nb.recording.shared_file import digest
from axe_nb.redaction import MASK, find_filter
from axe_nb.results import RunResult, Status
from axe_nb.text import quote
from axe_nb.tools.tool import Job

Adapt = Callable[[Agent, Job], tuple[Agent, Job]]
"""Agent and job of the run at the place → the same with its changes."""


@dataclass
class _Run:
    """One run of the new tree."""

    describer: Describer
    recorded: RecordedRun | None = None
    """The run that it is, for as long as it is asked the same."""
    is_live: bool = False
    """True from its first request on that is sent."""
    kept: set[int] = field(default_factory=set)
    """Turns whose calls are not made again."""
    asked: Asked = field(default_factory=dict)


class Fork:
    """Implements `engine.origin.Origin` with a finished run."""

    def __init__(self, point: ForkPoint, adapt: Adapt, earlier: Mapping[str, Agent]) -> None:
        """Creates the fork.

        Args:
            point: its place and changes.
            adapt: changes the run at the place, unless that is the root.
            earlier: id of a run → its agent, as earlier forks changed it.
        """
        self._point = point
        self._adapt = adapt
        self._earlier = earlier
        self._clean = find_filter()
        self.place = point.place
        self.changed: dict[str, Agent] = {}
        self._recorded = {run.id: RecordedRun(run, self._clean) for run in point.root.walk()}
        self._runs: dict[str, _Run] = {}
        self._is_reached = False
        self._way: dict[str, tuple[int, str]] = {}
        """Run on the way to the place → the last turn that it repeats, and the call there that
        leads on; none for the run of the place."""
        self._used: set[str] = set()
        """Recorded runs that are in the new tree already, or will be."""
        self._alike: set[str] = set()
        """Recorded runs whose agents new runs have."""
        self._made_again: dict[str, str] = {}
        """Tool of the user's on the way to the place → the run there that it started."""
        self._find_way()

    def _find_way(self) -> None:
        point, id = self._point, self._point.run.id
        self._way[id] = (point.turn if point.keeps_reply else point.turn - 1, "")
        while (above := id.rpartition(".")[0]) and above in self._recorded:
            run, call_id = self._recorded[above], self._recorded[id].result.call_id
            self._way[above] = turn, _ = run.find_call_turn(call_id), call_id
            for call in run.list_calls(turn):
                if call.id == call_id and not call.traits.delegates:
                    self._made_again[call.name] = id
            id = above
        for id, (last, _) in self._way.items():
            run = self._recorded[id]
            self._used.add(id)
            for turn in (turn for turn in run.sent if turn <= last):
                for call_id in self._list_kept(run, turn):
                    for child in self._list_children(run, turn, call_id):
                        self._used.update(below.id for below in child.walk())

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """See `Origin`."""
        had = run if run in self._way else self._find_alike(run, agent, job)
        if had in self._earlier:
            self.changed[run] = agent = self._earlier[had]
        if run == self._point.run.id:
            agent, job = self._adapt(agent, job)
            self.changed[run] = agent
        return agent, job

    def _find_alike(self, run: str, agent: Agent, job: Job) -> str:
        """Returns the id of the recorded run that had a child's agent and task; "" = none had.

        Its own place first; else one that an earlier fork changed, wherever that was.
        """
        asked = agent.name, job.task or job.prompt
        for id in (run, *self._earlier):
            had = self._recorded.get(id)
            is_free = had is not None and id not in self._used and id not in self._alike
            if had and is_free and (had.result.agent, had.result.task) == asked:
                self._alike.add(id)
                return id
        return ""

    def find_prompt(self, run: str) -> Illustrated | None:
        """See `Origin`."""
        if run not in self._way or (self._is_place(run, 1) and self._point.prompt):
            return None
        result = self._recorded[run].result
        return Illustrated(result.prompt, result.pictures)

    def _is_place(self, run: str, turn: int) -> bool:
        return run == self._point.run.id and turn == self._point.turn

    def open_turn(self, run: str, turn: int) -> Opening | None:
        """See `Origin`."""
        if run not in self._way:
            return None
        said = self._point.prompt
        if self._is_place(run, turn):
            if said is None:
                return self._recorded[run].open_turn(turn)
            if turn == 1:
                return None  # it replaces the prompt
            message = Message("user", said.text, pictures=said.pictures)
            before = self._recorded[run].open_turn(turn).messages
            return Opening(messages=(*before, message), said=said.text)
        return self._recorded[run].open_turn(turn) if turn <= self._way[run][0] else None

    def holds(self, place: str, attempt: int) -> bool:
        """See `Origin`."""
        id, turn = run_of(place), turn_of(place) or 1
        if self._is_changed_turn(id, turn):
            return self._is_place(id, turn) and self._point.reply is not None
        run = self._runs.get(id)
        recorded = self._recorded.get(id) if run is None else run.recorded
        if recorded is None or (run is not None and run.is_live):
            return False
        return recorded.find(turn, attempt) is not None

    def _is_changed_turn(self, run: str, turn: int) -> bool:
        """True for the turns of the run at the place that it does not repeat."""
        return run == self._point.run.id and turn > self._way[run][0]

    def find(self, request: Request, model: str) -> Exchange | None:
        """See `Origin`."""
        id, turn = run_of(request.place), turn_of(request.place)
        run = self._runs.setdefault(id, _Run(Describer(self._clean)))
        if run.is_live:
            return None
        if request.attempt == 1:
            run.asked = run.describer.describe(request, model)
        if run.recorded is None:
            run.recorded = self._claim(id, run.asked, request.agent)
        self._is_reached = self._is_reached or self._is_place(id, turn)
        if self._is_changed_turn(id, turn):
            run.is_live = True
            given = self._point.reply if self._is_place(id, turn) else None
            return make_given(request, turn, given) if given else None
        exchange = self._find_same(run, id, turn, request.attempt)
        if exchange is None or run.recorded is None:
            run.is_live = True
            return None
        run.kept.add(turn)
        return run.recorded.keep(exchange)

    def _find_same(self, run: _Run, id: str, turn: int, attempt: int) -> Exchange | None:
        """Returns the recorded exchange of a turn that is asked the same."""
        exchange = run.recorded.find(turn, attempt) if run.recorded else None
        if exchange is None or run.recorded is None:
            return None
        is_before = id in self._way and turn <= self._way[id][0]
        if is_before or attempt > 1 or is_same(run.recorded.get_asked(turn), run.asked):
            return exchange
        return None

    def _claim(self, id: str, asked: Asked, agent: str) -> RecordedRun | None:
        """Returns the recorded run that a new run is: its own place first; each is one run only."""
        if id in self._way:
            return self._recorded[id]
        exact = self._by_first_request.get((agent, digest(asked)), {})
        found = self._take_free(id, exact) or self._take_free(id, self._find_masked(agent, asked))
        if found is not None:
            self._used.add(found.result.id)
        return found

    def _take_free(self, id: str, alike: dict[str, RecordedRun]) -> RecordedRun | None:
        """Takes out a run that is not in the new tree yet; None = all are."""
        while alike:
            found = alike.pop(id if id in alike else next(iter(alike)))
            if found.result.id not in self._used:
                return found
        return None

    @cached_property
    def _by_first_request(self) -> Mapping[tuple[str, str], dict[str, RecordedRun]]:
        """(agent, digest of its first request) → id → the runs that were asked so."""
        found: dict[tuple[str, str], dict[str, RecordedRun]] = {}
        for id, run in self._recorded.items():
            if run.find(1) is not None:
                found.setdefault((run.result.agent, digest(run.get_asked(1))), {})[id] = run
        return found

    def _find_masked(self, agent: str, asked: Asked) -> dict[str, RecordedRun]:
        """Returns the runs that were asked so, but for a secret; by id."""
        return {
            run.result.id: run
            for run in self._masked
            if run.result.agent == agent and is_same(run.get_asked(1), asked)
        }

    @cached_property
    def _masked(self) -> Sequence[RecordedRun]:
        """Runs whose first requests had secrets."""
        asked = (run for run in self._recorded.values() if run.find(1) is not None)
        return [run for run in asked if MASK in f"{run.get_asked(1)}"]

    def find_calls(
        self, run: str, turn: int, calls: Sequence[ToolCall]
    ) -> Sequence[KeptCall | None]:
        """See `Origin`."""
        known = self._runs.get(run)
        if known is None or known.recorded is None or turn not in known.kept:
            return ()
        recorded, kept = known.recorded, self._list_kept(known.recorded, turn)
        had = recorded.list_calls(turn)
        if len(had) != len(calls):
            return ()
        return [
            KeptCall(
                result=replace(kept[one.id], call_id=call.id),
                children=tuple(
                    replace(self._move(child, recorded.result.id, run), call_id=call.id)
                    for child in self._list_children(recorded, turn, one.id)
                ),
                files_read=recorded.result.files_read,
                files_modified=recorded.result.files_modified,
            )
            if one.id in kept
            else None
            for one, call in zip(had, calls, strict=True)
        ]

    def _list_kept(self, run: RecordedRun, turn: int) -> Mapping[str, ToolResult]:
        """Returns id of a call of a turn → its result, if the call is not made again.

        It is made if it leads to the place, or has no result to go on from.
        """
        kept, point = dict(run.find_results(turn)), self._point
        if run.result.id == point.run.id and turn < point.turn:
            for call in run.list_calls(turn):
                result = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
                kept.setdefault(call.id, result)
        if self._is_place(run.result.id, turn):
            kept.update(point.results)
        if turn == self._way.get(run.result.id, (0, ""))[0]:
            kept.pop(self._way[run.result.id][1], None)
        return kept

    def _list_children(self, run: RecordedRun, turn: int, call_id: str) -> Sequence[RunResult]:
        """Returns the runs that a call which is not made again had started; given, it has none."""
        if self._is_place(run.result.id, turn) and call_id in self._point.results:
            return ()
        return run.list_children(call_id)

    def _move(self, child: RunResult, before: str, now: str) -> RunResult:
        for below in child.walk():
            self._used.add(below.id)
            if below.id in self._earlier:
                self.changed[f"{now}{below.id.removeprefix(before)}"] = self._earlier[below.id]
        return move_run(child, before, now)

    def finish(self, status: Status) -> Iterator[str]:
        """See `Origin`."""
        for tool, run in self._made_again.items():
            why = f"it starts {run}, on the way to {self.place}"
            yield f"tool {quote(tool)} was run again because {why}"
        if status == "completed" and not self._is_reached:
            why = "the calls that lead there took a different path"
            yield f"the fork did not reach {self.place}: {why}"
