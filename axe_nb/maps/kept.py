"""The results that a map keeps in the history, from which it goes on (`resume=True`).

The same records under the same keys as those of a resume file, in another place.
Source: product.md "Exploring" (`resume=`); D-60, D-61.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from axe_nb.agents.config import format_path_or_name
from axe_nb.agents.files import expand_home, reason
from axe_nb.data_files import check_header, format_header
from axe_nb.errors import ConfigError
from axe_nb.maps.resume_file import ResumeFile, format_result, is_final, read_result
from axe_nb.results import RunResult
from axe_nb.run_history.recorder import find_reason_against
from axe_nb.text import one_line

if TYPE_CHECKING:
    from axe_nb.run_history.map_results import MapResults

Resume: TypeAlias = "str | os.PathLike[str] | bool | None"
"""A resume file; True = the history."""

PRUNE_EVERY = 1000
"""Results after which the limits of the history are applied again; they first are at the start."""


class Kept(Protocol):
    """Results of earlier runs, and a place for further ones."""

    problem: str
    """The reason that a result could not be kept; empty = all were."""

    @property
    def has_results(self) -> bool:
        """True if it has results of finished runs that were not taken yet."""

    def take(self, key: str) -> RunResult | None:
        """Returns the result of a finished run that was not taken yet; None = there is none."""

    def append(self, key: str, result: RunResult) -> None:
        """Keeps a result without its secrets; a problem is kept, as the run goes on anyway."""

    def close(self) -> None:
        """Lets go of the place."""


class KeptHistory:
    """The results of runs in the history; see `Kept`."""

    def __init__(self, *, is_fresh: bool = False) -> None:
        """Opens the history.

        Args:
            is_fresh: if True, nothing is taken from it.

        Raises:
            ConfigError: it is switched off, or cannot be used.
        """
        if why := find_reason_against():
            raise ConfigError(
                f"resume=True needs the history, which is off: {why}",
                hint="resume=PATH keeps the results in a file",
            )
        from sqlite3 import Error

        from axe_nb.run_history.map_results import MapResults, results_path

        self._error = Error
        self._path = results_path()
        self.is_fresh = is_fresh
        """True if nothing is taken from it."""
        self._lock = threading.RLock()
        self._taken: dict[str, int] = {}
        """Key → number of its result that was looked at last."""
        self._own: set[int] = set()
        """Numbers of the results that this map added."""
        self._appended = 0
        self.problem = ""
        self._store: MapResults | None = None
        try:
            self._store = MapResults(self._path)
            self._store.prune()
            self._had_any = not is_fresh and self._store.has_any()
        except (OSError, Error, ConfigError) as error:
            self.close()
            raise ConfigError(self._explain("be used", error)) from None

    def __del__(self) -> None:
        if getattr(self, "_store", None) is not None:  # a map that was never begun
            self.close()

    @property
    def has_results(self) -> bool:
        """See `Kept`."""
        return self._had_any

    def forget(self, keys: Iterable[str]) -> None:
        """Removes the results of runs that are asked anew; no later map goes on from them."""
        with self._lock:
            try:
                if self._store is not None:
                    self._store.forget(keys)
            except (OSError, self._error) as error:
                self.problem = self._explain("be written", error)

    def take(self, key: str) -> RunResult | None:
        """See `Kept`."""
        with self._lock:
            while self._store is not None and not self.is_fresh:
                try:
                    found = self._store.find(key, self._taken.get(key, 0))
                except (OSError, self._error) as error:
                    self.problem = self._explain("be read", error)
                    return None
                if found is None:
                    return None
                self._taken[key], content = found
                if found[0] not in self._own and (result := self._read(content)) is not None:
                    return result
        return None

    def _read(self, content: object) -> RunResult | None:
        """The result of a text; None if its run is asked again, also as it cannot be read."""
        try:
            text = str(content)
            _, begin = check_header(self._path, "runs", text)
            result = read_result(text[begin:])
        except (ValueError, KeyError, TypeError, RecursionError, ConfigError):
            return None
        return result if is_final(result) else None

    def append(self, key: str, result: RunResult) -> None:
        """See `Kept`; the result of a run that is asked again is not kept."""
        if not is_final(result):
            return
        try:
            text = format_header("runs") + format_result(key, result)
            with self._lock:
                if self._store is None:
                    return
                self._own.add(self._store.add(key, text))
                self._appended += 1
                if self._appended % PRUNE_EVERY == 0:
                    self._store.prune()
        except (OSError, ValueError, RecursionError, ConfigError, self._error) as error:
            self.problem = self._explain("store results", error)
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        """After one wait in vain, results go in if the file is free: a map would wait for each."""
        with self._lock, contextlib.suppress(self._error):
            if self._store is not None:
                self._store.wait_for_others(0)

    def close(self) -> None:
        """See `Kept`."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def _explain(self, what: str, error: Exception) -> str:
        why = reason(error) if isinstance(error, OSError) else one_line(str(error), 200)
        hint = error.hint if isinstance(error, ConfigError) else ""
        step = hint or "resume=PATH keeps the results in a file"
        return (
            f"the history of maps cannot {what}: {why} ({format_path_or_name(self._path)}); {step}"
        )


def open_kept(resume: Resume, *, is_kept: bool = False) -> Kept | None:
    """Opens what results are kept in; None = nothing keeps them.

    Args:
        resume: what is resumed.
        is_kept: if True, and nothing is resumed, the history takes the results of runs that are
            asked anew; where it cannot be used, nothing does.

    Raises:
        ConfigError: what is to be resumed cannot be used.
    """
    if resume is True:
        return KeptHistory()
    if resume is not None and resume is not False:
        return ResumeFile(resume)
    if not is_kept or find_reason_against():
        return None
    with contextlib.suppress(ConfigError):  # needed only once they are resumed, which says why
        return KeptHistory(is_fresh=True)
    return None


def is_there(resume: Resume) -> bool:
    """True if there is something that has results, as far as its name tells."""
    if resume is True:
        from axe_nb.run_history.map_results import results_path

        return results_path().exists()
    return isinstance(resume, str | os.PathLike) and expand_home(os.fspath(resume)).exists()
