"""Replies as their servers stream them, and the answers that come of them, without a network."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, DeltaKind, Response
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import read_reply
from axe_nb.providers.streaming import StreamedReply
from tests.providers.dialects import KEY, MODULES, Answer, secrets_of, write


@dataclass(frozen=True)
class Outcome:
    """All that comes of a reply."""

    response: Response | None = None
    error: ProviderError | None = None
    deltas: Sequence[Delta] = field(default=(), compare=False)

    def joined(self, kind: DeltaKind, call: int = 0) -> str:
        """The pieces of one kind together."""
        return "".join(d.text for d in self.deltas if (d.kind, d.call) == (kind, call))


def read_stream(
    protocol: str, pieces: Iterable[bytes], on_delta: OnDelta | None = None, key: str = KEY
) -> Outcome:
    """What the provider makes of the body of a reply with status 200 that arrives like this."""
    deltas: list[Delta] = []
    reply = StreamedReply(MODULES[protocol].PROVIDER.assembly(on_delta or deltas.append))

    async def receive() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    try:
        body = asyncio.run(reply.read(receive()))
        response = parse(protocol, body, key)
    except ProviderError as error:
        return Outcome(error=error, deltas=deltas)
    return Outcome(response, deltas=deltas)


def read_whole(protocol: str, body: bytes, key: str = KEY) -> Outcome:
    """What the provider makes of the body of a whole reply with status 200."""
    try:
        return Outcome(parse(protocol, body, key))
    except ProviderError as error:
        return Outcome(error=error)


def parse(protocol: str, body: bytes, key: str) -> Response:
    response: Response = MODULES[protocol].parse(
        read_reply(PROTOCOLS[protocol], 200, {}, body, secrets_of(protocol, key))
    )
    return response


def cut(stream: bytes, seed: int, longest: int = 40) -> list[bytes]:
    dice = random.Random(seed)
    pieces = []
    start = 0
    while start < len(stream):
        end = start + dice.randint(1, longest)
        pieces.append(stream[start:end])
        start = end
    return pieces


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


def sse(*events: Mapping[str, Any] | str, named: bool = False) -> bytes:
    """Server-sent events of JSON objects, or of texts as they are."""
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if named and not isinstance(event, str) else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def chunk(delta: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of OpenAI's protocol; `more` belongs to its choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None, **more}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def write_stream(protocol: str, answer: Answer) -> bytes:
    _, events = write(protocol, answer)
    if protocol == "ollama":
        return b"".join(json.dumps(line).encode() + b"\n" for line in events)
    return sse(*events, *(["[DONE]"] if protocol == "openai" else []), named=protocol != "openai")


def write_whole(protocol: str, answer: Answer) -> dict[str, Any]:
    return write(protocol, answer)[0]


FORMS: Mapping[str, tuple[Callable[[Answer], bytes], Callable[[Answer], dict[str, Any]]]] = {
    name: (partial(write_stream, name), partial(write_whole, name)) for name in MODULES
}
"""Protocol → (answer → stream, answer → body of a whole reply)."""
