"""The interface of every front end that shows a run: a notebook, a terminal, nothing.

Source: product.md "Notebook"; house style §4, §8.
"""

from __future__ import annotations

from typing import Protocol

from axe_nb.events import Event
from axe_nb.results import RunResult


class View(Protocol):
    """Shows a run in a notebook display, on a terminal line, or not at all."""

    @property
    def streams(self) -> bool:
        """True if it shows replies as they arrive."""

    @property
    def is_live(self) -> bool:
        """True if another thread may show what happens while this one waits for the person."""

    def event(self, event: Event) -> None:
        """Receives each event, in order; neither blocks nor raises."""

    def tick(self) -> None:
        """Called often; redraws if it is time to."""

    def finish(self, result: RunResult | None) -> None:
        """Called once, at the end; None = the run never started."""


class NullView:
    """A view that shows nothing."""

    streams = is_live = False

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


class Line(Protocol):
    """Shows one line, and replaces it."""

    def show(self, text: str) -> None:
        """Shows the line as it is now."""

    def finish(self, text: str) -> None:
        """Shows the line that is kept, or removes it."""


class NoLine:
    """A line that no one sees."""

    def show(self, text: str) -> None: ...

    def finish(self, text: str) -> None: ...
