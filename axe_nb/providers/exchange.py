"""One request and its reply: streamed if someone takes the pieces and the server streams.

Source: D-24.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any, TypeAlias

from axe_nb.errors import ProviderError
from axe_nb.messages import Request, Response, dump
from axe_nb.messages.answer_tool import FORCED, OUTPUT, leave_out, take_answer
from axe_nb.providers import wire
from axe_nb.providers.history import PREFIX, SERVER
from axe_nb.providers.http import ask_server
from axe_nb.providers.protocol import OnDelta, Server
from axe_nb.providers.streamed_reply import Streaming
from axe_nb.providers.thinking import asks_for_summary

REFUSALS = (400, 404, 405, 406, 415, 422, 501)
"""Statuses of a server that does not take a field."""

FAILURE = 500
"""Status of servers that crash on a schema instead of refusing it."""

INCLUDE = "include"
"""The demand for encrypted reasoning; a server that refuses it is asked without."""

SUMMARY = "reasoning.summary"
"""The demand for a summary of what a model thinks; OpenAI refuses it to organizations that it has
not verified, which are served without."""

_FIELDS = {
    "stream_options": re.compile("stream_options|include_usage", re.IGNORECASE),
    "stream": re.compile(
        r"(?<![\w/-])(non-?|text/event-)?stream(ing|ed|s)?(?![\w/]|[.-]\w)", re.IGNORECASE
    ),
    OUTPUT: re.compile(
        r"response[ _]?format|text\.format|json[ _-]?schema|output_config|output_format"
        r"|structured[ _-]outputs?|response[ _]?(schema|mime[ _]?type)"
        r"|guided[ _](json|decoding|grammar)|grammar\b"
        r"|field format of type|invalid format\b|json mode",
        re.IGNORECASE,
    ),
    FORCED: re.compile("tool[ _]choice", re.IGNORECASE),
    INCLUDE: re.compile(
        r"encrypted content is not supported|reasoning\.encrypted_content|param\w*\W+include\b",
        re.IGNORECASE,
    ),
    SUMMARY: re.compile(r"reasoning[. ]summar(y|ies)\b", re.IGNORECASE),
}
"""Field of a request → words of a server that refuses it, but not as a part of a model's name."""

_OF_THIS_ONE = re.compile(r"(?<!json_)schema|grammar|\btools?\b|\bfunction", re.IGNORECASE)
"""Words of a server that refuses one schema, or a form beside tools, but perhaps not another."""

_NO_STREAM = re.compile(
    r"\bverified to stream|\bstream\w*( is| are)? not (yet )?(implemented|supported)", re.IGNORECASE
)
"""Phrases of a server that refuses to stream, with any status."""

Place: TypeAlias = "tuple[str, ...]"
"""Provider, URL of requests and model; a fourth part narrows it to one form of answers."""

_refused: dict[Place, frozenset[str]] = {}
"""Fields that servers are known to refuse."""


async def exchange(
    server: Server,
    path: str,
    encode: Callable[[Request, Mapping[str, Any]], bytes],
    parse: Callable[[Mapping[str, Any]], Response],
    request: Request,
    streaming: Streaming,
    on_delta: OnDelta | None,
    takes_form: Callable[[Mapping[str, Any]], bool] = lambda form: True,
    find_prefix: Callable[[Request], str] = lambda request: "",
) -> Response:
    """Sends a request and returns the answer, streamed or whole.

    A server that refuses to stream is asked again for a whole reply, and never again for a stream.
    One that refuses the form of an answer is offered a tool for it. The caps of the run count all
    as one request, as that happens once for a server and model, or for one schema. Raises
    ProviderError if the server is unreachable, refuses, fails or sends an invalid reply.

    Args:
        encode: (request, fields that ask for a stream) -> body.
        on_delta: takes the pieces; None = a whole reply is asked for.
        takes_form: True if the protocol can ask for an answer of this schema without a tool.
        find_prefix: digest of what the reply's own parts are bound to; empty = to nothing (D-78).
    """
    request = _address(server, request)
    wide, narrow = _find_places(server, request)
    refused = _recall(request, wide, narrow)
    found: list[tuple[Place, str]] = []
    needs_tool = request.output is not None and not takes_form(request.output)
    while True:
        fields = wire.WHOLE if on_delta is None else _find_fields(streaming, refused)
        asked = leave_out(request, {*refused, OUTPUT} if needs_tool else refused)
        if request.log:
            request.log.streaming = dict(fields)
            request.log.refused = asked.refused
        try:
            taken = on_delta if fields else None
            data = await ask_server(server, path, encode(asked, fields), asked, streaming, taken)
        except ProviderError as error:
            field = _find_refused(error, asked, fields)
            if not field:
                if error.status not in REFUSALS:  # else a field was perhaps not what was wrong
                    _remember(found)
                raise
            refused.add(field)
            is_of_this_one = error.status == FAILURE or _OF_THIS_ONE.search(error.detail)
            found.append((narrow if field == OUTPUT and is_of_this_one else wide, field))
            continue
        response = parse(data)
        if asked.output is not None and _ignores_form(response):
            found.append((wide, OUTPUT))
        _remember(found)
        return _mark(take_answer(request, response), asked, find_prefix)


def _mark(response: Response, asked: Request, find_prefix: Callable[[Request], str]) -> Response:
    """Notes the server of the parts that it wants back, and what they followed (D-78)."""
    if not response.echo:
        return response
    if asked.log:
        asked.log.server = asked.server
    marks = {SERVER: asked.server, PREFIX: find_prefix(asked)}
    echo = {**response.echo, **{key: mark for key, mark in marks.items() if mark}}
    return replace(response, echo=echo)


def _recall(request: Request, *places: Place) -> set[str]:
    """Returns the fields that a server refuses; of a recorded reply, what its request shows."""
    if request.log and request.log.recorded is not None:
        return set(request.log.refused)
    return {field for place in places for field in _refused.get(place, ())}


def _remember(found: Iterable[tuple[Place, str]]) -> None:
    for place, field in found:
        _refused[place] = _refused.get(place, frozenset()) | {field}


def _address(server: Server, request: Request) -> Request:
    """Returns a request with what stands for its server and model in messages that it is given."""
    known = request.log.server if request.log else ""
    place = dump([server.info.name, server.base_url, request.model])
    request = replace(request, server=known or hashlib.sha256(place).hexdigest()[:16])
    if request.log and any(message.echo for message in request.messages):
        request.log.server = request.server
    return request


def _find_places(server: Server, request: Request) -> tuple[Place, Place]:
    """Returns what refusals are known for: the model of a server, and there this form of answers.

    The form is the same with and without tools for most servers, but not for all.
    """
    wide = (server.info.name, server.base_url + server.info.chat_path, request.model)
    if request.output is None:
        return wide, wide
    form = dump([dict(request.output), bool(request.tools)])
    return wide, (*wide, hashlib.sha256(form).hexdigest())


def _find_fields(streaming: Streaming, refused: Set[str]) -> Mapping[str, Any]:
    """Returns the fields that ask for a stream; those for a whole reply if no others are left."""
    return next((some for some in streaming.fields if not refused & some.keys()), wire.WHOLE)


def _ignores_form(response: Response) -> bool:
    """True if a whole answer that was to be a JSON object has none; the next try needs a tool."""
    is_whole = not (response.tool_calls or response.is_cut or response.is_withheld)
    return is_whole and bool(response.content.strip()) and "{" not in response.content


def _has_field(asked: Request, fields: Mapping[str, Any], name: str) -> bool:
    if name == OUTPUT:
        return asked.output is not None
    if name == INCLUDE:
        return INCLUDE not in asked.refused
    if name == SUMMARY:
        return SUMMARY not in asked.refused and asks_for_summary(asked.params)
    return bool(asked.must_call) if name == FORCED else name in fields


def _find_refused(error: ProviderError, asked: Request, fields: Mapping[str, Any]) -> str:
    """Returns the field of a request that its server refuses by this error; empty if none."""
    if error.status not in (*REFUSALS, FAILURE):
        words_of = {"stream": _NO_STREAM}
    elif error.status == FAILURE:
        words_of = {"stream": _NO_STREAM, OUTPUT: _FIELDS[OUTPUT]}
    else:
        words_of = _FIELDS
    found = (field for field, words in words_of.items() if words.search(error.detail))
    return next((field for field in found if _has_field(asked, fields, field)), "")
