"""A Python function becomes something that a model can call.

Source: product.md "Python"; D-11, D-19; X-30, X-38.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from axe_nb.agents.names import check_tool_name
from axe_nb.errors import ConfigError, words
from axe_nb.limits import RunStopped
from axe_nb.threads import in_thread
from axe_nb.tools.capture import capture_output
from axe_nb.tools.output import output_of
from axe_nb.tools.signature import Signature, check, signature
from axe_nb.tools.tool import Effect, Tool, ToolContext, ToolError, ToolOutput, fault_text


def tool_of(thing: Tool | Callable[..., Any]) -> Tool:
    """A tool as it is; of a function the one that it carries, else one without marks.

    Raises:
        ConfigError: no tool can be made of it.
    """
    if isinstance(thing, Tool):
        return thing
    carried = getattr(thing, "__axe_tool__", None)
    return carried if isinstance(carried, Tool) else make_tool(thing, "user")


def make_tool(function: Callable[..., Any], effect: Effect, name: str = "") -> Tool:
    """A tool that checks its arguments and runs the function, beside the event loop if need be.

    Raises:
        ConfigError: no tool can be made of it.
    """
    if not callable(function):
        raise ConfigError(
            f"{type(function).__name__} is neither a function nor a tool", hint="pass a function"
        )
    name = name or str(getattr(function, "__name__", ""))
    check_tool_name(name)
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
) -> ToolOutput:
    if ctx.call.raw.strip() and wanted.parameters and not arguments:
        raise ToolError("the arguments were no JSON object. Call again with one")
    values = check(arguments, wanted.parameters)
    if wanted.context:
        values[wanted.context] = ctx
    bound = wanted.bound(values)
    with capture_output() as paper:
        try:
            result = await _result(function, bound)
        except RunStopped:
            raise
        except ToolError as error:
            raise ToolError(_with_printed(words(error), paper.text)) from error
        except Exception as error:
            raise ToolError(_with_printed(fault_text(error), paper.text)) from error
    output = output_of(result)
    return replace(output, content=_with_printed(output.content, paper.text))


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
        raise ToolError(fault_text(stop)) from None


async def _awaited(result: Awaitable[Any]) -> Any:
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await result
    except (SystemExit, KeyboardInterrupt) as stop:
        raise ToolError(fault_text(stop)) from None
    except asyncio.CancelledError as stop:
        if task and task.cancelling() > before:
            raise
        raise ToolError(fault_text(stop)) from None


def _with_printed(text: str, printed: str) -> str:
    """The text, and after it what was printed on the way."""
    if not printed.strip():
        return text
    return f"{text}\n\nPrinted:\n{printed.rstrip()}" if text else printed.rstrip()
