"""Texts with pictures: a mark in the text is the place of each. Pure.

The text alone says what is there, so that whatever knows texts only needs to know no more. A mark
that somebody else has written moves a picture at most: which there are, the text does not say.
Source: product.md "Models can do more than text" (pictures).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from axe_nb.pictures.picture import Picture


class Illustrated(NamedTuple):
    """A text, and the pictures whose marks are in it, in their order."""

    text: str
    pictures: tuple[Picture, ...] = ()


def join_parts(parts: Iterable[str | Picture], separator: str = "") -> Illustrated:
    """Joins texts and pictures into one text with marks."""
    pictures: list[Picture] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Picture):
            pictures.append(part)
            part = part.mark(len(pictures))
        texts.append(part)
    return Illustrated(separator.join(texts), tuple(pictures))


def split_parts(text: str, pictures: Sequence[Picture]) -> Iterator[str | Picture]:
    """Yields the text in pieces, each picture after the piece that ends with its mark.

    One whose mark is not there, because the text was cut, comes last with its mark.
    """
    at = 0
    for number, picture in enumerate(pictures, 1):
        mark = picture.mark(number)
        found = text.find(mark, at)
        if found < 0:
            if text[at:]:
                yield text[at:]
            at = len(text)
            yield mark
        else:
            yield text[at : found + len(mark)]
            at = found + len(mark)
        yield picture
    if text[at:]:
        yield text[at:]
