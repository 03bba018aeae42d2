"""The place of a run's display in a notebook; each run is shown once."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from axe_nb.events import Event
from axe_nb.results import RunResult
from axe_nb.session.drive import NullView, View
from axe_nb.session.runs import RunHandle

if TYPE_CHECKING:
    from axe_nb.cell_display.view import CellDisplay

_shown: list[object] = []
"""Objects that this cell has displayed; as the cell's value, they are not displayed again."""

_brief: list[RunResult] = []
"""Results that this cell has not displayed; as the cell's value, only their answer is shown."""

_displays: list[CellDisplay] = []
"""The display of this cell's runs, if it has one that may take more of them."""

_choosing = threading.Lock()


def notebook_view(name: str = "", *, quiet: bool = False) -> View:
    """The view for a run in this cell: live in an interactive notebook, else the static twin.

    Args:
        name: what the result is bound to (`-o`); pointers to long texts use it.
        quiet: the answer only, no tree.
    """
    shell = get_ipython()
    if shell is None:
        return NullView()
    from axe_nb.cell_display import view

    install(shell)
    name = name or "axe_nb.last()"
    display = display_mode(shell)
    if display == "off":
        return AtEnd(_brief.append)  # a cell that returns the result still shows its answer
    if quiet:
        return ShownOnce(AtEnd(partial(show, quiet=True)))
    return ShownOnce(_make_run_view(name, live=view.is_live(display)))


def _make_run_view(name: str, *, live: bool) -> View:
    """The view of a run that begins now: in the display of the cell's runs beside it, if any."""
    from axe_nb.cell_display.view import CellDisplay

    with _choosing:
        for shown in _displays:
            if (shown.name, shown.is_live) == (name, live) and shown.takes_more():
                return shown.add_run()
        _displays[:] = [CellDisplay(name, live=live)]
        return _displays[0].add_run()


def display_mode(shell: InteractiveShell) -> str:
    """The display mode that the user chose (`%config AxeMagics.display`); empty = not set."""
    magics = shell.magics_manager.registry.get("AxeMagics")
    return str(magics.display) if magics else ""


def describe_display(shell: InteractiveShell) -> str:
    """A description of the way a run in this cell would be shown."""
    from axe_nb.cell_display import view

    display = display_mode(shell)
    if display == "off":
        return "answers only (%config AxeMagics.display)"
    if view.is_live(display):
        return "live tree, replaced by a static one at the end"
    return "static tree at the end; no live display here"


def can_ask() -> bool:
    """True if a person can be prompted, in this cell or terminal."""
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return sys.stdin is not None and sys.stdin.isatty()
    return bool(getattr(kernel, "_allow_stdin", False))


class AtEnd:
    """A view that shows nothing until the run has ended."""

    streams = is_live = False

    def __init__(self, show_result: Callable[[RunResult], None]) -> None:
        self._show_result = show_result

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            self._show_result(result)


class ShownOnce:
    """A view that remembers what it showed, for the cell that returns it."""

    def __init__(self, inner: View) -> None:
        self._inner = inner
        self.streams = inner.streams
        self.is_live = inner.is_live
        self.event = inner.event
        self.tick = inner.tick

    def finish(self, result: RunResult | None) -> None:
        self._inner.finish(result)
        if result is not None:
            remember(result)


def show(result: RunResult, name: str = "axe_nb.last()", *, quiet: bool = False) -> None:
    """Displays the static twin of a result, or its answer alone."""
    from axe_nb.views import html

    bundle = html.answer(result) if quiet else html.twin(result, name=name)
    display(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap


def remember(thing: object) -> None:
    """Notes that this cell has displayed it."""
    _shown.append(thing)


def is_shown(thing: object) -> bool:
    """True if this cell has displayed it."""
    return any(thing is shown for shown in _shown)


def show_again(result: RunResult) -> None:
    """Displays a result that is a cell's value, unless the cell has just shown it."""
    if not is_shown(result):
        quiet = any(result is brief for brief in _brief)
        show(result, find_name(result) or "axe_nb.last()", quiet=quiet)


def find_name(thing: object) -> str:
    """The name of a user variable that holds it, for pointers into it; empty if there is none."""
    shell = get_ipython()
    variables = shell.user_ns if shell else {}
    named = (name for name, value in variables.items() if value is thing and name[0] != "_")
    return next(named, "")


def find_target(function: str) -> str:
    """The variable that the running cell assigns the value of a function to; empty if unclear."""
    shell = get_ipython()
    cells = shell.user_ns.get("In") if shell else None
    try:
        tree = ast.parse(cells[-1] if cells else "")
    except SyntaxError:
        return ""
    targets = [
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == function
    ]
    return targets[0] if len(targets) == 1 else ""


def show_handle(handle: RunHandle) -> None:
    """Displays a handle that is a cell's value, unless the cell has just shown its run."""
    if not is_shown(handle):
        display({"text/plain": repr(handle)}, raw=True)  # type: ignore[no-untyped-call]


def install(shell: InteractiveShell) -> None:
    """Teaches IPython to show a RunResult as its twin; twice is harmless."""
    assert shell.display_formatter is not None
    formatter = shell.display_formatter.ipython_display_formatter
    formatter.for_type_by_name("axe_nb.results", "RunResult", show_again)
    formatter.for_type(RunHandle, show_handle)
    if _forget not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _forget)


def _forget(result: Any = None) -> None:
    _shown.clear()
    _brief.clear()
    _displays.clear()
