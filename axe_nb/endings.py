"""The consequences of how a run ended: exit code, next step, what its caller is told of it.

Source: D-2, D-38; B-9.
"""

from __future__ import annotations

from collections.abc import Mapping

from axe_nb.messages import Usage

EXIT_CODES: Mapping[str, int] = {
    "completed": 0,
    "max_turns": 1,
    "max_tool_calls": 1,
    "max_tokens": 1,
    "timeout": 3,
    "cancelled": 130,
    "error": 1,
}
"""Status → exit code of the command line (D-38); an error with a cause uses the cause's."""

NEXT_STEPS: Mapping[str, str] = {
    "timeout": "give it more time with --timeout",
    "max_turns": "give it a smaller task, or continue it: -c in a notebook, "
    "continue_from= in Python",
}
"""Status → the next step after a run that ended with it."""


def make_metadata(id: str, depth: int, usage: Usage) -> dict[str, str]:
    """Returns the metadata that every child has (D-34)."""
    return {"task_id": id, "token_estimate": str(usage.total), "depth": str(depth)}
