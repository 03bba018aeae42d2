"""The prompts of a map, taken one by one, and what is to be run for each.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError, words
from axe_nb.pictures.found import split_prompt
from axe_nb.pictures.picture import Picture

Source: TypeAlias = "Iterable[object] | AsyncIterable[object]"
"""Prompts: texts, or lists of texts and pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run of a map."""

    text: str = ""
    """Its prompt."""
    pictures: tuple[Picture, ...] = ()
    """Those of the prompt, in the order of their marks there."""
    problem: ConfigError | None = None
    """The reason that there is no prompt, which is the result of the run."""
    asking: int = 0
    """Position of its agent and options among those of the map."""
    index: int = 0
    """Position of its prompt, from 0."""
    key: str = ""
    """Hash of all that is asked, in a resume file; empty = there is none."""


def read_task(prompt: object) -> Task:
    """Returns the task of a prompt: a text, or a list of texts and pictures."""
    if isinstance(prompt, Task):
        return prompt
    try:
        text, pictures = split_prompt(prompt)
    except ConfigError as error:
        return Task(problem=error)
    except Exception as error:  # of the user's own class
        return Task(problem=ConfigError(f"the prompt cannot be read: {words(error)}"))
    return Task(text=text, pictures=pictures)


class NoMore(Exception):
    """There are no more prompts."""


class Prompts:
    """Prompts of any iterable, which is asked for the next one when a run can begin."""

    def __init__(self, prompts: Source) -> None:
        """Begins to iterate; nothing is taken yet.

        Raises:
            ConfigError: it is not an iterable of prompts.
        """
        is_table = isinstance(prompts, Mapping) or hasattr(prompts, "columns")  # a data frame
        is_known = is_iterable(prompts) or isinstance(prompts, AsyncIterable)
        if is_table or isinstance(prompts, str | bytes) or not is_known:
            given = type(prompts).__name__ if is_table else shown_value(prompts)
            raise ConfigError(
                f"prompts takes an iterable of prompts, not {given}",
                hint='for example axe_nb.map("lead", ["What changed?", "Who did it?"]), '
                'or one column of a table, as in frame["question"]',
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


def is_iterable(given: object) -> bool:
    """True if something can be iterated over, which not all that have the method can."""
    try:
        iter(given)  # type: ignore[call-overload]
    except TypeError:  # such as an array without dimensions
        return False
    return True


def _count(prompts: object) -> int | None:
    size = getattr(type(prompts), "__len__", None)
    try:
        return None if size is None else int(size(prompts))
    except Exception:  # of the user's own class
        return None
