"""The front end at hand: how a run is shown, and who can be asked.

Another front end is a room of its own with a `View`, and one more case here.
Source: product.md "Python", "Notebook"; D-48.
"""

from __future__ import annotations

import sys

from axe_nb.engine.nesting import is_inside
from axe_nb.session.approval import Approver, prompt_person
from axe_nb.session.view import NullView, View


def find_approver() -> Approver | None:
    """Returns an approver for the notebook or terminal; None = no one can be prompted."""
    if is_inside():
        return None
    if "IPython" in sys.modules:
        from axe_nb.nb.display import can_ask

        can_prompt = can_ask()
    else:
        can_prompt = sys.stdin is not None and sys.stdin.isatty()
    return Approver(prompt_person) if can_prompt else None


def make_view(display: bool) -> View:
    """Returns the notebook's view, or a view that shows nothing; nested runs are not shown."""
    if not display or is_inside() or "IPython" not in sys.modules:
        return NullView()
    from axe_nb.nb.display import notebook_view

    return notebook_view()
