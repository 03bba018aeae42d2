"""Conversion of tool results to bounded text for the model.

Source: D-6, D-7; X-30, X-38; product.md "Python" (`@axe_nb.tool`).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from axe_nb.jsonable import jsonable
from axe_nb.text import cut_bytes
from axe_nb.tools.tool import Tool, ToolError, ToolOutput

MAX_OUTPUT = 65536
"""Maximum size of one result in bytes of UTF-8."""


def output_of(answer: object) -> ToolOutput:
    """Converts the return value of a tool to text for the model."""
    if not isinstance(answer, ToolOutput):
        return ToolOutput(as_text(answer))
    return ToolOutput(as_text(answer.content), bool(answer.is_error), as_text(answer.note))


def as_text(result: object) -> str:
    """Converts a result to text: strings unchanged, None to nothing, all else to JSON."""
    if isinstance(result, str):
        return result
    if result is None:
        return ""
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that it was never awaited
    if kind := _unfinished(result):
        raise ToolError(f"the tool returned {kind}")
    return json.dumps(jsonable(result), ensure_ascii=False)


def _unfinished(result: object) -> str:
    """The problem of a result that is still to be computed; empty if it is none of these."""
    if inspect.isawaitable(result):
        return "a coroutine or future: return its result, with await"
    if isinstance(result, Iterator | AsyncIterator):
        return f"an iterator ({type(result).__name__}): return a list"
    return ""


def limit_output(tool: Tool, output: ToolOutput) -> ToolOutput:
    """Cuts an output that is too long; reports of children have limits of their own (D-6)."""
    if tool.effect == "delegate":
        return output
    content = cut_output(output.content)
    return output if content is output.content else replace(output, content=content)


def cut_output(text: str) -> str:
    """Cuts a text longer than `MAX_OUTPUT` and adds a note."""
    return cut_bytes(text, MAX_OUTPUT, "\n... (truncated: the first {limit} of {size} bytes)")
