"""The built-in model that needs no network and no key: a Python function or a file of rules.

It is how lessons, demos and tests say what a model answers; its failures are read by the code that
reads those of real servers, so that they are the same in process and over a socket.
Source: product.md "Providers"; D-24, D-36.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_nb.errors import ConfigError, ProviderError, words
from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.provider_table import PROVIDERS
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import read_reply
from axe_nb.scripting.lookup import ScriptFunction, Scripts, describe_search
from axe_nb.scripting.rules import Fault, Reply, Script, estimate_usage, stop_reason
from axe_nb.text import one_line, quote
from axe_nb.threads import in_thread

NONSENSE = b"<!DOCTYPE html><html><body><h1>It works!</h1></body></html>"
"""Reply of `error = "nonsense"`: not JSON, with status 200."""


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
    return Reply(await _call_function(name, found, request))


class ScriptProvider:
    """The provider `script`: answers from functions and files of rules."""

    def __init__(self, dirs: tuple[Path, ...] | None = None) -> None:
        """Creates a provider that reads each file of rules once.

        Args:
            dirs: folders to look in before `./axe/scripts` and the config folder's `scripts`.
        """
        self.name = "script"
        self.scripts = Scripts(dirs)

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Returns the script's answer after its delay.

        Raises:
            ProviderError: as the script says, or as in `answer`.
        """
        reply = await answer(request, self.scripts)
        if on_delta and reply.stream and not reply.fault:
            await _stream_text(reply, on_delta)
        else:
            await asyncio.sleep(reply.delay)
        if reply.fault:
            raise _make_error(request.model, reply.fault)
        return reply.response


async def _stream_text(reply: Reply, on_delta: OnDelta) -> None:
    """Streams the text word by word, spread over the delay."""
    pieces = re.findall(r"\S+\s*|\s+", reply.response.content)
    for piece in pieces:
        await asyncio.sleep(reply.delay / len(pieces))
        on_delta(Delta(piece))


def _make_error(name: str, fault: Fault) -> ProviderError:
    """Makes the error that a real provider raises for this failure."""
    headers, body = {}, dump({"error": {"message": fault.message}}) if fault.message else b""
    if not fault.status:
        match fault.message:
            case "timeout":
                return ProviderError("timeout", f"no answer from script/{name} in time")
            case "refused":
                message = f"connection refused: script/{name} behaves as if no server were running"
                return ProviderError("server", message)
        headers, body = {"content-type": "text/html"}, NONSENSE
    try:
        read_reply(PROVIDERS["script"], fault.status or 200, headers, body)
    except ProviderError as error:
        return error
    raise AssertionError(f"{fault} was parsed as an answer")


async def _call_function(name: str, function: ScriptFunction, request: Request) -> Response:
    if inspect.iscoroutinefunction(function):
        returned = function(request)
    else:
        returned = await in_thread(_call_in_thread, name, function, request)
    if inspect.isawaitable(returned):
        with _name_script(name, function):
            returned = await returned
    return _make_response(name, request, returned)


def _call_in_thread(name: str, function: ScriptFunction, request: Request) -> Any:
    """Returns the function's result; wraps errors here, as no future can hold a StopIteration."""
    with _name_script(name, function):
        return function(request)


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
        raise ProviderError("server", f"script {quote(name)} raised {what}{at}") from error


def _make_response(name: str, request: Request, returned: Any) -> Response:
    """Converts a function's return value to a response.

    Raises:
        ProviderError: the value cannot be a model's answer.
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
        case _:
            kind = "None" if returned is None else type(returned).__name__
            raise ProviderError(
                "server",
                f"script {quote(name)} returned {kind}, not text, tool calls or a Response",
            )
    try:
        usage = Usage(**estimate_usage(request, text, calls))
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderError(
            "server",
            f"script {quote(name)}: the arguments of a call cannot be written as JSON: {error}",
        ) from None
    return (
        returned
        if isinstance(returned, Response)
        else Response(text, calls, stop_reason(calls), usage)
    )
