"""A fork while it runs: what each of its requests and calls takes from the run that it forks.

Up to the place, the runs on the way to it are what they were. Elsewhere a run is the recorded one
for as long as it is asked the same; what is asked otherwise, and what follows from it, is live.
Source: D-53, D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from axe_nb.pictures.parts import Illustrated
from axe_nb.recording.asked import Asked, Describer, is_same
from axe_nb.recording.place import run_of, turn_of
from axe_nb.recording.shared_file import digest
from axe_nb.redaction import MASK, find_filter
from axe_nb.results import RunResult
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
        self._find_way()

    def _find_way(self) -> None:
        point, id = self._point, self._point.run.id
        self._way[id] = (point.turn if point.keeps_reply else point.turn - 1, "")
        while (above := id.rpartition(".")[0]) and above in self._recorded:
            call_id = self._recorded[id].result.call_id
            self._way[above] = self._recorded[above].find_call_turn(call_id), call_id
            id = above
        for id, (last, leads_on) in self._way.items():
            run = self._recorded[id]
            self._used.add(id)
            for child in run.result.children:
                if child.call_id != leads_on and run.find_call_turn(child.call_id) <= last:
                    self._used.update(below.id for below in child.walk())

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """See `Origin`."""
        had = self._earlier.get(run)
        if had is not None and had.name == agent.name:
            agent = had
        if run == self._point.run.id:
            agent, job = self._adapt(agent, job)
            self.changed[run] = agent
        return agent, job

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
        key = agent, digest(asked)
        alike = [run for run in self._by_first_request.get(key, ()) if self._is_free(run)]
        alike = alike or [
            run
            for run in self._masked
            if run.result.agent == agent and self._is_free(run) and is_same(run.get_asked(1), asked)
        ]
        found = next((run for run in alike if run.result.id == id), None) or next(iter(alike), None)
        if found is not None:
            self._used.add(found.result.id)
        return found

    def _is_free(self, run: RecordedRun) -> bool:
        return run.result.id not in self._used

    @cached_property
    def _by_first_request(self) -> Mapping[tuple[str, str], Sequence[RecordedRun]]:
        """(agent, digest of its first request) → the runs that were asked so."""
        found: dict[tuple[str, str], list[RecordedRun]] = {}
        for run in self._recorded.values():
            if run.find(1) is not None:
                key = run.result.agent, digest(run.get_asked(1))
                found.setdefault(key, []).append(run)
        return found

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
        recorded, results = known.recorded, known.recorded.find_results(turn)
        had = recorded.list_calls(turn)
        if len(had) != len(calls):
            return ()
        pairs = zip(had, calls, strict=True)
        return [self._find_call(run, turn, recorded, results, *pair) for pair in pairs]

    def _find_call(
        self,
        run: str,
        turn: int,
        recorded: RecordedRun,
        results: Mapping[str, ToolResult],
        had: ToolCall,
        call: ToolCall,
    ) -> KeptCall | None:
        """Returns the outcome of one call; None = it leads to the place, or has no result."""
        if run in self._way and self._way[run] == (turn, had.id):
            return None
        is_place = self._is_place(run, turn)
        if is_place and had.id in self._point.results:
            return KeptCall(result=replace(self._point.results[had.id], call_id=call.id))
        result = results.get(had.id)
        if result is None:
            if run != self._point.run.id or is_place:
                return None
            result = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
        children = (self._move(child, recorded.result.id, run) for child in
                    recorded.list_children(had.id))  # fmt: skip
        return KeptCall(
            result=replace(result, call_id=call.id),
            children=tuple(replace(child, call_id=call.id) for child in children),
            files_read=recorded.result.files_read,
            files_modified=recorded.result.files_modified,
        )

    def _move(self, child: RunResult, before: str, now: str) -> RunResult:
        self._used.update(below.id for below in child.walk())
        return move_run(child, before, now)

    def finish(self) -> str:
        """See `Origin`."""
        if self._is_reached:
            return ""
        return f"the fork did not reach {self.place}: the calls that lead there took another path"
