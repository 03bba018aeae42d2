"""The prompts of a map, taken one by one, and the task of each."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import Picture

Source: TypeAlias = "Iterable[object] | AsyncIterable[object]"
"""Prompts: texts, or lists of texts and pictures."""

END: Any = object()
"""Stands for the prompt after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    is_void: bool = False
    """True if it needs no run, and has no result."""


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
        self.total = _count(prompts)
        """Their number, if it is known before they are taken."""
        self.runs_code = not isinstance(prompts, list | tuple | AsyncIterable)
        """True if taking one runs code of the user's, which belongs in the caller's thread."""
        self._later = aiter(prompts) if isinstance(prompts, AsyncIterable) else None
        self._now: Iterator[object] = iter(prompts) if isinstance(prompts, Iterable) else iter(())

    def take(self, most: int) -> list[object]:
        """Returns the next ones of a plain iterable; fewer than `most` only at the end."""
        return list(islice(self._now, most))

    async def take_one(self) -> object:
        """Returns the next one of any iterable; after the last one, `END`."""
        return next(self._now, END) if self._later is None else await anext(self._later, END)


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
