"""The prompts of a map, taken one by one, and what is to be run for each.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axe_nb.commands.overrides import shown_value
from axe_nb.errors import ConfigError

Source: TypeAlias = "Iterable[object] | AsyncIterable[object]"
"""Prompts: texts, or lists of texts and pictures."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a map."""

    index: int
    """Position of its prompt, from 0."""
    prompt: object
    """Text, or a list of texts and pictures; anything else makes the run fail."""
    key: str = ""
    """Hash of all that is asked, in a resume file; empty = there is none."""


class NoMore(Exception):
    """There are no more prompts."""


class Prompts:
    """Prompts of any iterable, which is asked for the next one when a run can begin."""

    def __init__(self, prompts: Source) -> None:
        """Begins to iterate; nothing is taken yet.

        Raises:
            ConfigError: it is not an iterable of prompts.
        """
        if isinstance(prompts, str | bytes | Mapping) or not isinstance(
            prompts, Iterable | AsyncIterable
        ):
            raise ConfigError(
                f"prompts takes an iterable of prompts, not {shown_value(prompts)}",
                hint='for example axe_nb.map("lead", ["What changed?", "Who did it?"])',
            )
        if hasattr(prompts, "columns"):  # as in pandas, whose iteration yields names of columns
            raise ConfigError(
                f"prompts takes one text for each run, not a {type(prompts).__name__}",
                hint='pass a column of it: axe_nb.map("lead", frame["question"])',
            )
        self.total = len(prompts) if isinstance(prompts, list | tuple) else _count(prompts)
        """Their number, if it is known before they are taken."""
        self.is_plain = isinstance(prompts, list | tuple)
        """True if taking one runs no code of the user's, so that any thread may do it."""
        self._later: AsyncIterator[object] | None = None
        self._now: Iterator[object] = iter(())
        if isinstance(prompts, Iterable):
            self._now = iter(prompts)
        else:
            self._later = aiter(prompts)

    @property
    def is_async(self) -> bool:
        """True if they come from an async iterable, which only an event loop can take from."""
        return self._later is not None

    def take(self) -> object:
        """Returns the next one of a plain iterable.

        Raises:
            NoMore: there is none.
        """
        for prompt in self._now:
            return prompt
        raise NoMore

    async def take_later(self) -> object:
        """Returns the next one of any iterable, on the caller's event loop.

        Raises:
            NoMore: there is none.
        """
        if self._later is None:
            return self.take()
        async for prompt in self._later:
            return prompt
        raise NoMore


def _count(prompts: object) -> int | None:
    size = getattr(type(prompts), "__len__", None)
    try:
        return None if size is None else int(size(prompts))
    except Exception:  # of the user's own class
        return None
