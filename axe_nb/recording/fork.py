"""A fork while it runs: what each of its requests and calls takes from the run that it forks.

Up to the place, the runs on the way to it are what they were. Elsewhere a run is the recorded one
for as long as it is asked the same; what is asked otherwise, and what follows from it, is live.
Source: D-53, D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

from axe_nb.agents.agent import Agent
from axe_nb.engine.person import make_given
from axe_nb.engine.replay import (
    Asked,
    AskedCall,
    AskedTurn,
    KeptCall,
    KeptTurn,
    Outcome,
    run_of,
    turn_of,
)
from axe_nb.messages import INTERRUPTED, Message, ToolResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.fork_point import ForkPoint, RecordedRun
from axe_nb.recording.same_request import Describer, Description, is_same
from axe_nb.recording.shared_file import digest
from axe_nb.results import RunResult, Status
from axe_nb.secrets import MASK, find_filter
from axe_nb.text import quote
from axe_nb.tools.tool import Job, Opening


def move_run(run: RunResult, before: str, now: str) -> RunResult:
    """Returns a run with all below it, marked as recorded, below another id.

    Args:
        run: the run.
        before: id of the run above it, in the tree that it is taken from.
        now: the id of that run in the new tree.
    """
    id = f"{now}{run.id.removeprefix(before)}"
    task = {"task_id": id} if "task_id" in run.metadata else {}
    return replace(
        run,
        id=id,
        metadata={**run.metadata, **task},
        log=tuple(replace(turn, source="recorded") for turn in run.log),
        exchanges=tuple(replace(one, source="recorded") for one in run.exchanges),
        children=tuple(move_run(child, before, now) for child in run.children),
    )


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
    asked: Description = field(default_factory=dict)


class Fork:
    """The replay of a finished run by a tree that forks it."""

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
        """Returns the agent and the job of a child that is about to start, with its changes."""
        had = run if run in self._way else self._find_alike(run, agent, job)
        if had in self._earlier:
            self.changed[run] = agent = self._earlier[had]
        if run == self._point.run.id:
            agent, job = self._adapt(agent, job)
            self.changed[run] = agent
        return agent, self.open(run, job)

    def open(self, run: str, job: Job) -> Job:
        """Returns the job of a run with its prompt and conversation up to the place."""
        if run not in self._way:
            return job
        result = self._recorded[run].result
        had = Illustrated(result.prompt, result.pictures)
        is_changed = self._is_place(run, 1) and self._point.prompt
        return replace(
            job, asked=None if is_changed else had, open_turn=partial(self._open_turn, run)
        )

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

    def _is_place(self, run: str, turn: int) -> bool:
        return run == self._point.run.id and turn == self._point.turn

    def _open_turn(self, run: str, turn: int) -> Opening | None:
        """Returns the conversation before a turn up to the place; None = as the run has it."""
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

    def holds(self, place: str, has_cap: Callable[[str], bool]) -> bool:
        """See `Replay`."""
        id, turn = run_of(place), turn_of(place) or 1
        if self._is_changed_turn(id, turn):
            return self._is_place(id, turn) and self._point.reply is not None
        run = self._runs.get(id)
        recorded = self._recorded.get(id) if run is None else run.recorded
        if recorded is None or (run is not None and run.is_live):
            return False
        return recorded.find(turn) is not None

    def _is_changed_turn(self, run: str, turn: int) -> bool:
        """True for the turns of the run at the place that it does not repeat."""
        return run == self._point.run.id and turn > self._way[run][0]

    async def find(self, asked: Asked) -> Outcome | None:
        """See `Replay`."""
        match asked:
            case AskedTurn():
                return self._find_turn(asked)
            case AskedCall():
                return self._find_call(asked)
        return None

    def keep(self, asked: Asked, outcome: Outcome) -> None:
        """Keeps nothing: the result of the new tree has it."""

    def answers(self, kind: Literal["step", "question"]) -> bool:
        """See `Replay`."""
        return False

    def _find_turn(self, asked: AskedTurn) -> KeptTurn | None:
        request = asked.request
        id, turn = run_of(request.place), turn_of(request.place)
        run = self._runs.setdefault(id, _Run(Describer(self._clean)))
        if run.is_live:
            return None
        run.asked = run.describer.describe(request, asked.model)
        if run.recorded is None:
            run.recorded = self._claim(id, run.asked, request.agent)
        self._is_reached = self._is_reached or self._is_place(id, turn)
        if self._is_changed_turn(id, turn):
            run.is_live = True
            given = self._point.reply if self._is_place(id, turn) else None
            return KeptTurn([make_given(request, turn, given)]) if given else None
        recorded = run.recorded
        is_before = id in self._way and turn <= self._way[id][0]
        if (
            recorded is None
            or recorded.find(turn) is None
            or not (is_before or is_same(recorded.get_asked(turn), run.asked))
        ):
            run.is_live = True
            return None
        run.kept.add(turn)
        return KeptTurn(list(map(recorded.keep, recorded.list_attempts(turn))))

    def _claim(self, id: str, asked: Description, agent: str) -> RecordedRun | None:
        """Returns the recorded run that a new run is: its own place first; each is one run only."""
        if id in self._way:
            return self._recorded[id]
        exact = self._by_first_request.get((agent, digest(asked)), {})
        found = self._take_free(id, exact)
        if found is None:  # one that was asked so, but for a secret
            masked = (run for run in self._masked if run.result.agent == agent)
            alike = {r.result.id: r for r in masked if is_same(r.get_asked(1), asked)}
            found = self._take_free(id, alike)
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

    @cached_property
    def _masked(self) -> Sequence[RecordedRun]:
        """Runs whose first requests had secrets."""
        asked = (run for run in self._recorded.values() if run.find(1) is not None)
        return [run for run in asked if MASK in f"{run.get_asked(1)}"]

    def _find_call(self, asked: AskedCall) -> KeptCall | None:
        known = self._runs.get(asked.run)
        if known is None or known.recorded is None or asked.turn not in known.kept:
            return None
        recorded, kept = known.recorded, self._list_kept(known.recorded, asked.turn)
        had = recorded.list_calls(asked.turn)
        if len(had) != asked.count:
            return None
        for one in had:  # a call that is made again may not claim them
            if one.id in kept:
                for child in self._list_children(recorded, asked.turn, one.id):
                    self._used.update(below.id for below in child.walk())
        one = had[asked.index]
        if one.id not in kept:
            return None
        before, children = recorded.result.id, self._list_children(recorded, asked.turn, one.id)
        for below in (below for child in children for below in child.walk()):
            if below.id in self._earlier:
                now = f"{asked.run}{below.id.removeprefix(before)}"
                self.changed[now] = self._earlier[below.id]
        moved = (move_run(child, before, asked.run) for child in children)
        return KeptCall(
            result=replace(kept[one.id], call_id=asked.call_id),
            children=tuple(replace(child, call_id=asked.call_id) for child in moved),
            files_read=recorded.result.files_read,
            files_modified=recorded.result.files_modified,
        )

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

    def finish(self, status: Status) -> Sequence[str]:
        """See `Replay`."""
        warnings = [
            f"tool {quote(tool)} was run again because it starts {run}, on the way to {self.place}"
            for tool, run in self._made_again.items()
        ]
        if status == "completed" and not self._is_reached:
            why = "the calls that lead there took a different path"
            warnings.append(f"the fork did not reach {self.place}: {why}")
        return warnings
