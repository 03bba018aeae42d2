"""Pieces of a reply on their way to the views: merged, but none lost, late or out of order."""

from __future__ import annotations

import asyncio

from axe_nb import Request
from axe_nb.engine.links import EVERY, Partial
from axe_nb.events import Event, TextDelta
from axe_nb.messages import Delta

PARTS = [
    Delta("", "reasoning"), Delta("hm", "reasoning"), Delta("so", "reasoning"), Delta("I "),
    Delta("call"), Delta("{", "arguments", 0, "grep"), Delta("}", "arguments"),
    Delta("{}", "arguments", 1, "look"), Delta(" twice"),
]  # fmt: skip


async def pass_on(deltas: list[Delta], pause: float) -> tuple[list[Delta], str]:
    """The deltas that are passed on, before a pause and after it, and the text so far."""
    seen: list[Delta] = []

    def take(event: Event) -> None:
        assert isinstance(event, TextDelta)
        assert (event.run, event.turn, event.attempt) == ("0.1", 3, 2)
        seen.append(Delta(event.text, event.kind, event.call, event.name))

    partial = Partial("0.1", take, is_streamed=True)
    add = partial.begin(Request("m", (), place="0.1/3", attempt=2))
    assert add is not None
    for delta in deltas:
        add(delta)
    if pause:
        await asyncio.sleep(pause)
    else:
        partial.flush()
    return seen, partial.text


def test_pieces_of_one_part_are_merged_after_the_first_which_is_passed_on_at_once() -> None:
    seen, text = asyncio.run(pass_on(PARTS, 0))
    assert seen == [
        Delta("", "reasoning"), Delta("hmso", "reasoning"), Delta("I call"),
        Delta("{}", "arguments", 0, "grep"), Delta("{}", "arguments", 1, "look"), Delta(" twice"),
    ]  # fmt: skip
    assert text == "I call twice"


def test_many_pieces_become_few_and_no_character_is_lost() -> None:
    words = [Delta(f"{n} ") for n in range(20_000)]
    seen, text = asyncio.run(pass_on(words, EVERY * 5))  # what waits is passed on by itself
    assert text == "".join(delta.text for delta in seen) == "".join(word.text for word in words)
    assert len(seen) < 2000
