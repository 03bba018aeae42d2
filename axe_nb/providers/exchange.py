"""One request and its reply: streamed if someone takes the pieces and the server streams.

Source: D-24.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from axe_nb.errors import ProviderError
from axe_nb.messages import Request
from axe_nb.providers import wire
from axe_nb.providers.http import post, post_stream
from axe_nb.providers.protocol import OnDelta, Server
from axe_nb.providers.streamed_reply import Streaming

REFUSALS = (400, 404, 405, 406, 415, 422, 501)
"""Statuses of a server that does not take a field."""

_FIELDS = {
    "stream_options": re.compile("stream_options|include_usage", re.IGNORECASE),
    "stream": re.compile(
        r"(?<![\w/-])(non-?|text/event-)?stream(ing|ed|s)?(?![\w/]|[.-]\w)", re.IGNORECASE
    ),
}
"""Field of a request → words of a server that refuses it, but not as a part of a model's name."""

_NO_STREAM = re.compile(
    r"\bverified to stream|\bstream\w*( is| are)? not (yet )?(implemented|supported)", re.IGNORECASE
)
"""Words of a server that refuses to stream, whatever its status."""

MAX_REMEMBERED = 500
"""Servers whose refusals are remembered; one that is forgotten is found out again."""

Place: TypeAlias = "tuple[str, str, str]"
"""Provider, base URL and model."""

_refused: OrderedDict[Place, frozenset[str]] = OrderedDict()
"""Fields that a server is known to refuse; those asked last are last."""


async def exchange(
    server: Server,
    path: str,
    encode: Callable[[Request, Mapping[str, Any]], bytes],
    request: Request,
    streaming: Streaming,
    on_delta: OnDelta | None,
) -> dict[str, Any]:
    """Sends a request and returns the object of a whole reply, however it came.

    A server that refuses to stream is asked again for a whole reply, and not for a stream any more.
    The caps of the run count both as one request, as that happens once for a server and model.

    Args:
        server: the server.
        path: below its base URL.
        encode: (request, fields that ask for a stream) -> body.
        request: the request.
        streaming: how the protocol streams.
        on_delta: takes the pieces; None = a whole reply is asked for.

    Raises:
        ProviderError: the server is unreachable, refuses, fails or sends an invalid reply.
    """
    if on_delta is None:
        return await post(server, path, encode(request, wire.WHOLE), request, streaming)
    place = (server.info.name, server.base_url, request.model)
    known = refused = _refused.get(place, frozenset())
    _remember(place, known)
    while True:
        fields = next((some for some in streaming.fields if not refused & some.keys()), wire.WHOLE)
        body = encode(request, fields)
        if request.log:
            request.log.streaming = dict(fields)
        try:
            if fields:
                return await post_stream(server, path, body, request, streaming, on_delta)
            return await post(server, path, body, request, streaming)
        except ProviderError as error:
            field = _find_refused(error)
            if field in fields:
                refused |= {field}
                _remember(place, refused)
                continue
            if refused != known and error.status in REFUSALS:
                _remember(place, known)  # the field was perhaps not what was wrong
            raise


def _remember(place: Place, refused: frozenset[str]) -> None:
    """Notes what a server refuses; of too many servers, the one asked longest ago is forgotten."""
    _refused.pop(place, None)
    if refused:
        _refused[place] = refused
    if len(_refused) > MAX_REMEMBERED:
        _refused.popitem(last=False)


def _find_refused(error: ProviderError) -> str:
    """Returns the field that a server refuses by this error; empty if none."""
    if error.status not in REFUSALS:
        return "stream" if _NO_STREAM.search(error.detail) else ""
    return next((field for field, words in _FIELDS.items() if words.search(error.detail)), "")
