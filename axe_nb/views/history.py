"""Lists, loads and deletes the runs in the history. Source: D-61, D-69."""

from __future__ import annotations

import contextlib
from collections import UserList
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime, timedelta
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from axe_nb.agents.prompt import TRUSTED
from axe_nb.agents.user_config import format_path_or_name
from axe_nb.conversion.jsonable import make_frame
from axe_nb.errors import ConfigError
from axe_nb.recording.history_recorder import find_writer, history_path, read_result
from axe_nb.results import NO_AGENT
from axe_nb.text import align_columns, format_dollars, format_seconds, one_line, shown_value
from axe_nb.tools.kept_files import forget_kept
from axe_nb.views.appearance import LOOKS
from axe_nb.views.html import PLAIN, twin
from axe_nb.views.table import MAX_TREES, MOST_ROWS, count_left, fold, format_cell, format_table
from axe_nb.views.transcript import State

if TYPE_CHECKING:
    from axe_nb.recording.history_store import Row, Store
    from axe_nb.results import RunResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One row of the history: a run, or a map or grid. Counts include all child runs."""

    id: int
    """Id to pass to `axe_nb.load`."""
    when: datetime
    """Start time in the local time zone."""
    agent: str
    model: str
    """Model of the root run, as provider/model; for a map or grid, the models of its runs."""
    prompt: str
    """First line of the prompt; for a map or grid, a count of runs and the first run's prompt."""
    status: str
    """The result's status, or `running`. A map or grid is `completed` if all its runs are
    completed; otherwise it has the status of the first run that is not."""
    runs: int
    turns: int
    tokens: int
    cost: float | None
    """Cost in US dollars; None if any price is unknown, or if a single run has not ended."""
    seconds: float
    folder: str = ""
    """Project folder in which the run was started, such as `~/work/harbour`."""
    kind: str = ""
    """`map` or `grid`; empty for a single run."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            str(self.id), f"{self.when:%Y-%m-%d %H:%M}", self.agent or NO_AGENT, self.model,
            one_line(self.prompt, 60), self.status, f"{self.runs:,}", f"{self.turns:,}",
            f"{self.tokens:,}", format_dollars(self.cost) if self.cost else "",
            format_seconds(round(self.seconds, 1)), Path(self.folder).name,
        )  # fmt: skip


NAMES = tuple(field.name for field in fields(HistoryRow))
MOST_RUNS = 2**63 - 1
"""The largest id in the history's database; there can be no more runs than that."""

MORE = "older runs are left out: axe_nb.history(limit=1000) lists more"

SHOWN = NAMES[:-1]
"""Columns of the displayed table; the prompt of a map or grid begins with its `kind`."""

IN_PAGE = ("id", "when", "status", "agent", "prompt", "cost", "tokens", "seconds", "folder")
"""Columns of the table in a notebook: those that a narrow window has room for come first."""


class History(UserList[HistoryRow]):
    """Rows of the history, newest first, displayed as a table in a notebook."""

    has_more = False
    """True if `limit` left out older runs."""

    def __repr__(self) -> str:
        if not self:
            return "no runs found in the history"
        lines = align_columns([SHOWN, *(row.cells for row in self[:MOST_ROWS])])
        return "\n".join([*lines, *self._list_left()])

    def _list_left(self) -> Iterator[str]:
        """Yields lines that say how to see the rows that are not displayed."""
        yield from count_left(len(self), ".to_frame() has all rows")
        yield from [MORE] * self.has_more

    def _repr_html_(self) -> str:
        return self.draw(MAX_TREES) if self else f"<p>{self!r}</p>"

    def draw(self, room: int) -> str:
        """Formats the rows as HTML. The prompt opens the run's tree, or the runs of a map or grid.

        `room` is the maximum length of all that opens, in characters.
        """
        rows, unused = [], {"cost": not any(row.cost for row in self), "when": not room}
        unused["agent"] = not room and len({row.agent for row in self}) == 1
        unused["folder"] = len({row.folder for row in self}) == 1
        head = [name for name in IN_PAGE if not unused.get(name)]
        for row in self[:MOST_ROWS]:
            cells = dict(zip(SHOWN, map(format_cell, row.cells), strict=True))
            cells["status"] = format_cell(f"{LOOKS[cast(State, row.status)].sign} {row.status}")
            cells["agent"] = format_cell(one_line(row.agent or row.model, 24))
            prompt, inner = format_cell(one_line(row.prompt, 120)), ""
            if room > 0:
                with contextlib.suppress(ConfigError):  # a run that cannot be read has its row
                    if row.kind:
                        inner = list_history(within=row.id).draw(0)
                    else:
                        inner = twin(load_run(row.id), name=f"axe_nb.load({row.id})")["text/html"]
            room -= len(inner)
            cells["prompt"] = fold(prompt, inner if room >= 0 else "")
            rows.append([cells[name] for name in head])
        wide = head.index("prompt")
        table = format_table(head, rows, right=len(head) - wide - 1, wide=wide, is_cut=True)
        more = "".join(f"<p>{line}</p>" for line in self._list_left())
        return f"<div class='{PLAIN}'>{table}{more}</div>"

    def to_frame(self) -> Any:
        """Returns the rows as a pandas DataFrame. Raises ConfigError if pandas is missing."""
        return make_frame(map(asdict, self), NAMES).set_index("id")


def list_history(
    words: str = "",
    status: str | None = None,
    since: str | date | None = None,
    until: str | date | None = None,
    *,
    limit: int = 100,
    within: int = 0,
) -> History:
    """Lists the latest runs as `axe_nb.history` does, or the runs of the map or grid `within`."""
    began = 0.0 if since is None else parse_date(since)
    ended = inf if until is None else parse_date(until, "until")
    # a run whose process died is still `running` in the file, but listed as `cancelled`
    statuses = ("running", "cancelled") if status in ("running", "cancelled") else (status,)

    def make_rows(store: Store) -> Iterator[HistoryRow]:
        for row in store.list_rows(words.split(), filter(None, statuses), began, ended, within):
            is_dead = row.status == "running" and not store.is_running(row.id)
            state = "cancelled" if is_dead else row.status
            same = {name: getattr(row, name) for name in NAMES if name not in ("when", "status")}
            with contextlib.suppress(Exception):  # a damaged row is left out
                when = datetime.fromtimestamp(row.started).astimezone()
                shown = HistoryRow(when=when, status=state, **same)
                if status in (None, state) and state in LOOKS and "".join(shown.cells):
                    yield shown

    first, _, others = words.partition(" ")
    if first.isdecimal() and first.isascii() and not within:
        number = int(first[:18])
        row = _use(lambda store: store.find_row(number))
        if row is not None and row.kind:
            words, within = others, number
    found = _use(lambda store: list(islice(make_rows(store), min(limit + 1, MOST_RUNS)))) or []
    history = History(found[:limit])
    history.has_more = len(found) > limit
    return history


def parse_date(given: str | date, name: str = "since") -> float:
    """Converts a date, an ISO date or time, `today` or `yesterday` to seconds since the epoch.

    A day is its beginning, or its end if `name` is `until`. Raises ConfigError for other values.
    """
    today = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        text = given if isinstance(given, str) else given.isoformat()
        days_more = timedelta(days=name == "until" and len(text) <= len("2026-11-26"))
        return ((days.get(text) or datetime.fromisoformat(text)) + days_more).timestamp()
    except (AttributeError, ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{name} takes a date, not {shown_value(given)}",
            hint="for example 2026-11-26, today or yesterday",
        ) from None


def load_run(number: int) -> RunResult:
    """Loads a run's result. An unfinished run has the status `cancelled`.

    Raises ConfigError if the run does not exist or cannot be read.
    """
    row, is_running = _find_run(number)
    if row.kind:
        raise ConfigError(
            f"{number} is a {row.kind} in the history, not a run",
            hint=f'list its runs: %axe history {number}, or axe_nb.history("{number}")',
        )
    parts = _use(lambda store: store.list_parts(number))
    why = "the process ended during this run; answers received by then are kept"
    if is_running:
        why = "the run has not ended yet; answers received so far are kept"
    try:
        result = read_result(parts or (), why)
    except ConfigError as error:
        raise ConfigError(
            f"run {number} in the history cannot be read: {error.message}", hint=error.hint
        ) from None
    if result.definitions is not None:
        result.definitions.memory[TRUSTED] = True  # the file is the user's own
    return result


def delete_run(number: int) -> None:
    """Deletes a run, or a map or grid with its runs, and the files kept to undo changes.

    Raises ConfigError if the run does not exist or is running.
    """
    row, is_running = _find_run(number)
    if is_running:
        raise ConfigError(f"run {number} in the history has not ended", hint="interrupt it first")
    runs = list_history(within=number, limit=MOST_RUNS) if row.kind else [row]
    for one in [run.id for run in runs]:
        with contextlib.suppress(ConfigError):  # a damaged run can be deleted, too
            forget_kept(load_run(one).undo_id)
    _use(lambda store: store.delete(number), "written")


def _find_run(number: int) -> tuple[Row, bool]:
    """Returns a run's row, and whether the run is in progress.

    Raises ConfigError if there is no such run.
    """
    found = _use(lambda store: (store.find_row(number), store.is_running(number)))
    row, is_running = found or (None, False)
    if row is None:
        raise ConfigError(
            f"the history has no run with the id {number}",
            hint="list them: %axe history, or axe_nb.history()",
        )
    return row, is_running


def _use(look: Callable[[Store], T], verb: str = "read") -> T | None:
    """Opens the history and returns the result of `look`; None if there is no history.

    Raises ConfigError, with `verb` in the message, if reading or changing the history fails.
    """
    path = history_path()
    find_writer(path).flush()
    if not path.exists():
        return None
    from sqlite3 import Error

    from axe_nb.recording.history_store import Store

    try:
        with contextlib.closing(Store(path)) as store:
            return look(store) if store.has_tables else None
    except (OSError, Error, TypeError, ValueError, OverflowError, ConfigError) as error:
        raise ConfigError(
            f"history cannot be {verb}: {one_line(str(error), 300)} ({format_path_or_name(path)})",
            hint=getattr(error, "hint", "") or "if the file is damaged, delete it",
        ) from None
