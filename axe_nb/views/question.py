"""An open question to the person, below the row that waits for it. Pure.

Source: design README "Second generation" (a question is a row); D-48, D-56.
"""

from __future__ import annotations

from typing import Any

from axe_nb.events import PersonAsked
from axe_nb.text import clean
from axe_nb.views.tree import CallNode, TreeNode, TurnNode


def format_question(thing: TreeNode) -> dict[str, Any] | None:
    """The question that a row opens into, in the browser's format; None = it asks nothing.

    The row is the one of the call or the turn that the question is about, or that has its place.
    """
    asked = _find_own(thing)
    if asked is None:
        return None
    return {
        "text": clean(asked.text),
        "diff": [[_kind_of(line), line] for line in clean(asked.diff).splitlines()],
        "choices": [list(choice) for choice in asked.choices],
        "prompt": asked.prompt,
        "arguments": asked.arguments,
    }


def _find_own(thing: TreeNode) -> PersonAsked | None:
    if isinstance(thing, CallNode) and not thing.child:
        return thing.asks
    if isinstance(thing, TurnNode):
        return thing.asks or (thing.only_call.asks if thing.only_call else None)
    node = thing.child if isinstance(thing, CallNode) else thing
    hidden: list[TurnNode] = [turn for turn in node.turns if turn.is_hidden] if node else []
    return next((turn.asks for turn in hidden if turn.asks), None)


def _kind_of(line: str) -> str:
    """Kind of a line of a diff: new, gone, a place, or neither."""
    if line.startswith(("+++", "---", "@@")):
        return "place"
    return {"+": "new", "-": "gone"}.get(line[:1], "")
