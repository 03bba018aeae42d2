"""The runs that are kept, and the file that keeps them.

Source: product.md "Runs are recordings" (History); D-68.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from axe_nb.agents.config import state_dir
from axe_nb.messages import Message
from axe_nb.recording.approvals import is_test

if TYPE_CHECKING:
    from axe_nb.recording.tape import RootTape
    from axe_nb.run_history.recorder import Recorder

VARIABLE = "AXE_NB_HISTORY"
"""Environment variable; `0` = no run is kept, `1` = also runs of tests are."""


def history_path() -> Path:
    """Returns the path of the history; it need not exist."""
    return state_dir() / "runs.sqlite"


def find_reason_against() -> str:
    """Returns why runs are not kept; empty if they are."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted == "0":
        return f"{VARIABLE}=0"
    return "runs of tests are not kept" if wanted != "1" and is_test() else ""


def begin_recorder(history: Sequence[Message], tape: RootTape | None) -> Recorder | None:
    """Returns the recorder for a root run; None if it is not kept.

    Args:
        history: the conversation that the run goes on with.
        tape: that of the tree; what only plays is not kept.
    """
    if find_reason_against():
        return None
    from axe_nb.run_history.recorder import Recorder
    from axe_nb.run_history.writer import find_writer

    return Recorder(find_writer(history_path()), history, tape)
