"""The body of a streamed reply: a playback as chunks of a protocol, up to its end or its failure.

Source: product.md "Providers"; D-24, D-31.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from axe_nb.errors import Category, ProviderError
from axe_nb.messages import Delta
from axe_nb.scripting.connection import BrokenOff
from axe_nb.scripting.playback import Playback
from axe_nb.scripting.provider import NONSENSE
from axe_nb.scripting.rules import Fault
from axe_nb.scripting.wire_streams import WireStream

STATUS: Mapping[Category, int] = {
    "auth": 401,
    "bad_request": 400,
    "refusal": 400,
    "rate_limit": 429,
    "overloaded": 529,
    "server": 500,
}
"""Status of a function's ProviderError without one of its own; `timeout` sends no reply."""


def make_fault(error: ProviderError) -> Fault:
    """Makes the failure of a server from a function's own."""
    if error.category == "timeout":
        return Fault("timeout")
    return Fault(error.detail, error.status or STATUS[error.category])


async def encode(
    stream: WireStream,
    playback: Playback,
    begun: Sequence[Delta],
    deltas: AsyncGenerator[Delta, None],
) -> AsyncGenerator[bytes, None]:
    """Yields the chunks of a streamed reply.

    Args:
        stream: encodes the deltas.
        playback: the reply.
        begun: deltas that have been played already.
        deltas: the other ones.

    Raises:
        BrokenOff: the connection is to be closed in the middle of a chunk.
    """
    fault: Fault | None
    try:
        for chunk in stream.begin():
            yield chunk
        for delta in begun:
            for chunk in stream.add(delta):
                yield chunk
        async with aclosing(deltas):
            async for delta in deltas:
                for chunk in stream.add(delta):
                    yield chunk
    except ProviderError as error:
        fault = make_fault(error)
    else:
        fault = playback.fault
    if fault is None:
        for chunk in stream.end(playback.response):
            yield chunk
    elif fault.status:
        yield stream.error(fault.status, fault.message or "the script failed")
    elif fault.message == "nonsense":
        yield stream.nonsense(NONSENSE)
    elif fault.message == "timeout":
        await asyncio.Event().wait()
    elif fault.message == "refused":
        raise BrokenOff
