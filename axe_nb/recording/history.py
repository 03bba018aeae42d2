"""Reading of the history: the list of runs, and the result of each.

Source: D-61, D-69.
"""

from __future__ import annotations

import contextlib
from collections import UserList
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from axe_nb.agents.prompt import TRUSTED
from axe_nb.agents.user_config import format_path_or_name
from axe_nb.conversion.jsonable import make_frame
from axe_nb.errors import ConfigError
from axe_nb.recording.history_recorder import find_writer, history_path, read_result
from axe_nb.results import NO_AGENT
from axe_nb.text import align_columns, format_dollars, format_seconds, one_line
from axe_nb.tools.kept_files import forget_kept

if TYPE_CHECKING:
    from axe_nb.recording.history_store import Store
    from axe_nb.results import RunResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One run of the history; counts are those of its tree."""

    id: int
    """Id of the run, for `axe_nb.load`."""
    when: datetime
    """Time of its start, in the local time zone."""
    agent: str
    model: str
    """provider/model of the root."""
    prompt: str
    """First line of the prompt."""
    status: str
    """Status as in a result, or `running` while its process lives."""
    runs: int
    turns: int
    tokens: int
    cost: float | None
    """US dollars; None if the price of any part is unknown, or the run has not ended."""
    seconds: float


NAMES = tuple(field.name for field in fields(HistoryRow))


class History(UserList[HistoryRow]):
    """Runs of the history, newest first; shown as a table."""

    def __repr__(self) -> str:
        if not self:
            return "no runs in the history"
        lines = [
            (
                str(row.id), f"{row.when:%Y-%m-%d %H:%M}", row.agent or NO_AGENT, row.model,
                one_line(row.prompt, 60), row.status, f"{row.runs:,}", f"{row.turns:,}",
                f"{row.tokens:,}", "" if row.cost is None else format_dollars(row.cost),
                format_seconds(row.seconds),
            )
            for row in self
        ]  # fmt: skip
        return "\n".join(align_columns([NAMES, *lines]))

    def to_frame(self) -> Any:
        """Returns the rows as a pandas DataFrame, with the ids as its index.

        Raises:
            ConfigError: pandas is not installed.
        """
        return make_frame(map(asdict, self), NAMES).set_index("id")


def list_history(agent: str | None = None, limit: int = 100) -> History:
    """Returns the latest runs, newest first. Raises ConfigError: they cannot be read."""

    def look(store: Store) -> list[HistoryRow]:
        rows = []
        for row in store.list_rows(agent, limit):
            if row["status"] == "running" and not store.is_running(row["id"]):
                row["status"] = "cancelled"
            when = datetime.fromtimestamp(row["started"]).astimezone()
            rows.append(HistoryRow(**{name: row.get(name, when) for name in NAMES}))
        return rows

    return History(_use(look) or ())


def load_run(number: int) -> RunResult:
    """Returns the result of a run of the history.

    An unfinished run, or one whose process died, is `cancelled`; its error says which.

    Raises ConfigError: there is no such run, or it is damaged.
    """
    is_running = _find_run(number)
    parts = _use(lambda store: store.list_parts(number))
    why = "the process ended during this run; what was answered by then is kept"
    if is_running:
        why = "the run has not ended yet; what was answered so far is kept"
    try:
        result = read_result(parts or (), why)
    except ConfigError as error:
        raise ConfigError(
            f"run {number} of the history cannot be read: {error.message}", hint=error.hint
        ) from None
    if result.definitions is not None:
        result.definitions.memory[TRUSTED] = True  # the file is the user's own
    return result


def delete_run(number: int) -> None:
    """Removes a run from the history, with its texts and the files for undoing it.

    Raises ConfigError: there is no such run, it has not ended, or the history cannot be written.
    """
    if _find_run(number):
        raise ConfigError(f"run {number} of the history has not ended", hint="interrupt it first")
    with contextlib.suppress(ConfigError):  # a damaged run has to go, too
        forget_kept(load_run(number).undo_id)
    _use(lambda store: store.delete(number), "written")


def _find_run(number: int) -> bool:
    """True if a run has not ended. Raises ConfigError: there is no such run."""
    is_running = _use(lambda store: store.is_running(number) if store.holds(number) else None)
    if is_running is None:
        raise ConfigError(
            f"the history has no run with the id {number}",
            hint="list them: %axe history, or axe_nb.history()",
        )
    return is_running


def _use(look: Callable[[Store], T], verb: str = "read") -> T | None:
    """Opens the history and calls a function with it; returns None if there is no history."""
    path = history_path()
    find_writer(path).flush(1.0)
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
