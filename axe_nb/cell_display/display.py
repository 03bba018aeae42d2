"""Displays runs in notebook cells, as live trees that become static HTML when the run ends."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from axe_nb.cell_display.output import show
from axe_nb.events import Event
from axe_nb.results import RunResult
from axe_nb.session.drive import NullView, View
from axe_nb.session.runs import RunHandle
from axe_nb.session.session import session

if TYPE_CHECKING:
    from axe_nb.cell_display.live_tree import LiveTree

_shown: list[object] = []
"""Objects that the running cell has displayed; it does not display them again as its value."""

_brief: list[RunResult] = []
"""Results of undisplayed runs; if one is the running cell's value, its answer is displayed."""

_static: list[RunView] = []
"""The running cell's views that show nothing until their runs end, oldest first."""

_ordering = threading.RLock()


def display_mode() -> Literal["live", "static", "off"]:
    """Returns how this cell shows runs: as live trees, as static trees at the end, or not at all.

    Unless the user has set a mode, live trees are shown in marimo, and in kernels that can ask for
    input, except in tests. They are never shown if output is captured.
    """
    if (shell := get_ipython()) is None:
        return "live"
    magics = shell.magics_manager.registry.get("AxeMagics")
    wanted = str(magics.display) if magics else ""
    if wanted == "off":
        return "off"
    kernel = getattr(shell, "kernel", None)
    is_captured = isinstance(shell.display_pub, CapturingDisplayPublisher)
    if kernel is None or is_captured or wanted == "static":
        return "static"
    # headless runners do not allow input; kernels inherit the variable of pytest
    is_watched = getattr(kernel, "_allow_stdin", False) and "PYTEST_VERSION" not in os.environ
    return "live" if wanted == "live" or is_watched else "static"


def notebook_view(name: str = "", *, quiet: bool = False, speed: float = 1.0) -> View:
    """Creates the view of a run in this cell, according to `display_mode`.

    `name` is the variable that holds the result, for hints on long texts. `quiet` shows only the
    answer. `speed` is the playback speed: how many seconds of the run are shown per second.
    """
    if shell := get_ipython():
        install(shell)
    name = name or ("axe_nb.last()" if shell else "(result)")  # marimo has no magics
    mode = display_mode()
    if mode == "off":
        return _Brief()
    live = mode == "live" and not quiet
    return RunView(name, live=live, quiet=quiet, speed=speed)


class _Brief(NullView):
    """A view that shows nothing; a notebook shows the answer if the result is the cell's value."""

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            _brief.append(result)


class RunView:
    """Shows a run in a cell as a static tree at the end, preceded by a live tree if `live`."""

    def __init__(
        self,
        name: str = "axe_nb.last()",
        *,
        live: bool,
        quiet: bool = False,
        stop: Callable[[], None] | None = None,
        speed: float = 1.0,
    ) -> None:
        """Creates the view. `stop` stops the run; pass it only if the run may outlive the cell."""
        self.streams = self.is_live = live
        self._name, self._quiet, self._outlives = name, quiet, stop is not None
        self._lock = threading.RLock()
        self._result: RunResult | None = None
        self.is_over = False
        self._tree: LiveTree | None = None
        if live:
            from axe_nb.cell_display.live_tree import LiveTree  # imports what draws it

            self._tree = LiveTree(name, stop, speed)
        else:
            _static.append(self)

    def event(self, event: Event) -> None:
        with self._lock:
            if self._tree:
                self._tree.apply(event)

    def tick(self) -> None:
        with self._lock:
            if self._tree:
                self._tree.tick()

    def finish(self, result: RunResult | None) -> None:
        """Ends the view with the run's result, or with None if it has no result."""
        self._result, self.is_over = result, True
        if result is not None and not self._outlives:
            remember(result)
        with self._lock:
            tree, self._tree = self._tree, None
            if tree and tree.close(result):
                return
        with _ordering:
            if self not in _static:
                self.show_twin()
            while _static and _static[0].is_over:
                _static.pop(0).show_twin()

    def show_twin(self) -> None:
        if self._result is not None:
            _show(self._result, self._name, self._quiet)


def _show(result: RunResult, name: str, quiet: bool) -> None:
    from axe_nb.views import html

    show(html.answer(result) if quiet else html.twin(result, name=name))


def remember(thing: object) -> None:
    if get_ipython():  # marimo replaces a cell's output with its value
        _shown.append(thing)


def show_again(thing: Any) -> None:
    """Displays a result, handle or grid as a cell's value, unless the cell has displayed it."""
    if any(thing is shown for shown in _shown):
        return
    if isinstance(thing, RunResult):
        quiet = any(thing is brief for brief in _brief)
        default = "axe_nb.last()" if thing is session.last else "(result)"  # one of the history
        _show(thing, find_name(thing) or default, quiet)
    else:
        is_handle = isinstance(thing, RunHandle)
        show({"text/plain": repr(thing)} if is_handle else thing._repr_mimebundle_()[0])


def find_name(thing: object) -> str:
    """Returns the name of the user's variable that holds an object; empty if there is none."""
    shell = get_ipython()
    variables = shell.user_ns.items() if shell else ()
    return next((name for name, value in variables if value is thing and name[0] != "_"), "")


def find_target(function: str) -> str:
    """Returns the only variable to which the cell assigns `function`'s value, otherwise ""."""
    shell = get_ipython()
    cells = shell.user_ns.get("In") if shell else None
    try:
        tree = ast.parse(cells[-1] if cells else "")
    except SyntaxError:
        return ""
    targets = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=ast.Call(func=called)):
                is_it = ast.unparse(called).rpartition(".")[2] == function
                targets += [name] if is_it else []
    return targets[0] if len(targets) == 1 else ""


def install(shell: InteractiveShell) -> None:
    """Registers the display of results and handles with IPython. May be called repeatedly."""
    assert shell.display_formatter is not None
    formatter = shell.display_formatter.ipython_display_formatter
    formatter.for_type_by_name("axe_nb.results", "RunResult", show_again)
    formatter.for_type(RunHandle, show_again)
    if _forget not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _forget)


def _forget(result: Any = None) -> None:
    with _ordering:
        for view in _static:
            view.show_twin()
        _static.clear()
    _shown.clear()
    _brief.clear()
