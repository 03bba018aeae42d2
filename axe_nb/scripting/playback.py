"""A script's reply played piece by piece: deltas with their pauses, then the whole or a failure.

Source: D-24, D-36; product.md "Providers".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.scripting.rules import Fault, Part, Reply, estimate_usage, stop_reason
from axe_nb.threads import STRETCH

ARGUMENTS = 8
"""Characters of one piece of a call's arguments."""


class Playback:
    """One reply while it is played; the end is known once `deltas` is exhausted."""

    def __init__(self, request: Request, reply: Reply) -> None:
        self.calls: list[ToolCall] = []
        """The calls so far; those of a function get their ids from its provider or server."""
        self.fault = reply.fault
        """The failure that breaks the reply off after its deltas; None = it is complete."""
        self.response = reply.response
        """The whole reply; of a function that yields pieces, only at the end."""
        self.reasoning = reply.reasoning
        """The reasoning before the answer; of a function, only at the end."""
        self._request = request
        self._reply = reply

    @property
    def input_tokens(self) -> int:
        """Input tokens, known from the beginning."""
        if self._reply.parts is None:
            return self.response.usage.input_tokens
        return estimate_usage(self._request, "", ())["input_tokens"]

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """Yields the pieces at their times. Raises ProviderError if the script fails."""
        if self._reply.parts is not None:
            async with aclosing(self._play_parts(self._reply.parts)) as played:
                async for delta in played:
                    yield delta
            return
        pieces: list[Delta] = []
        for piece in self._cut():
            pieces.append(piece)
            if len(pieces) % STRETCH == 0:
                await asyncio.sleep(0)
        pauses = len(pieces) if self._reply.stream else 1
        for number, delta in enumerate(pieces):
            if number < pauses:
                await asyncio.sleep(self._reply.delay / pauses)
            yield delta
        if not pieces:
            await asyncio.sleep(self._reply.delay)

    def _cut(self) -> Iterator[Delta]:
        """Yields the reply of a rule in pieces; each part is whole unless the rule streams."""
        reply, small = self._reply, self._reply.stream
        yield from (Delta(piece, "reasoning") for piece in _cut_words(reply.reasoning, small))
        yield from map(Delta, _cut_words(reply.response.content, small))
        for call in reply.response.tool_calls:
            yield from self._cut_call(call, small=small)

    def _cut_call(self, call: ToolCall, *, small: bool) -> Iterator[Delta]:
        number = len(self.calls)
        self.calls.append(call)
        text = call.raw or dump(dict(call.arguments)).decode()
        size = ARGUMENTS if small else len(text) or 1
        for at in range(0, len(text) or 1, size):
            name = call.name if at == 0 else ""
            yield Delta(text[at : at + size], "arguments", number, name)

    async def _play_parts(self, parts: AsyncIterator[Part]) -> AsyncGenerator[Delta, None]:
        texts: list[str] = []
        async for part in parts:
            match part:
                case ToolCall():
                    for delta in self._cut_call(part, small=False):
                        yield delta
                case Delta():
                    if part.kind == "reasoning":
                        self.reasoning += part.text
                    else:
                        texts.append(part.text)
                    yield part
                case Fault():
                    self.fault = part
                    break
        text, calls = "".join(texts), tuple(self.calls)
        usage = Usage(**estimate_usage(self._request, text, calls))
        self.response = Response(text, calls, stop_reason(calls), usage)


def _cut_words(text: str, small: bool) -> list[str]:
    """Cuts a text into words, each with the blanks after it, or leaves it whole."""
    return re.findall(r"\S+\s*|\s+", text) if small else [text] * bool(text)
