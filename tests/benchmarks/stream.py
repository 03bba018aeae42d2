"""`python -m tests.benchmarks.stream`: what a streamed piece costs beyond the transport.

A reply of 1,000,000 characters in pieces of 1 to 40 is read as it would arrive, in network pieces
of 16 kB, and for a tenth of it as well: the cost of a piece must not grow. Prints rows of goals.md.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from functools import partial

from axe_nb.providers.streaming import StreamedReply
from tests.providers.dialects import MODULES
from tests.providers.streams import FORMS, Answer

CHARACTERS = 1_000_000
NETWORK = 16 * 1024
ROUNDS = 3


def words(characters: int) -> Iterator[str]:
    """A text in the pieces in which a model says it."""
    dice = random.Random(characters)
    while characters > 0:
        size = dice.randint(1, 40)
        yield "abcdefghi jklmnopqr stuvwxyz and so on, and on. "[:size]
        characters -= size


async def receive(stream: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(stream), NETWORK):
        yield stream[start : start + NETWORK]


def read(protocol: str, stream: bytes) -> float:
    """CPU seconds for one reply."""
    reply = StreamedReply(MODULES[protocol].PROVIDER.protocol, lambda _: None)
    started = time.process_time()
    asyncio.run(reply.read(receive(stream)))
    return time.process_time() - started


def decode(stream: bytes) -> float:
    """CPU seconds for the JSON of a reply alone."""
    events = [line.removeprefix(b"data: ").decode() for line in stream.splitlines() if b"{" in line]
    started = time.process_time()
    for event in events:
        json.loads(event)
    return time.process_time() - started


def peak(protocol: str, stream: bytes) -> float:
    """Bytes of memory at most, while a reply is read."""
    tracemalloc.start()
    read(protocol, stream)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def main() -> None:
    for protocol, (make, _) in FORMS.items():
        costs = []
        for characters in (CHARACTERS // 10, CHARACTERS):
            pieces = list(words(characters))
            stream = make(Answer(text=pieces))
            costs.append(
                [
                    min(how(stream) for _ in range(ROUNDS)) / len(pieces) * 1e6
                    for how in (partial(read, protocol), decode)
                ]
            )
        (small, _), (large, json_alone) = costs
        print(
            f"{protocol}: {large:.2f} µs a piece of {CHARACTERS:,} characters "
            f"(json.loads alone {json_alone:.2f}), {large / small:.2f} × that of a tenth; "
            f"{peak(protocol, stream) / CHARACTERS:.1f} bytes of memory a character"
        )


if __name__ == "__main__":
    main()
