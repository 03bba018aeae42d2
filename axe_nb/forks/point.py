"""The place at which a run is forked, and the changes there; checked.

Source: D-59, D-66; product.md "Runs are recordings" (Fork).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.given import make_reply
from axe_nb.errors import ConfigError, words
from axe_nb.forks.recorded import RecordedRun
from axe_nb.messages import Message, Response, ToolCall, ToolResult
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.find_exchange import count_earlier, find_turn, make_turn_error
from axe_nb.redaction import find_filter
from axe_nb.results import RunResult, name_run
from axe_nb.text import cut_chars, list_some, quote
from axe_nb.tools.output import cut_output, output_of
from axe_nb.tools.tool import ToolError, ToolOutput, fault_text

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
    return ForkPoint(
        root=root, run=run, turn=turn, prompt=prompt, system_prompt=_check_text(system_prompt),
        reply=None if reply is None else _make_reply(reply),
        results={} if results is None else dict(_read_results(recorded, turn, results)),
        keeps_reply=results is not None,
    )  # fmt: skip


def _check_goes_on(recorded: RecordedRun) -> None:
    """Checks that there is something to go on from after the last turn.

    Raises:
        ConfigError: it made no calls, or they were not run.
    """
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
    """Checks that results can be given for a turn.

    Raises:
        ConfigError: they cannot.
    """
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


def _check_text(system_prompt: Any) -> str | None:
    if isinstance(system_prompt, str | None):
        return system_prompt
    raise ConfigError(f"system_prompt takes a string, not {shown_value(system_prompt)}")


def _make_reply(given: Any) -> Response:
    """Returns the reply of a person in place of the model.

    Raises:
        ConfigError: it cannot be one.
    """
    if (reply := make_reply(given)) is not None:
        return reply
    raise ConfigError(
        f"reply takes text, calls or a Response, not {shown_value(given)}",
        hint='for example reply="42", or reply=axe_nb.call("grep", pattern="x")',
    )


def _read_results(
    recorded: RecordedRun, turn: int, given: Mapping[int | str, Any]
) -> list[tuple[str, ToolResult]]:
    """Returns the given results with the ids of their calls.

    Raises:
        ConfigError: there is no such call in the turn, or the value cannot be sent to a model.
    """
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
    """Returns what a tool would make of a value that it returns or raises.

    Raises:
        ConfigError: it cannot be sent to a model.
    """
    if isinstance(value, ToolError):
        return ToolOutput(f"Error: {words(value)}", is_error=True)
    if isinstance(value, BaseException):
        return ToolOutput(f"Error: {fault_text(value)}", is_error=True)
    try:
        return output_of(value)
    except Exception as error:  # ToolError, or whatever the value's own methods raise
        why = words(error) if isinstance(error, ToolError) else fault_text(error)
        raise ConfigError(f"the result of {call.name}: {why}") from None
