"""Tools made from Python functions: parameters from signatures, argument checks and calls.

Text that a call prints is added to the call's result instead of appearing in a cell. All threads
and tasks share `sys.stdout`, so a wrapper around it assigns output to calls through a context
variable, which tasks and threads of `in_thread` inherit. Source: A-2.2, D-11, D-19, X-30, X-38.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from axe_nb.agents.names import check_tool_name, function_name
from axe_nb.conversion.json_schema import (
    MAX_MISTAKES,
    Mistakes,
    Parameter,
    fields,
    parse_docstring,
    shape,
    type_hints,
)
from axe_nb.errors import ConfigError, words
from axe_nb.results import RunStopped
from axe_nb.threads import in_thread
from axe_nb.tools.tool import (
    Effect,
    PermissionDenied,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    fault_text,
    output_of,
)

MAX_PRINTED = 16384


def tool_of(thing: Tool | Callable[..., Any]) -> Tool:
    """Returns a `Tool` unchanged; for a function, returns its registered tool or a new tool."""
    if isinstance(thing, Tool):
        return thing
    carried = getattr(thing, "__axe_tool__", None)
    return carried if isinstance(carried, Tool) else make_tool(thing, "user")


def make_tool(function: Callable[..., Any], effect: Effect, name: str = "") -> Tool:
    """Creates a tool from a function. Raises ConfigError if the function is unsuitable."""
    if not callable(function):
        raise ConfigError(
            f"{type(function).__name__} is neither a function nor a tool",
            hint="pass a function, or a method of an object",
        )
    name = name or function_name(function)
    check_tool_name(name)
    has_own = isinstance(function, type | functools.partial) or hasattr(function, "__wrapped__")
    if not has_own and not inspect.isroutine(function):  # `__call__` has the signature
        function = function.__call__  # type: ignore[operator]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{name} yields its results", hint="return a list instead")
    run = PythonFunction(function, name)
    if (first := next(iter(run.python.parameters.values()), None)) and (
        first.name in ("self", "cls") and first.annotation is first.empty
    ):
        raise ConfigError(
            f"{name} is a method without its object", hint=f"pass a bound method: thing.{name}"
        )
    specs = {key: parameter.spec for key, parameter in run.parameters.items()}
    return Tool(name, run.description, specs, run, effect)


def check(arguments: Mapping[str, Any], wanted: Mapping[str, Parameter]) -> dict[str, Any]:
    """Converts arguments to the types of their parameters. Raises ToolError if any are invalid."""
    mistakes: Mistakes = []
    values = fields(arguments, wanted, "", mistakes)
    if mistakes:
        more = ["and more"] if len(mistakes) > MAX_MISTAKES else []
        listed = "; ".join([*mistakes[:MAX_MISTAKES], *more])
        raise ToolError(f"wrong arguments: {listed}. Correct all of them and call again")
    return values


class PythonFunction:
    """Runs a Python function as a tool. Only the function and the tool name are pickled."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        plain, fixed = function, set[str]()  # keyword arguments of a partial are not parameters
        while isinstance(plain, functools.partial):
            fixed |= plain.keywords.keys()
            plain = plain.func
        types_of = type_hints(plain, name)
        self.description, descriptions = parse_docstring(plain)
        self.parameters: dict[str, Parameter] = {}
        self.context = ""
        """Name of the ToolContext parameter, hidden from the model; empty if there is none."""
        try:
            self.python = inspect.signature(function)
        except (TypeError, ValueError) as error:
            problem = f"the signature of {name} cannot be read: {error}"
            raise ConfigError(problem, hint="wrap it in a def with type hints") from None
        for key, parameter in self.python.parameters.items():
            hint = types_of.get(key, Any)
            if hint is ToolContext or ToolContext in typing.get_args(hint):
                self.context = key
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ConfigError(
                    f'"{parameter}" of {name} cannot be described in a JSON Schema',
                    hint="replace it with named parameters",
                )
            elif key not in fixed:
                required = parameter.default is parameter.empty
                kind, default = shape(hint, f'"{key}" of {name}'), parameter.default
                self.parameters[key] = Parameter(
                    kind, descriptions.get(key, ""), required, None if required else default
                )

    async def __call__(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        if ctx.call.raw.strip() and self.parameters and not arguments:
            raise ToolError("the arguments were not a JSON object. Call again with one")
        values = check(arguments, self.parameters)
        if self.context:
            values[self.context] = ctx
        bound = inspect.BoundArguments(self.python, values)

        def call_in_thread() -> Any:  # also converts the result to text, unless it is awaitable
            result = self._function(*bound.args, **bound.kwargs)
            return result if inspect.isawaitable(result) else output_of(result)

        with _capture_output() as captured:
            try:
                if inspect.iscoroutinefunction(self._function):
                    result = self._function(*bound.args, **bound.kwargs)
                else:
                    result = await in_thread(call_in_thread)
                output = output_of(await result if inspect.isawaitable(result) else result)
            except (RunStopped, PermissionDenied):
                raise
            except ToolError as error:
                raise ToolError(_append_printed(words(error), captured), error.note) from error
            except Exception as error:
                raise ToolError(_append_printed(fault_text(error), captured)) from error
        return replace(output, content=_append_printed(output.content, captured))

    def __reduce__(self) -> tuple[object, ...]:
        return PythonFunction, (self._function, self._name)


_output: ContextVar[list[str] | None] = ContextVar("axe_nb_output", default=None)
"""Output of the current call so far, as a list with one string; None outside of calls."""


class _Switch:
    """Stream that captures the output of tool calls; other output goes to the original stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if (captured := _output.get()) is not None:
            captured[0] += text[: MAX_PRINTED - len(captured[0])]
        elif self._stream is not None:
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        if self._stream is not None and _output.get() is None:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _capture_output() -> Iterator[list[str]]:
    """Yields a list collecting what the block and its threads print, even after the block ends."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Switch):  # not restored: an abandoned thread may print later
            setattr(sys, name, _Switch(stream))
    token = _output.set(captured := [""])
    try:
        yield captured
    finally:
        _output.reset(token)


def _append_printed(text: str, captured: list[str]) -> str:
    printed = captured[0].rstrip()
    return f"{text}\n\nPrinted:\n{printed}" if text and printed else text or printed
