"""The place at which a run is forked, the changes there, and the runs of its recorded tree.

Source: D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, takewhile
from typing import Any

from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.dispatch import is_refused
from axe_nb.engine.person import make_reply
from axe_nb.errors import ConfigError, words
from axe_nb.messages import Message, Response, ToolCall, ToolResult, close_open_calls
from axe_nb.messages.exchanges import Exchange
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.find_exchange import count_earlier, find_turn, make_turn_error
from axe_nb.recording.same_request import Describer, Description
from axe_nb.results import RunResult, Turn, name_run
from axe_nb.secrets import Filter, find_filter
from axe_nb.text import cut_chars, list_some, quote
from axe_nb.tools.output import cut_output, output_of
from axe_nb.tools.tool import Opening, ToolError, ToolOutput, fault_text


@dataclass(eq=False)
class RecordedRun:
    """One run, as its result has kept it."""

    result: RunResult
    clean: Filter
    """Removes secrets before requests are compared."""
    _asked: dict[int, Description] = field(default_factory=dict)

    @cached_property
    def exchanges(self) -> Mapping[tuple[int, int], Exchange]:
        """(turn, attempt) → exchange."""
        return {(one.turn, one.attempt): one for one in self.result.exchanges}

    @cached_property
    def log(self) -> Mapping[int, Turn]:
        """Number of a turn → the turn; the latest may be missing, if the run was broken off."""
        return {turn.number: turn for turn in self.result.log}

    @property
    def last(self) -> int:
        """The latest turn that was asked."""
        return max((one.turn for one in self.result.exchanges), default=0)

    def find(self, turn: int, attempt: int = 1) -> Exchange | None:
        """Returns an exchange that brought an answer or an error; None = there is none."""
        exchange = self.exchanges.get((turn, attempt))
        if exchange is None or exchange.cut:
            return None
        return exchange if exchange.response or exchange.error else None

    def list_attempts(self, turn: int) -> Sequence[Exchange]:
        """Returns the attempts of a turn, up to the first that was cut."""
        attempts = (self.find(turn, number) for number in count(1))
        return [one for one in takewhile(bool, attempts) if one]

    def keep(self, exchange: Exchange) -> Exchange:
        """Returns an exchange for a fork: the ids of its calls are those of the run."""
        response = exchange.response
        if response is not None:
            response = replace(response, seconds=0.0, tool_calls=self.list_calls(exchange.turn))
        return replace(exchange, response=response, source="recorded")

    def get_asked(self, turn: int) -> Description:
        """Returns what a turn added to the one before it, as `Describer` describes it."""
        if not self._asked:
            describer, run = Describer(self.clean), self.result
            provider = run.model.partition("/")[0]
            for (number, attempt), exchange in self.exchanges.items():
                if attempt == 1:
                    request = exchange.request(run.messages, run.agent, run.id)
                    model = f"{provider}/{exchange.model}"
                    self._asked[number] = describer.describe(request, model)
        return self._asked[turn]

    @cached_property
    def sent(self) -> Mapping[int, int]:
        """Turn → number of messages in its request."""
        return {one.turn: one.sent for one in reversed(self.result.exchanges)}

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
        """Returns id of a call → its result, of the calls of a turn that have one."""
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
        count = 0
        for number in self.sent:
            if number < turn:
                results = self.find_results(number).values()
                count += len(self.list_calls(number)) - sum(map(is_refused, results))
        return count

    @cached_property
    def _children(self) -> Mapping[str, Sequence[RunResult]]:
        """Id of a call → the runs that it started."""
        found: dict[str, list[RunResult]] = {}
        for child in self.result.children:
            found.setdefault(child.call_id, []).append(child)
        return found

    def list_children(self, call_id: str) -> Sequence[RunResult]:
        """Returns the runs that a call started."""
        return self._children.get(call_id, ())

    def open_turn(self, turn: int) -> Opening:
        """Returns the conversation before a turn, also before the one after the last."""
        if turn > self.last:
            return Opening(messages=self._close(self.last))
        logged = self.log.get(turn)
        said = logged.question if logged and not logged.asked else ""
        return Opening(messages=self.result.messages[: self.sent.get(turn, 0)], said=said)

    def _close(self, turn: int) -> Sequence[Message]:
        """Returns the conversation up to the results of a turn; open calls are interrupted."""
        sent, reply = self._find_reply(turn)
        if reply is None:
            return self.result.messages[:sent]
        results = tuple(self.find_results(turn).values())
        return close_open_calls(
            [*self.result.messages[:sent], reply, Message("tool", tool_results=results)]
        )


CHANGES = ("prompt", "system_prompt", "reply", "results")
"""Keywords of a fork beside the options of a run."""

MAX_LISTED = 8
"""Calls that an error names."""

MAX_SHOWN = 60
"""Characters of a wrong key that an error quotes."""

STOPPED = ("cancelled", "timeout")
"""Statuses of runs that may have been stopped while their tools ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """A place of a finished tree, and what differs from there on."""

    root: RunResult
    run: RunResult
    """The run of the place."""
    turn: int
    """The turn of the place; it may be the one after the last."""
    prompt: Illustrated | None = None
    """Replaces the prompt at turn 1, is said before any other; None = nothing is said."""
    system_prompt: str | None = None
    """None = that of the agent."""
    reply: Response | None = None
    """The reply of the turn; None = the model's."""
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    """Id of a call of the turn → its result."""
    keeps_reply: bool = False
    """True if the turn keeps the reply that it had."""

    @property
    def place(self) -> str:
        """The place."""
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

    Raises:
        ConfigError: there is no such place, call or turn to go on from; names what there is.
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
    """Checks that there is something to go on from after the last turn."""
    run, last = recorded.result, recorded.last
    who = f"turn {run.id}/{last} of {name_run(run.agent, run.model)}"
    if recorded.find(last) is None and not recorded.list_calls(last):
        raise ConfigError(f"{who} has no answer to continue from", hint=f"fork at {run.id}/{last}")
    if not recorded.list_calls(last):
        raise ConfigError(
            f"{who} was the final answer: no turn follows it",
            hint="continue after it with -c, in Python with continue_from=",
        )
    if run.status.startswith("max_") or not (recorded.find_results(last) or run.status in STOPPED):
        raise ConfigError(
            f"the calls of {who} were not run: {run.error or run.status}",
            hint=f"fork at {run.id}/{last}",
        )


def _check_results(
    reply: Any, prompt: Illustrated | None, *, is_asked: bool, recorded: RecordedRun, turn: int
) -> None:
    """Checks that results can be given for a turn."""
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
    """Returns the given results with the ids of their calls."""
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
                f"its calls are {list_some(names, MAX_LISTED)}"
            )
        output = _read_output(value, call)
        result = ToolResult(
            call.id, cut_output(output.content), output.is_error, call.name, "given",
            pictures=output.pictures,
        )  # fmt: skip
        found.append((call.id, result))
    return found


def _read_output(value: Any, call: ToolCall) -> ToolOutput:
    """Returns what a tool would make of a value that it returns or raises."""
    if isinstance(value, ToolError):
        return ToolOutput(f"Error: {words(value)}", is_error=True)
    if isinstance(value, BaseException):
        return ToolOutput(f"Error: {fault_text(value)}", is_error=True)
    try:
        return output_of(value)
    except Exception as error:  # ToolError, or whatever the value's own methods raise
        why = words(error) if isinstance(error, ToolError) else fault_text(error)
        raise ConfigError(f"the result of {call.name}: {why}") from None
