"""The `script` provider, whose models are Python functions or rule files.

Lessons, demos and tests use the provider to script a model's answers without a network or key.
Scripted HTTP errors pass through the same code as those of real servers. Source: D-24, D-36.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import traceback
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import ConfigError, ProviderError, words
from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import read_reply
from axe_nb.scripting.rules import (
    Fault,
    Found,
    Reply,
    Script,
    ScriptFunction,
    ScriptNotFound,
    Scripts,
    estimate_usage,
    stop_reason,
)
from axe_nb.text import one_line, quote
from axe_nb.threads import in_thread

Played: TypeAlias = Delta | ToolCall | Response | Fault
"""Part of a scripted response: a piece, a tool call (before the pieces of its arguments), or the
end, which is a Response or a Fault."""

_END = object()


async def answer(request: Request, scripts: Scripts) -> tuple[AsyncGenerator[Played, None], bool]:
    """Runs a request's script; returns the parts of the response, and whether to stream them."""
    name = request.model
    try:
        found = scripts.find(name)
    except ConfigError as error:
        status = 404 if isinstance(error, ScriptNotFound) else None
        problem = error.message
        raise ProviderError("bad_request", problem, hint=error.hint, status=status) from None
    if isinstance(found, Script):
        reply = found.answer(name, request)
        return _play_reply(reply), reply.stream or reply.fault is not None
    function = found

    def call() -> Any:  # converts errors here, as a future cannot hold a StopIteration
        with _name_script(name, function):
            return function(request)

    returned = call() if inspect.iscoroutinefunction(function) else await in_thread(call)
    if inspect.isawaitable(returned):
        with _name_script(name, function):
            returned = await returned
    if isinstance(returned, Generator | AsyncGenerator):
        return _play_parts(request, function, returned), True
    if isinstance(returned, Fault):
        return _play_reply(Reply(fault=returned)), True
    return _play_reply(Reply(_make_response(name, request, returned))), False


class ScriptProvider:
    def __init__(
        self, dirs: tuple[Path, ...] = (), sent: Mapping[str, Found] | None = None
    ) -> None:
        self.name = "script"
        self.scripts = Scripts(dirs, sent)

    def is_virtual(self, name: str) -> bool:
        script = self.scripts.find(name)
        return isinstance(script, Script) and script.virtual

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        pieces, streams = await answer(request, self.scripts)
        has_begun = False
        async with aclosing(pieces):
            async for piece in pieces:
                match piece:
                    case Response():
                        return piece
                    case Fault(message, status) if status:  # like an error of a real server
                        body = dump({"error": {"message": message}}) if message else b""
                        read_reply(PROVIDERS["script"], status, {}, body)
                    case Fault("timeout"):
                        problem = f"no answer from script/{request.model} in time"
                        raise ProviderError("timeout", problem)
                    case Fault() if not has_begun:
                        raise ProviderError(
                            "server",
                            f"connection refused: script/{request.model} behaves as if no server "
                            "were running",
                        )
                    case Fault("refused"):
                        closed = f"the connection to script/{request.model} was closed"
                        raise ProviderError("server", f"{closed} in the middle of its answer")
                    case Fault():
                        raise ProviderError(
                            "server",
                            "the stream ended before the answer was complete",
                            hint="try again, or allow more retries with --retries (retries=)",
                        )
                    case Delta() if on_delta and streams:
                        has_begun = True
                        on_delta(piece)
        raise AssertionError("a reply has no end")


async def _play_parts(
    request: Request, function: ScriptFunction, parts: Generator[Any] | AsyncGenerator[Any]
) -> AsyncGenerator[Played, None]:
    name = request.model
    said = {"text": "", "reasoning": ""}
    calls: list[ToolCall] = []
    try:
        while True:
            with _name_script(name, function):
                if isinstance(parts, AsyncGenerator):
                    part = await anext(parts, _END)
                else:
                    part = await in_thread(next, parts, _END)
            if part is _END:
                break
            if isinstance(part, str):
                part = Delta(part)
            match part:
                case ToolCall():
                    call = _as_sent(name, part)
                    for piece in _cut_call(call, len(calls), small=False):
                        yield piece
                    calls.append(call)
                case Delta(text, "text" | "reasoning" as kind):
                    said[kind] += text
                    yield part
                case Fault():
                    yield part
                    return
                case _:
                    raise ProviderError(
                        "server",
                        f"script {quote(name)} yielded {type(part).__name__}, not text, a tool "
                        "call, a Fault, or a Delta of text or reasoning",
                    )
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()
    yield replace(_make_whole(request, said["text"], calls), reasoning=said["reasoning"])


async def _play_reply(reply: Reply) -> AsyncGenerator[Played, None]:
    small, response = reply.stream, reply.response
    pieces: list[Played] = [Delta(one, "reasoning") for one in _cut(response.reasoning, small)]
    pieces += map(Delta, _cut(response.content, small))
    for number, call in enumerate(response.tool_calls):
        pieces += _cut_call(call, number, small)
    pauses = (len(pieces) if small else 1) or 1
    for number, piece in enumerate(pieces):
        if number < pauses:
            await asyncio.sleep(reply.delay / pauses)
        yield piece
    if not pieces:
        await asyncio.sleep(reply.delay)
    yield reply.fault or response


def _cut(text: str, small: bool) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text) if small else [text] * bool(text)


def _cut_call(call: ToolCall, number: int, small: bool) -> Iterator[Played]:
    yield call
    text = call.raw or dump(dict(call.arguments)).decode()
    size = 8 if small else len(text)
    for at in range(0, len(text), size):
        yield Delta(text[at : at + size], "arguments", number, call.name if at == 0 else "")


@contextmanager
def _name_script(name: str, function: ScriptFunction) -> Iterator[None]:
    try:
        yield
    except (ProviderError, KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # a script is the user's code
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        at = f" in line {lines[-1]}" if lines else ""
        what = one_line(f"{type(error).__name__}: {words(error)}", 200).rstrip(": ")
        message = f"script {quote(name)} raised {what}{at}"
        raise ProviderError("server", message, retryable=False) from error


def _make_response(name: str, request: Request, returned: Any) -> Response:
    text = ""
    calls: tuple[ToolCall, ...] = ()
    match returned:
        case Response(content=str()):
            calls = tuple(_as_sent(name, call) for call in returned.tool_calls)
            return replace(returned, tool_calls=calls)
        case str():
            text = returned
        case ToolCall():
            calls = (returned,)
        case [_, *_] if all(isinstance(entry, ToolCall) for entry in returned):
            calls = tuple(returned)
        case _ if isinstance(returned, Mapping) or (returned is not None and request.output):
            data = jsonable(returned)
            is_wrapped = request.output is not None and not isinstance(data, dict)
            text = dump({"value": data} if is_wrapped else data).decode()
        case _:
            kind = "None" if returned is None else type(returned).__name__
            raise ProviderError(
                "server",
                f"script {quote(name)} returned {kind}, not text, tool calls or a Response",
                hint="for text and calls together, return axe_nb.Response(text, (call, …))",
            )
    return _make_whole(request, text, [_as_sent(name, call) for call in calls])


def _make_whole(request: Request, text: str, calls: Sequence[ToolCall]) -> Response:
    made = tuple(calls)
    usage = Usage(**estimate_usage(request, text, made))
    return Response(text, made, stop_reason(made), usage)


def _as_sent(name: str, call: ToolCall) -> ToolCall:
    """Returns a call whose arguments were converted to JSON and back, as if sent over a socket."""
    try:
        return replace(call, arguments=json.loads(json.dumps(dict(call.arguments))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderError(
            "server",
            f"script {quote(name)}: the arguments of a call cannot be written as JSON: {error}",
        ) from None
