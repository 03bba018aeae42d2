"""Conversion of tool results to bounded text for the model.

Source: D-6, D-7, X-30, X-38.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from axe_nb.conversion.value_text import NoText, write_json
from axe_nb.pictures.found import close_figure, find_parts
from axe_nb.pictures.picture import Illustrated, NoPicture, Picture, join_parts
from axe_nb.text import cut_bytes
from axe_nb.tools.tool import Tool, ToolError, ToolOutput

MAX_OUTPUT = 65536
"""Maximum size of one result in bytes of UTF-8."""


def output_of(answer: object) -> ToolOutput:
    """Converts the return value of a tool to text for the model."""
    if not isinstance(answer, ToolOutput):
        text, pictures = _illustrate(answer)
        return ToolOutput(text, pictures=pictures)
    if answer.pictures:  # whose marks are in its text
        text, pictures = as_text(answer.content), tuple(answer.pictures)
    else:
        text, pictures = _illustrate(answer.content)
    return ToolOutput(text, bool(answer.is_error), as_text(answer.note), pictures)


def _illustrate(answer: object) -> Illustrated:
    """Returns a result as text with its pictures; a figure is not shown below the cell as well.

    Raises ToolError if there is a picture that cannot be sent.
    """
    try:
        parts = find_parts(answer)
    except NoPicture as error:
        raise ToolError(f"{error.message}; {error.hint}") from None
    if not parts:
        return Illustrated(as_text(answer))
    for value in answer if isinstance(answer, list | tuple) else (answer,):
        close_figure(value)
    texts = (part if isinstance(part, Picture) else as_text(part) for part in parts)
    return join_parts(texts, "\n")


def as_text(result: object) -> str:
    """Converts a result to text: strings unchanged, None to nothing, tables to CSV, else JSON.

    Raises ToolError if it is bytes or a picture, or is still to be computed.
    """
    if isinstance(result, str):
        return result
    if result is None:
        return ""
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that it was never awaited
    if inspect.isawaitable(result):
        raise ToolError("the tool returned a coroutine or future: await it and return the result")
    if isinstance(result, Iterator | AsyncIterator):
        kind = type(result).__name__
        raise ToolError(f"the tool returned an iterator ({kind}): return a list")
    try:
        return write_json(result, MAX_OUTPUT)
    except NoText as error:
        raise ToolError(f"the tool's result {error}") from None


def limit_output(tool: Tool, output: ToolOutput) -> ToolOutput:
    """Cuts an output that is too long; reports of children have limits of their own (D-6)."""
    if tool.effect == "delegate":
        return output
    content = cut_output(output.content)
    return output if content is output.content else replace(output, content=content)


def cut_output(text: str) -> str:
    """Cuts a text longer than `MAX_OUTPUT` and adds a note."""
    return cut_bytes(text, MAX_OUTPUT, "\n... (truncated: the first {limit} of {size} bytes)")
