"""Pieces of a reply on their way to the views: merged, but none lost, late or out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from axe_nb.engine.links import EVERY, Pieces
from axe_nb.events import Event, TextDelta
from axe_nb.messages import Delta


def begin(seen: list[Delta]) -> Pieces:
    """The pieces of a reply, whose deltas are added to a list once they are passed on."""

    def take(event: Event) -> None:
        assert isinstance(event, TextDelta)
        assert (event.run, event.turn, event.attempt) == ("0.1", 3, 2)
        seen.append(Delta(event.text, event.kind, event.call, event.name))

    return Pieces(take, "0.1", 3, 2)


def passed_on(feed: Callable[[Pieces], object]) -> list[Delta]:
    """What is passed on of the pieces that are fed without a pause."""
    seen: list[Delta] = []

    async def work() -> None:
        pieces = begin(seen)
        feed(pieces)
        pieces.flush()

    asyncio.run(work())
    return seen


def test_many_pieces_become_few_and_no_character_is_lost() -> None:
    words = [f"{n} " for n in range(20_000)]
    seen = passed_on(lambda pieces: [pieces.add(Delta(word)) for word in words])
    assert "".join(delta.text for delta in seen) == "".join(words)
    assert len(seen) < 2000


def test_the_first_piece_is_passed_on_at_once() -> None:
    seen: list[Delta] = []

    async def work() -> None:
        pieces = begin(seen)
        pieces.add(Delta("a"))
        assert seen == [Delta("a")]
        pieces.flush()

    asyncio.run(work())
    assert len(seen) == 1


def test_pieces_of_different_parts_are_not_merged() -> None:
    parts = [
        Delta("hm", "reasoning"), Delta("so", "reasoning"), Delta("I "), Delta("call"),
        Delta("{", "arguments", 0, "grep"), Delta("}", "arguments"),
        Delta("{}", "arguments", 1, "look"), Delta(" twice"),
    ]  # fmt: skip

    def feed(pieces: Pieces) -> None:
        pieces.add(Delta("", "reasoning"))
        for part in parts:
            pieces.add(part)
        assert pieces.text == "I call twice"

    assert passed_on(feed)[1:] == [
        Delta("hmso", "reasoning"), Delta("I call"), Delta("{}", "arguments", 0, "grep"),
        Delta("{}", "arguments", 1, "look"), Delta(" twice"),
    ]  # fmt: skip


def test_what_waits_is_passed_on_by_itself() -> None:
    seen: list[Delta] = []

    async def work() -> None:
        pieces = begin(seen)
        pieces.add(Delta("a"))
        pieces.add(Delta("b"))
        assert len(seen) == 1
        await asyncio.sleep(EVERY * 5)
        assert seen == [Delta("a"), Delta("b")]
        pieces.flush()

    asyncio.run(work())
    assert len(seen) == 2


@pytest.mark.parametrize("kind", ["text", "reasoning", "arguments"])
def test_every_kind_has_its_first_piece_at_the_end_at_the_latest(kind: str) -> None:
    seen = passed_on(lambda pieces: pieces.add(Delta("x", kind)))  # type: ignore[arg-type]
    assert seen == [Delta("x", kind)]  # type: ignore[arg-type]
