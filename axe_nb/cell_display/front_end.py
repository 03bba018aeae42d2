"""Chooses views and prompts for the current front end: notebook, terminal or none. Source: D-48."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from axe_nb.engine.call import is_inside
from axe_nb.results import RunResult
from axe_nb.session.drive import Approver, Line, NoLine, NullView, View
from axe_nb.session.prompts import prompt_person


def can_ask() -> bool:
    if marimo := find_marimo():  # visitors of an app have no input, an export has no page
        app = marimo.app_meta()
        return app.mode == "edit" and app.request is not None
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return sys.stdin is not None and sys.stdin.isatty()
    return bool(getattr(kernel, "_allow_stdin", False))


def find_approver(view: View) -> Approver | None:
    """Returns an approver that prompts the user; None inside a run, or if no one can be asked."""
    if is_inside() or not can_ask():
        return None
    has_view = False
    if getattr(view, "is_live", False):
        from axe_nb.cell_display.feed import is_jupyter_page

        # elsewhere, the page may not show the live tree, and with it what the question is about
        has_view = is_jupyter_page()
    return Approver(partial(prompt_person, has_view=has_view))


def make_line(display: bool) -> Line:
    """Returns a map's progress line; it shows nothing inside a run, or if `display` is false."""
    if not display or is_inside():
        return NoLine()
    if has_cells():
        from axe_nb.cell_display.display import display_mode
        from axe_nb.cell_display.table import CellLine

        mode = display_mode()
        return NoLine() if mode == "off" else CellLine(live=mode == "live")
    if sys.stderr is None or not sys.stderr.isatty():
        return NoLine()
    from axe_nb.commands.console import TerminalLine  # late, as most runs do not need it

    return TerminalLine(sys.stderr)


def make_table(
    thing: object,
    draw: Callable[[str], dict[str, str]],
    list_parts: Callable[[str], list[str]],
    display: bool,
) -> Line:
    """Returns the progress display of a grid: a table in a notebook, otherwise a line.

    `draw` takes a progress text and returns the MIME bundle of the whole table. `list_parts` takes
    the same text and returns the HTML of a fixed number of parts. An empty text means that the
    table is final.
    """
    line = make_line(display)
    if not display or is_inside() or not has_cells() or isinstance(line, NoLine):
        return line
    from axe_nb.cell_display.display import display_mode
    from axe_nb.cell_display.table import Table

    return Table(thing, draw, list_parts, live=display_mode() == "live")


def find_variable(thing: object, function: str = "") -> str:
    """Returns the variable of `thing` or of the return value of `function`; empty if none."""
    if not is_notebook():
        return ""
    from axe_nb.cell_display.display import find_name, find_target

    return find_name(thing) or (function and find_target(function))


def is_notebook() -> bool:
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def find_marimo() -> Any:
    """Returns the marimo package if this thread runs a cell of its notebooks, otherwise None."""
    marimo = sys.modules.get("marimo")
    return marimo if marimo and marimo.running_in_notebook() else None


def has_cells() -> bool:
    return is_notebook() or find_marimo() is not None


def print_run(result: RunResult) -> None:
    from axe_nb.views.outline import as_text

    sys.stdout.write(as_text(result, name="(result)") + "\n")


def make_view(display: bool, name: str = "", speed: float = 1.0) -> View:
    """Creates the view of a run; it shows nothing outside a notebook or inside another run."""
    if not display or is_inside() or not has_cells():
        return NullView()
    from axe_nb.cell_display.display import notebook_view

    return notebook_view(name, speed=speed)
