"""The progress of a map, as one line: counts, rate and forecast.

The last line, which a saved notebook keeps, has neither times nor rates.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from axe_nb.results import RunResult
from axe_nb.session.drive import Line, NoLine
from axe_nb.text import clean, format_dollars, one_line, plural

EVERY = 0.1
"""Seconds between two updates of a line."""


@dataclass
class Tally:
    """Counts of the runs of a map."""

    name: str
    total: int | None = None
    done: int = 0
    from_file: int = 0
    """Runs whose results were kept by an earlier map."""
    statuses: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    dollars: float = 0.0
    is_priced: bool = True
    """False if the price of any run is unknown."""
    forecast: str = ""
    """Forecast of all runs together, in words; empty = there is none."""
    notes: list[str] = field(default_factory=list)
    """Facts that a reader has to know, such as a budget that was reached."""
    began: float = field(default_factory=time.monotonic)

    def add(self, result: RunResult, *, is_from_file: bool) -> None:
        self.done += 1
        self.from_file += is_from_file
        self.statuses[result.status] += 1
        self.tokens += result.total_usage.total
        cost = result.total_cost
        self.is_priced = self.is_priced and cost is not None
        self.dollars += cost or 0.0

    def format_live(self) -> str:
        """Returns the line for a map in progress, with rate and forecast."""
        parts = [*filter(None, [self.forecast]), self._format_counts(), *self._format_usage()]
        elapsed = time.monotonic() - self.began
        rate = (self.done - self.from_file) / elapsed if elapsed > 0 else 0.0
        if self.from_file:
            parts.append(f"{self.from_file:,} from the file")
        if rate:
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min")
            if self.total is not None:
                minutes, seconds = divmod(round((self.total - self.done) / rate), 60)
                hours, minutes = divmod(minutes, 60)
                rest = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
                parts.append(f"about {f'{hours} h {minutes} min' if hours else rest} left")
        return " · ".join(parts)

    def format_end(self) -> str:
        parts = [self._format_counts(), *self._format_usage()]
        return " · ".join([*parts, *(one_line(note, 300) for note in self.notes)])

    def _format_counts(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        failed = [
            plural(count, status) if status in ("error", "timeout") else f"{count:,} {status}"
            for status, count in sorted(self.statuses.items())
            if status != "completed" and count
        ]
        runs = f"{self.done:,}{of} {'run' if (self.total or self.done) == 1 else 'runs'}"
        return f"{one_line(clean(self.name), 60)}: {runs}, {', '.join(failed) or '0 failed'}"

    def _format_usage(self) -> list[str]:
        tokens = [plural(self.tokens, "token")] if self.tokens else []
        return tokens + ([format_dollars(self.dollars)] if self.is_priced and self.dollars else [])


class Progress:
    """Keeps a line up to date, at most ten times a second; used by one thread."""

    def __init__(self, tally: Tally, line: Line) -> None:
        self.tally, self._line = tally, line
        self._next_at = time.monotonic() + EVERY

    def tick(self) -> None:
        if isinstance(self._line, NoLine):
            return
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + EVERY
            self._line.show(self.tally.format_live())

    def finish(self) -> None:
        self._line.finish(self.tally.format_end())
