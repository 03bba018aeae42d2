"""The line of a map's progress in a notebook: live, or once at the end.

Source: product.md "Exploring"; cluster-facts.md §6.
"""

from __future__ import annotations

from IPython.core.display_functions import DisplayHandle
from IPython.core.getipython import get_ipython
from IPython.display import display

from axe_nb.cell_display import view
from axe_nb.cell_display.display import display_mode
from axe_nb.session.drive import Line, NoLine


class CellLine:
    """A line in the output of a cell."""

    def __init__(self, *, live: bool) -> None:
        """Creates a line without output.

        Args:
            live: False = only its last state is shown, which saved notebooks are compared by.
        """
        self._is_live = live
        self._place: DisplayHandle | None = None

    def show(self, text: str) -> None:
        """See `Line`."""
        if self._is_live:
            self.finish(text)

    def finish(self, text: str) -> None:
        """See `Line`."""
        bundle = {"text/plain": text}
        if self._place is not None:
            self._place.update(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap
            return
        self._place = display(bundle, raw=True, display_id=self._is_live)  # type: ignore[no-untyped-call]


def find_line() -> Line:
    """Returns the line for a map in this cell."""
    shell = get_ipython()
    if shell is None:
        return NoLine()
    wanted = display_mode(shell)
    return NoLine() if wanted == "off" else CellLine(live=view.is_live(wanted))
