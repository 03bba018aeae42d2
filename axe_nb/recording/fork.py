"""Forks: the place and its changes, and the outcomes that are taken from the recorded tree.

Up to the place, the runs on the way to it are replayed. Elsewhere a run is replayed as long as its
requests are the recorded ones; a different request, and all that follows from it, is live. Source:
D-53, D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count, takewhile
from typing import Any, Literal

from axe_nb.agents.agent import Agent
from axe_nb.conversion.own_text import MAX_SHOWN, shown_value
from axe_nb.engine.dispatch import is_refused
from axe_nb.engine.person import make_given, make_reply
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
from axe_nb.errors import ConfigError, words
from axe_nb.messages import INTERRUPTED, Message, Response, ToolCall, ToolResult, close_open_calls
from axe_nb.messages.exchanges import Exchange
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.find_exchange import count_earlier, find_turn, make_turn_error
from axe_nb.recording.same_request import Describer, Description, digest, is_same
from axe_nb.results import RunResult, Status, name_run
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import cut_chars, list_some, quote
from axe_nb.tools.tool import Job, Opening, ToolError, ToolOutput, cut_output, fault_text, output_of


class RecordedRun:
    """One recorded run, as its result describes it."""

    def __init__(self, result: RunResult, clean: Filter) -> None:
        """Indexes a result.

        Args:
            result: the result.
            clean: removes secrets before requests are compared.
        """
        self.result = result
        self.clean = clean
        self.exchanges = {(one.turn, one.attempt): one for one in result.exchanges}
        """(turn, attempt) → exchange."""
        self.sent = {one.turn: one.sent for one in reversed(result.exchanges)}
        """Turn → number of messages in its request."""
        self.children: dict[str, list[RunResult]] = {}
        """Id of a call → the runs that it started."""
        for child in result.children:
            self.children.setdefault(child.call_id, []).append(child)
        self._asked: dict[int, Description] = {}

    @property
    def last(self) -> int:
        """The latest turn that has a request."""
        return max(self.sent, default=0)

    def find(self, turn: int, attempt: int = 1) -> Exchange | None:
        """Returns an exchange that brought an answer or an error; None = there is none."""
        found = self.exchanges.get((turn, attempt))
        return found if found and not found.cut and (found.response or found.error) else None

    def list_attempts(self, turn: int) -> list[Exchange]:
        """Returns the attempts of a turn up to the first that was cut, with the run's call ids."""
        kept = []
        for one in takewhile(bool, (self.find(turn, number) for number in count(1))):
            assert one
            response, calls = one.response, self.list_calls(turn)
            response = response and replace(response, seconds=0.0, tool_calls=calls)
            kept.append(replace(one, response=response, source="recorded"))
        return kept

    def get_asked(self, turn: int) -> Description:
        """Returns the part of a turn's request that is new, as `Describer` describes it."""
        if not self._asked:
            describer, run = Describer(self.clean), self.result
            provider = run.model.partition("/")[0]
            for (number, attempt), exchange in self.exchanges.items():
                if attempt == 1:
                    request = exchange.request(run.messages, run.agent, run.id)
                    model = f"{provider}/{exchange.model}"
                    self._asked[number] = describer.describe(request, model)
        return self._asked[turn]

    def _find_reply(self, turn: int) -> tuple[int, Message | None]:
        """Returns the position of a turn's reply among the messages; None = it has no message."""
        sent, messages = self.sent.get(turn, 0), self.result.messages
        reply = messages[sent] if sent < len(messages) else None
        return sent, reply if reply is not None and reply.role == "assistant" else None

    def list_calls(self, turn: int) -> tuple[ToolCall, ...]:
        """Returns the calls of a turn's reply."""
        _, reply = self._find_reply(turn)
        if reply is not None and reply.tool_calls:
            return reply.tool_calls
        answers = [one.response for (at, _), one in self.exchanges.items() if at == turn]
        latest = answers[-1] if answers else None
        return latest.tool_calls if latest else ()

    def find_results(self, turn: int) -> Mapping[str, ToolResult]:
        """Returns call id → result, for the calls of a turn that have one."""
        sent, reply = self._find_reply(turn)
        after = self.result.messages[sent + 1 : sent + 2]
        found = after[0].tool_results if reply is not None and after else ()
        own = {call.id for call in self.list_calls(turn)}
        return {one.call_id: one for one in found if one.call_id in own}

    def find_call_turn(self, call_id: str) -> int:
        """Returns the turn that made a call; 0 = none did."""
        turns = (turn for turn in self.sent if any(c.id == call_id for c in self.list_calls(turn)))
        return next(turns, 0)

    def count_calls_before(self, turn: int) -> int:
        """Returns the number of calls that were made in the turns before one."""
        before = [number for number in self.sent if number < turn]
        refused = (is_refused(one) for n in before for one in self.find_results(n).values())
        return sum(len(self.list_calls(number)) for number in before) - sum(refused)

    def open_turn(self, turn: int) -> Opening:
        """Returns the conversation before a turn, which may be the one after the last."""
        messages = self.result.messages
        if turn <= self.last:
            logged = (one for one in self.result.log if one.number == turn and not one.asked)
            said = next((one.question for one in logged), "")
            return Opening(messages=messages[: self.sent.get(turn, 0)], said=said)
        sent, reply = self._find_reply(self.last)
        if reply is None:
            return Opening(messages=messages[:sent])
        results = Message("tool", tool_results=tuple(self.find_results(self.last).values()))
        return Opening(messages=close_open_calls([*messages[:sent], reply, results]))


CHANGES = ("prompt", "system_prompt", "reply", "results")
"""Keywords of a fork in addition to the options of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """A place of a finished tree, and the changes made there."""

    root: RunResult
    run: RunResult
    """The run at the place."""
    turn: int
    """The turn of the place; it may be the one after the last."""
    prompt: Illustrated | None = None
    """Replaces the prompt at turn 1, or is a message added before a later turn; None = no
    message."""
    system_prompt: str | None = None
    """The system prompt; None = that of the agent."""
    reply: Response | None = None
    """The reply of the turn; None = the model's."""
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    """Id of a call of the turn → its result."""
    keeps_reply: bool = False
    """True if the turn keeps its original reply."""

    @property
    def place(self) -> str:
        """The place, as text."""
        return f"{self.run.id}/{self.turn}"

    @property
    def history(self) -> Sequence[Message]:
        """The conversation that the root continued."""
        return self.root.messages[: count_earlier(self.root)]


def make_point(
    root: RunResult,
    place: str | int | None,
    *,
    prompt: Illustrated | None = None,
    system_prompt: str | None = None,
    reply: Any = None,
    results: Mapping[int | str, Any] | None = None,
) -> ForkPoint:
    """Returns the point at which a run is forked.

    Args:
        root: the result of the root.
        place: as in `find_exchange`; also the turn after the last, which goes on from the results
            of its calls.
        prompt: replaces the prompt, or is said before the turn; a blank one is none (D-12).
        system_prompt: of the agent at the place.
        reply: in place of the model's at the turn: a text, calls or a `Response`.
        results: id or number of a call of the turn → what its tool returns instead, or raises.

    Raises ConfigError: there is no such place, call or turn to go on from; names what there is.
    """
    if root.id != "0":
        hint = f'fork the root run with the whole place: .fork("{root.id}/{place or 1}")'
        raise ConfigError(f"run {root.id} is part of a tree", hint=hint)
    if prompt is not None and not (prompt.text.strip() or prompt.pictures):
        prompt = None
    run, turn, written = find_turn(root, place)
    recorded = RecordedRun(run, find_filter())
    is_asked = any(one.turn == turn for one in run.exchanges)
    if not is_asked:
        if turn != recorded.last + 1:
            raise make_turn_error(run, written)
        _check_goes_on(recorded)
    if results is not None:
        _check_results(reply, prompt, is_asked=is_asked, recorded=recorded, turn=turn)
    if not isinstance(system_prompt, str | None):
        raise ConfigError(f"system_prompt takes a string, not {shown_value(system_prompt)}")
    given = make_reply(reply)
    if reply is not None and given is None:
        raise ConfigError(
            f"reply takes text, calls or a Response, not {shown_value(reply)}",
            hint='for example reply="42", or reply=axe_nb.call("grep", pattern="x")',
        )
    return ForkPoint(
        root=root, run=run, turn=turn, prompt=prompt, system_prompt=system_prompt, reply=given,
        results={} if results is None else dict(_read_results(recorded, turn, results)),
        keeps_reply=results is not None,
    )  # fmt: skip


def _check_goes_on(recorded: RecordedRun) -> None:
    """Checks that a conversation can be continued after its last turn."""
    run, last = recorded.result, recorded.last
    who = f"turn {run.id}/{last} of {name_run(run.agent, run.model)}"
    if recorded.find(last) is None and not recorded.list_calls(last):
        raise ConfigError(f"{who} has no answer to continue from", hint=f"fork at {run.id}/{last}")
    if not recorded.list_calls(last):
        raise ConfigError(
            f"{who} was the final answer: no turn follows it",
            hint="continue after it with -c, in Python with continue_from=",
        )
    may_go_on = recorded.find_results(last) or run.status in ("cancelled", "timeout")
    if run.status.startswith("max_") or not may_go_on:
        raise ConfigError(
            f"the calls of {who} were not run: {run.error or run.status}",
            hint=f"fork at {run.id}/{last}",
        )


def _check_results(
    reply: Any, prompt: Illustrated | None, *, is_asked: bool, recorded: RecordedRun, turn: int
) -> None:
    """Checks that results can be replaced in a turn."""
    if reply is not None:
        raise ConfigError("fork takes reply= or results=, not both: a new reply has new calls")
    if prompt is not None:
        raise ConfigError(
            "results= keeps the reply of its turn, and prompt= would change it",
            hint="add the prompt in a fork of this fork, one turn later",
        )
    run = recorded.result
    if not is_asked or not recorded.list_calls(turn) or recorded.find(turn) is None:
        raise ConfigError(f"turn {run.id}/{turn} of {name_run(run.agent, run.model)} made no calls")


def _read_results(
    recorded: RecordedRun, turn: int, given: Mapping[int | str, Any]
) -> list[tuple[str, ToolResult]]:
    """Pairs the given results with the ids of their calls."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"results takes a dict from call to result, not {shown_value(given)}")
    first = recorded.count_calls_before(turn) + 1
    calls = recorded.list_calls(turn)
    by_key: dict[int | str, ToolCall] = dict(enumerate(calls, first))
    by_key |= {str(number): call for number, call in enumerate(calls, first)}
    by_key |= {call.id: call for call in calls}
    found = []
    for key, value in given.items():
        call = by_key.get(key) if type(key) in (int, str) else None
        if call is None:
            place = f"{recorded.result.id}/{turn}"
            names = [f"{n} ({one.name}, {one.id})" for n, one in enumerate(calls, first)]
            raise ConfigError(
                f"no call {quote(cut_chars(str(key), MAX_SHOWN, '…'))} in turn {place}; "
                f"its calls are {list_some(names, 8)}"
            )
        output = _read_result(value, call)
        result = ToolResult(
            call.id, cut_output(output.content), output.is_error, call.name, "given",
            pictures=output.pictures,
        )  # fmt: skip
        found.append((call.id, result))
    return found


def _read_result(value: Any, call: ToolCall) -> ToolOutput:
    """Returns the output of a tool that returned or raised a value."""
    if isinstance(value, ToolError):
        return ToolOutput(f"Error: {words(value)}", is_error=True)
    if isinstance(value, BaseException):
        return ToolOutput(f"Error: {fault_text(value)}", is_error=True)
    try:
        return output_of(value)
    except Exception as error:  # ToolError, or whatever the value's own methods raise
        why = words(error) if isinstance(error, ToolError) else fault_text(error)
        raise ConfigError(f"the result of {call.name}: {why}") from None


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
    """The recorded run that it repeats, as long as its requests are the same."""
    is_live: bool = False
    """True once it has sent a request."""
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
        """Recorded runs whose agents were given to new runs."""
        self._made_again: dict[str, str] = {}
        """The user's tool on the way to the place → the run that it started there."""
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
        """Returns the id of the recorded run with a child's agent and task; empty = none.

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
        """Returns the conversation before a turn up to the place; None = the run's own."""
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
        """True for turns of the run at the place that are not repeated."""
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
        """Records nothing, as the result of the new tree has everything."""

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
        return KeptTurn(recorded.list_attempts(turn))

    def _claim(self, id: str, asked: Description, agent: str) -> RecordedRun | None:
        """Returns the recorded run that a new run repeats, preferably at its own place."""
        if id in self._way:
            return self._recorded[id]
        alike = self._by_first_request.get((agent, digest(asked)), {})
        while alike:
            found = alike.pop(id if id in alike else next(iter(alike)))
            if found.result.id not in self._used:
                self._used.add(found.result.id)
                return found
        return None

    @cached_property
    def _by_first_request(self) -> Mapping[tuple[str, str], dict[str, RecordedRun]]:
        """(agent, digest of the first request) → id → the runs that began with it."""
        found: dict[tuple[str, str], dict[str, RecordedRun]] = {}
        for id, run in self._recorded.items():
            if run.find(1) is not None:
                found.setdefault((run.result.agent, digest(run.get_asked(1))), {})[id] = run
        return found

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
        """Returns call id → result, for the calls of a turn that are not made again.

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
        """Returns the runs started by a call that is not made again; a replaced one has none."""
        if self._is_place(run.result.id, turn) and call_id in self._point.results:
            return ()
        return run.children.get(call_id, ())

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
