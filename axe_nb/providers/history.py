"""The messages of a growing conversation as a protocol writes them: each is encoded once.

Source: D-32; goals.md "turn 1000 against turn 10".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from axe_nb.messages import Message, Request, dump

SERVER = "server"
"""Key of `Message.echo`."""

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
    request: Request, protocol: str, encode: Encode, join: Join = join_objects
) -> Written:
    """Encodes the messages of a request, except those encoded for an earlier request."""
    known = f"{protocol} {request.server}"
    history: History | None = request.wire.get(known)
    if history is None or not history.begins(request.messages):
        history = request.wire[known] = History()
    return history.write(request.messages, lambda one: encode(drop_foreign(one, request)), join)


def drop_foreign(message: Message, request: Request) -> Message:
    """Returns a message without the parts that only another server may be given (D-78)."""
    is_foreign = message.echo.get(SERVER, request.server) != request.server
    return replace(message, echo={}) if request.server and is_foreign else message


class History:
    """The messages of one conversation that have been written so far."""

    def __init__(self) -> None:
        self._joined = b""
        self._older: list[Message] = []
        self._recent: list[Message] = []
        self._written: list[bytes] = []
        """The recent messages as they are written."""

    def begins(self, messages: Sequence[Message]) -> bool:
        """True if a conversation begins with the older messages: the same objects, not equal ones.

        Equal ones may differ on the wire: 1 and 1.0 and True are equal.
        """
        return len(messages) >= len(self._older) and all(map(is_, self._older, messages))

    def write(self, messages: Sequence[Message], encode: Encode, join: Join) -> Written:
        """Encodes the messages that are new."""
        recent = messages[len(self._older) :]
        known = [*map(is_, self._recent, recent), False].index(False)
        del self._recent[known:], self._written[known:]
        for message in recent[known:]:
            self._written.append(b",".join(map(dump, encode(message))))
            self._recent.append(message)
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
        del self._recent[:cut], self._written[:cut]
