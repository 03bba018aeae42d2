"""The parts of a difference: changes, and the runs and turns that belong together.

Source: product.md "Runs are recordings"; D-59.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from axe_nb.redaction import redact
from axe_nb.results import RunResult, Turn
from axe_nb.text import printable

Kind: TypeAlias = Literal[
    "agent", "model", "system prompt", "params", "tools", "output", "conversation", "prompt",
    "pictures", "turn", "said", "asked", "call", "tool", "order", "arguments", "run", "result",
    "answer", "data", "status", "error", "warnings",
]  # fmt: skip
"""The part of a run that differs. A `turn`, `call` or `run` is there on one side only."""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. Its texts are not filtered; what is shown of them has no secrets."""

    place: str | None
    """Turn of the first tree, such as `0.2/3`; None if only the second tree has it."""
    other: str | None
    """The same turn of the second tree; None if only the first tree has it."""
    kind: Kind
    agent: str
    """The agent, else the model."""
    tool: str = ""
    """The tool, if it is about a call."""
    call: int | None = None
    """Number of the call in its run, from 1, as in places; that of the first tree if both have it.
    """
    before: str | None = None
    """The text of the first tree; None if it has none."""
    after: str | None = None
    """The text of the second tree; None if it has none."""

    def __repr__(self) -> str:
        places = dict.fromkeys(filter(None, (self.place, self.other)))
        of = f" of {printable(self.tool)}" if self.tool else ""
        return redact(f"Change({self.kind}{of} at {printable(' → '.join(places))})")


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Two turns that belong together."""

    a: Turn = field(repr=False)
    b: Turn = field(repr=False)
    place: str
    other: str
    parts: tuple[Change | RunPair, ...] = field(repr=False)
    """Changes and child runs, in reading order."""


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs that belong together."""

    a: RunResult
    b: RunResult
    parts: tuple[Change | TurnPair | RunPair, ...] = field(repr=False)
    """Changes, turns, and child runs of no call, in reading order."""


def find_first(changes: Iterable[Change]) -> str | None:
    """Returns the turn of the first change, such as `0.2/3`; None if there is none."""
    return next((change.place or change.other for change in changes), None)


def list_changes(pair: RunPair | TurnPair) -> Iterator[Change]:
    """Yields the changes of a pair and of all below it, in reading order."""
    for part in pair.parts:
        if isinstance(part, Change):
            yield part
        else:
            yield from list_changes(part)
