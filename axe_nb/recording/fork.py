"""Forks run a recorded tree again with changes at one place, and replay what stays the same.

The run at the place and its ancestors are replayed up to the place. Any other run is replayed until
a request differs from the recorded one; that request and all later ones of the run are sent.

A saved run may come from a stranger. Unless the run is from the user's own history or all folders
are trusted, an agent in it that differs from the user's own is restricted, like an agent of an
untrusted project. Source: D-53, D-59, D-60, D-66, D-81, docs/safety.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from axe_nb.agents.agent import Agent, NoAgent
from axe_nb.agents.prompt import TRUSTED, Context, Definition, Definitions, read_context
from axe_nb.agents.trust import restrict, trusts_all
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.toml_tables import make_table
from axe_nb.engine.dispatch import is_refused
from axe_nb.engine.person import make_given, make_reply
from axe_nb.engine.replay import Asked, AskedTurn, KeptCall, KeptTurn, Outcome, PendingCall
from axe_nb.errors import ConfigError, words
from axe_nb.messages import (
    INTERRUPTED,
    Message,
    Response,
    ToolCall,
    ToolResult,
    Usage,
    close_open_calls,
)
from axe_nb.messages.exchanges import Exchange, Turn
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.find_exchange import count_earlier, find_turn, make_turn_error
from axe_nb.recording.same_request import Describer, Description, digest, is_same
from axe_nb.results import RunResult, Status, name_run, run_of, turn_of
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import MAX_SHOWN, cut_chars, list_some, quote, shown_value
from axe_nb.tools.tool import Job, Opening, ToolError, ToolOutput, cut_output, fault_text, output_of


class RecordedRun:
    """The turns, requests and child runs of a RunResult, for replay in a fork."""

    def __init__(self, result: RunResult, clean: Filter) -> None:
        self.result = result
        self.clean = clean
        self.exchanges = {(one.turn, one.attempt): one for one in result.exchanges}
        self.turns = {turn.number: turn for turn in result.log}
        self.sent = {one.turn: one.sent for one in reversed(result.exchanges)}
        """Maps each turn to the number of messages in its request."""
        self.last = max(self.sent, default=0)
        self.children = defaultdict[str, list[RunResult]](list)
        """Child runs, keyed by the id of the call that started them."""
        for child in result.children:
            self.children[child.call_id].append(child)
        self._asked: dict[int, Description] = {}

    def find(self, turn: int, attempt: int = 1) -> Exchange | None:
        """Returns the recorded exchange of an attempt; None if it is missing or has no outcome."""
        found = self.exchanges.get((turn, attempt))
        return found if found and not found.cut and (found.response or found.error) else None

    def list_attempts(self, turn: int) -> list[Exchange]:
        """Returns a turn's attempts before the first that cannot be replayed (see `find`)."""
        attempts: list[Exchange] = []
        calls = self.get_turn(turn).calls
        while one := self.find(turn, len(attempts) + 1):
            response = one.response and replace(one.response, seconds=0.0, tool_calls=calls)
            attempts.append(replace(one, response=response, source="recorded"))
        return attempts

    def get_asked(self, turn: int) -> Description:
        """Returns the description of a turn's request, as made by `Describer`."""
        if not self._asked:
            describer, run = Describer(self.clean), self.result
            provider = run.model.partition("/")[0]
            for (number, attempt), exchange in self.exchanges.items():
                if attempt == 1:
                    request = exchange.request(run.messages, run.agent, run.id)
                    model = f"{provider}/{exchange.model}"
                    self._asked[number] = describer.describe(request, model)
        return self._asked[turn]

    def get_turn(self, turn: int) -> Turn:
        """Returns a turn with its calls and results, or an empty turn if none was logged."""
        return self.turns.get(turn) or Turn(turn, "", (), (), "", Usage())

    def open_turn(self, turn: int) -> Opening:
        """Returns the conversation before a turn; `turn` may be one more than the last turn."""
        sent, messages = self.sent.get(min(turn, self.last), 0), self.result.messages
        if turn <= self.last:
            logged = self.get_turn(turn)
            return Opening(messages=messages[:sent], said="" if logged.asked else logged.question)
        results = Message("tool", tool_results=self.get_turn(self.last).results)
        return Opening(messages=close_open_calls([*messages[: sent + 1], results]))


CHANGES = ("prompt", "system_prompt", "reply", "results")
"""Keyword arguments of `RunResult.fork` that say what changes at the place of the fork."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """The place in a finished run tree at which to fork, and the changes to make there."""

    root: RunResult
    run: RunResult
    turn: int
    """Number of the turn, at most one more than the last recorded turn."""
    prompt: Illustrated | None = None
    """The new prompt if the turn is 1; for a later turn, a message to add before that turn."""
    system_prompt: str | None = None
    """The new system prompt; None to keep the agent's own."""
    reply: Response | None = None
    """The reply to use in the turn; if None, the model is asked, unless `results` is set."""
    results: Mapping[str, ToolResult] | None = None
    """New results of calls in the turn, by call id; if None, the turn is not replayed."""

    @property
    def history(self) -> Sequence[Message]:
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
    """Makes a ForkPoint from arguments of `RunResult.fork`. Raises ConfigError if any is wrong."""
    if root.id != "0":
        hint = f'fork the root run with the whole place: .fork("{root.id}/{place or 1}")'
        raise ConfigError(f"run {root.id} is part of a tree", hint=hint)
    if prompt is not None and not (prompt.text.strip() or prompt.pictures):
        prompt = None
    run, turn, written = find_turn(root, place)
    recorded = RecordedRun(run, find_filter())
    if turn not in recorded.sent:
        if turn != recorded.last + 1:
            raise make_turn_error(run, written)
        _check_goes_on(recorded)
    if results is not None and (reply is not None or prompt is not None):
        raise ConfigError(
            "results= keeps the reply of the turn, so fork takes no reply= or prompt= with it",
            hint="to add a prompt, fork the new run one turn later",
        )
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
        results=None if results is None else _read_results(recorded, turn, results),
    )  # fmt: skip


def _check_goes_on(recorded: RecordedRun) -> None:
    run, last = recorded.result, recorded.last
    who = f"turn {run.id}/{last} of {name_run(run.agent, run.model)}"
    made = recorded.get_turn(last)
    if not made.calls and recorded.find(last) is not None:
        raise ConfigError(
            f"{who} was the final answer: no turn follows it",
            hint="continue after it with -c, or in Python with continue_from=",
        )
    may_go_on = made.results or (made.calls and run.status in ("cancelled", "timeout"))
    if run.status.startswith("max_") or not may_go_on:
        why = f"the calls of {who} were not run" if made.calls else f"{who} has no answer"
        raise ConfigError(f"{why}: {run.error or run.status}", hint=f"fork at {run.id}/{last}")


def _read_results(
    recorded: RecordedRun, turn: int, given: Mapping[int | str, Any]
) -> dict[str, ToolResult]:
    run, calls = recorded.result, recorded.get_turn(turn).calls
    if turn not in recorded.sent or not calls or recorded.find(turn) is None:
        raise ConfigError(f"turn {run.id}/{turn} of {name_run(run.agent, run.model)} made no calls")
    if not isinstance(given, Mapping):
        raise ConfigError(f"results takes a dict of results by call, not {shown_value(given)}")
    first = 1
    for before in (number for number in recorded.sent if number < turn):
        made = recorded.get_turn(before)
        first += len(made.calls) - sum(map(is_refused, made.results))
    by_key: dict[int | str, ToolCall] = {}
    for number, one in enumerate(calls, first):
        by_key |= {number: one, str(number): one}
    by_key |= {one.id: one for one in calls}
    found = {}
    for key, value in given.items():
        call = by_key.get(key) if type(key) in (int, str) else None
        if call is None:
            names = [f"{n} ({one.name}, {one.id})" for n, one in enumerate(calls, first)]
            raise ConfigError(
                f"no call {quote(cut_chars(str(key), MAX_SHOWN, '…'))} in turn {run.id}/{turn}; "
                f"its calls are {list_some(names, 8)}"
            )
        if isinstance(value, BaseException):
            why = words(value) if isinstance(value, ToolError) else fault_text(value)
            output = ToolOutput(f"Error: {why}", is_error=True)
        else:
            try:
                output = output_of(value)
            except Exception as error:  # ToolError, or whatever the value's own methods raise
                why = words(error) if isinstance(error, ToolError) else fault_text(error)
                raise ConfigError(f"the result of {call.name}: {why}") from None
        found[call.id] = ToolResult(
            call.id, cut_output(output.content), output.is_error, call.name, "given",
            pictures=output.pictures,
        )  # fmt: skip
    return found


def move_run(run: RunResult, before: str, now: str) -> RunResult:
    """Returns a copy of a run tree, marked as recorded; its ids begin with `now`, not `before`."""
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


@dataclass
class _Run:
    """A run of the new tree, the recorded run that it replays, and the turns replayed so far."""

    describer: Describer
    recorded: RecordedRun | None = None
    """The recorded run to replay as long as requests are the same; None if none matches."""
    is_live: bool = False
    kept: set[int] = field(default_factory=set)
    """Numbers of the replayed turns; the calls of these turns may be replayed, too."""


class Fork:
    """Replays a run tree with changes at one place. Implements `engine.replay.Replay`."""

    def __init__(
        self,
        point: ForkPoint,
        adapt: Callable[[Agent, Job], tuple[Agent, Job]],
        earlier: Mapping[str, Agent],
    ) -> None:
        """Creates a fork that makes changes at `point`.

        `adapt` changes the agent and the job of the run at `point`. `earlier` maps ids of runs to
        agents that earlier forks changed.
        """
        self._point = point
        self._adapt = adapt
        self._earlier = earlier
        self._clean = find_filter()
        self.place = f"{point.run.id}/{point.turn}"
        self.changed: dict[str, Agent] = {}
        self._recorded = {run.id: RecordedRun(run, self._clean) for run in point.root.walk()}
        self._first: dict[tuple[str, str], dict[str, RecordedRun]] = {}
        """Recorded runs, keyed by agent name and digest of the first request, then by run id."""
        self._runs: dict[str, _Run] = {}
        self._is_reached = False
        id = point.run.id
        self._way = {id: (point.turn - (point.results is None), "")}
        """Maps the run at the place and its ancestors to the last replayed turn, and to the id of
        the call that leads to the place. The id is empty for the run at the place."""
        self._made_again: dict[str, str] = {}
        """Maps each tool that must run again to the id of the run that it started, which is the run
        at the place or one of its ancestors."""
        while (above := id.rpartition(".")[0]) and above in self._recorded:
            run, call_id = self._recorded[above], self._recorded[id].result.call_id
            self._way[above] = 0, call_id
            calls = ((turn, one) for turn in run.sent for one in run.get_turn(turn).calls)
            for turn, one in calls:
                if one.id == call_id:
                    self._way[above] = turn, call_id
                    if not one.traits.delegates:
                        self._made_again[one.name] = id
            id = above
        self._used = set(self._way)
        """Ids of recorded runs that are part of the new tree, or will become part of it."""
        self._alike: set[str] = set()
        """Ids of recorded runs that have been matched with a new child run by agent and task."""
        for id, (last, _) in self._way.items():
            for turn in self._recorded[id].sent:
                if turn <= last:
                    self._use_children(self._recorded[id], turn)

    def adapt(self, run: str, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """Returns the agent and job of a child about to start, with the changes of all forks."""
        if run in self._way:
            had = run
        else:
            asked = agent.name, job.task or job.prompt
            ids = (id for id in (run, *self._earlier) if id not in self._used)
            free = (id for id in ids if id in self._recorded and id not in self._alike)
            known = (self._recorded[id].result for id in free)
            had = next((one.id for one in known if (one.agent, one.task) == asked), "")
            self._alike.add(had)
        if had in self._earlier:
            self.changed[run] = agent = self._earlier[had]
        if run == self._point.run.id:
            agent, job = self._adapt(agent, job)
            self.changed[run] = agent
        return agent, self.open(run, job)

    def open(self, run: str, job: Job) -> Job:
        """Adds the recorded prompt and conversation to a run's job, and returns the new job.

        The job is returned unchanged unless the run or a descendant is at the place of the fork.
        """
        if run not in self._way:
            return job
        recorded, said, last = self._recorded[run], self._point.prompt, self._way[run][0]

        def open_turn(turn: int) -> Opening | None:  # None = the run's own conversation
            if said is None or not self._is_place(run, turn):
                is_kept = turn <= last or self._is_place(run, turn)
                return recorded.open_turn(turn) if is_kept else None
            if turn == 1:
                return None  # the new text replaces the prompt
            message = Message("user", said.text, pictures=said.pictures)
            return Opening(messages=(*recorded.open_turn(turn).messages, message), said=said.text)

        had = Illustrated(recorded.result.prompt, recorded.result.pictures)
        is_changed = self._is_place(run, 1) and said
        return replace(job, asked=None if is_changed else had, open_turn=open_turn)

    def _is_place(self, run: str, turn: int) -> bool:
        return run == self._point.run.id and turn == self._point.turn

    def holds(self, place: str, has_cap: Callable[[str], bool]) -> bool:
        id, turn = run_of(place), turn_of(place) or 1
        if self._is_changed_turn(id, turn):
            return self._is_place(id, turn) and self._point.reply is not None
        run = self._runs.get(id)
        recorded = self._recorded.get(id) if run is None else run.recorded
        if recorded is None or (run is not None and run.is_live):
            return False
        return recorded.find(turn) is not None

    def _is_changed_turn(self, run: str, turn: int) -> bool:
        """True if the turn belongs to the run at the fork's place and is not replayed."""
        return run == self._point.run.id and turn > self._way[run][0]

    async def find(self, asked: Asked) -> Outcome | None:
        if isinstance(asked, AskedTurn):
            return self._find_turn(asked)
        return self._find_call(asked) if isinstance(asked, PendingCall) else None

    def keep(self, asked: Asked, outcome: Outcome) -> None:
        """Does nothing, because the new tree's result already contains everything."""

    def answers(self, kind: Literal["step", "question"]) -> bool:
        return False

    def _find_turn(self, asked: AskedTurn) -> KeptTurn | None:
        request = asked.request
        id, turn = run_of(request.place), turn_of(request.place)
        run = self._runs.setdefault(id, _Run(Describer(self._clean)))
        if run.is_live:
            return None
        described = run.describer.describe(request, asked.model)
        if run.recorded is None:
            run.recorded = self._claim(id, described, request.agent)
        self._is_reached = self._is_reached or self._is_place(id, turn)
        if self._is_changed_turn(id, turn):
            run.is_live = True
            given = self._point.reply if self._is_place(id, turn) else None
            return KeptTurn([make_given(request, given)]) if given else None
        recorded = run.recorded
        is_before = id in self._way and turn <= self._way[id][0]
        if (
            recorded is None
            or recorded.find(turn) is None
            or not (is_before or is_same(recorded.get_asked(turn), described))
        ):
            run.is_live = True
            return None
        run.kept.add(turn)
        return KeptTurn(recorded.list_attempts(turn))

    def _claim(self, id: str, asked: Description, agent: str) -> RecordedRun | None:
        """Finds an unused recorded run with this agent and first request, preferably with this id.

        A run at the place or above it replays the recorded run with the same id in any case.
        """
        if id in self._way:
            return self._recorded[id]
        if not self._first:
            for run in self._recorded.values():
                if run.find(1) is not None:
                    first = run.result.agent, digest(run.get_asked(1))
                    self._first.setdefault(first, {})[run.result.id] = run
        alike = self._first.get((agent, digest(asked)), {})
        while alike:
            found = alike.pop(id if id in alike else next(iter(alike)))
            if found.result.id not in self._used:
                self._used.add(found.result.id)
                return found
        return None

    def _find_call(self, asked: PendingCall) -> KeptCall | None:
        known = self._runs.get(asked.run)
        if known is None or known.recorded is None or asked.turn not in known.kept:
            return None
        recorded, calls = known.recorded, known.recorded.get_turn(asked.turn).calls
        if len(calls) != asked.count:
            return None
        self._use_children(recorded, asked.turn)  # a repeated call must not claim them
        before = recorded.result.id
        kept = self._list_kept(recorded, asked.turn).get(calls[asked.index].id)
        if kept is None:
            return None
        result, children = kept
        for below in (below for child in children for below in child.walk()):
            if below.id in self._earlier:
                now = f"{asked.run}{below.id.removeprefix(before)}"
                self.changed[now] = self._earlier[below.id]
        moved = (move_run(child, before, asked.run) for child in children)
        return KeptCall(
            result=replace(result, call_id=asked.call.id),
            children=tuple(replace(child, call_id=asked.call.id) for child in moved),
            files_read=recorded.result.files_read,
            files_modified=recorded.result.files_modified,
        )

    def _list_kept(
        self, run: RecordedRun, turn: int
    ) -> Mapping[str, tuple[ToolResult, Sequence[RunResult]]]:
        """Returns the results and child runs of a turn's replayed calls, keyed by call id."""
        point, made = self._point, run.get_turn(turn)
        results = {one.call_id: one for one in made.results}
        if run.result.id == point.run.id and turn < point.turn:
            for call in made.calls:
                result = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
                results.setdefault(call.id, result)
        kept = {id: (result, tuple(run.children[id])) for id, result in results.items()}
        if self._is_place(run.result.id, turn):
            kept |= {id: (result, ()) for id, result in (point.results or {}).items()}
        last, leading = self._way.get(run.result.id, (0, ""))
        if turn == last:
            kept.pop(leading, None)
        return kept

    def _use_children(self, run: RecordedRun, turn: int) -> None:
        for _, children in self._list_kept(run, turn).values():
            for child in children:
                self._used.update(below.id for below in child.walk())

    def finish(self, status: Status) -> Sequence[str]:
        warnings = [
            f"tool {quote(tool)} was run again because it starts {run}, on the way to {self.place}"
            for tool, run in self._made_again.items()
        ]
        if status == "completed" and not self._is_reached:
            why = "the calls that lead there took a different path"
            warnings.append(f"the fork did not reach {self.place}: {why}")
        return warnings


class RestoredAgents:
    """The agents of a recorded tree, restored for a fork."""

    root: Agent

    def __init__(self, result: RunResult, find: Callable[[str], Agent], replaced: str = "") -> None:
        """Restores the agents. `find` loads one of the user's agents.

        `replaced` is the id of the run that another agent takes over, if any. Raises ConfigError if
        an agent cannot be restored.
        """
        self._runs, self._replaced = tuple(result.walk()), replaced
        self.agents: dict[str, Agent] = {}
        """Agents without the changes made by forks, keyed by name."""
        self.changed: dict[str, Agent] = {}
        """Agents that earlier forks changed, keyed by run id."""
        self.contexts: list[tuple[Agent, Context]] = []
        self.warnings: list[str] = []
        self._find = find
        kept = result.definitions
        if kept is not None:
            self.root = self._restore(kept.root, kept)
            for name, one in kept.agents.items():
                self.agents[name] = self._restore(one, kept, compares=True)
            self.changed = {id: self._restore(one, kept) for id, one in kept.changed.items()}
        elif not result.agent:  # no agents are kept if the process dies during a run
            self.root = NoAgent(name="", model=result.model)
        else:
            self.root = replace(find(result.agent), model=result.model)
            why = "the agents of the forked run were not kept; the fork uses the current ones"
            self.warnings.append(why)

    def _restore(self, one: Definition, kept: Definitions, *, compares: bool = False) -> Agent:
        now = None
        with suppress(ConfigError):
            now = self._find(one.name) if one.name else None
        runs = [run.id for run in self._runs if run.agent == one.name]
        if compares and runs != [self._replaced]:
            others = [id for id in runs if id != self._replaced]
            if warning := _compare(one, now, others[0] if others else ""):
                self.warnings.append(warning)
        if one.agent is not None:
            agent = one.agent
        elif now is not None and _is_same(one.values, make_table(now)):
            agent = now
        else:
            if trusts_all() or kept.memory.get(TRUSTED):
                agent = one.make_agent()
            else:  # removes everything that needs the user's trust in a project's file
                values = deepcopy(dict(one.values))
                left_out = restrict(values, Path("axe", "agents", "agent.toml").absolute())
                warnings = (left_out,) if left_out else ()
                agent = replace(one, values=values).make_agent()
                agent = replace(agent, is_restricted=True, warnings=warnings)
            if now is not None:
                own = {name: tool for name, tool in now.own_tools.items() if name in agent.tools}
                agent = replace(agent, own_tools=own)
        self.contexts.append((agent, one.context))
        return agent


def _is_same(kept: Any, now: Any) -> bool:
    clean = find_filter()
    return is_same(clean.json(jsonable(kept)), clean.json(jsonable(now)))


def _compare(kept: Definition, now: Agent | None, run: str) -> str:
    """Returns a warning if a recorded agent differs from the user's own agent, otherwise "".

    `now` is the user's own agent; None if it no longer exists, which also gives a warning. `run` is
    the id of a run of the agent, if there is one.
    """
    name = quote(kept.name)
    if now is None:
        return f"agent {name} no longer exists; the fork uses the recorded one"
    before, after = dict(kept.values), make_table(now)
    pairs = {key: (before.get(key, ""), after.get(key, "")) for key in {**before, **after}}
    keys = [key for key, (had, has) in pairs.items() if not _is_same(had, has)]
    if not keys and (now.skill or now.files):
        try:
            read = read_context(now)
        except ConfigError:
            keys = ["skill, files"]
        else:
            keys += [] if _is_same(kept.skill, read.skill) else ["skill"]
            keys += [] if _is_same(dict(kept.files), dict(read.files)) else ["files"]
    if not keys:
        return ""
    changed = list_some(keys, 5)
    told = f"agent {name} has changed since ({changed}); the fork uses the recorded one"
    return f"{told}; %%axe {kept.name} --from …@{run}/1 takes yours there" if run else told
