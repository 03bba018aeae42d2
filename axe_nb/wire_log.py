"""The bytes of a server's reply to a request for a model's answer: kept as they arrive, or played.

Source: D-59; product.md "Cassettes".
"""

from __future__ import annotations

from array import array
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, overload

from axe_nb.errors import ProviderError

if TYPE_CHECKING:
    import zlib

KEPT_HEADERS = ("content-type", "location", "retry-after", "retry-after-ms", "x-should-retry")
"""Headers of a reply that its reading depends on."""

STREAMS = "event-stream", "ndjson"
"""Words in the content types of streams."""

SMALL = 1000
"""Bytes; smaller bodies are kept as they are."""

PACK_AT = 65536
"""Bytes that are compressed at once while a body arrives."""

MAX_SIZE = 500_000_000
"""Bytes; no reply of that size is read."""

LEVEL = 3
"""Of compression: the fastest that finds what the events of a stream repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A server's reply to one request."""

    status: int = 0
    """HTTP status; 0 if no reply began."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those that its reading depends on, in lower case."""
    pieces: Sequence[bytes] = ()
    """The body as it arrived."""
    failure: ProviderError | None = None
    """The failure of the connection, before the reply or in the middle of it."""

    @property
    def body(self) -> bytes:
        """All pieces together."""
        pieces = self.pieces
        return pieces.body if isinstance(pieces, PackedPieces) else b"".join(pieces)

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become half characters."""
        return self.body.decode("utf-8", "surrogateescape")


def is_stream(headers: Mapping[str, str]) -> bool:
    """True if a body is a stream of events, of which a single line may be an object too."""
    kind = headers.get("content-type", "").lower()
    return any(one in kind for one in STREAMS)


class PackedPieces(Sequence[bytes]):
    """Pieces of a body, compressed: the events of a stream take 15 to 24 times their texts."""

    __slots__ = ("_count", "_packed", "_sizes")

    def __init__(self, packed: bytes, sizes: array[int]) -> None:
        """Creates them.

        Args:
            packed: the whole body, as zlib compresses it.
            sizes: those of the pieces, in bytes.
        """
        import zlib

        self._packed = packed
        self._sizes = zlib.compress(sizes.tobytes(), LEVEL)
        self._count = len(sizes)

    @property
    def body(self) -> bytes:
        """All pieces together."""
        import zlib

        return zlib.decompress(self._packed)

    @classmethod
    def of_packed(cls, packed: bytes, sizes: bytes) -> PackedPieces:
        """Returns the pieces of a body and their sizes, both as zlib compresses them.

        Raises:
            ValueError: it is damaged, or larger than any reply.
        """
        numbers = array("Q", _inflate(sizes))
        pieces = cls(packed, numbers)
        if sum(numbers) != len(_inflate(packed)):
            raise ValueError("the sizes of the pieces are not those of the body")
        return pieces

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...

    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        return tuple(self)[index]

    @property
    def sizes(self) -> Sequence[int]:
        """The sizes of the pieces, in bytes."""
        import zlib

        return array("Q", zlib.decompress(self._sizes))

    def __iter__(self) -> Iterator[bytes]:
        return split(self.body, self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | PackedPieces) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def _inflate(packed: bytes) -> bytes:
    import zlib

    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(packed, MAX_SIZE)
    except zlib.error:
        plain = b""
    if not reader.eof:
        raise ValueError("compressed data is damaged, or too large")
    return plain


class _Packer:
    """Packs pieces as they arrive."""

    def __init__(self) -> None:
        self._new: list[bytes] = []
        self._waiting = 0
        """Bytes that are not compressed yet."""
        self._sizes = array("Q")
        self._packed: list[bytes] = []
        self._compressor: zlib._Compress | None = None

    def add(self, piece: bytes) -> None:
        self._new.append(piece)
        self._waiting += len(piece)
        if self._waiting > PACK_AT:
            self._pack()

    def _pack(self) -> None:
        import zlib

        if self._compressor is None:
            self._compressor = zlib.compressobj(LEVEL)
        self._packed.append(self._compressor.compress(b"".join(self._new)))
        self._sizes.extend(map(len, self._new))
        self._new, self._waiting = [], 0

    def pieces(self, smallest: int = SMALL) -> Sequence[bytes]:
        """Returns the pieces so far.

        Args:
            smallest: number of bytes that are worth the time.
        """
        if self._compressor is None and self._waiting < smallest:
            return tuple(self._new)
        self._pack()
        assert self._compressor
        rest = self._compressor.copy().flush()
        return PackedPieces(b"".join((*self._packed, rest)), self._sizes)


def split(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """Yields the pieces of a body."""
    for start, end in pairwise(accumulate(sizes, initial=0)):
        yield body[start:end]


def pack(pieces: Iterable[bytes]) -> Sequence[bytes]:
    """Returns pieces that take less memory."""
    packer = _Packer()
    for piece in pieces:
        packer.add(piece)
    return packer.pieces()


class WireLog:
    """The reply to one request; of several requests for one answer, the last one's."""

    def __init__(self, recorded: WireReply | None = None) -> None:
        """Creates an empty log.

        Args:
            recorded: the reply to play instead of asking the server.
        """
        self.recorded = recorded
        self.protocol = ""
        """That of the recorded reply; empty = that of the provider."""
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._packer: _Packer | None = None
        """Takes the body; None = no reply has begun."""
        self._failure: ProviderError | None = None
        self._has_begun = False
        self.hang: Callable[[], Awaitable[None]] | None = None
        """Awaited after the pieces of a recorded reply that did not end by itself."""
        self.streaming: Mapping[str, Any] = {}
        """The fields of the request that ask for a stream."""
        self.refused: frozenset[str] = frozenset()
        """As in `Request`; those of a recorded exchange are kept."""
        self.server = ""
        """As in `Exchange.server`; that of a recorded exchange is kept."""

    @property
    def reply(self) -> WireReply | None:
        """The reply so far; None if no request was sent."""
        if not self._has_begun:
            return self.recorded
        smallest = SMALL if is_stream(self._headers) else PACK_AT
        return WireReply(
            status=self._status,
            headers={name: value for name in KEPT_HEADERS if (value := self._headers.get(name))},
            pieces=self._packer.pieces(smallest) if self._packer else (),
            failure=self._failure and copy(self._failure),
        )

    def begin(self) -> None:
        """Notes that a request is sent."""
        self._has_begun = True
        self._status, self._headers, self._packer, self._failure = 0, {}, None, None

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Notes the head of the reply."""
        self._status, self._headers, self._packer = status, headers, _Packer()

    def add(self, piece: bytes) -> None:
        """Notes a piece of the body, after its head."""
        assert self._packer is not None
        self._packer.add(piece)

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
