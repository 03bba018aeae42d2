"""The built-in model that needs no network and no key: a Python function or a file of rules.

It is how lessons, demos and tests say what a model answers; its failures are read by the code that
reads those of real servers, so that they are the same in process and over a socket.
Source: D-24, D-36.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ConfigError, ProviderError, words
from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import read_reply
from axe_nb.scripting.lookup import ScriptFunction, Scripts, describe_search
from axe_nb.scripting.rules import (
    FAULTS,
    Fault,
    Part,
    Reply,
    Script,
    estimate_usage,
    stop_reason,
    write_data,
)
from axe_nb.text import one_line, quote
from axe_nb.threads import STRETCH, in_thread

ARGUMENTS = 8
"""Characters of one piece of a call's arguments."""

_END = object()
"""Marks the end of a generator."""


async def answer(request: Request, scripts: Scripts) -> Reply:
    """Returns the reply of the script `request.model`, before its delay.

    Raises:
        ProviderError: no such script (status 404), a mistake in it or no rule that matches
            (bad_request), or whatever its function raises.
    """
    name = request.model
    try:
        found = scripts.find(name)
    except ConfigError as error:
        raise ProviderError("bad_request", error.message, hint=error.hint) from None
    if found is None:
        raise ProviderError(
            "bad_request",
            f"script not found: {name}",
            hint=describe_search(name, scripts.dirs),
            status=404,
        )
    if isinstance(found, Script):
        return found.answer(name, request)
    return await _call_function(name, found, request)


class ScriptProvider:
    """The provider `script`: answers from functions and files of rules."""

    def __init__(
        self,
        dirs: tuple[Path, ...] | None = None,
        sent: Mapping[str, ScriptFunction | Script] | None = None,
    ) -> None:
        """Creates a provider that reads each file of rules once.

        Args:
            dirs: folders to look in before `./axe/scripts` and the config folder's `scripts`.
        """
        self.name = "script"
        self.scripts = Scripts(dirs, sent)

    def is_virtual(self, name: str) -> bool:
        """True if a script is a file of rules on the virtual clock."""
        found = self.scripts.find(name)
        return isinstance(found, Script) and found.virtual

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Returns the script's answer after its delay; streams it if the script streams.

        Raises:
            ProviderError: as the script says, or as in `answer`.
        """
        reply = await answer(request, self.scripts)
        playback = Playback(request, reply)
        has_begun = False
        async with aclosing(playback.deltas()) as deltas:
            async for delta in deltas:
                if on_delta and (reply.stream or reply.fault):
                    has_begun = True
                    on_delta(delta)
        if playback.fault:
            raise _make_error(request.model, playback.fault, has_begun=has_begun)
        if playback.reasoning:
            return replace(playback.response, reasoning=playback.reasoning)
        return playback.response


class Playback:
    """One reply while it is played; the end is known once `deltas` is exhausted."""

    def __init__(self, request: Request, reply: Reply) -> None:
        self.calls: list[ToolCall] = []
        """The calls so far; those of a function get their ids from its provider or server."""
        self.fault = reply.fault
        """The failure that breaks the reply off after its deltas; None = it is complete."""
        self.response = reply.response
        """The whole reply; of a function that yields pieces, only at the end."""
        self.reasoning = reply.reasoning
        """The reasoning before the answer; of a function, only at the end."""
        self._request = request
        self._reply = reply

    @property
    def input_tokens(self) -> int:
        """Input tokens, known from the beginning."""
        if self._reply.parts is None:
            return self.response.usage.input_tokens
        return estimate_usage(self._request, "", ())["input_tokens"]

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """Yields the pieces at their times. Raises ProviderError if the script fails."""
        if self._reply.parts is not None:
            async with aclosing(self._play_parts(self._reply.parts)) as played:
                async for delta in played:
                    yield delta
            return
        pieces: list[Delta] = []
        for piece in self._cut():
            pieces.append(piece)
            if len(pieces) % STRETCH == 0:
                await asyncio.sleep(0)
        pauses = len(pieces) if self._reply.stream else 1
        for number, delta in enumerate(pieces):
            if number < pauses:
                await asyncio.sleep(self._reply.delay / pauses)
            yield delta
        if not pieces:
            await asyncio.sleep(self._reply.delay)

    def _cut(self) -> Iterator[Delta]:
        """Yields the reply of a rule in pieces; each part is whole unless the rule streams."""
        reply, small = self._reply, self._reply.stream
        yield from (Delta(piece, "reasoning") for piece in _cut_words(reply.reasoning, small))
        yield from map(Delta, _cut_words(reply.response.content, small))
        for call in reply.response.tool_calls:
            yield from self._cut_call(call, small=small)

    def _cut_call(self, call: ToolCall, *, small: bool) -> Iterator[Delta]:
        number = len(self.calls)
        self.calls.append(call)
        text = call.raw or dump(dict(call.arguments)).decode()
        size = ARGUMENTS if small else len(text) or 1
        for at in range(0, len(text) or 1, size):
            name = call.name if at == 0 else ""
            yield Delta(text[at : at + size], "arguments", number, name)

    async def _play_parts(self, parts: AsyncIterator[Part]) -> AsyncGenerator[Delta, None]:
        texts: list[str] = []
        async for part in parts:
            match part:
                case ToolCall():
                    for delta in self._cut_call(part, small=False):
                        yield delta
                case Delta():
                    if part.kind == "reasoning":
                        self.reasoning += part.text
                    else:
                        texts.append(part.text)
                    yield part
                case Fault():
                    self.fault = part
                    break
        text, calls = "".join(texts), tuple(self.calls)
        usage = Usage(**estimate_usage(self._request, text, calls))
        self.response = Response(text, calls, stop_reason(calls), usage)


def _cut_words(text: str, small: bool) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text) if small else [text] * bool(text)


def _make_error(name: str, fault: Fault, *, has_begun: bool) -> ProviderError:
    """Makes the error that a real provider raises for this failure.

    Args:
        has_begun: True if a part of the reply had arrived.
    """
    if fault.status:
        body = dump({"error": {"message": fault.message}}) if fault.message else b""
        try:
            read_reply(PROVIDERS["script"], fault.status, {}, body)
        except ProviderError as error:
            return error
    if fault.message == "timeout":
        return ProviderError("timeout", f"no answer from script/{name} in time")
    if not has_begun:
        message = f"connection refused: script/{name} behaves as if no server were running"
        return ProviderError("server", message)
    if fault.message == "refused":
        message = f"the connection to script/{name} was closed in the middle of its answer"
        return ProviderError("server", message)
    return ProviderError(
        "server",
        "the stream ended before the answer was complete",
        hint="try again, or allow more retries with --retries",
    )


async def _call_function(name: str, function: ScriptFunction, request: Request) -> Reply:
    def call_in_thread() -> Any:  # wraps errors here, as no future can hold a StopIteration
        with _name_script(name, function):
            return function(request)

    if inspect.iscoroutinefunction(function):
        returned = function(request)
    else:
        returned = await in_thread(call_in_thread)
    if inspect.isawaitable(returned):
        with _name_script(name, function):
            returned = await returned
    if isinstance(returned, Generator | AsyncGenerator):
        return Reply(parts=_read_parts(name, function, returned), stream=True)
    if isinstance(returned, Fault):
        return Reply(fault=_check_fault(name, returned))
    if isinstance(returned, list | tuple) and len(returned) > STRETCH:
        return Reply(await in_thread(_make_response, name, request, returned))
    return Reply(_make_response(name, request, returned))


async def _read_parts(
    name: str, function: ScriptFunction, pieces: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
) -> AsyncGenerator[Part, None]:
    """Yields the checked parts of a generator; sync generators run in threads.

    Raises ProviderError if a piece cannot be part of a reply.
    """
    try:
        while True:
            with _name_script(name, function):
                if isinstance(pieces, AsyncGenerator):
                    piece = await anext(pieces, _END)
                else:
                    piece = await in_thread(next, pieces, _END)
            match piece:
                case _ if piece is _END:
                    return
                case str():
                    yield Delta(piece)
                case ToolCall():
                    with _name_arguments(name):
                        piece = _as_sent(piece)
                    yield piece
                case Delta(kind="text" | "reasoning"):
                    yield piece
                case Fault():
                    yield _check_fault(name, piece)
                case _:
                    raise ProviderError(
                        "server",
                        f"script {quote(name)} yielded {type(piece).__name__}, not text, a tool "
                        "call, a Fault, or a Delta of text or reasoning",
                    )
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _check_fault(name: str, fault: Fault) -> Fault:
    if fault.status or fault.message in FAULTS:
        return fault
    known = ", ".join(FAULTS)
    raise ProviderError(
        "server", f"script {quote(name)}: the message of a Fault without a status is one of {known}"
    )


@contextmanager
def _name_script(name: str, function: ScriptFunction) -> Iterator[None]:
    """Converts any exception raised inside to an error that names the script."""
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
    """Converts a function's return value to a response.

    Raises ProviderError if the value cannot be a model's answer.
    """
    text = ""
    calls: tuple[ToolCall, ...] = ()
    match returned:
        case Response() if isinstance(returned.content, str):
            calls = returned.tool_calls
        case str():
            text = returned
        case ToolCall():
            calls = (returned,)
        case [_, *_] if all(isinstance(entry, ToolCall) for entry in returned):
            calls = tuple(returned)
        case Mapping():
            text = write_data(returned, request)
        case _ if request.output is not None and returned is not None:
            text = write_data(returned, request)
        case _:
            kind = "None" if returned is None else type(returned).__name__
            raise ProviderError(
                "server",
                f"script {quote(name)} returned {kind}, not text, tool calls or a Response",
                hint="for text and calls together, return axe_nb.Response(text, (call, …))",
            )
    with _name_arguments(name):
        calls = tuple(map(_as_sent, calls))
        usage = Usage(**estimate_usage(request, text, calls))
    if isinstance(returned, Response):
        return replace(returned, tool_calls=calls)
    return Response(text, calls, stop_reason(calls), usage)


@contextmanager
def _name_arguments(name: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderError(
            "server",
            f"script {quote(name)}: the arguments of a call cannot be written as JSON: {error}",
        ) from None


def _as_sent(call: ToolCall) -> ToolCall:
    """Returns a call with its arguments as they arrive over a socket: all keys are texts."""
    return replace(call, arguments=json.loads(json.dumps(dict(call.arguments))))
