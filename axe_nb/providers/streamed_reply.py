"""A streamed reply, read to its end.

Source: D-24, D-31.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import dump
from axe_nb.providers import wire
from axe_nb.providers.assembly import Assembly, Deltas, settle
from axe_nb.providers.decoders import BOM, Decoder, Event
from axe_nb.providers.error_bodies import find_message
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, masked_line
from axe_nb.providers.secrets import NO_SECRETS, Secrets

DONE_MARK = "[DONE]"

BREATH = 200
"""Events between two that let other tasks run; each takes some 5 µs."""

LAST_SECONDS = 0.5
"""Time for a reply to end after its last event; if it does not, its connection is closed."""

JSON_START = re.compile(r"""\s*(\{|\[\s*([\[{"\d\]-]|$))""")
"""An object, or a list of anything but words such as `true`."""

STREAM_STARTS = (b":", b"data", b"event", b"id", b"retry", b"error:")
"""Beginnings of a stream of server-sent events."""


def is_stream(body: bytes) -> bool:
    """True if the body of a reply is a stream: server-sent events, or several lines of JSON."""
    return b"}\n{" in body or body.lstrip(b" \r\n\t" + BOM).startswith(STREAM_STARTS)


def may_be_json(data: str) -> bool:
    """True if an event begins as a JSON object or list does; `[DONE]` and `[PING]` do not."""
    return JSON_START.match(data) is not None


@dataclass(frozen=True, kw_only=True)
class Streaming:
    """The streaming of one protocol."""

    fields: Sequence[Mapping[str, Any]]
    """Fields that ask for a stream; later ones have less, for servers that refuse some."""
    decoder: Callable[[], Decoder]
    assembly: Callable[[Deltas], Assembly]


class StreamedReply:
    """One reply while it arrives, which may turn out to be a whole one."""

    def __init__(
        self, streaming: Streaming, on_delta: OnDelta, secrets: Secrets = NO_SECRETS
    ) -> None:
        self._secrets = secrets
        self._deltas = Deltas(on_delta, secrets)
        self._decoder = streaming.decoder()
        self._assembly = streaming.assembly(self._deltas)
        self._raw: list[bytes] | None = []
        """Everything that has arrived, until it is known to be a stream."""
        self._is_whole = False
        self._ignored = ""
        """The last event that is not JSON."""
        self._last: dict[str, Any] = {}
        """The last object that has arrived."""

    @property
    def partial_text(self) -> str:
        """The text so far."""
        self._deltas.flush()
        return self._deltas.text

    async def read(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Reads the reply; returns its body, or the body that a whole reply would have.

        Raises:
            ProviderError: it is cut or malformed, or reports an error.
            Exception: whatever `pieces` raises.
        """
        while not self._assembly.has_ended:
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return self._finish()
            except Exception:  # what happens to the connection after the answer does not matter
                if not self._assembly.is_complete:
                    raise
                return self._finish()
            if self._raw is not None:
                self._raw.append(piece)
            if not self._is_whole:
                await self._feed(piece)
        with suppress(Exception):
            async with asyncio.timeout(LAST_SECONDS):
                async for _ in pieces:
                    pass
        return self._finish()

    async def _feed(self, piece: bytes) -> None:
        for number, event in enumerate(self._decoder.feed(piece), 1):
            self._add(event)
            if self._assembly.has_ended or self._is_whole:
                break
            if number % BREATH == 0:
                self._deltas.pass_on()
                await asyncio.sleep(0)
        self._deltas.pass_on()

    def _add(self, event: Event) -> None:
        name, data = event
        if not data or name == "ping" or data.isspace():
            return
        if data.startswith(DONE_MARK):
            self._raw = None
            self._assembly.end()
            return
        try:
            value = wire.loads_part(data)
        except ValueError:
            value = None
        if isinstance(value, dict):
            self._raw = None
            self._add_object(name, value)
        elif name == "error":
            raise ProviderError("server", masked_line(data, self._secrets))
        elif not may_be_json(data):
            self._ignored = data  # gateways send `: keepalive` or `ping` while the model thinks
        elif self._raw is not None and not self._ignored:
            self._is_whole = True
        elif not self._assembly.is_complete:
            words = masked_line(data, self._secrets, 60)
            raise ProviderError("server", f"an event of the stream is not a JSON object: {words}")

    def _add_object(self, name: str, data: dict[str, Any]) -> None:
        if data.get("error"):
            raise error_in_reply(data, self._secrets)
        if name == "error" or "error" in (data.get("type"), data.get("object")):
            raise error_in_reply({"error": data}, self._secrets)
        self._last = data
        self._assembly.add(name, data)

    def _finish(self) -> bytes:
        if self._raw is not None:
            body = b"".join(self._raw)
            begins = body.lstrip(b" \r\n\t" + BOM).startswith(STREAM_STARTS)
            if self._is_whole or self._ignored or not begins:
                return body
        if not self._assembly.has_ended:
            self._add_rest()
        self._deltas.flush()
        if not self._assembly.is_complete:
            words = masked_line(find_message(self._last) or self._ignored, self._secrets)
            raise ProviderError(
                "server",
                "the stream ended before the answer was complete" + (words and f": {words}"),
                hint="try again, or allow more retries with --retries",
            )
        try:
            return dump(settle(self._assembly.reply()))
        except (ValueError, RecursionError) as error:
            raise ProviderError("server", f"the reply is malformed: {error}") from None

    def _add_rest(self) -> None:
        """Adds a last event without its line end; JSON that is not a whole object was cut."""
        event = self._decoder.rest()
        if event is None:
            return
        with suppress(ValueError):
            if not may_be_json(event[1]) or isinstance(wire.loads_part(event[1]), dict):
                self._add(event)
