"""Puts HTML and widgets into the output of a cell, in IPython or else in marimo."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display


def show(bundle: dict[str, str], widget: Any = None) -> Any:
    """Displays a widget or, without one, a MIME bundle. The returned object's `update` replaces it.

    A front end that does not support the widget displays the bundle.
    """
    if get_ipython() is None:
        return _MarimoOutput(bundle, widget)
    data, metadata = widget._repr_mimebundle_() if widget else ({}, {})
    all_of_it = {**data, **bundle}
    return display(all_of_it, metadata=metadata, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython's own gap


class _MarimoOutput:
    def __init__(self, bundle: dict[str, str], widget: Any) -> None:
        import marimo

        self._marimo, self._outputs = marimo, _find_outputs()
        self._at = len(self._outputs)
        marimo.output.append(widget or marimo.Html(bundle["text/html"]))

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        if _find_outputs() is self._outputs:  # not for a task that outlives its cell
            self._marimo.output.replace_at_index(self._marimo.Html(bundle["text/html"]), self._at)


def _find_outputs() -> Any:
    """Returns the outputs of the running marimo cell; () if no cell runs."""
    from marimo._runtime.context import get_context  # there is no public name

    cell = get_context().execution_context
    return cell.output if cell else ()
