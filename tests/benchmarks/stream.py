"""`python -m tests.benchmarks.stream`: what a streamed piece costs beyond the transport.

A reply of 1,000,000 characters in pieces of 1 to 40 is read as it would arrive, in network pieces
of 16 kB, and for a tenth of it as well: the cost of a piece must not grow. Prints rows of goals.md.
"""

from __future__ import annotations

import asyncio
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator

from axe_nb.providers.streaming import StreamedReply
from tests.benchmarks.goals import row
from tests.providers.dialects import MODULES
from tests.providers.streams import FORMS, Answer

CHARACTERS = 1_000_000
NETWORK = 16 * 1024


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
    reply = StreamedReply(MODULES[protocol].PROVIDER.assembly(None))
    started = time.process_time()
    asyncio.run(reply.read(receive(stream)))
    return time.process_time() - started


if __name__ == "__main__":
    for protocol, (make, _) in FORMS.items():
        costs = []
        for characters in (CHARACTERS // 10, CHARACTERS):
            pieces = list(words(characters))
            stream = make(Answer(text=pieces))
            costs.append(min(read(protocol, stream) for _ in range(3)) / len(pieces) * 1e6)
        small, large = costs
        tracemalloc.start()
        read(protocol, stream)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        shown = f"{large:.2f} µs, {large / small:.2f} x a tenth, {most / CHARACTERS:.1f} bytes each"
        row(f"a piece, {protocol}", shown, large, 10, 10, " µs")
