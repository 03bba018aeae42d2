"""The bytes of a server's reply to a request for a model's answer: noted as they arrive, or played.

Source: D-59.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from axe_nb.errors import ProviderError

KEPT_HEADERS = ("content-type", "location", "retry-after", "retry-after-ms", "x-should-retry")
"""Headers of a reply that its reading depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A server's reply to one request."""

    status: int = 0
    """HTTP status; 0 if no reply began."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those that its reading depends on, in lower case."""
    pieces: tuple[bytes, ...] = ()
    """The body as it arrived."""
    failure: ProviderError | None = None
    """The failure of the connection, before the reply or in the middle of it."""

    @property
    def body(self) -> bytes:
        """All pieces together."""
        return b"".join(self.pieces)

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become half characters."""
        return self.body.decode("utf-8", "surrogateescape")

    @property
    def is_stream(self) -> bool:
        """True if the body is a stream of events, of which a single line may be an object too."""
        kind = self.headers.get("content-type", "").lower()
        return "event-stream" in kind or "ndjson" in kind


class WireLog:
    """The reply to one request; of several requests for one answer, the last one's."""

    def __init__(self) -> None:
        self.keeps = False
        """True if the bytes of the reply are kept, for a cassette."""
        self.recorded: WireReply | None = None
        """The reply to play instead of asking the server."""
        self.protocol = ""
        """That of the recorded reply; empty = that of the provider."""
        self.hang: Callable[[], Awaitable[None]] | None = None
        """Awaited after the pieces of a recorded reply that did not end by itself."""
        self.streaming: Mapping[str, Any] = {}
        """The fields of the request that ask for a stream."""
        self.refused: frozenset[str] = frozenset()
        """As in `Request`; those of a recorded exchange are kept."""
        self.server = ""
        """As in `Exchange.server`; that of a recorded exchange is kept."""
        self._has_begun = False
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._pieces: list[bytes] = []
        self._failure: ProviderError | None = None

    @property
    def reply(self) -> WireReply | None:
        """The reply so far; None if no request was sent, or its bytes are not kept."""
        if not self._has_begun:
            return self.recorded
        return WireReply(
            status=self._status,
            headers={name: value for name in KEPT_HEADERS if (value := self._headers.get(name))},
            pieces=tuple(self._pieces),
            failure=self._failure and copy(self._failure),
        )

    def begin(self) -> None:
        """Notes that a request is sent."""
        self._has_begun = self.keeps
        self._status, self._headers, self._pieces, self._failure = 0, {}, [], None

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Notes the head of the reply."""
        self._status, self._headers = status, headers

    def add(self, piece: bytes) -> None:
        """Notes a piece of the body."""
        if self.keeps:
            self._pieces.append(piece)

    def fail(self, failure: ProviderError) -> ProviderError:
        """Notes a failure of the connection; returns it."""
        self._failure = failure
        return failure


async def play(reply: WireReply, log: WireLog) -> AsyncGenerator[bytes, None]:
    """Yields the pieces of a recorded body.

    Raises:
        ProviderError: the connection failed after them.
        Exception: whatever cut the reply.
    """
    for piece in reply.pieces:
        yield piece
    if log.hang:
        await log.hang()
    if reply.failure:
        raise copy(reply.failure)
