"""One request and its reply, streamed if the caller takes pieces and the server sends them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from axe_nb.agents.provider_table import PROVIDERS, ProviderInfo
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, dump
from axe_nb.messages.answer_tool import FORCED, OUTPUT, leave_out, take_answer
from axe_nb.providers.http import ask_server
from axe_nb.providers.protocol import OnDelta, without_login
from axe_nb.providers.streaming import WireProtocol
from axe_nb.providers.thinking import asks_for_summary
from axe_nb.providers.wire import WHOLE
from axe_nb.secrets import MASK

INCLUDE, SUMMARY = "include", "reasoning.summary"
"""Refusable parts of a request: encrypted reasoning, and a summary of thinking, which OpenAI
refuses to unverified organizations."""

SERVER, PREFIX = "server", "prefix"
"""Keys of `Message.echo`: the server of the reply; the digest of all that preceded it."""

_FIELDS = {
    "stream_options": r"stream_options|include_usage",
    "stream": r"(?<![\w/-])(non-?|text/event-)?stream(ing|ed|s)?(?![\w/]|[.-]\w)",
    OUTPUT: r"response[ _]?format|text\.format|json[ _-]?schema|output_config|output_format"
    r"|structured[ _-]outputs?|response[ _]?(schema|mime[ _]?type)"
    r"|guided[ _](json|decoding|grammar)|grammar\b|field format of type|invalid format\b|json mode",
    FORCED: r"tool[ _]choice",
    INCLUDE: r"encrypted content is not supported|reasoning\.encrypted_content"
    r"|param\w*\W+include\b",
    SUMMARY: r"reasoning[. ]summar(y|ies)\b",
}
"""Field of a request → words of a server that refuses it, but not as a part of a model's name."""

_MASKED = re.compile(rf'"([^"]*(encrypted|signature)[^"]*|data)":"[^"]*{re.escape(MASK)}'.encode())
"""Matches text that a server has encrypted or signed, and in which a recording has masked
something that looks like a key."""

Encode: TypeAlias = Callable[[Message], list[dict[str, Any]]]
"""A message → its objects on the wire; none if it is empty."""


@dataclass(frozen=True, repr=False)
class HttpProvider:
    """A server at one URL, with one key, over the protocol of its class."""

    name: ClassVar[str]
    protocol: ClassVar[WireProtocol]
    base_url: str
    key: str = ""
    info: ProviderInfo = PROVIDERS["openai"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={without_login(self.base_url)!r})"

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """See `Provider.send`.

        A server that refuses a field is asked again without: for a whole reply in place of a
        stream, for a call of a tool in place of a form of answers. The caps count all as one
        request.
        """
        protocol, log = self.protocol, request.log
        # no variable holds the URL, whose password a traceback with variables would show
        digest = hashlib.sha256(dump([self.info.name, self.base_url, request.model]))
        request = replace(request, server=(log and log.server) or digest.hexdigest()[:16])
        if log and any(message.echo for message in request.messages):
            log.server = request.server
        refused = set(log.refused if log and log.recorded else request.refused)
        if request.output is not None and not protocol.takes_form(request.output):
            refused.add(OUTPUT)
        while True:
            fields = WHOLE
            if on_delta is not None:
                forms = protocol.stream_fields
                fields = next((form for form in forms if not refused & form.keys()), WHOLE)
            asked = leave_out(request, refused)
            if log:
                log.streaming, log.refused = dict(fields), asked.refused
            body = protocol.body(asked, fields)
            take = on_delta if fields else None
            try:
                data = await ask_server(self, protocol.path, body, asked, protocol, take)
                break
            except ProviderError as error:
                if not (found := _find_refused(error, asked, fields)):
                    raise
                refused.add(found)
        response = take_answer(request, protocol.parse(data))
        if not response.echo:
            return response
        if log:
            log.server = asked.server
        marks = {SERVER: asked.server, PREFIX: protocol.find_prefix(asked)}
        echo = {**response.echo, **{key: mark for key, mark in marks.items() if mark}}
        return replace(response, echo=echo)


def _find_refused(error: ProviderError, asked: Request, fields: Mapping[str, Any]) -> str:
    """Returns the field of a request that its server refuses by this error; empty if none."""
    unstreamed = r"\bverified to stream|\bstream\w*( is| are)? not (yet )?(implemented|supported)"
    words_of = {"stream": unstreamed}
    if error.status in (400, 404, 405, 406, 415, 422, 501):
        words_of = _FIELDS
    elif error.status == 500:  # some crash on a schema instead of refusing it
        words_of[OUTPUT] = _FIELDS[OUTPUT]
    sent = {
        **dict.fromkeys(fields, True),
        OUTPUT: asked.output is not None,
        FORCED: bool(asked.must_call),
        INCLUDE: INCLUDE not in asked.refused,
        SUMMARY: SUMMARY not in asked.refused and asks_for_summary(asked.params),
    }
    for field, words in words_of.items():
        if sent.get(field) and re.search(words, error.detail, re.IGNORECASE):
            return field
    return ""


def encode_messages(
    request: Request, encode: Encode, before: Iterable[object] | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Returns the messages of a request, encoded, and the digest of `before` and all of them.

    A server gets its own complete parts back, after the same beginning only (D-78); without a
    `before`, they are bound to none, and the digest is empty. What is encoded must not be changed:
    the next request has it too.
    """
    objects: list[dict[str, Any]] = []
    digest = None if before is None else hashlib.sha256(b"\n".join(map(dump, before)))
    known = request.encoded.setdefault(encode, {})
    for number, message in enumerate(request.messages):
        held, encoded = known.get(number, (None, []))
        if held is not message or message.echo:
            echo = message.echo
            is_own = not request.server or echo.get(SERVER, request.server) == request.server
            if digest and is_own and PREFIX in echo:
                is_own = echo[PREFIX] == digest.hexdigest()[:16]
            is_own = not echo or (is_own and not _MASKED.search(dump(echo)))
            encoded = encode(message if is_own else replace(message, echo={}))
            known[number] = message, encoded
        objects += encoded
        if digest:
            digest.update(b",".join(map(dump, encoded)) + b"\n")
    return objects, digest.hexdigest()[:16] if digest else ""
