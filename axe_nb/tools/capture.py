"""Captures the printed output of a tool for its result, so that it appears in no other cell.

Printing goes through `sys.stdout`, which all threads and tasks share: a reader in front of it
tells them apart by their context, which threads of `in_thread` and tasks inherit.
Source: house style §7 (output of tools); jupyter-facts §1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MAX_PRINTED = 16384
"""Characters kept from the start of a call's printed output."""


class CapturedOutput:
    """Printed output of one call."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        """Keeps the text, as far as there is room."""
        self.text += text[: MAX_PRINTED - len(self.text)]
        return len(text)

    def flush(self) -> None:
        """Does nothing, since nothing is buffered."""


_output: ContextVar[CapturedOutput | None] = ContextVar("axe_nb_output", default=None)


class _Switch:
    """Replaces a stream: output of a call goes to its capture, all else to the stream.

    The stream is None where Python has none, as under pythonw; then all else goes nowhere.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        target = _output.get() or self._stream
        written: int = len(text) if target is None else target.write(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        if self._stream is not None and _output.get() is None:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def capture_output() -> Iterator[CapturedOutput]:
    """Captures output printed inside, also by threads that start there and outlive it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Switch):  # stays: an abandoned thread may print later
            setattr(sys, name, _Switch(stream))
    captured = CapturedOutput()
    token = _output.set(captured)
    try:
        yield captured
    finally:
        _output.reset(token)
