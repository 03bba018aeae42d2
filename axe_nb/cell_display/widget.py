"""The widget of a live display: its state, its scripts, and where it stands.

Source: jupyter-facts §0.4-0.7, §2.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

STATIC = Path(__file__).parent / "static"

AGAIN = 1.5
"""Seconds between two snapshots; a large one is sent more rarely, see RATE."""

RATE = 60_000
"""Bytes a second that snapshots may take."""


def make_widget_class(scripts: Sequence[str], css: str, values: str = "") -> type[Any]:
    """Makes the class of a widget; its libraries take longer to import than a run to begin.

    Args:
        scripts: files that make one module, in this order.
        css: its style sheet.
        values: declarations that stand before the scripts.
    """
    import anywidget
    import traitlets

    class Live(anywidget.AnyWidget):
        _esm = values + "".join((STATIC / name).read_text("utf-8") for name in scripts)
        _css = css
        # as text: the browser compares a trait's old and new value, which is slow for objects
        snapshot = traitlets.Unicode().tag(sync=True)
        # class of the element whose place it takes; empty = it has an output of its own
        mark = traitlets.Unicode().tag(sync=True)
        # True if the reader may stop what it shows
        can_stop = traitlets.Bool().tag(sync=True)

    return Live


def make_mark() -> str:
    """Returns a class by which a widget finds its place; empty = it has to be in the output.

    In the page of a Jupyter server, the output is readable HTML only, which the widget covers while
    the kernel lives: a widget in a saved output says "model not found" once its kernel is gone,
    whatever stands beside it. VS Code connects to such servers, too, and has no page that could be
    searched.
    """
    shell = get_ipython()
    in_vscode = shell is not None and "__vsc_ipynb_file__" in shell.user_ns
    is_page_jupyter = "JPY_SESSION_NAME" in os.environ and not in_vscode
    return f"axe-nb-at-{secrets.token_hex(8)}" if is_page_jupyter else ""


def join_bundle(widget: Any, bundle: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns data and metadata of the first output: the bundle, and the widget unless marked."""
    data, metadata = ({}, {}) if widget.mark else widget._repr_mimebundle_()
    return {**data, **bundle}, metadata


def retire(widget: Any) -> None:
    """Keeps a finished widget for pages that are reloaded, and closes the one before it.

    No update of the display reaches a page that was loaded since the work began; the state of an
    open widget does.
    """
    global _retired
    if not widget.mark:
        widget.close()
        return
    before, _retired = _retired, widget
    if before is not None:
        before.close()


_retired: Any = None
"""The widget whose work ended last."""
