"""The messages of a conversation as a server takes them: without parts that are not for it (D-78).

Source: D-32, D-78.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from axe_nb.messages import Message, Request, dump
from axe_nb.secrets import MASK

SERVER = "server"
"""Key of `Message.echo`."""

PREFIX = "prefix"
"""Key of `Message.echo`: digest of what stood before the reply."""

_SEALED = re.compile("encrypted|signature|^data$")
"""Keys of what a server has encrypted or signed."""

Encode: TypeAlias = Callable[[Message], list[dict[str, Any]]]
"""A message → its objects on the wire; none if it is empty."""


def encode_messages(
    request: Request, encode: Encode, before: Iterable[object] | None = None
) -> list[dict[str, Any]]:
    """Encodes the messages of a request.

    Args:
        before: what stands before the messages, if the server refuses its own parts behind another
            beginning than that which they followed.
    """
    is_bound = before is not None and any(PREFIX in message.echo for message in request.messages)
    return _encode(request, encode, _begin(before) if is_bound and before is not None else None)


def find_prefix(request: Request, encode: Encode, before: Iterable[object]) -> str:
    """Returns the digest of what stands before the reply to a request."""
    digest = _begin(before)
    _encode(request, encode, digest)
    return digest.hexdigest()[:16]


def _begin(before: Iterable[object]) -> hashlib._Hash:
    return hashlib.sha256(b"\n".join(map(dump, before)))


def _encode(request: Request, encode: Encode, digest: hashlib._Hash | None) -> list[dict[str, Any]]:
    """Encodes the messages, and adds each to the digest of what stands before the next one.

    What is encoded already must not be changed: the next request has it too.
    """
    objects: list[dict[str, Any]] = []
    known: list[tuple[Message, list[dict[str, Any]]]] = request.encoded.setdefault(encode, [])
    for number, message in enumerate(request.messages):
        if number < len(known) and known[number][0] is message and not message.echo:
            encoded = known[number][1]
        else:
            is_for_it = not message.echo or _may_return(message.echo, request, digest)
            encoded = encode(message if is_for_it else replace(message, echo={}))
            known[number : number + 1] = [(message, encoded)]
        objects += encoded
        if digest:
            digest.update(b",".join(map(dump, encoded)) + b"\n")
    return objects


def _may_return(echo: Mapping[str, Any], request: Request, digest: hashlib._Hash | None) -> bool:
    """True if a server may be given parts again: its own, whole, behind the same beginning."""
    if request.server and echo.get(SERVER, request.server) != request.server:
        return False
    if digest and PREFIX in echo and echo[PREFIX] != digest.hexdigest()[:16]:
        return False
    return not _is_masked(echo)


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
