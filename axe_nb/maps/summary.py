"""Results without their conversations, of which thousands fit into memory.

Source: issue 13; product.md "Exploring" (bounded memory).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from axe_nb.results import RunResult

Keep = Literal["results", "summaries", "nothing"]

KEEPS: tuple[Keep, ...] = ("results", "summaries", "nothing")


def summarize(result: RunResult) -> RunResult:
    """Returns the result with its texts, counts and costs, but without what was said and sent.

    Its children are summaries too; `messages`, `log`, `exchanges`, `prompt` and `pictures` are
    empty.
    """
    return replace(
        result, messages=(), log=(), exchanges=(), prompt="", pictures=(),
        children=tuple(map(summarize, result.children)),
    )  # fmt: skip
