"""Finds runs and exchanges in a run tree by their place, such as `0.2/3`. Source: D-59."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from axe_nb.errors import ConfigError
from axe_nb.messages import Request
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import RunResult, name_run
from axe_nb.text import MAX_SHOWN, cut_chars, list_some, quote


class Found(NamedTuple):
    """The exchange found at a place in a run tree, and the run that it belongs to."""

    run: RunResult
    exchange: Exchange
    """The last attempt of the turn."""
    before: Exchange | None
    """The last exchange of the previous turn; None for the first turn."""

    def request(self, exchange: Exchange) -> Request:
        return exchange.request(self.run.messages, self.run.agent, self.run.id)


def count_earlier(run: RunResult) -> int:
    """Returns the number of messages in the conversation that a run continued."""
    return max(run.exchanges[0].sent - 1, 0) if run.exchanges else 0


def find_exchange(result: RunResult, place: str | int | None) -> Found:
    """Finds the exchange at a place in a result's tree. Raises ConfigError if there is none.

    `0.2/3` or `@0.2/3` is the third turn of run `0.2`, and `0.2` is the last turn of run `0.2`. An
    integer is a turn of the result itself, and None is the result's last turn.
    """
    run, number, turn = find_turn(result, place)
    turns = {exchange.turn: exchange for exchange in run.exchanges}
    if number not in turns:
        raise make_turn_error(run, turn)
    earlier = [exchange for at, exchange in turns.items() if at < number]
    return Found(run, turns[number], earlier[-1] if earlier else None)


def find_turn(result: RunResult, place: str | int | None) -> tuple[RunResult, int, str]:
    """Parses a place. Returns the run, the turn (0 if invalid), and the turn as it was typed."""
    if not isinstance(place, str | int | None):
        raise ConfigError(
            f"a place is a string such as 0.2/3 or the number of a turn, not {type(place).__name__}"
        )
    text = f"{result.id}/{place}" if isinstance(place, int) else place or result.id
    id, slash, turn = text.removeprefix("@").partition("/")
    run = find_run(result, id)
    if not run.exchanges:
        name = name_run(run.agent, run.model)
        raise ConfigError(f"run {run.id} of {name} has no recorded request")
    last = max(exchange.turn for exchange in run.exchanges)
    is_number = turn.isdecimal() and len(turn) < 10
    return run, int(turn) if is_number else 0 if slash else last, turn


def make_turn_error(run: RunResult, turn: str) -> ConfigError:
    places = dict.fromkeys(f"{run.id}/{exchange.turn}" for exchange in run.exchanges)
    return ConfigError(
        f"no turn {quote(cut_chars(turn, MAX_SHOWN, '…'))} of {name_run(run.agent, run.model)}; "
        f"its turns are {list_some([*places], 10)}"
    )


def find_run(result: RunResult, id: str) -> RunResult:
    """Finds a run in a result's tree by `id`; an empty id means the result itself.

    Raises ConfigError if there is no such run.
    """
    run = next((run for run in result.walk() if run.id == (id or result.id)), None)
    if run is None:
        shown = cut_chars(id, MAX_SHOWN, "…")
        near = get_close_matches(shown, [run.id for run in result.walk()], n=3, cutoff=0.0)
        raise ConfigError(f"no run {quote(shown)} in this tree; nearest: {', '.join(near)}")
    return run
