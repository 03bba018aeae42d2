"""The messages of a growing conversation as a protocol writes them: each is encoded once.

Source: D-32; goals.md "turn 1000 against turn 10".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from axe_nb.messages import Message, Request, dump
from axe_nb.redaction import MASK

SERVER = "server"
"""Key of `Message.echo`."""

PREFIX = "prefix"
"""Key of `Message.echo`: digest of what stood before the reply; and of `Request.wire`: of what is
sent with the request."""

_SEALED = re.compile("encrypted|signature|^data$")
"""Keys of what a server has encrypted or signed."""

RECENT = 8
"""Messages at the end that stay apart, at least: protocols merge and mark the last ones."""

Encode: TypeAlias = Callable[[Message], Iterable[Mapping[str, Any]]]
"""A message → its objects on the wire; none if it is empty."""

Join: TypeAlias = Callable[[Iterable[bytes]], bytes]
"""The objects of consecutive messages → the same as one part; empty ones count for nothing."""


class Written(NamedTuple):
    """The messages of one request, as JSON objects separated by commas."""

    older: bytes
    """The objects of the older messages, as one; the last of them is not the assistant's."""
    recent: list[bytes]
    """The objects of each later message; the first is the assistant's if there are older ones.
    """


def join_objects(objects: Iterable[bytes]) -> bytes:
    """Separates objects by commas."""
    return b",".join(filter(None, objects))


def write_messages(
    request: Request,
    protocol: str,
    encode: Encode,
    join: Join = join_objects,
    before: bytes | None = None,
) -> Written:
    """Encodes the messages of a request, except those encoded for an earlier request.

    Args:
        request: the request.
        protocol: name of the protocol.
        encode: encodes one message.
        join: joins encoded messages.
        before: what stands before the messages, if the server refuses its own parts behind another
            beginning than that which they followed (D-78).
    """
    start = None if before is None else hashlib.sha256(before)
    known = f"{protocol} {request.server} {start.hexdigest() if start else ''}"
    history: History | None = request.wire.get(known)
    if history is None or not history.begins(request.messages):
        history = request.wire[known] = History(start)
    written = history.write(request.messages, partial(_encode_own, request, encode), join)
    request.wire[PREFIX] = history.digest
    return written


def _encode_own(
    request: Request, encode: Encode, message: Message, prefix: str
) -> Iterable[Mapping[str, Any]]:
    """Encodes a message without the parts that its server must not be given (D-78).

    Args:
        request: the request.
        encode: encodes one message.
        message: the message.
        prefix: digest of all that stands before it; empty = it does not matter.
    """
    echo = message.echo
    is_foreign = request.server and echo.get(SERVER, request.server) != request.server
    is_elsewhere = prefix and echo.get(PREFIX, prefix) != prefix
    if echo and (is_foreign or is_elsewhere or _is_masked(echo)):
        message = replace(message, echo={})
    return encode(message)


def _is_masked(part: object, *, is_sealed: bool = False) -> bool:
    """True if a file of the run lacks something of what only the server can read.

    A file keeps nothing that looks like a key, and a few of the millions of random characters do.
    """
    if isinstance(part, Mapping):
        entries = part.items()
        return any(_is_masked(entry, is_sealed=bool(_SEALED.search(key))) for key, entry in entries)
    if isinstance(part, (list, tuple)):
        return any(_is_masked(entry, is_sealed=is_sealed) for entry in part)
    return is_sealed and isinstance(part, str) and MASK in part


class History:
    """The messages of one conversation that have been written so far."""

    def __init__(self, start: hashlib._Hash | None = None) -> None:
        """Creates an empty one.

        Args:
            start: the hash of what stands before the messages; None = it does not matter.
        """
        self._joined = b""
        self._start = start
        """The hash of all that stands before the recent messages."""
        self._hashes: list[hashlib._Hash] = []
        """The same with each recent message, if there is a start."""
        self._older: list[Message] = []
        self._recent: list[Message] = []
        self._written: list[bytes] = []
        """The recent messages as they are written."""

    def begins(self, messages: Sequence[Message]) -> bool:
        """True if a conversation begins with the older messages: the same objects, not equal ones.

        Equal ones may differ on the wire: 1 and 1.0 and True are equal.
        """
        return len(messages) >= len(self._older) and all(map(is_, self._older, messages))

    @property
    def digest(self) -> str:
        """Digest of the messages and of what stands before them; empty if it does not matter."""
        latest = self._hashes[-1] if self._hashes else self._start
        return latest.hexdigest()[:16] if latest else ""

    def write(
        self,
        messages: Sequence[Message],
        encode: Callable[[Message, str], Iterable[Mapping[str, Any]]],
        join: Join,
    ) -> Written:
        """Encodes the messages that are new.

        Args:
            messages: all messages.
            encode: (message, digest of what stands before it) -> its objects.
            join: as in `write_messages`.
        """
        recent = messages[len(self._older) :]
        known = [*map(is_, self._recent, recent), False].index(False)
        del self._recent[known:], self._written[known:], self._hashes[known:]
        for message in recent[known:]:
            written = b",".join(map(dump, encode(message, self.digest)))
            self._written.append(written)
            self._recent.append(message)
            if latest := self._hashes[-1] if self._hashes else self._start:
                self._hashes.append(latest.copy())
                self._hashes[-1].update(written + b"\n")
        if len(self._recent) >= 2 * RECENT:
            self._join_older(join)
        return Written(self._joined, self._written.copy())

    def _join_older(self, join: Join) -> None:
        for cut in range(len(self._recent) - RECENT, 0, -1):
            before, after = self._recent[cut - 1 : cut + 1]
            last, first = self._written[cut - 1 : cut + 1]
            if last and first and before.role != "assistant" == after.role:
                break
        else:
            return
        self._joined = join_objects([self._joined, join(self._written[:cut])])
        self._older += self._recent[:cut]
        if self._hashes:
            self._start = self._hashes[cut - 1]
        del self._recent[:cut], self._written[:cut], self._hashes[:cut]
