"""`@axe_nb.tool`: a Python function becomes something that a model can call.

Source: product.md "Python"; D-11, D-19; X-30, X-38.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, overload

from axe_nb.budget import Stop
from axe_nb.errors import ConfigError
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import in_thread
from axe_nb.tools.plain import plain
from axe_nb.tools.printed import captured
from axe_nb.tools.schema import Signature, check, signature
from axe_nb.tools.tool import Effect, Tool, ToolContext, ToolError, ToolOutput

F = TypeVar("F", bound=Callable[..., Any])

MAX_OUTPUT = 65536
"""Bytes of UTF-8 that a model gets of one result."""

RESERVED = frozenset(
    {
        "read_file", "list_dir", "find_files", "grep", "write_file", "edit_file", "run_command",
        "fetch", "ask_user", "file_ops", "file_ops_readonly", "search_files", "terminal",
        "list_directory", "url_fetch", "call_agent", "subagent", "spawn_agent", "delegate_task",
    }
)  # fmt: skip
"""Names that agents know as tools of axe_nb's own."""

SESSION: dict[str, Tool] = {}
"""Name → tool of this process that `@axe_nb.tool` made; the latest of a name counts."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str = "", read_only: bool = False, writes: bool = False) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    read_only: bool = False,
    writes: bool = False,
) -> Any:
    """Makes a function a tool that agents may name; the function itself stays as it was.

    Type hints become the schema, the first paragraph of the docstring the description, and its
    `Args:` those of the parameters. A parameter annotated `ToolContext` gets the context.

    Args:
        name: what models call it; empty = the function's own name.
        read_only: it changes nothing, so `plan` mode allows it.
        writes: it changes things, so `ask` mode asks before it runs.

    Raises:
        ConfigError: no tool can be made of it.
    """
    if read_only and writes:
        raise ConfigError("a tool cannot be read_only and writes", hint="leave one of them out")
    effect: Effect = "read" if read_only else "write" if writes else "user"

    def mark(function: F) -> F:
        made = made_of(function, effect, name)
        if made.name in RESERVED:
            raise ConfigError(
                f"{quote(made.name)} is a tool of axe_nb's own", hint='choose another: name="…"'
            )
        SESSION[made.name] = made
        function.__axe_tool__ = made  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def tool_of(thing: Tool | Callable[..., Any]) -> Tool:
    """A tool as it is; of a function the one that it carries, else one without marks.

    Raises:
        ConfigError: no tool can be made of it.
    """
    if isinstance(thing, Tool):
        return thing
    carried = getattr(thing, "__axe_tool__", None)
    return carried if isinstance(carried, Tool) else made_of(thing, "user")


def made_of(function: Callable[..., Any], effect: Effect, name: str = "") -> Tool:
    """A tool that checks its arguments and runs the function, beside the event loop if need be.

    Raises:
        ConfigError: no tool can be made of it.
    """
    name = name or getattr(function, "__name__", "")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(
            f"{quote(name)} is no name for a tool",
            hint="letters, digits, _ and - only, at most 64",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{name} yields its results", hint="return a list instead")
    wanted = signature(function, name)
    specs = {key: parameter.spec for key, parameter in wanted.parameters.items()}
    return Tool(name, wanted.description, specs, partial(_run, function, wanted), effect)


async def _run(
    function: Callable[..., Any],
    wanted: Signature,
    ctx: ToolContext,
    arguments: Mapping[str, Any],
) -> str | ToolOutput:
    if ctx.call.raw.strip() and wanted.parameters and not arguments:
        raise ToolError("the arguments were no JSON object. Call again with one")
    values = check(arguments, wanted.parameters)
    if wanted.context:
        values[wanted.context] = ctx
    bound = wanted.bound(values)
    with captured() as paper:
        try:
            result = await _result(function, bound)
        except Stop:
            raise
        except ToolError as error:
            raise ToolError(_with_printed(str(error), paper.text)) from error
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise ToolError(_with_printed(told, paper.text)) from error
    if isinstance(result, ToolOutput):
        return replace(result, content=_with_printed(result.content, paper.text))
    return _with_printed(as_text(result), paper.text)


async def _result(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    if not inspect.iscoroutinefunction(function):
        result = await in_thread(_contained, function, bound)
        return await _awaited(result) if inspect.isawaitable(result) else result
    return await _awaited(function(*bound.args, **bound.kwargs))


def _contained(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """The function's result; nothing leaves it that a future or an event loop cannot carry."""
    try:
        return function(*bound.args, **bound.kwargs)
    except (StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError) as stop:
        raise ToolError(f"{type(stop).__name__}: {stop}") from None


async def _awaited(result: Awaitable[Any]) -> Any:
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await result
    except (SystemExit, KeyboardInterrupt) as stop:
        raise ToolError(f"{type(stop).__name__}: {stop}") from None
    except asyncio.CancelledError as stop:
        if task and task.cancelling() > before:
            raise
        raise ToolError(f"{type(stop).__name__}: {stop}") from None


def as_text(result: object) -> str:
    """What a model reads of a result: text as it is, nothing as nothing, all else as JSON."""
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(plain(result), ensure_ascii=False)


def _with_printed(text: str, printed: str) -> str:
    """The text and what was printed on the way, no more than a model is given of one result."""
    if printed.strip():
        text = f"{text}\n\nPrinted:\n{printed.rstrip()}" if text else printed.rstrip()
    return bounded(text)


def bounded(text: str) -> str:
    """The text, cut with a note where it is longer than a model is given of one result."""
    return cut_bytes(text, MAX_OUTPUT, "\n... (truncated: the first {limit} of {size} bytes)")
