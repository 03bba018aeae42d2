"""A tool's answer as its caller's model gets it: text, not an error in disguise, not too long.

Source: D-6, D-7; X-30, X-38; product.md "Python" (`@axe_nb.tool`).
"""

from __future__ import annotations

import json
from dataclasses import replace

from axe_nb.text import cut_bytes
from axe_nb.tools.jsonable import jsonable
from axe_nb.tools.tool import Tool, ToolOutput

MAX_OUTPUT = 65536
"""Bytes of UTF-8 that a model gets of one result."""


def output_of(answer: object) -> ToolOutput:
    """Whatever a tool gave back, as text for the model."""
    if not isinstance(answer, ToolOutput):
        return ToolOutput(as_text(answer))
    return ToolOutput(as_text(answer.content), bool(answer.is_error))


def as_text(result: object) -> str:
    """What a model reads of a result: text as it is, nothing as nothing, all else as JSON."""
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(jsonable(result), ensure_ascii=False)


def limit_output(tool: Tool, output: ToolOutput) -> ToolOutput:
    """The output, cut where it is too long; a child's report has limits of its own (D-6)."""
    if tool.effect == "delegate":
        return output
    return replace(output, content=cut_output(output.content))


def cut_output(text: str) -> str:
    """The text, cut with a note where it is longer than a model is given of one result."""
    return cut_bytes(text, MAX_OUTPUT, "\n... (truncated: the first {limit} of {size} bytes)")
