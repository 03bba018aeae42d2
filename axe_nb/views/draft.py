"""A reply while it is being written: its text, its reasoning and the arguments of its calls. Pure.

A piece costs the same however much has arrived: views read the end, at most once for each frame.
Source: D-23, D-24; goals.md "streaming".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from axe_nb.events import TextDelta
from axe_nb.redaction import redact

BEFORE = 500
"""Characters around a part of a text in which a secret may lie that reaches into it."""


@dataclass(slots=True)
class Growing:
    """A text that arrives in pieces."""

    size: int = 0
    """Characters so far."""
    _pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> None:
        """Appends a piece, in constant time."""
        self._pieces.append(piece)
        self.size += len(piece)

    def beginning(self, size: int) -> str:
        """The first `size` characters, in time proportional to `size`."""
        found: list[str] = []
        missing = size
        for piece in self._pieces:
            if missing <= 0:
                break
            found.append(piece)
            missing -= len(piece)
        return "".join(found)[:size]

    def end(self, size: int) -> str:
        """The last `size` characters, in time proportional to `size`."""
        found: list[str] = []
        missing = size
        for piece in reversed(self._pieces):
            if missing <= 0:
                break
            found.append(piece)
            missing -= len(piece)
        return "".join(reversed(found))[-missing if missing < 0 else 0 :]

    def show_end(self, size: int) -> str:
        """The end without secrets, as far as they have arrived whole."""
        return redact(self.end(size + BEFORE))[-size:]

    def show_beginning(self, size: int) -> str:
        """The beginning without secrets, as far as they have arrived whole."""
        return redact(self.beginning(size + BEFORE))[:size]

    def __str__(self) -> str:
        return "".join(self._pieces)


@dataclass(slots=True)
class DraftCall:
    """A call whose arguments arrive in pieces."""

    number: int
    """Position in the reply."""
    tool: str = ""
    """Name of its tool; empty if it is not known."""
    arguments: Growing = field(default_factory=Growing)


@dataclass(slots=True)
class Draft:
    """The pieces of one attempt at a reply."""

    attempt: int = 1
    """From 1."""
    text: Growing = field(default_factory=Growing)
    reasoning: Growing = field(default_factory=Growing)
    calls: list[DraftCall] = field(default_factory=list)
    """The calls, in the order in which they began."""
    latest: Literal["", "text", "reasoning", "arguments"] = ""
    """Kind of the last piece; empty = none yet."""

    begins: bool = False
    """True if the last piece is the first one of its part."""

    def take(self, event: TextDelta) -> None:
        """Adds a piece of this draft's attempt."""
        self.begins = event.kind != self.latest
        self.latest = event.kind
        if event.kind == "arguments":
            self._take_arguments(event)
        elif event.kind == "reasoning":
            self.reasoning.add(event.text)
        else:
            self.text.add(event.text)

    def _take_arguments(self, event: TextDelta) -> None:
        # pieces of calls may take turns; the last one is nearly always meant
        known = (call for call in reversed(self.calls) if call.number == event.call)
        call = next(known, None)
        if call is None:
            call = DraftCall(event.call)
            self.calls.append(call)
        call.tool = event.name or call.tool
        call.arguments.add(event.text)
