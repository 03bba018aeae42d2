"""The running cell, by which a cassette tells the runs of different cells apart.

Source: product.md "Cassettes".
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def install(shell: InteractiveShell) -> None:
    """Starts to note each cell that runs."""
    shell.events.register("pre_run_cell", _note_cell)


def uninstall(shell: InteractiveShell) -> None:
    """Reverses `install`."""
    shell.events.unregister("pre_run_cell", _note_cell)


def _note_cell(info: Any) -> None:
    home = sys.modules.get("axe_nb.session.session")  # else there is no cassette either
    if home is not None and home.session.cassette is not None:
        home.session.cassette.enter_cell(getattr(info, "cell_id", None))
